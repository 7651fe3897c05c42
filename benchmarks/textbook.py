"""The two-parameter model as textbooks and tutorials write it, in NumPyro and in PyMC.

Same likelihood and the same prior scales as models/two_pl.py. What differs is what this package
adds: abilities have a free mean here, and every hierarchical vector is non-centred.
benchmarks/samplers.py draws from these programs.
"""

from __future__ import annotations

from typing import Any

import xarray as xr

PRIORS = {
    "ability_sd": 2.5,
    "difficulty_mean": 5.0,
    "difficulty_sd": 5.0,
    "log_discrimination_sd": 0.5,
}


def numpyro_model(data: xr.Dataset) -> Any:
    """Return the model as a function for NumPyro."""
    import jax
    import numpyro
    import numpyro.distributions as dist

    agent, task = data["agent_index"].values, data["task_index"].values
    attempts, successes = data["attempts"].values, data["successes"].values

    def model() -> None:
        ability_sd = numpyro.sample("ability_sd", dist.HalfNormal(PRIORS["ability_sd"]))
        mean = numpyro.sample("difficulty_mean", dist.Normal(0.0, PRIORS["difficulty_mean"]))
        sd = numpyro.sample("difficulty_sd", dist.HalfNormal(PRIORS["difficulty_sd"]))
        spread = numpyro.sample(
            "log_discrimination_sd", dist.HalfNormal(PRIORS["log_discrimination_sd"])
        )
        with numpyro.plate("agents", data.sizes["agent"]):
            raw_ability = numpyro.sample("raw_ability", dist.Normal(0.0, 1.0))
        with numpyro.plate("tasks", data.sizes["task"]):
            raw_difficulty = numpyro.sample("raw_difficulty", dist.Normal(0.0, 1.0))
            raw_log = numpyro.sample("raw_log_discrimination", dist.Normal(0.0, 1.0))
        ability = numpyro.deterministic("ability", ability_sd * raw_ability)
        difficulty = numpyro.deterministic("difficulty", mean + sd * raw_difficulty)
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
        mean = pm.Normal("difficulty_mean", 0.0, PRIORS["difficulty_mean"])
        sd = pm.HalfNormal("difficulty_sd", PRIORS["difficulty_sd"])
        spread = pm.HalfNormal("log_discrimination_sd", PRIORS["log_discrimination_sd"])
        raw_ability = pm.Normal("raw_ability", 0.0, 1.0, dims="agents")
        raw_difficulty = pm.Normal("raw_difficulty", 0.0, 1.0, dims="tasks")
        raw_log = pm.Normal("raw_log_discrimination", 0.0, 1.0, dims="tasks")
        ability = pm.Deterministic("ability", ability_sd * raw_ability)
        difficulty = pm.Deterministic("difficulty", mean + sd * raw_difficulty)
        slope = pm.Deterministic("discrimination", pm.math.exp(spread * raw_log))
        logits = slope[task] * (ability[agent] - difficulty[task])
        pm.Binomial(
            "successes", data["attempts"].values, logit_p=logits, observed=data["successes"].values
        )
    return model
