"""The two-parameter model as textbooks and tutorials write it, in NumPyro and in PyMC.

Same likelihood and the same prior scales as models/two_pl.py. What differs is what this package
adds: abilities have a free mean here, and every hierarchical vector is non-centred.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import xarray as xr

PRIORS = {
    "ability_sd": 2.5,
    "difficulty_mean": 5.0,
    "difficulty_sd": 5.0,
    "log_discrimination_sd": 0.5,
}
Result = tuple[xr.Dataset, int, float, float]


def numpyro_textbook(data: xr.Dataset, chains: int, tune: int, draws: int, seed: int) -> Result:
    """Draw with NumPyro's NUTS at its defaults in float64, one chain a core at a time.

    Returns
    -------
    tuple
        Posterior (chain, draw, ...), gradients after warm-up, seconds without and of compilation.
    """
    import numpyro

    numpyro.set_host_device_count(2)
    numpyro.enable_x64()
    import jax
    import numpyro.distributions as dist
    from numpyro.infer import MCMC, NUTS

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

    compiling = [0.0]

    def listen(event: str, seconds: float, **_: Any) -> None:
        if event.startswith("/jax/core/compile"):
            compiling[0] += seconds

    jax.monitoring.register_event_duration_secs_listener(listen)
    # Pairs of chains on two devices: NumPyro compiles for the first pair and not again.
    mcmc = MCMC(NUTS(model), num_warmup=tune, num_samples=draws, num_chains=2, progress_bar=False)
    started, steps, parts = time.perf_counter(), 0, []
    for pair in range(chains // 2):
        mcmc.run(jax.random.PRNGKey(1000 * seed + pair), extra_fields=("num_steps",))
        parts.append({n: np.asarray(v) for n, v in mcmc.get_samples(group_by_chain=True).items()})
        steps += int(mcmc.get_extra_fields()["num_steps"].sum())
    total = time.perf_counter() - started
    kept = [n for n in parts[0] if not n.startswith("raw_")]
    drawn = {n: np.concatenate([p[n] for p in parts]) for n in kept}
    return _dataset(drawn), steps, total - compiling[0], compiling[0]


def pymc_textbook(data: xr.Dataset, chains: int, tune: int, draws: int, seed: int) -> Result:
    """Draw with PyMC's default sampler; returns what `numpyro_textbook` does."""
    import pymc as pm

    agent, task = data["agent_index"].values, data["task_index"].values
    with pm.Model(coords={"agents": data["agent"].values, "tasks": data["task"].values}):
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
        started = time.perf_counter()
        tree = pm.sample(
            draws=draws, tune=tune, chains=chains, random_seed=seed, progressbar=False,
            compute_convergence_checks=False,
        )  # fmt: skip
        total = time.perf_counter() - started
    posterior = tree["posterior"].to_dataset()
    names = [str(n) for n in posterior.data_vars if not str(n).startswith("raw_")]
    sampling = float(tree["posterior"].attrs.get("sampling_time", np.nan))
    steps = int(tree["sample_stats"]["n_steps"].sum())
    drawn = {n: posterior[n].values for n in names}
    return _dataset(drawn), steps, sampling, total - sampling


def _dataset(drawn: dict[str, np.ndarray]) -> xr.Dataset:
    return xr.Dataset(
        {n: (("chain", "draw", *[f"{n}_dim"] * (v.ndim - 2)), v) for n, v in drawn.items()}
    )
