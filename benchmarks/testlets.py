"""When the testlet model is preferred, and which intervals of a difference hold the truth.

python benchmarks/testlets.py preferred          # about 15 minutes
python benchmarks/testlets.py coverage           # about 30 minutes
python benchmarks/testlets.py page               # the tables of docs/dependence.md

Twelve agents, twelve families of four tasks, two attempts a cell. An agent's effects on families
have SD 0 or 1 logit; abilities are the same in every data set, everything else is drawn anew.
Results are kept in testlets.json after each data set, and a run goes on where it was stopped.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
import xarray as xr
from pages import keep, put, stored
from scipy.special import expit
from scipy.stats import norm

import measurebayes as mb
from measurebayes.compare import loo

HERE = Path(__file__).resolve().parent
RESULTS, PAGE = HERE / "testlets.json", HERE.parent / "docs" / "dependence.md"
AGENTS, FAMILIES, TASKS, ATTEMPTS = 12, 12, 4, 2
ABILITIES = norm.ppf((np.arange(AGENTS) + 0.5) / AGENTS)
SDS = (0.0, 1.0)
MODELS = ("rasch", "testlet")
UNITS = ("cell", "task", "family", "agent")
PREFERRED, COVERAGE, SEED = 10, 200, 20260101
SETTINGS = {"draws": 400, "tune": 400, "chains": 2, "progress": False}
SHORT = {"draws": 250, "tune": 250, "chains": 2, "progress": False}
PAIRS = tuple(combinations(range(AGENTS), 2))  # all: few differ by much more than expected


def simulated(testlet_sd: float, replication: int) -> xr.Dataset:
    """Draw one data set."""
    rng = np.random.default_rng([SEED, int(10 * testlet_sd), replication])
    family = np.repeat(np.arange(FAMILIES), TASKS)
    difficulty = rng.normal(0.0, 1.0, len(family))
    effect = rng.normal(0.0, testlet_sd, (AGENTS, FAMILIES))[:, family]
    chance = expit(ABILITIES[:, None] + effect - difficulty)
    agent, task = (x.ravel() for x in np.indices(chance.shape))
    cells = {
        "agent": [f"agent {i:02d}" for i in agent],
        "task": [f"task {j:02d}" for j in task],
        "family": [f"family {family[j]:02d}" for j in task],
        "attempts": ATTEMPTS,
        "successes": rng.binomial(ATTEMPTS, chance.ravel()),
    }
    return mb.load(pd.DataFrame(cells))


def missing(part: str, replications: int) -> Iterator[tuple[str, int, xr.Dataset]]:
    """Return name, replication and data of each result that is not there yet."""
    for replication in range(replications):
        for sd in SDS:
            name = f"{sd:g}/{replication}"
            if name not in stored(RESULTS).get(part, {}):
                yield name, replication, simulated(sd, replication)


def preferred() -> None:
    """By each unit: elpd of testlet less that of rasch, and its standard error."""
    for name, replication, runs in missing("preferred", PREFERRED):
        fits = {m: mb.fit(m, runs, seed=replication, **SETTINGS) for m in MODELS}
        found = {}
        for unit in UNITS:
            one, other = (loo(fits[m], unit=unit)["elpd"].values for m in MODELS)
            gain = other - one
            error = np.sqrt(gain.size) * gain.std(ddof=1)
            found[unit] = [float(gain.sum()), float(error)]
        keep(RESULTS, "preferred", name, found)
        print(name, found, flush=True)


def coverage() -> None:
    """How often 95 % intervals of differences of two agents' abilities hold the truth."""
    true = np.array([ABILITIES[i] - ABILITIES[j] for i, j in PAIRS])
    for name, replication, runs in missing("coverage", COVERAGE):
        found = {}
        for model in MODELS:
            fit = mb.fit(model, runs, seed=replication, **SHORT)
            ability = fit["posterior"]["ability"].stack(sample=("chain", "draw")).values
            low, high = np.array(
                [np.quantile(ability[i] - ability[j], [0.025, 0.975]) for i, j in PAIRS]
            ).T
            held = int(((low < true) & (true < high)).sum())
            found[model] = [held, float((high - low).mean())]
        keep(RESULTS, "coverage", name, found)
        print(name, found, flush=True)


def page() -> None:
    """Write the tables."""
    found = stored(RESULTS)
    lines = [
        "| effects of families | unit | data sets where testlet has the larger elpd | by over two "
        "standard errors | rasch, by over two | mean gain | mean standard error |",
        "|---|---|---|---|---|---|---|",
    ]
    for sd in SDS:
        rows = [row for name, row in found["preferred"].items() if name.startswith(f"{sd:g}/")]
        for unit in UNITS:
            gain, error = np.array([row[unit] for row in rows]).T
            lines.append(
                f"| SD {sd:g} | {unit} | {(gain > 0).sum()} of {len(rows)} | "
                f"{(gain > 2 * error).sum()} | {(gain < -2 * error).sum()} | {gain.mean():.1f} | "
                f"{error.mean():.1f} |"
            )
    put(PAGE, "preferred", "\n".join(lines))
    lines = [
        "| effects of families | model | data sets | coverage | its standard error | mean width |",
        "|---|---|---|---|---|---|",
    ]
    for sd in SDS:
        rows = [row for name, row in found["coverage"].items() if name.startswith(f"{sd:g}/")]
        for model in MODELS:
            held, width = np.array([row[model] for row in rows]).T
            share = held / len(PAIRS)
            error = share.std(ddof=1) / np.sqrt(len(rows))
            lines.append(
                f"| SD {sd:g} | {model} | {len(rows)} | {share.mean():.3f} | {error:.3f} | "
                f"{width.mean():.2f} |"
            )
    put(PAGE, "differences", "\n".join(lines))


def main() -> None:
    """Run one part."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=("preferred", "coverage", "page"))
    warnings.filterwarnings("ignore", message=".*not converged.*")
    {"preferred": preferred, "coverage": coverage, "page": page}[parser.parse_args().part]()


if __name__ == "__main__":
    main()
