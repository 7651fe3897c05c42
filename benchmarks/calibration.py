"""Simulation-based calibration of horizon models and models of dependence, with their options.

python benchmarks/calibration.py [MODEL ...] [--replications 100]

Six agents, eight tasks in four families, four attempts a cell; human times are means, estimates and
timed attempts, drawn anew in each replication where a model has an error of them; every second task
may load on a second dimension where a table says so. Writes
benchmarks/calibration.json and the table between the markers in docs/checks.md.
"""

from __future__ import annotations

import argparse
import json
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import xarray as xr
from pages import put

import measurebayes as mb

HERE = Path(__file__).resolve().parent
RESULTS, PAGE = HERE / "calibration.json", HERE.parent / "docs" / "checks.md"
MODELS = (
    "horizon_task",
    "horizon_eiv:slopes=common",
    "horizon_trend",
    "horizon_logistic:lapse=agent",
    "horizon_eiv",
    "horizon_task:discrimination=task,families=effect",
    "horizon_eiv:tasks=none,lengths=family",
    "horizon_eiv:tasks=family",
    "horizon_eiv:tasks=family,lengths=flat",
    "horizon_trend:shape=quadratic",
    "horizon_trend:shape=power",
    "horizon_trend:shape=saturating",
    "horizon_trend:shape=piecewise",
    "horizon_trend:times=latent,slopes=common",
    "testlet",
    "testlet:discrimination=task",
    "bifactor",
    "three_pl",
    "three_pl:guessing=task",
    "three_pl:guessing=none,discrimination=signed",
    "mirt",
    "mirt:loadings=allowed",
)


def design() -> xr.Dataset:
    """Return who attempts what, when agents were released, and which human times there are."""
    agent, task = (x.ravel() for x in np.indices((6, 8)))
    kinds = np.where(np.arange(8) % 4 == 3, "estimate", "baseline")
    released = np.datetime64("2023-01-01") + 180 * np.arange(6)
    frame = pd.DataFrame(
        {
            "agent": [f"agent {i}" for i in agent],
            "task": [f"task {j}" for j in task],
            "family": [f"family {j // 2}" for j in task],
            "human_minutes": (2.0 ** np.linspace(-1, 9, 8))[task],
            "minutes_kind": kinds[task],
            "release_date": released[agent].astype(str),
            "attempts": 4,
            "successes": 0,
        }
    )
    timed = np.repeat([1, 3, 5], 3)
    return mb.load(frame).assign(
        allowed_loading=(("task", "dimension"), np.column_stack([np.ones(8), np.arange(8) % 2])),
        timing_task_index=("timing", timed),
        timing_minutes=("timing", 2.0 ** (timed + 0.5)),
        timing_success=("timing", np.ones(timed.size, dtype=np.int64)),
    )


def measure(model: str, replications: int) -> dict:
    """Calibrate one model."""
    found = mb.calibrate(
        model, design(), replications, seed=4, draws=350, tune=350, chains=2,
        ranked_among=49, progress=False,
    )  # fmt: skip
    return found.summary()


def table(found: dict) -> str:
    """Return a Markdown table."""
    lines = [
        "| model | replications | unconverged | tests | smallest p after Holm's correction (of) |",
        "|---|---|---|---|---|",
    ]
    for model, x in found.items():
        mark = "" if x["uniform"] else ", **not uniform**"
        lines.append(
            f"| `{model}` | {x['replications']} | {x['unconverged']} | {x['tests']} | "
            f"{x['p_holm']:.2f} (`{x['worst']}`){mark} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", default=list(MODELS))
    parser.add_argument("--replications", type=int, default=100)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    found = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    for model in given.models:
        found[model] = measure(model, given.replications)
        print(model, found[model], flush=True)
        RESULTS.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    put(PAGE, "calibration", table(found))


if __name__ == "__main__":
    main()
