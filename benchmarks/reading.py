"""Measures how fast tables are read, and how much memory that takes, each in a fresh process.

``python benchmarks/reading.py`` writes tables of five million rows to a temporary folder, loads
each several times, prints the table, writes benchmarks/reading.json and puts the table into
docs/formats/README.md. ``--table`` only builds the table again from the JSON. The peak is the
process's own VmHWM (Linux), Python and all packages included.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pandas as pd
from pages import put

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "reading.json"
PAGE = HERE.parent / "docs" / "formats" / "README.md"
BLOCK_ROWS = 100_000
AGENTS, TASKS = 200, 3_000
MOST_SECONDS = {"csv": 20, "parquet": 5}  # five million attempts of a long table

CHILD = """
import json, re, sys, time
import measurebayes as mb
mb.load  # its imports are not what is measured
options = json.loads(sys.argv[2])
start = time.perf_counter()
runs = mb.load(sys.argv[1], **options)
seconds = time.perf_counter() - start
peak = int(re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())[1]) / 1024
print(json.dumps({
    "seconds": seconds, "mebibytes": peak, "cells": runs.sizes["cell"],
    "attempts": int(runs["attempts"].sum()), "successes": int(runs["successes"].sum()),
}))
"""


def long_block(rng: np.random.Generator) -> pd.DataFrame:
    """One attempt a row, as `long` reads it."""
    agent, task = positions(rng)
    return pd.DataFrame(
        {
            "agent": np.char.add("agent ", agent.astype(str)),
            "task": np.char.add("suite/task ", task.astype(str)),
            "success": rng.integers(0, 2, BLOCK_ROWS),
            "human_minutes": np.round(np.exp(task / 400), 3),
        }
    )


def hub_block(rng: np.random.Generator) -> pd.DataFrame:
    """Item scores of a hub, as `hub` reads them: a run is one agent's at one suite."""
    agent, task = positions(rng)
    return pd.DataFrame(
        {
            "run": np.char.add("run", agent.astype(str)),
            "task": "suite",
            "model": np.char.add("lab/agent ", agent.astype(str)),
            "item_id": np.char.add("item ", task.astype(str)),
            "epoch": 1,
            "scorer": "match",
            "value": np.where(rng.integers(0, 2, BLOCK_ROWS), "C", "I"),
        }
    )


def irw_block(rng: np.random.Generator) -> pd.DataFrame:
    """Responses, as `irw` reads them."""
    agent, task = positions(rng)
    return pd.DataFrame(
        {
            "id": np.char.add("p", agent.astype(str)),
            "item": np.char.add("i", task.astype(str)),
            "resp": rng.integers(0, 2, BLOCK_ROWS),
        }
    )


def positions(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Agent and task of each row; every agent and every task occurs."""
    task = rng.integers(0, TASKS, BLOCK_ROWS)
    task[:TASKS] = np.arange(TASKS)
    return np.arange(BLOCK_ROWS) % AGENTS, task


BLOCKS = {"long": long_block, "hub": hub_block, "irw": irw_block}
OPTIONS = {"hub": {"reader": "hub"}, "irw": {"reader": "irw", "duplicates": "attempts"}}


def write(path: Path, table: pd.DataFrame, copies: int, kind: str) -> None:
    """Write a table that holds the block `copies` times; the hub's epochs count up."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = pa.Table.from_pandas(table, preserve_index=False)
    writer = pq.ParquetWriter(path, rows.schema) if kind == "parquet" else None
    text = None if writer else path.open("wb")
    for number in range(copies):
        if "epoch" in table:
            table = table.assign(epoch=epochs(table) + number * BLOCK_ROWS)
        if writer:
            writer.write_table(pa.Table.from_pandas(table, preserve_index=False))
        elif text:
            text.write(table.to_csv(index=False, header=number == 0).encode())
    for file in (writer, text):
        if file:
            file.close()


def epochs(table: pd.DataFrame) -> pd.Series:
    """Number the attempts of each run at each item, from 1."""
    return table.groupby(["run", "item_id"]).cumcount() + 1


def measured(path: Path, reader: str, repetitions: int) -> dict[str, float]:
    """Medians over fresh processes."""
    words = [sys.executable, "-c", CHILD, str(path), json.dumps(OPTIONS.get(reader, {}))]
    found = [
        json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout)
        for _ in range(repetitions)
    ]
    return {
        **found[0],
        "seconds": statistics.median(one["seconds"] for one in found),
        "slowest": max(one["seconds"] for one in found),
        "mebibytes": max(one["mebibytes"] for one in found),
    }


def run(rows: int, repetitions: int, readers: list[str]) -> dict[str, object]:
    """Measure every reader and file format, at the full size and at a tenth of it."""
    results = []
    for reader in readers:
        table = BLOCKS[reader](np.random.default_rng(1))
        for kind in ("csv", "parquet"):
            for copies in (rows // BLOCK_ROWS // 10, rows // BLOCK_ROWS):
                with tempfile.TemporaryDirectory() as folder:
                    path = Path(folder) / f"table.{kind}"
                    write(path, table, copies, kind)
                    one = {"reader": reader, "format": kind, "rows": copies * BLOCK_ROWS}
                    one |= {"megabytes": path.stat().st_size / 1e6}
                    one |= measured(path, reader, repetitions)
                assert one["attempts"] == one["rows"], one
                print(json.dumps(one), flush=True)
                results.append(one)
    return {"cores": os.cpu_count(), "machine": machine(), "results": results}


def machine() -> str:
    """Where it was measured."""
    versions = [f"{name} {version(name)}" for name in ("pandas", "pyarrow", "numpy")]
    return f"{platform.machine()}, Python {platform.python_version()}, {', '.join(versions)}"


def markdown(found: dict) -> str:
    """The table, from what was measured."""
    lines = [
        "| reader | file | rows | seconds (median) | rows a second | peak memory, MiB |",
        "|---|---|---|---|---|---|",
    ]
    for one in found["results"]:
        rate = one["rows"] / one["seconds"] / 1e6
        lines.append(
            f"| {one['reader']} | {one['format']}, {one['megabytes']:.0f} MB | {one['rows']:,} | "
            f"{one['seconds']:.1f} | {rate:.1f} million | {one['mebibytes']:.0f} |"
        )
    where = f"{found['cores']} cores, {found['machine']}; {AGENTS} agents, {TASKS:,} tasks."
    return "\n".join([*lines, "", where])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--table", action="store_true", help="only build the table again")
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--readers", nargs="+", default=list(BLOCKS), choices=list(BLOCKS))
    parser.add_argument("--print-only", action="store_true", help="write neither JSON nor page")
    arguments = parser.parse_args()
    if arguments.table:
        found = json.loads(RESULTS.read_text(encoding="utf-8"))
    else:
        found = run(arguments.rows, arguments.repetitions, arguments.readers)
    print(markdown(found))
    if arguments.print_only:
        return
    RESULTS.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    put(PAGE, "reading", markdown(found))
    slow = [
        one
        for one in found["results"]
        if one["reader"] == "long"
        and one["rows"] == 5_000_000
        and one["seconds"] > MOST_SECONDS[one["format"]]
    ]
    if slow:
        raise SystemExit(f"too slow: {slow}")


if __name__ == "__main__":
    main()
