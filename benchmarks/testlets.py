"""When the testlet model is preferred, and which intervals of a difference hold the truth.

python benchmarks/testlets.py preferred          # about 15 minutes
python benchmarks/testlets.py coverage           # about 30 minutes
python benchmarks/testlets.py page               # the tables of docs/dependence.md

Twelve agents, twelve families of four tasks, two attempts a cell. An agent's effects on families
have SD 0 or 1 logit; abilities are the same in every data set, everything else is drawn anew. For
coverage there is a third kind of data, drawn as the testlet model assumes: abilities from a normal
population, and a SD for each family from a half-normal.
Results are kept in testlets.json after each data set, and a run goes on where it was stopped.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterable, Iterator
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
KINDS = {"0": "SD 0", "1": "SD 1", "drawn": "SD of each family drawn from a half-normal of scale 1"}
MODELS = ("rasch", "testlet")
UNITS = ("cell", "task", "family", "agent")
PREFERRED, COVERAGE, SEED = 10, 200, 20260101
SETTINGS = {"draws": 400, "tune": 400, "chains": 2, "progress": False}
SHORT = {"draws": 250, "tune": 250, "chains": 2, "progress": False}
PAIRS = tuple(combinations(range(AGENTS), 2))  # all: few differ by much more than expected


def simulated(kind: str, replication: int) -> tuple[xr.Dataset, np.ndarray]:
    """Draw one data set; return it with the abilities behind it."""
    rng = np.random.default_rng([SEED, 77 if kind == "drawn" else 10 * int(kind), replication])
    family = np.repeat(np.arange(FAMILIES), TASKS)
    ability, testlet_sd = ABILITIES, np.zeros(FAMILIES) + float(kind == "1")
    if kind == "drawn":
        ability, testlet_sd = rng.normal(size=AGENTS), np.abs(rng.normal(size=FAMILIES))
    difficulty = rng.normal(0.0, 1.0, len(family))
    effect = rng.normal(0.0, testlet_sd, (AGENTS, FAMILIES))[:, family]
    chance = expit(ability[:, None] + effect - difficulty)
    agent, task = (x.ravel() for x in np.indices(chance.shape))
    cells = {
        "agent": [f"agent {i:02d}" for i in agent],
        "task": [f"task {j:02d}" for j in task],
        "family": [f"family {family[j]:02d}" for j in task],
        "attempts": ATTEMPTS,
        "successes": rng.binomial(ATTEMPTS, chance.ravel()),
    }
    return mb.load(pd.DataFrame(cells)), ability


def missing(
    part: str, replications: int, kinds: Iterable[str]
) -> Iterator[tuple[str, int, xr.Dataset, np.ndarray]]:
    """Return name, replication, data and abilities of each result that is not there yet."""
    for replication in range(replications):
        for kind in kinds:
            name = f"{kind}/{replication}"
            if name not in stored(RESULTS).get(part, {}):
                yield name, replication, *simulated(kind, replication)


def preferred() -> None:
    """By each unit: elpd of testlet less that of rasch, and its standard error."""
    for name, replication, runs, _ in missing("preferred", PREFERRED, ("0", "1")):
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
    for name, replication, runs, truth in missing("coverage", COVERAGE, KINDS):
        true = np.array([truth[i] - truth[j] for i, j in PAIRS])
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
    for kind in ("0", "1"):
        rows = [row for name, row in found["preferred"].items() if name.startswith(f"{kind}/")]
        for unit in UNITS:
            gain, error = np.array([row[unit] for row in rows]).T
            lines.append(
                f"| {KINDS[kind]} | {unit} | {(gain > 0).sum()} of {len(rows)} | "
                f"{(gain > 2 * error).sum()} | {(gain < -2 * error).sum()} | {gain.mean():.1f} | "
                f"{error.mean():.1f} |"
            )
    put(PAGE, "preferred", "\n".join(lines))
    lines = [
        "| effects of families | model | data sets | coverage | its standard error | mean width |",
        "|---|---|---|---|---|---|",
    ]
    for kind, title in KINDS.items():
        rows = [row for name, row in found["coverage"].items() if name.startswith(f"{kind}/")]
        for model in MODELS:
            held, width = np.array([row[model] for row in rows]).T
            share = held / len(PAIRS)
            error = share.std(ddof=1) / np.sqrt(len(rows))
            lines.append(
                f"| {title} | {model} | {len(rows)} | {share.mean():.3f} | {error:.3f} | "
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
