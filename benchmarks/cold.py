"""Cold start: how long the command line takes in a new process, everything included.

``python benchmarks/run.py --part cold`` measures ``--help``, and a first fit (two_pl on the METR
counts, two chains of 500 + 500 draws) with an empty and with a filled compile cache.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

PROGRAM = [sys.executable, "-m", "measurebayes"]
FIT = ["fit", "two_pl", "metr-th1.1", "--chains", "2", "--draws", "500", "--tune", "500"]
MEASURED = {
    "python": "python -c pass, for comparison",
    "help": "measurebayes --help",
    "empty": "measurebayes fit, two chains of 500 + 500 draws, empty compile cache",
    "filled": "the same with a filled compile cache",
}


def timed(command: list[str], cache: str) -> float:
    """Return the wall time of a command, in seconds."""
    environment = {**os.environ, "MEASUREBAYES_CACHE": cache}
    started = time.perf_counter()
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr[-3000:]}")
    return time.perf_counter() - started


def measure(seed: int) -> dict[str, Any]:
    """Time each command once, in a folder of its own."""
    import measurebayes as mb

    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        cache = str(Path(folder) / "cache")
        Path(cache).mkdir()
        found["python"] = timed([sys.executable, "-c", "pass"], cache)
        found["help"] = timed([*PROGRAM, "--help"], cache)
        for name in ("empty", "filled"):
            output = Path(folder) / f"{name}.nc"
            words = [*PROGRAM, *FIT, "--seed", str(seed), "-o", str(output)]
            found[name] = timed(words, cache)
            fit = mb.open(output)
            found[f"{name}_compile"] = float(fit.attrs["compile_seconds"])
            found[f"{name}_sampling"] = float(fit.attrs["sampling_seconds"])
            fit.close()
    return found
