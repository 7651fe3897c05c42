"""Five million rows: seconds, and memory that doesn't grow with the rows."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

BLOCK_ROWS, BLOCKS = 100_000, 50
AGENTS, TASKS = 200, 3_000
# About 3 s, 1.5 s and 550 MiB (benchmarks/reading.py). Seconds of the processor: other programs
# don't count.
SECONDS, MEBIBYTES = {"csv": 20, "parquet": 5}, 1_000

MEASURE = """
import json, re, sys, time
import measurebayes as mb
start = time.process_time()
runs = mb.load(sys.argv[1])
seconds = time.process_time() - start
# VmHWM is this program's own peak; ru_maxrss starts at that of the process that started it.
peak = int(re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())[1]) / 1024
print(json.dumps({
    "seconds": seconds, "peak": peak, "agents": runs.sizes["agent"], "tasks": runs.sizes["task"],
    "attempts": int(runs["attempts"].sum()), "successes": int(runs["successes"].sum()),
}))
"""


def block(rng):
    task = rng.integers(0, TASKS, BLOCK_ROWS)
    task[:TASKS] = np.arange(TASKS)
    return pd.DataFrame(
        {
            "agent": np.char.add("agent ", (np.arange(BLOCK_ROWS) % AGENTS).astype(str)),
            "task": np.char.add("suite/task ", task.astype(str)),
            "success": rng.integers(0, 2, BLOCK_ROWS),
            "human_minutes": np.round(np.exp(task / 400), 3),
        }
    )


def write_csv(path, table):
    lines = table.to_csv(index=False, header=False).encode()
    with path.open("wb") as file:
        file.write(",".join(table.columns).encode() + b"\n")
        for _ in range(BLOCKS):
            file.write(lines)


def write_parquet(path, table):
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = pa.Table.from_pandas(table, preserve_index=False)
    with pq.ParquetWriter(path, rows.schema) as file:
        for _ in range(BLOCKS):
            file.write_table(rows)


@pytest.mark.slow
@pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="the peak of memory is read from /proc"
)
@pytest.mark.parametrize("write", [write_csv, write_parquet])
def test_five_million_rows(tmp_path, rng, write):
    table = block(rng)
    path = tmp_path / f"big.{write.__name__.removeprefix('write_')}"
    write(path, table)
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, str(path)], capture_output=True, check=True, timeout=300
    )
    found = json.loads(done.stdout)
    assert (found["agents"], found["tasks"]) == (AGENTS, TASKS)
    assert found["attempts"] == BLOCK_ROWS * BLOCKS
    assert found["successes"] == int(table["success"].sum()) * BLOCKS
    assert found["seconds"] < SECONDS[path.suffix.removeprefix(".")]
    assert found["peak"] < MEBIBYTES
