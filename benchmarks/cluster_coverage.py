"""How often 95 % intervals of plain success rates hold the true rate: families or tasks resampled.

python benchmarks/cluster_coverage.py [--replications 400]

Writes the table in docs/dependence.md. A replication draws families anew, with the sizes of those
of the METR suite, and five agents' attempts at their tasks. The true rate of an agent is its mean
over all families that could have been drawn, by quadrature.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pandas as pd
import xarray as xr
from pages import put
from scipy.special import expit

import measurebayes as mb
from measurebayes.checks.dependence import clustered_rates

PAGE = Path(__file__).resolve().parent.parent / "docs" / "dependence.md"
ABILITIES = np.array([-1.5, -0.5, 0.0, 0.5, 1.5])
ATTEMPTS, TASK_SD, SEED = 4, 2.0, 20260101
# SDs in logits: of what an agent and a family have to themselves; of families' difficulties
DESIGNS = ((0.0, 0.0), (1.0, 0.0), (1.0, 1.5))


def simulated(
    rng: np.random.Generator, sizes: np.ndarray, testlet_sd: float, family_sd: float
) -> xr.Dataset:
    """Draw one data set of families of these sizes, agents being `ABILITIES`."""
    family = np.repeat(np.arange(len(sizes)), sizes)
    tasks, agents = len(family), len(ABILITIES)
    difficulty = rng.normal(0, family_sd, len(sizes))[family] + rng.normal(0, TASK_SD, tasks)
    effect = rng.normal(0, testlet_sd, (agents, len(sizes)))[:, family]
    chance = expit(ABILITIES[:, None] + effect - difficulty)
    agent, task = (x.ravel() for x in np.indices(chance.shape))
    return xr.Dataset(
        {
            "agent_index": ("cell", agent),
            "task_index": ("cell", task),
            "attempts": ("cell", np.full(agent.size, ATTEMPTS)),
            "successes": ("cell", rng.binomial(ATTEMPTS, chance.ravel())),
            "family_index": ("task", family),
        },
        coords={
            "agent": np.array([f"agent {i}" for i in range(agents)]),
            "task": np.array([f"task {j}" for j in range(tasks)]),
            "family": np.array([f"family {k}" for k in range(len(sizes))]),
        },
    )


def true_rates(testlet_sd: float, family_sd: float) -> np.ndarray:
    """Mean success of each agent over all tasks that could be drawn."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(61)
    spread = np.sqrt(testlet_sd**2 + family_sd**2 + TASK_SD**2)
    return expit(ABILITIES[:, None] + spread * nodes) @ weights / weights.sum()


def coverage(
    families: int, testlet_sd: float, family_sd: float, replications: int, seed: int = SEED
) -> dict[str, float]:
    """Shares of intervals that hold the truth, all agents together, and mean widths."""
    runs = mb.load("metr-th1.1")
    sizes = np.bincount(runs["family_index"].values)
    rng = np.random.default_rng([seed, families, int(10 * testlet_sd), int(10 * family_sd)])
    truth = pd.Series(true_rates(testlet_sd, family_sd), [f"agent {i}" for i in range(5)])
    held = {"families": [], "tasks": [], "effect": [], "ratio": []}
    for number in range(replications):
        data = simulated(rng, rng.choice(sizes, families), testlet_sd, family_sd)
        table = clustered_rates(data, resamples=1000, seed=number).set_index("agent")
        value = truth[table.index]
        held["families"].append((table["low"] <= value) & (value <= table["high"]))
        held["tasks"].append((table["low_tasks"] <= value) & (value <= table["high_tasks"]))
        held["effect"].append(table["design_effect"])
        held["ratio"].append(
            (table["high"] - table["low"]) / (table["high_tasks"] - table["low_tasks"])
        )
    return {name: float(np.mean(np.concatenate(values))) for name, values in held.items()}


def rows(replications: int) -> list[str]:
    """Make the table, in Markdown."""
    lines = [
        "| families | SD of agent x family | SD of families' difficulties | families resampled | "
        "tasks resampled | design effect |",
        "|---|---|---|---|---|---|",
    ]
    for families in (79, 20):
        for testlet_sd, family_sd in DESIGNS:
            found = coverage(families, testlet_sd, family_sd, replications)
            lines.append(
                f"| {families} | {testlet_sd:g} | {family_sd:g} | {found['families']:.3f} | "
                f"{found['tasks']:.3f} | {found['effect']:.2f} |"
            )
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replications", type=int, default=400)
    table = "\n".join(rows(parser.parse_args().replications))
    print(table)
    put(PAGE, "coverage", table)


if __name__ == "__main__":
    main()
