"""Measures how fast a folder of Inspect logs is read, and that transcripts aren't.

``python benchmarks/logs.py`` writes 1,000 logs of 500 samples, transcripts included, to a temporary
folder, loads them in fresh processes, prints the table, writes benchmarks/logs.json and puts the
table into docs/formats/README.md. ``--table`` only builds the table again from the JSON. What a
process has read is its own rchar, the peak its own VmHWM (Linux), Python and packages included.
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
import zipfile
from pathlib import Path

import numpy as np
from pages import put

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "logs.json"
PAGE = HERE.parent / "docs" / "formats" / "README.md"
SUITES = 10
WORDS = "we look at the file and then run the test again to see what it says about it".split()

CHILD = """
import json, re, sys, time
import measurebayes as mb
from measurebayes.data import readers  # its imports are not what is measured
def rchar():
    return int(re.search(r"rchar: (\\d+)", open("/proc/self/io").read())[1])
before, start = rchar(), time.perf_counter()
runs = mb.load(sys.argv[1])
seconds, read = time.perf_counter() - start, rchar() - before
peak = int(re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())[1]) / 1024
print(json.dumps({
    "seconds": seconds, "read": read, "mebibytes": peak, "cells": runs.sizes["cell"],
    "attempts": int(runs["attempts"].sum()), "successes": int(runs["successes"].sum()),
    "fingerprint": mb.data.fingerprint(runs),
}))
"""


def text(rng: np.random.Generator, words: int) -> str:
    """Words in random order."""
    return " ".join(rng.choice(WORDS, words).tolist())


def transcript(rng: np.random.Generator) -> bytes:
    """What stands in samples/: messages of a conversation, about 12 kB."""
    messages = [{"role": "assistant", "content": text(rng, 200)} for _ in range(12)]
    return json.dumps({"messages": messages, "events": [], "store": {}}).encode()


def header(log: int, samples: int) -> dict:
    """What header.json says; each agent has one run at each suite."""
    agent, suite = divmod(log, SUITES)
    return {
        "version": 2,
        "status": "success",
        "eval": {
            "eval_id": f"eval{log}",
            "run_id": f"run{log}",
            "created": f"2025-01-01T00:00:{log % 60:02d}+00:00",
            "task": f"suite{suite}",
            "task_id": f"task{log}",
            "dataset": {"samples": samples, "sample_ids": list(range(1, samples + 1))},
            "model": f"lab/agent {agent}",
            "config": {"epochs": 1},
            "scorers": [{"name": "match"}],
        },
        "plan": {"steps": [{"solver": "generate", "params": {}}], "config": {"temperature": 1.0}},
        "results": {"total_samples": samples, "completed_samples": samples},
    }


def summary(sample: int, success: int, question: str) -> dict:
    """What summaries.json says of a sample."""
    return {
        "id": sample,
        "epoch": 1,
        "input": question,
        "target": "42",
        "metadata": {"subject": "arithmetic"},
        "scores": {
            "match": {"value": "CI"[1 - success], "answer": "42", "explanation": question[:200]}
        },
        "model_usage": {"lab/agent": {"input_tokens": 120, "output_tokens": 80}},
        "total_time": 1.5,
        "uuid": f"{sample:022d}",
        "completed": True,
    }


def write(folder: Path, logs: int, samples: int) -> int:
    """Write the logs; returns the number of successes in them."""
    rng = np.random.default_rng(1)
    pool = [transcript(rng) for _ in range(20)]
    questions = [text(rng, 60) for _ in range(50)]
    total = 0
    for log in range(logs):
        success = rng.integers(0, 2, samples)
        total += int(success.sum())
        rows = [summary(i + 1, int(s), questions[i % 50]) for i, s in enumerate(success)]
        path = folder / f"log{log:05d}.eval"
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
            for sample in range(1, samples + 1):
                archive.writestr(f"samples/{sample}_epoch_1.json", pool[sample % 20])
            archive.writestr("summaries.json", json.dumps(rows))
            archive.writestr("header.json", json.dumps(header(log, samples)))
    return total


def spoil(folder: Path) -> None:
    """Overwrite the packed bytes of every transcript, so that none could be read any more."""
    for path in folder.iterdir():
        with zipfile.ZipFile(path) as archive:
            members = [m for m in archive.infolist() if m.filename.startswith("samples/")]
        with path.open("r+b") as file:
            for member in members:
                begin = member.header_offset + 30 + len(member.filename)
                file.seek(begin)
                file.write(b"\xff" * member.compress_size)


def load(folder: Path) -> dict:
    """Load the folder in a fresh process."""
    words = [sys.executable, "-c", CHILD, str(folder)]
    return json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout)


def run(logs: int, samples: int, repetitions: int) -> dict:
    """Measure whole logs, then logs with spoilt transcripts."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        successes = write(folder, logs, samples)
        size = sum(path.stat().st_size for path in folder.iterdir())
        found = [load(folder) for _ in range(repetitions)]
        spoil(folder)
        spoilt = load(folder)
    for one in (*found, spoilt):
        assert one["attempts"] == logs * samples, one
        assert one["successes"] == successes, one
        assert one["fingerprint"] == found[0]["fingerprint"], one
    return {
        "logs": logs,
        "samples": samples,
        "bytes": size,
        "read": found[0]["read"],
        "seconds": statistics.median(one["seconds"] for one in found),
        "slowest": max(one["seconds"] for one in found),
        "mebibytes": max(one["mebibytes"] for one in found),
        "equal with spoilt transcripts": True,
        "cores": os.cpu_count(),
        "machine": f"{platform.machine()}, Python {platform.python_version()}",
    }


def markdown(found: dict) -> str:
    """The table, from what was measured."""
    seconds, samples = found["seconds"], found["logs"] * found["samples"]
    return "\n".join(
        [
            "| Inspect logs | samples | on the disk | read | seconds (median) | logs a second | "
            "samples a second | peak memory, MiB |",
            "|---|---|---|---|---|---|---|---|",
            f"| {found['logs']:,} | {samples:,} | {found['bytes'] / 1e6:,.0f} MB | "
            f"{found['read'] / 1e6:,.0f} MB | {seconds:.1f} | {found['logs'] / seconds:,.0f} | "
            f"{samples / seconds:,.0f} | {found['mebibytes']:.0f} |",
            "",
            f"One process, {found['machine']}. With the bytes of every transcript overwritten, the "
            "same logs give the same data.",
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--table", action="store_true", help="only build the table again")
    parser.add_argument("--logs", type=int, default=1_000)
    parser.add_argument("--samples", type=int, default=500)
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--print-only", action="store_true", help="write neither JSON nor page")
    arguments = parser.parse_args()
    if arguments.table:
        found = json.loads(RESULTS.read_text(encoding="utf-8"))
    else:
        found = run(arguments.logs, arguments.samples, arguments.repetitions)
    print(markdown(found))
    if arguments.print_only:
        return
    RESULTS.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    put(PAGE, "logs", markdown(found))


if __name__ == "__main__":
    main()
