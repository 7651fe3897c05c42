"""Can the p values of the cancellation check be trusted, and what departures does it find?

``python benchmarks/cancellation_power.py`` simulates, writes benchmarks/cancellation_power.json and
puts its tables into docs/cancellation_power.md. ``--table`` only builds the tables again from the
JSON, ``--jobs 2`` uses two processes (the numbers stay the same). ``--only PART`` and
``--null MODEL`` measure a part, or the rows of an additive model, and keep the others.

- Calibration: data simulated from an additive model; shares of p values up to a level, and how
  probable so large a share would be if p were uniform.
- Added: the same for the Rasch estimate, with more or less added to every task.
- Posterior: the same against the posterior of an additive model.
- Power: shares of data sets with a known departure in which p is at most 0.05.
- Agreement: the same for data simulated by code of its own, with other random numbers, and given to
  `measurebayes.cancellation` itself.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import nullcontext
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from cancellation_power_tables import LEVELS, tables
from pages import put
from scipy.special import expit
from scipy.stats import binom, norm

import measurebayes as mb
from measurebayes.backends.simulate import prior_draw
from measurebayes.checks.bands import with_equal_tasks
from measurebayes.checks.cancellation.counting import count
from measurebayes.checks.cancellation.table import Layout
from measurebayes.checks.studies import run_tasks
from measurebayes.classical import estimate
from measurebayes.classical.additive import rasch_ml
from measurebayes.program.registry import get_model

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "cancellation_power.json"
PAGE = HERE.parent / "docs" / "cancellation_power.md"
REPLICATES, LEVEL, SEED, OTHER_SEED = 200, 0.05, 1, 2
METR = "METR TH1.1, 23 agents x 228 tasks"
COMPLETE = "complete, 10 agents x 60 tasks, 5 attempts each"
SINGLE = "complete, 20 agents x 200 tasks, 1 attempt each"
SMALL = "complete, 8 agents x 30 tasks, 6 attempts each"
ONCE = "complete, 12 agents x 80 tasks, 1 attempt each"
SHAPES = {COMPLETE: (10, 60, 5), SINGLE: (20, 200, 1), SMALL: (8, 30, 6), ONCE: (12, 80, 1)}
CALIBRATIONS: list[tuple[str, dict[str, Any]]] = [
    (METR, {"bands": 6, "null": "common_slope"}),
    (METR, {"bands": 8, "null": "common_slope"}),
    (METR, {"bands": 6, "null": "rasch_ml"}),
    (METR, {"bands": 8, "null": "rasch_ml"}),
    (METR, {"bands": 6, "null": "constant_hazard"}),
    (COMPLETE, {"bands": 5, "null": "common_slope"}),
    (COMPLETE, {"bands": 5, "null": "rasch_ml"}),
    (SINGLE, {"bands": 6, "null": "rasch_ml"}),
    (SINGLE, {"bands": 6, "null": "rasch_ml", "by": "difficulty"}),
    (ONCE, {"bands": 4, "null": "rasch_ml"}),
]
SIZES = {"slopes": [0.15, 0.25, 0.5], "dimension": [1.0, 2.0, 3.0]}
AGREEMENTS = [("slopes", 0.15), ("dimension", 1.0)]
ADDED = (0.0, 0.1, 0.25, 0.5, 1.0)
COMMON_SLOPE = "horizon_logistic:slopes=common"
POSTERIORS = [  # the last number: so many times as many data sets
    (SMALL, 4, "rasch", "fixed", 1),
    (SMALL, 4, "rasch", "prior", 1),
    (SMALL, 4, COMMON_SLOPE, "fixed", 3),  # 300 had somewhat many p values below 0.5
    (ONCE, 4, "rasch", "estimate", 0.5),  # fits take longest
]
PRIORS = {  # under which data are drawn that are not all solved or all failed
    "rasch": {"ability_sd": 1.5, "difficulty_mean": 1.0, "difficulty_sd": 2.0},
}


@lru_cache
def design(name: str) -> xr.Dataset:
    """Return the data whose design is simulated."""
    if name == METR:
        return mb.load("metr-th1.1")
    agents, tasks, attempts = SHAPES[name]
    rng = np.random.default_rng(agents)
    log2_minutes, level = rng.uniform(-3, 9, tasks), rng.normal(2, 1.5, agents)
    agent, task = (x.ravel() for x in np.indices((agents, tasks)))
    chance = 1 / (1 + np.exp(0.5 * log2_minutes[task] - level[agent]))
    return mb.load(
        pd.DataFrame(
            {
                "agent": [f"agent {i}" for i in agent],
                "task": [f"task {j:03d}" for j in task],
                "attempts": attempts,
                "successes": rng.binomial(attempts, chance),
                "human_minutes": 2 ** log2_minutes[task],
            }
        )
    )


def calibration(replications: int, pool: Executor | None, null: str | None) -> list[dict[str, Any]]:
    rows = []
    for name, settings in CALIBRATIONS:
        if null not in (None, settings["null"]):
            continue
        found = mb.cancellation_power(
            design(name),
            sizes=[0],
            replications=replications,
            replicates=REPLICATES,
            executor=pool,
            seed=SEED,
            **settings,
        )
        p = found["p"].values[0]
        rows.append(
            {
                "design": name,
                "by": "minutes",
                **settings,
                "replications": replications,
                "rate": float(found["rate"][0]),
                "expected_rate": float(found["expected_rate"][0]),
                "mean_p": float(p.mean()),
                **shares(p),
            }
        )
    return rows


def shares(p: np.ndarray) -> dict[str, dict[str, float]]:
    """Shares of p values up to each level, and how probable so many or more are if p is uniform."""
    counts = {f"{level:g}": int(np.sum(p <= level)) for level in LEVELS}
    return {
        "share": {level: n / len(p) for level, n in counts.items()},
        "tail": {
            level: float(binom.sf(n - 1, len(p), float(level))) for level, n in counts.items()
        },
    }


def power(replications: int, pool: Executor | None, only: str | None) -> list[dict[str, Any]]:
    rows = []
    for null, divisions in (("common_slope", (6, 8)), ("rasch_ml", (6,))):
        if only not in (None, null):
            continue
        for departure, sizes in SIZES.items():
            for bands in divisions:
                found = mb.cancellation_power(
                    design(METR),
                    departure,
                    sizes,
                    bands,
                    null=null,
                    replications=replications,
                    replicates=REPLICATES,
                    level=LEVEL,
                    executor=pool,
                    seed=SEED,
                )
                columns = ["power", "power_error", "rate", "expected_rate"]
                table = found[columns].to_dataframe().reset_index().to_dict("records")
                about = {"null": null, "departure": departure, "bands": bands}
                rows += [{**about, **row, "replications": replications} for row in table]
    return rows


def agreement(replications: int, pool: Executor | None, null: str | None) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    if null not in (None, "common_slope"):
        return rows
    for departure, size in AGREEMENTS:
        numbers: dict[str, Any] = {"replications": replications, "replicates": REPLICATES}
        predicted = mb.cancellation_power(
            design(METR), departure, [size], level=LEVEL, executor=pool, seed=SEED, **numbers
        )
        tasks = [(departure, size, replication) for replication in range(replications)]
        found = sum(run_tasks(rejected, tasks, pool, "Checking"))
        chance = float(predicted["power"][0])
        pooled = (chance + found / replications) / 2
        error = np.sqrt(2 * max(pooled * (1 - pooled), 1e-9) / replications)
        rows.append(
            {
                "departure": departure,
                "size": size,
                "replications": replications,
                "predicted": chance,
                "realised": found / replications,
                "p": float(2 * norm.sf(abs(chance - found / replications) / error)),
            }
        )
    return rows


def added(replications: int, pool: Executor | None, null: str | None) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    if null not in (None, "rasch_ml"):
        return rows
    for name in (METR, SINGLE):
        for more in ADDED:
            tasks = [(name, more, replication) for replication in range(replications)]
            p, observed, expected = np.transpose(run_tasks(with_added, tasks, pool, "Checking"))
            rows.append(
                {
                    "design": name,
                    "bands": 6,
                    "added": more,
                    "replications": replications,
                    "rate": observed.mean(),
                    "expected_rate": expected.mean(),
                    "mean_p": p.mean(),
                    **shares(p),
                }
            )
    return rows


def with_added(task: tuple[str, float, int]) -> tuple[float, float, float]:
    """Simulate from the Rasch estimate with so much added, and check against the same estimate."""
    name, more, replication = task
    runs = design(name)
    attempts = runs["attempts"].values
    rng = np.random.default_rng([OTHER_SEED, replication])
    successes = rng.binomial(attempts, expit(rasch_ml(runs, more).log_odds))
    again = rasch_ml(runs.assign(successes=("cell", successes)), more).log_odds
    replicates = rng.binomial(attempts, expit(again), (REPLICATES, len(attempts)))
    bands = with_equal_tasks(runs["human_minutes"].values, 6)
    layout = Layout.of(runs, bands, 20)
    rates = count(layout.rates(np.vstack([successes, replicates]))).rate
    return float(np.mean(rates >= rates[0])), float(rates[0]), float(rates[1:].mean())


def posterior(replications: int, pool: Executor | None, null: str | None) -> list[dict[str, Any]]:
    rows = []
    for name, bands, model, truth, times in POSTERIORS:
        if null not in (None, model):
            continue
        number = int(times * replications)
        tasks = [(name, bands, model, truth, replication) for replication in range(number)]
        p = np.array(run_tasks(under_posterior, tasks, pool, "Fitting"))
        about = {"design": name, "bands": bands, "model": model, "truth": truth}
        rows.append({**about, "replications": number, "mean_p": p.mean(), **shares(p)})
    return rows


def under_posterior(task: tuple[str, int, str, str, int]) -> float:
    """Simulate from an additive model, fit it by few draws, and check against the posterior."""
    name, bands, model, truth, replication = task
    runs = design(name)
    rng = np.random.default_rng([OTHER_SEED, replication])
    priors = PRIORS[model] if truth == "prior" else {}
    if truth == "prior":
        found = get_model(model)
        successes = prior_draw(found, runs, rng, found.with_priors(priors))["successes"].values
    else:
        log_odds = fixed(name, model) if truth == "fixed" else estimate("rasch_ml", runs).log_odds
        successes = rng.binomial(runs["attempts"].values, expit(log_odds))
    data = runs.assign(successes=("cell", successes))
    short = {"draws": 200, "tune": 200, "chains": 2, "progress": False}
    fit = mb.fit(model, data, seed=replication, priors=priors, **short)
    check = mb.cancellation(
        data, bands, against={"fit": fit}, replicates=REPLICATES, progress=False
    )
    return check.expected["fit"]["p"]


def fixed(name: str, model: str) -> np.ndarray:
    """Log odds (cell,): half a logit a doubling; for the Rasch model tasks differ besides."""
    runs = design(name)
    log2_horizon = np.linspace(-1, 7, runs.sizes["agent"])
    difficulty = 0.5 * np.log2(runs["human_minutes"].values)
    if model == "rasch":
        difficulty = difficulty + np.random.default_rng(SEED).normal(size=len(difficulty))
    return 0.5 * log2_horizon[runs["agent_index"].values] - difficulty[runs["task_index"].values]


def rejected(task: tuple[str, float, int]) -> bool:
    """Simulate METR's agents and tasks with an interaction, and check with `mb.cancellation`."""
    departure, size, replication = task
    runs = design(METR)
    fitted: dict[str, Any] = estimate("common_slope", runs).parameters
    who, what = runs["agent_index"].values, runs["task_index"].values
    log2_minutes = np.log2(runs["human_minutes"].values)
    log2_horizon = -fitted["intercept"] / fitted["slope"]
    rng = np.random.default_rng([OTHER_SEED, replication])
    slope = np.full(runs.sizes["agent"], fitted["slope"])
    if departure == "slopes":
        slope = slope * rng.lognormal(0, size, len(slope))
    table = slope[:, None] * (log2_minutes - log2_horizon[:, None])
    if departure == "dimension":
        table += np.outer(rng.normal(0, 1, table.shape[0]), rng.normal(0, size, table.shape[1]))
    chance = 1 / (1 + np.exp(-table[who, what]))
    simulated = runs.assign(successes=("cell", rng.binomial(runs["attempts"].values, chance)))
    check = mb.cancellation(
        simulated,
        against=["common_slope"],
        replicates=REPLICATES,
        seed=int(rng.integers(2**31)),
        progress=False,
    )
    return check.expected["common_slope"]["p"] <= LEVEL


