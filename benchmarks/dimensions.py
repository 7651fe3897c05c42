"""How many dimensions: held-out halves of METR's attempts, and recovery of known dimensions.

python benchmarks/dimensions.py halves            # METR counts, three splits; about 40 minutes
python benchmarks/dimensions.py estimates         # the same halves, point estimates; seconds
python benchmarks/dimensions.py recovery          # 60 agents x 200 tasks; about 40 minutes
python benchmarks/dimensions.py page              # the tables of docs/dimensions.md

Results are kept in dimensions.json after each fit, and a run goes on where it was stopped.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path
from typing import Any

import arviz as az
import numpy as np
import pandas as pd
from pages import keep, put, stored
from scipy.optimize import linear_sum_assignment
from scipy.special import expit, log_expit

import measurebayes as mb
from measurebayes.classical import estimate
from measurebayes.compare.attempts import halves as halves_of

HERE = Path(__file__).resolve().parent
RESULTS, PAGE = HERE / "dimensions.json", HERE.parent / "docs" / "dimensions.md"
SPLITS = 3
ESTIMATES = ("rasch_ml", "two_pl_ml", "dimensions_5")
MODELS = ("rasch", "two_pl", *(f"mirt:dimensions={k}" for k in range(1, 11)))
HALVES = {"draws": 400, "tune": 400, "chains": 2}
AGENTS, TASKS, ATTEMPTS = 60, 200, 6
TRUE, REPLICATIONS = (1, 2, 3, 5), 10
STRENGTHS = (2.0, 1.4, 1.2, 1.0, 0.85)  # SD of what a trait adds to log odds
SETTINGS = {"draws": 250, "tune": 250, "chains": 2}  # one length of warm-up: one compiled program
LONG = 1500  # draws a chain of the first data set, whose convergence is reported


def halves() -> None:
    """Log-likelihood of held-out halves of METR's attempts by model."""
    runs = mb.load("metr-th1.1")
    for model in MODELS:
        if model in stored(RESULTS).get("halves", {}):
            continue
        start = time.perf_counter()
        table = mb.crossval(
            [model], runs, folds="half-attempts", k=SPLITS, seed=1, progress=False, **HALVES
        )
        by_split = table.attrs["splits"]["log_likelihood"]
        found = {
            "log_likelihood": float(table["log_likelihood"].iloc[0]),
            "splits": [float(x) for x in np.ravel(by_split)],
            "unconverged": int(table["unconverged"].iloc[0]),
            "seconds": time.perf_counter() - start,
        }
        keep(RESULTS, "halves", model, found)
        print(model, found, flush=True)


def estimates() -> None:
    """Log-likelihood of the same halves under penalised point estimates."""
    runs = mb.load("metr-th1.1")
    for name in ESTIMATES:
        values = []
        for seed in range(1, 1 + SPLITS):
            kept, left = halves_of(runs, seed)
            log_odds = np.zeros((runs.sizes["agent"], runs.sizes["task"]))
            log_odds[kept["agent_index"].values, kept["task_index"].values] = estimate(
                name, kept
            ).log_odds
            eta = log_odds[left["agent_index"].values, left["task_index"].values]
            solved, number = left["successes"].values, left["attempts"].values
            values.append(float(solved @ log_expit(eta) + (number - solved) @ log_expit(-eta)))
        keep(RESULTS, "estimates", name, values)
        print(name, np.mean(values), values)


def simulated(k: int, rng: np.random.Generator) -> tuple[np.ndarray, pd.DataFrame]:
    """Return loadings (task, k) and records of agents with k traits of distinct strengths."""
    loading = rng.normal(0.0, 1.0, (TASKS, k)) * STRENGTHS[:k]
    loading[:, 0] = STRENGTHS[0] * np.exp(rng.normal(0.0, 0.3, TASKS))
    trait = rng.normal(size=(AGENTS, k))
    chance = expit(rng.normal(0.0, 1.5, TASKS) + trait @ loading.T)
    agent, task = (x.ravel() for x in np.indices(chance.shape))
    cells = {
        "agent": [f"agent {i:02d}" for i in agent],
        "task": [f"task {j:03d}" for j in task],
        "attempts": ATTEMPTS,
        "successes": rng.binomial(ATTEMPTS, chance.ravel()),
    }
    return loading, pd.DataFrame(cells)


