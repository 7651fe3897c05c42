"""Fits with time horizons without a sampler: draws around values that a test knows."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import xarray as xr
from fake_fit import fit_attrs
from scipy.special import expit

import measurebayes as mb
from measurebayes.inference.results import assemble
from measurebayes.program.registry import get_model

AGENTS = ("old", "middle", "new", "newest")
HORIZONS = np.array([2.0, 15.0, 90.0, 1200.0])  # minutes
DATES = pd.to_datetime(["2023-01-01", "2024-01-01", "2025-01-01", "2026-01-01"])
LONGEST = 960.0


def horizon_data(tasks=40, seed=1, names=AGENTS):
    """Return data of four agents at tasks from 15 s to 16 h, and the effects of tasks."""
    rng = np.random.default_rng(seed)
    minutes = 2.0 ** np.linspace(-2, np.log2(LONGEST), tasks)
    effect = rng.normal(0, 1.5, tasks)
    agent, task = (x.ravel() for x in np.indices((len(AGENTS), tasks)))
    eta = 0.8 * (np.log2(HORIZONS)[agent] - np.log2(minutes)[task]) - effect[task]
    labels = np.array([f"family {j // 4}/task {j:02d}" for j in range(tasks)])
    table = pd.DataFrame(
        {
            "agent": np.array(names)[agent],
            "task": labels[task],
            "family": [f"family {j // 4}" for j in task],
            "human_minutes": minutes[task],
            "release_date": DATES[agent],
            "attempts": 4,
            "successes": rng.binomial(4, expit(eta)),
        }
    )
    runs = mb.load(table)
    return runs, dict(zip(labels, effect, strict=True))


def horizon_fit(model="horizon_task", draws=100, chains=2, seed=2, tasks=40, names=AGENTS):
    """Return a fit of horizon_task or horizon_trend (linear: a doubling in 150 days or so)."""
    runs, effects = horizon_data(tasks, names=names)
    rng, shape = np.random.default_rng(seed), (chains, draws)
    place = [list(names).index(name) for name in runs["agent"].values]

    def around(centre, sd):
        return centre + sd * rng.normal(size=(*shape, *np.shape(centre)))

    log2_horizon = around(np.log2(HORIZONS)[place], 0.3)
    steepness = 0.8 * np.exp(around(np.zeros(len(AGENTS)), 0.1))
    agents = {
        "log2_horizon": log2_horizon,
        "steepness": steepness,
        "slope": -steepness,
        "intercept": steepness * log2_horizon,
        "centred_intercept": steepness * (log2_horizon - 4.0),
    }
    numbers = {
        "task_sd": 1.5 * np.exp(around(0.0, 0.1)),
        "log_steepness_mean": around(np.log(0.8), 0.1),
        "log_steepness_sd": 0.1 * np.exp(around(0.0, 0.2)),
        "log2_horizon_sd": 1.0 * np.exp(around(0.0, 0.2)),
    }
    if model == "horizon_trend":
        numbers |= {"level": around(5.5, 0.3), "rate": around(3.0, 0.2)}
        years = (runs["release_date"].values - np.datetime64("2024-07-02")) / np.timedelta64(1, "D")
        agents["trend"] = numbers["level"][..., None] + numbers["rate"][..., None] * years / 365.25
    else:
        numbers["log2_horizon_mean"] = around(5.5, 0.5)
    batch = ("chain", "draw")
    effect = around(np.array([effects[name] for name in runs["task"].values]), 0.5)
    posterior = xr.Dataset(
        {
            **{name: (batch, values) for name, values in numbers.items()},
            **{name: ((*batch, "agent"), values) for name, values in agents.items()},
            "task_effect": ((*batch, "task"), effect),
        },
        {"chain": np.arange(chains), "draw": np.arange(draws)}
        | {dim: runs[dim].values for dim in ("agent", "task")},
    )
    constant = {"diverging": False, "n_steps": 7, "tree_depth": 3, "acceptance_rate": 0.8}
    noise = {"energy": rng.normal(500.0, 5.0, shape), "lp": rng.normal(-500.0, 5.0, shape)}
    sample_stats = xr.Dataset(
        {name: (batch, np.full(shape, value)) for name, value in constant.items()}
        | {"step_size": (batch, np.full(shape, 0.3))}
        | {name: (batch, values) for name, values in noise.items()},
        attrs={"max_tree_depth": 10},
    )
    text = get_model(model)
    attrs = fit_attrs(model, text.source, runs, chains, draws, seed)
    attrs["priors"] = json.dumps(dict(text.priors))
    return assemble(text, runs, posterior, sample_stats, attrs)
