"""How often the measures of local dependence speak: of data without any, and of testlets.

python benchmarks/dependence_power.py [--replications 200]

Writes the table in docs/dependence.md. Posteriors of the Rasch model are normal around their mode,
with priors that are right, so that no sampler is needed.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
import xarray as xr
from pages import put
from scipy.special import expit

import measurebayes as mb
from measurebayes.program.registry import get_model

PAGE = Path(__file__).resolve().parent.parent / "docs" / "dependence.md"
AGENTS, FAMILIES, TASKS, ATTEMPTS, TASK_SD = 20, 20, 3, 4, 1.5
DRAWS, SEED = 200, 20260101
TESTLET_SDS = (0.0, 0.5, 1.0)
MEASURES = ("q3_largest", "q3_within", "unanimous", "design_effect", "first_dimension")


def simulated(rng: np.random.Generator, testlet_sd: float) -> xr.Dataset:
    """Draw data with an effect of every agent on every family."""
    family = np.repeat(np.arange(FAMILIES), TASKS)
    effect = rng.normal(0, testlet_sd, (AGENTS, FAMILIES))[:, family]
    ability, difficulty = rng.normal(0, 1, AGENTS), rng.normal(0, TASK_SD, len(family))
    chance = expit(ability[:, None] + effect - difficulty)
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
            "agent": np.array([f"agent {i}" for i in range(AGENTS)]),
            "task": np.array([f"task {j}" for j in range(len(family))]),
            "family": np.array([f"family {k}" for k in range(FAMILIES)]),
        },
    )


def rasch(data: xr.Dataset, rng: np.random.Generator) -> xr.DataTree:
    """Return a fit of the Rasch model whose posterior is normal around the mode."""
    agents, tasks = data.sizes["agent"], data.sizes["task"]
    x = np.zeros((data.sizes["cell"], agents + tasks))
    rows = np.arange(len(x))
    x[rows, data["agent_index"].values] = 1
    x[rows, agents + data["task_index"].values] = -1
    n, y = data["attempts"].values, data["successes"].values
    prior = np.concatenate([np.ones(agents), np.full(tasks, TASK_SD**-2)])
    place = np.zeros(agents + tasks)
    for _ in range(15):
        p = expit(x @ place)
        precision = x.T @ (x * (n * p * (1 - p))[:, None]) + np.diag(prior)
        place += np.linalg.solve(precision, x.T @ (y - n * p) - prior * place)
    draws = rng.multivariate_normal(place, np.linalg.inv(precision), size=(1, DRAWS))
    batch, flat = ("chain", "draw"), np.ones((1, DRAWS))
    posterior = xr.Dataset(
        {
            "ability": ((*batch, "agent"), draws[..., :agents]),
            "difficulty": ((*batch, "task"), draws[..., agents:]),
            "ability_sd": (batch, flat),
            "difficulty_mean": (batch, 0 * flat),
            "difficulty_sd": (batch, TASK_SD * flat),
        },
        coords={name: data[name].values for name in ("agent", "task")},
    )
    model = get_model("rasch")
    attrs = {
        "model": "rasch",
        "model_source": model.source,
        "priors": json.dumps(model.priors),
        "data_fingerprint": "made",
        "seed": int(rng.integers(2**31)),
    }
    return xr.DataTree.from_dict(
        {"/": xr.Dataset(attrs=attrs), "posterior": posterior, "data": data}
    )


def shares(testlet_sd: float, replications: int) -> np.ndarray:
    """Shares of data sets in which p of each measure is at most 0.05 and 0.005 (measure, 2)."""
    rng = np.random.default_rng([SEED, int(10 * testlet_sd)])
    p = []
    for _ in range(replications):
        fit = rasch(simulated(rng, testlet_sd), rng)
        p.append(mb.local_dependence(fit, replicates=DRAWS).measures.loc[list(MEASURES), "p"])
    values = np.stack(p)
    return np.stack([(values <= limit).mean(axis=0) for limit in (0.05, 0.005)], axis=1)


def rows(replications: int) -> list[str]:
    """Make the table, in Markdown."""
    found = [shares(sd, replications) for sd in TESTLET_SDS]
    heads = " | ".join(f"SD {sd:g}: p <= 0.05 | p <= 0.005" for sd in TESTLET_SDS)
    lines = [f"| measure | {heads} |", "|---" * (1 + 2 * len(TESTLET_SDS)) + "|"]
    for at, name in enumerate(MEASURES):
        cells = " | ".join(f"{one[at, 0]:.2f} | {one[at, 1]:.2f}" for one in found)
        lines.append(f"| `{name}` | {cells} |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replications", type=int, default=200)
    table = "\n".join(rows(parser.parse_args().replications))
    print(table)
    put(PAGE, "power", table)


if __name__ == "__main__":
    main()
