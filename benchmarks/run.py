"""Measures this package against other programs, in one run; builds the tables and pictures.

``python benchmarks/run.py`` measures five parts (metr.py, peers.py, counting.py, loading.py,
cold.py), each in fresh processes with several repetitions, on a machine that does nothing else. It
writes benchmarks/results.json, the table of README.md, and tables and pictures of
docs/benchmarks.md. ``--part`` chooses parts, ``--resume`` keeps what results.json has of them,
``--table`` only builds tables and pictures again.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from pages import keep, put, stored

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results.json"
README = HERE.parent / "README.md"
PAGE = HERE.parent / "docs" / "benchmarks.md"
PACKAGES = ("measurebayes", "jax", "numpyro", "pymc", "nutpie", "arviz", "numpy", "pandas")


class Job(NamedTuple):
    """A piece of a part: the names of its results, and what measures them all at once."""

    names: tuple[str, ...]
    measure: Callable[[], list[Any]]


def metr_jobs(options: argparse.Namespace) -> Iterator[Job]:
    """The programs in turn, with other seeds in each repetition."""
    import metr

    for repeat in range(1, options.repeats + 1):
        ours = tuple(f"{name} {repeat}" for name in metr.PROGRAMS if name.startswith("measure"))
        yield Job(ours, lambda n=repeat: _with_one_cache(options.chains, n))
        for name in metr.PROGRAMS:
            if not name.startswith("measure"):
                words = [name, str(options.chains), str(repeat)]
                yield Job((f"{name} {repeat}",), lambda words=words: [_child("metr", words)])


def _with_one_cache(chains: int, seed: int) -> list[Any]:
    """Fit in two processes, the first of which finds the compile cache empty."""
    with tempfile.TemporaryDirectory() as folder:
        names = ("measurebayes", "measurebayes_again")
        return [_child("metr", [name, str(chains), str(seed)], folder) for name in names]


def _child(script: str, words: list[str], cache: str = "") -> Any:
    """Run a script of this folder in a new process; its last line is JSON."""
    command = [sys.executable, str(HERE / f"{script}.py"), *words]
    environment = {**os.environ, "MEASUREBAYES_CACHE": cache}
    done = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def peers_jobs(options: argparse.Namespace) -> Iterator[Job]:
    """Every data set by every model; all programs at once, since they are compared."""
    import peers

    for data in peers.DATA:
        for model in peers.MODELS:
            arguments = (data, model, options.repeats, options.peers_python)
            yield Job((f"{data} {model}",), lambda a=arguments: [peers.measure(*a)])


def counting_jobs(options: argparse.Namespace) -> Iterator[Job]:
    """Each program at each of its sizes."""
    import counting

    counting.check()
    for program, sizes in counting.SIZES.items():
        for size in sizes:
            arguments = (program, size, options.repeats)
            name = f"{program} {' x '.join(str(n) for n in size)}"
            yield Job((name,), lambda a=arguments: [counting.measure(*a)])


def loading_jobs(options: argparse.Namespace) -> Iterator[Job]:
    """Each format of file by both programs."""
    import loading

    for kind in loading.FORMATS:
        names = tuple(f"{kind} {program}" for program in loading.PROGRAMS)
        yield Job(names, lambda kind=kind: loading.measure(kind, options.repeats))


def cold_jobs(options: argparse.Namespace) -> Iterator[Job]:
    """Every command once in each repetition."""
    import cold

    for repeat in range(1, options.repeats + 1):
        yield Job((f"run {repeat}",), lambda seed=repeat: [cold.measure(seed)])


PARTS: dict[str, Callable[[argparse.Namespace], Iterator[Job]]] = {
    "metr": metr_jobs,
    "peers": peers_jobs,
    "counting": counting_jobs,
    "loading": loading_jobs,
    "cold": cold_jobs,
}


def measure(part: str, options: argparse.Namespace) -> None:
    """Measure what results.json lacks of a part."""
    if not options.resume:
        found = stored(RESULTS)
        found.pop(part, None)
        RESULTS.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    for job in PARTS[part](options):
        if all(name in stored(RESULTS).get(part, {}) for name in job.names):
            continue
        started = time.perf_counter()
        for name, value in zip(job.names, job.measure(), strict=True):
            keep(RESULTS, part, name, value)
        seconds = time.perf_counter() - started
        print(f"{part}: {', '.join(job.names)} ({seconds:.0f} s)", file=sys.stderr, flush=True)
    keep(RESULTS, "machine", part, machine())
    if part == "metr":
        keep(RESULTS, "machine", "metr chains", options.chains)


def machine() -> dict[str, Any]:
    """Return what the numbers depend on."""
    return {
        "cores": os.cpu_count(),
        "architecture": platform.machine(),
        "python": platform.python_version(),
        "versions": {name: version(name) for name in PACKAGES},
    }


def build() -> None:
    """Write tables and pictures of what results.json has."""
    import pictures
    import tables

    results = stored(RESULTS)
    for part in PARTS:
        if part in results and part in results["machine"]:
            put(PAGE, part, tables.TABLES[part](results))
    if "metr" in results:
        put(README, "benchmark", tables.readme(results))
        print(tables.readme(results))
    pictures.draw(results, PAGE.parent / "pictures")


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--part", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--repeats", type=int, default=3, help="of each measurement (default 3)")
    parser.add_argument("--chains", type=int, default=2, help="chains on the METR data (default 2)")
    own = HERE.parent / ".venv-peers" / "bin" / "python"  # `make bench` makes it
    parser.add_argument(
        "--peers-python",
        default=str(own if own.exists() else sys.executable),
        help="Python that has benchmarks/peers.txt",
    )
    parser.add_argument("--resume", action="store_true", help="keep what is measured already")
    parser.add_argument("--table", action="store_true", help="measure nothing, build tables")
    options = parser.parse_args()
    if not options.table:
        for part in options.part:
            measure(part, options)
    build()


if __name__ == "__main__":
    main()
