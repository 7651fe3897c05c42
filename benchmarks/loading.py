"""Loading of five million rows of a long table, against reading the file with pandas alone.

``python benchmarks/run.py --part loading`` writes the tables of reading.py to a temporary folder
and reads each in fresh processes. The peak is the process's own VmHWM (Linux), Python and all
packages included.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import reading

ROWS = 5_000_000
FORMATS = ("csv", "parquet")
WITH_PANDAS = """
import json, re, sys, time
import pandas as pd, pyarrow.parquet
read = pd.read_csv if sys.argv[1].endswith("csv") else pd.read_parquet
start = time.perf_counter()
table = read(sys.argv[1])
seconds = time.perf_counter() - start
peak = int(re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())[1]) / 1024
print(json.dumps({"seconds": seconds, "mebibytes": peak, "attempts": len(table)}))
"""
PROGRAMS = {
    "measurebayes": (reading.CHILD, "measurebayes.load"),
    "pandas": (WITH_PANDAS, "pandas alone, nothing checked or counted"),
}


def measure(kind: str, repeats: int) -> list[dict[str, Any]]:
    """Read a file of one format by each program `repeats` times; seconds and MiB of each."""
    block, found = reading.long_block(np.random.default_rng(1)), []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"table.{kind}"
        reading.write(path, block, ROWS // reading.BLOCK_ROWS, kind)
        for text, _ in PROGRAMS.values():
            runs = [_once(text, path) for _ in range(repeats)]
            one = {name: [run[name] for run in runs] for name in ("seconds", "mebibytes")}
            found.append({**one, "megabytes": path.stat().st_size / 1e6})
    return found


def _once(text: str, path: Path) -> dict[str, Any]:
    command = [sys.executable, "-c", text, str(path), "{}"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found = json.loads(done.stdout)
    if found["attempts"] != ROWS:
        raise SystemExit(f"{found['attempts']} attempts read of {ROWS}")
    return found
