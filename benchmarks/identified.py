"""The identified two-parameter model in NumPyro and PyMC, written as a careful user would.

The density is that of models/two_pl.py (two_pl.stan has it for Stan): abilities sum to zero.
Difficulties are centred and discriminations are not, which suits these samplers best among the
forms that need no look at the data. benchmarks/samplers.py draws from these programs.
"""

from __future__ import annotations

from typing import Any

import xarray as xr
from textbook import PRIORS


def numpyro_model(data: xr.Dataset) -> Any:
    """Return the model as a function for NumPyro."""
    import jax
    import numpyro
    import numpyro.distributions as dist

    agent, task = data["agent_index"].values, data["task_index"].values
    attempts, successes = data["attempts"].values, data["successes"].values

    def model() -> None:
        ability_sd = numpyro.sample("ability_sd", dist.HalfNormal(PRIORS["ability_sd"]))
        zero_sum = dist.ZeroSumNormal(ability_sd, event_shape=(data.sizes["agent"],))
        ability = numpyro.sample("ability", zero_sum)
        mean = numpyro.sample("difficulty_mean", dist.Normal(0.0, PRIORS["difficulty_mean"]))
        sd = numpyro.sample("difficulty_sd", dist.HalfNormal(PRIORS["difficulty_sd"]))
        spread = numpyro.sample(
            "log_discrimination_sd", dist.HalfNormal(PRIORS["log_discrimination_sd"])
        )
        with numpyro.plate("tasks", data.sizes["task"]):
            difficulty = numpyro.sample("difficulty", dist.Normal(mean, sd))
            raw_log = numpyro.sample("raw_log_discrimination", dist.Normal(0.0, 1.0))
        slope = numpyro.deterministic("discrimination", jax.numpy.exp(spread * raw_log))
        logits = slope[task] * (ability[agent] - difficulty[task])
        numpyro.sample("successes", dist.Binomial(attempts, logits=logits), obs=successes)

    return model


def pymc_model(data: xr.Dataset) -> Any:
    """Return the model of PyMC."""
    import pymc as pm

    agent, task = data["agent_index"].values, data["task_index"].values
    with pm.Model(coords={"agents": data["agent"].values, "tasks": data["task"].values}) as model:
        ability_sd = pm.HalfNormal("ability_sd", PRIORS["ability_sd"])
        ability = pm.ZeroSumNormal("ability", sigma=ability_sd, dims="agents")
        mean = pm.Normal("difficulty_mean", 0.0, PRIORS["difficulty_mean"])
        sd = pm.HalfNormal("difficulty_sd", PRIORS["difficulty_sd"])
        difficulty = pm.Normal("difficulty", mean, sd, dims="tasks")
        spread = pm.HalfNormal("log_discrimination_sd", PRIORS["log_discrimination_sd"])
        raw_log = pm.Normal("raw_log_discrimination", 0.0, 1.0, dims="tasks")
        slope = pm.Deterministic("discrimination", pm.math.exp(spread * raw_log))
        logits = slope[task] * (ability[agent] - difficulty[task])
        pm.Binomial(
            "successes", data["attempts"].values, logit_p=logits, observed=data["successes"].values
        )
    return model
