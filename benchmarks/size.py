"""Fits by method map against the size of the table: time, memory, errors and standard errors.

    python benchmarks/size.py               # four sizes of two models, up to 49 million cells
    python benchmarks/size.py --sizes 0 1   # the two smallest
    python benchmarks/size.py --table       # only write the table and the picture

Each fit runs in a process of its own, whose largest resident memory is measured from the Dataset
in memory to the fit. Results are kept in size.json, fit by fit: an interrupted run goes on.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pages

HERE = Path(__file__).parent
FILE, PAGE = HERE / "size.json", HERE.parent / "docs" / "size.md"
PICTURE = HERE.parent / "docs" / "pictures" / "size.svg"
SIZES = ((500, 1_400), (1_000, 2_800), (2_200, 6_200), (5_000, 14_000))
MODELS = ("rasch", "two_pl")
HOLES = 0.3


def table(agents: int, tasks: int, spread: float, seed: int) -> tuple[Any, dict[str, np.ndarray]]:
    """Simulate one attempt a cell; SDs: ability 1, difficulty 1.5, log discrimination `spread`."""
    import xarray as xr
    from scipy.special import expit

    rng = np.random.default_rng(seed)
    ability = rng.normal(0.0, 1.0, agents)
    ability -= ability.mean()
    difficulty = rng.normal(-0.5, 1.5, tasks)
    discrimination = np.exp(rng.normal(0.0, spread, tasks))
    parts: dict[str, list[np.ndarray]] = {"agent": [], "task": [], "successes": []}
    for agent in range(agents):
        task = np.flatnonzero(rng.random(tasks) >= HOLES)
        chance = expit(discrimination[task] * (ability[agent] - difficulty[task]))
        parts["agent"].append(np.full(task.size, agent, dtype=np.int32))
        parts["task"].append(task.astype(np.int32))
        parts["successes"].append(rng.random(task.size) < chance)
    cells = {}
    for name, column in (("agent", "agent_index"), ("task", "task_index"), ("successes",) * 2):
        cells[column] = ("cell", np.concatenate(parts.pop(name)).astype(np.int64))
    cells["attempts"] = ("cell", np.ones(cells["successes"][1].size, dtype=np.int64))
    of_tasks = {
        "family_index": np.arange(tasks),
        "source": np.full(tasks, "simulated"),
        "human_minutes": np.full(tasks, np.nan),
        "minutes_kind": np.full(tasks, "", dtype="U1"),
        "task_weight": np.ones(tasks),
    }
    runs = xr.Dataset(
        cells
        | {name: ("task", value) for name, value in of_tasks.items()}
        | {"release_date": ("agent", np.full(agents, np.datetime64("NaT", "ns")))},
        {
            "agent": [f"agent {i}" for i in range(agents)],
            "task": [f"task {i}" for i in range(tasks)],
            "family": [f"task {i}" for i in range(tasks)],
        },
        {"name": "simulated"},
    )
    return runs, {"ability": ability, "difficulty": difficulty, "discrimination": discrimination}


def memory(name: str) -> float:
    """Return VmHWM or VmRSS of this process in GiB."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) / 2**20 for line in lines if line.startswith(name))


def one(model: str, agents: int, tasks: int) -> dict[str, Any]:
    """Simulate, fit, compare with the truth."""
    import measurebayes as mb

    runs, true = table(agents, tasks, 0.3 if model == "two_pl" else 0.0, seed=1)
    began, before = time.perf_counter(), memory("VmRSS")
    fit = mb.fit(model, runs, method="map", seed=1)
    result = {
        "cells": runs.sizes["cell"],
        "seconds": round(time.perf_counter() - began, 1),
        "gib": round(memory("VmHWM"), 2),
        "gib_of_data": round(before, 2),
        "passes": int(fit.attrs["gradients"]),
    }
    posterior = fit["posterior"].to_dataset()
    for name, value in true.items():
        if name not in posterior:
            continue
        draws = posterior[name]
        mean, sd = draws.mean(("chain", "draw")).values, draws.std(("chain", "draw")).values
        result[name] = {
            "bias": float(np.mean(mean - value) / value.std()),
            "error": float(np.mean(np.abs(mean - value)) / value.std()),
            "error_over_se": float(np.sqrt(np.mean(((mean - value) / sd) ** 2))),
        }
    return result


def exponent(points: list[dict[str, Any]], what: str) -> float:
    """Return the power of the number of cells that a cost grows with, between the two largest."""
    one, other = points[-2:]
    return math.log(other[what] / one[what]) / math.log(other["cells"] / one["cells"])


def written(results: dict[str, dict[str, Any]]) -> str:
    """Return the table."""
    lines = [
        "| model | agents x tasks | cells | minutes | GiB | mean error / SD "
        "| error / standard error |",
        "|---|---|---|---|---|---|---|",
    ]
    for model in MODELS:
        points = [
            results[model][f"{a}x{t}"] for a, t in SIZES if f"{a}x{t}" in results.get(model, {})
        ]
        for (agents, tasks), p in zip(SIZES, points, strict=False):
            each = [p[n] for n in ("ability", "difficulty", "discrimination") if n in p]
            lines.append(
                f"| {model} | {agents:,} x {tasks:,} | {p['cells'] / 1e6:.1f} million "
                f"| {p['seconds'] / 60:.1f} | {p['gib']:.1f} "
                f"| {', '.join(f'{e["bias"]:+.3f}' for e in each)} "
                f"| {', '.join(f'{e["error_over_se"]:.2f}' for e in each)} |"
            )
        if len(points) > 1:
            lines.append(
                f"| {model} | exponent in cells, two largest | | {exponent(points, 'seconds'):.2f} "
                f"| {exponent(points, 'gib'):.2f} | | |"
            )
    return "\n".join(lines)


def draw(results: dict[str, dict[str, Any]]) -> None:
    """Plot time and memory against the number of cells."""
    import matplotlib as mpl

    mpl.use("svg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(7.0, 2.8), layout="constrained")
    for axis, what, label in zip(axes, ("seconds", "gib"), ("seconds", "GiB"), strict=True):
        for model in MODELS:
            points = sorted(results.get(model, {}).values(), key=lambda p: p["cells"])
            axis.plot([p["cells"] for p in points], [p[what] for p in points], "o-", label=model)
        axis.set(xscale="log", yscale="log", xlabel="observed cells", ylabel=label)
    axes[0].legend(frameon=False)
    figure.savefig(PICTURE, metadata={"Date": None})


def main() -> None:
    """Run what is missing, then write the table and the picture."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="*", default=range(len(SIZES)))
    parser.add_argument("--models", nargs="*", default=MODELS)
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--one", nargs=3)
    options = parser.parse_args()
    if options.one:
        model, agents, tasks = options.one
        print(json.dumps(one(model, int(agents), int(tasks))))
        return
    for at in () if options.table else options.sizes:
        for model in options.models:
            name = f"{SIZES[at][0]}x{SIZES[at][1]}"
            if name in pages.stored(FILE).get(model, {}):
                continue
            words = [sys.executable, __file__, "--one", model, *map(str, SIZES[at])]
            found = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True)
            pages.keep(FILE, model, name, json.loads(found.stdout.splitlines()[-1]))
    results = pages.stored(FILE)
    pages.put(PAGE, "size", written(results))
    draw(results)


if __name__ == "__main__":
    main()