def write_page(results: dict[str, Any]) -> None:
    for name, table in tables(results).items():
        put(PAGE, name, table)


def merged(old: list[dict[str, Any]], new: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Replace the rows of `old` that were measured anew."""
    rows = {tuple(row.get(key) for key in KEYS): row for row in [*old, *new]}
    return list(rows.values())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--replications", type=int, default=300, help="of calibration, agreement")
    parser.add_argument("--power-replications", type=int, default=100)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--only", choices=PARTS, help="keep the other parts of the JSON")
    parser.add_argument("--null", help="keep the rows of other additive models")
    parser.add_argument("--table", action="store_true", help="only rebuild the tables")
    options = parser.parse_args()
    old = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    if not options.table:
        spawn = multiprocessing.get_context("spawn")
        processes = ProcessPoolExecutor(options.jobs, spawn) if options.jobs > 1 else nullcontext()
        new = {"version": mb.__version__, "replicates": REPLICATES, "level": LEVEL}
        with processes as pool:
            for part, study in PARTS.items():
                number = options.power_replications if part == "power" else options.replications
                kept = options.only not in (None, part)
                before = old.get(part, [])
                rows = [] if kept else study(number, pool, options.null)
                new[part] = merged(before if kept or options.null else [], rows)
        RESULTS.write_text(json.dumps(new, indent=1) + "\n", encoding="utf-8")
    write_page(json.loads(RESULTS.read_text(encoding="utf-8")))


PARTS = {
    "calibration": calibration,
    "added": added,
    "posterior": posterior,
    "agreement": agreement,
    "power": power,
}
KEYS = ("design", "by", "bands", "null", "departure", "size", "added", "model", "truth")

if __name__ == "__main__":
    main()