def congruence(found: np.ndarray, true: np.ndarray) -> np.ndarray:
    """Tucker's coefficient of each true dimension with its best partner, after rotation to fit."""
    left, _, right = np.linalg.svd(found.T @ true)
    turned = found @ (left @ right)
    products = turned.T @ true
    sizes = np.outer(np.linalg.norm(turned, axis=0), np.linalg.norm(true, axis=0))
    pairs = np.abs(products / sizes)
    rows, columns = linear_sum_assignment(-pairs)
    return pairs[rows, columns][np.argsort(columns)]


def recovery() -> None:
    """Fit known dimensions, and choose their number by held-out halves."""
    for k in TRUE:  # outside, so that the replications share compiled programs
        for replication in range(REPLICATIONS):
            name = f"{k}/{replication}"
            if name in stored(RESULTS).get("recovery", {}):
                continue
            start = time.perf_counter()
            true, records = simulated(k, np.random.default_rng([20260101, k, replication]))
            runs = mb.load(records)
            settings = {**SETTINGS, "draws": LONG} if replication == 0 else SETTINGS
            fit = mb.fit("mirt", runs, dimensions=k, seed=replication, progress=False, **settings)
            aligned = fit["posterior"].to_dataset()[["easiness", "loading", "trait"]]
            worst = max(float(x.max()) for x in az.rhat(aligned).values())
            mean = aligned["loading"].mean(("chain", "draw")).values
            found: dict[str, Any] = {
                "congruence": [float(x) for x in congruence(mean, true)],
                "rhat": worst,
                "draws": settings["draws"],
                "seconds": time.perf_counter() - start,
            }
            models = [f"mirt:dimensions={n}" for n in range(max(1, k - 1), k + 2)]
            split = {"folds": "half-attempts", "k": 1, "seed": replication, "progress": False}
            table = mb.crossval(models, runs, **split, **SETTINGS)
            found["log_likelihood"] = {m: float(table.loc[m, "log_likelihood"]) for m in models}
            found["chosen"] = int(table["log_likelihood"].idxmax().partition("=")[2])
            found["seconds_with_choice"] = time.perf_counter() - start
            keep(RESULTS, "recovery", name, found)
            print(name, found, flush=True)


def page() -> None:
    """Write the tables."""
    found = stored(RESULTS)
    lines = ["| model | held-out log-likelihood | gain | splits |", "|---|---|---|---|"]
    before = None
    for model in MODELS:
        row = found["halves"][model]
        gain = "" if before is None else f"{row['log_likelihood'] - before:+.1f}"
        splits = ", ".join(f"{x:.1f}" for x in row["splits"])
        lines.append(f"| {model} | {row['log_likelihood']:.1f} | {gain} | {splits} |")
        before = row["log_likelihood"]
    put(PAGE, "halves", "\n".join(lines))
    if "recovery" not in found:
        return
    lines = [
        "| true dimensions | data sets | smallest congruence | median | R-hat, 2 x 1,500 draws | "
        "chosen: right | one too few | one too many |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for k in sorted({int(name.partition("/")[0]) for name in found["recovery"]}):
        rows = [row for name, row in found["recovery"].items() if name.startswith(f"{k}/")]
        alike = np.array([row["congruence"] for row in rows])
        chosen = np.array([row["chosen"] for row in rows])
        lines.append(
            f"| {k} | {len(rows)} | {alike.min():.3f} | {np.median(alike):.3f} | "
            f"{rows[0]['rhat']:.3f} | {(chosen == k).sum()} | {(chosen < k).sum()} | "
            f"{(chosen > k).sum()} |"
        )
    put(PAGE, "recovery", "\n".join(lines))


def main() -> None:
    """Run one part."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=("halves", "estimates", "recovery", "page"))
    warnings.filterwarnings("ignore", message=".*not converged.*")
    parts = {"halves": halves, "estimates": estimates, "recovery": recovery, "page": page}
    parts[parser.parse_args().part]()


if __name__ == "__main__":
    main()
