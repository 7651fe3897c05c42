"""Fits made without a sampler, for tests of what is read off a fit.

The layout is exactly that of a real fit. The draws are a known truth plus noise of about the width
that a posterior would have (its curvature in a binomial experiment), so that plots, intervals and
checks look as they do on real fits.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import xarray as xr
from scipy.special import betaln, expit, log_expit
from scipy.stats import norm

from measurebayes.data.provenance import fingerprint

ROOT = Path(__file__).resolve().parent.parent
PRIORS = {"ability_sd": 2.5, "difficulty_mean": 5.0, "difficulty_sd": 5.0}
LOG_DISCRIMINATION_SD = 0.4


def names(word: str, number: int) -> list[str]:
    return [f"{word} {i + 1}" for i in range(number)]


def fake_data(
    agents=8,
    tasks=12,
    attempts=6,
    holes=0.1,
    seed=1,
    minutes=True,
    spread=1.5,
    saturated=True,
    model="rasch",
):
    """Return (data, truth). `agents` and `tasks` are numbers or lists of names."""
    rng = np.random.default_rng(seed)
    agent_names = names("agent", agents) if isinstance(agents, int) else list(agents)
    task_names = names("task", tasks) if isinstance(tasks, int) else list(tasks)
    n, m = len(agent_names), len(task_names)
    truth = {
        "ability": rng.normal(0, spread, n),
        "difficulty": np.sort(rng.normal(0.3, 2.0, m)),
        "discrimination": np.ones(m),
    }
    truth["ability"] -= truth["ability"].mean()
    if model == "two_pl":
        truth["discrimination"] = np.exp(rng.normal(0, LOG_DISCRIMINATION_SD, m))
    if saturated and m >= 4:  # one task that all solve and one that none solves
        truth["difficulty"][[0, -1]] = -12, 12
    observed = rng.random((n, m)) >= holes
    observed[np.arange(max(n, m)) % n, np.arange(max(n, m)) % m] = True  # nobody without a cell
    agent_index, task_index = np.nonzero(observed)
    probability = expit(logits(truth, agent_index, task_index))
    tried = np.full(len(agent_index), attempts)
    data = xr.Dataset(
        {
            "agent_index": ("cell", agent_index.astype(np.int64)),
            "task_index": ("cell", task_index.astype(np.int64)),
            "attempts": ("cell", tried.astype(np.int64)),
            "successes": ("cell", rng.binomial(tried, probability).astype(np.int64)),
            "family_index": ("task", np.arange(m, dtype=np.int64)),
            "source": ("task", np.full(m, "", dtype="U1")),
            "human_minutes": ("task", human_minutes(rng, truth["difficulty"], minutes)),
            "minutes_kind": ("task", np.full(m, "baseline" if minutes else "", dtype="U8")),
            "task_weight": ("task", np.ones(m)),
            "release_date": ("agent", release_dates(n)),
        },
        coords={
            "agent": np.asarray(agent_names, dtype=str),
            "task": np.asarray(task_names, dtype=str),
            "family": np.asarray(task_names, dtype=str),
        },
        attrs=DATA_ATTRS,
    )
    return data, truth


DATA_ATTRS = {
    "name": "invented",
    "title": "Invented records for tests",
    "source": "https://example.org/invented",
    "licence": "CC0",
    "citation": "Nobody (2026). Invented records. doi:10.1000/invented",
    "sha256": "0" * 64,
    "reader": "none",
    "status_counts": json.dumps({"completed": 90, "error": 3}),
    "dropped": json.dumps({"error": 3}),
    "families": "each task its own",
}


def human_minutes(rng, difficulty, known):
    if not known:
        return np.full(len(difficulty), np.nan)
    return 2.0 ** np.clip(3 + difficulty + rng.normal(0, 1, len(difficulty)), -4, 10)


def release_dates(n):
    dates = np.datetime64("2023-03-14", "ns") + np.arange(n) * np.timedelta64(60, "D")
    dates[-1] = np.datetime64("NaT", "ns")
    return dates


def logits(truth, agent_index, task_index):
    distance = truth["ability"][agent_index] - truth["difficulty"][task_index]
    return truth["discrimination"][task_index] * distance


def fake_fit(
    model="rasch", chains=4, draws=200, seed=1, converged=True, log_likelihood=True, **design
):
    """Return a fit of invented records; see `fake_data` for the design."""
    data, truth = fake_data(seed=seed, model=model, **design)
    return fit_of(data, truth, model, chains, draws, seed, converged, log_likelihood)


def fit_of(data, truth, model, chains=4, draws=200, seed=1, converged=True, log_likelihood=True):
    """Return a fit whose draws lie around `truth`, with the layout of a real fit."""
    rng = np.random.default_rng([seed, 2])
    posterior = posterior_around(data, truth, model, chains, draws, rng, converged)
    source = (ROOT / "models" / f"{model}.py").read_text(encoding="utf-8")
    successes = data["successes"]
    groups = {
        "/": xr.Dataset(attrs=fit_attrs(model, source, data, chains, draws, seed)),
        "posterior": posterior,
        "sample_stats": sample_stats(chains, draws, rng, converged),
        "observed_data": xr.Dataset({"successes": ("cell", successes.values)}),
        "data": data,
    }
    if log_likelihood:
        groups["log_likelihood"] = xr.Dataset({"successes": terms(data, posterior)})
    return xr.DataTree.from_dict(groups)


def posterior_around(data, truth, model, chains, draws, rng, converged):
    agent, task = data["agent_index"].values, data["task_index"].values
    p = expit(logits(truth, agent, task))
    slope = truth["discrimination"]
    weight = data["attempts"].values * p * (1 - p) * slope[task] ** 2
    ability_sd = (np.bincount(agent, weight, data.sizes["agent"]) + 1 / 2.5**2) ** -0.5
    task_sd = (np.bincount(task, weight, data.sizes["task"]) + 1 / 3.0**2) ** -0.5
    shift = 0.0 if converged else 3.0

    def around(centre, sd):
        # Both halves of every chain have the same quantiles, each in its own order, so that
        # split R-hat is surely near 1.
        halves = [
            rng.permuted(
                np.broadcast_to(
                    norm.ppf((np.arange(n) + 0.5) / n).reshape(1, -1, *[1] * np.ndim(centre)),
                    (chains, n, *np.shape(centre)),
                ),
                axis=1,
            )
            for n in (draws // 2, draws - draws // 2)
        ]
        noise = np.concatenate(halves, axis=1)
        noise += shift * np.arange(chains).reshape(-1, 1, *[1] * np.ndim(centre))
        return centre + sd * noise

    def positive(centre, relative):
        return centre * np.exp(around(np.zeros(np.shape(centre)), relative))

    ability = around(truth["ability"], ability_sd)
    ability -= ability.mean(-1, keepdims=True)  # zero-sum, as the model has it
    batch = ("chain", "draw")
    variables = {
        "ability": ((*batch, "agent"), ability),
        "ability_sd": (batch, positive(1.5, 0.1)),
        "difficulty": ((*batch, "task"), around(truth["difficulty"], task_sd)),
        "difficulty_mean": (batch, around(0.3, 0.3)),
        "difficulty_sd": (batch, positive(2.5, 0.1)),
    }
    if model == "two_pl":
        variables["discrimination"] = ((*batch, "task"), positive(slope, 0.2))
        variables["log_discrimination_sd"] = (batch, positive(LOG_DISCRIMINATION_SD, 0.1))
    coords = {"chain": np.arange(chains), "draw": np.arange(draws)}
    return xr.Dataset(variables, coords | {d: data[d].values for d in ("agent", "task")})


def sample_stats(chains, draws, rng, converged):
    shape, batch = (chains, draws), ("chain", "draw")
    diverging = np.zeros(shape, dtype=bool)
    if not converged:
        diverging[0, : max(1, draws // 20)] = True
    stats = {
        "diverging": diverging,
        "n_steps": np.full(shape, 31),
        "tree_depth": np.full(shape, 5),
        "acceptance_rate": rng.uniform(0.7, 1.0, shape),
        "step_size": np.full(shape, 0.2),
        "energy": rng.normal(3000, 15, shape),
        "lp": rng.normal(-2900, 12, shape),
    }
    coords = {"chain": np.arange(chains), "draw": np.arange(draws)}
    variables = {name: (batch, value) for name, value in stats.items()}
    return xr.Dataset(variables, coords, attrs={"max_tree_depth": 10})


def terms(data, posterior):
    """Return the exact binomial log likelihood of every cell (chain, draw, cell)."""
    agent, task = data["agent_index"].values, data["task_index"].values
    distance = posterior["ability"].values[..., agent] - posterior["difficulty"].values[..., task]
    if "discrimination" in posterior:
        distance = posterior["discrimination"].values[..., task] * distance
    solved, failed = data["successes"].values, (data["attempts"] - data["successes"]).values
    # The chance itself would round to 1 where the log of its complement still matters.
    value = solved * log_expit(distance) + failed * log_expit(-distance)
    value -= np.log1p(solved + failed) + betaln(solved + 1, failed + 1)
    coords = {name: posterior[name].values for name in ("chain", "draw")}
    return xr.DataArray(value, coords, ("chain", "draw", "cell"))


def fit_attrs(model, source, data, chains, draws, seed):
    priors = PRIORS | ({"log_discrimination_sd": 1.0} if model == "two_pl" else {})
    return {
        "model": model,
        "model_source": source,
        "model_sha256": hashlib.sha256(source.encode()).hexdigest(),
        "options": "{}",
        "priors": json.dumps(priors),
        "backend": "numpyro",
        "method": "nuts",
        "seed": seed,
        "chains": chains,
        "draws": draws,
        "tune": 500,
        "sampler": "NUTS, dense mass matrix for (hyperparameters, ability)",
        "sampling_seconds": 6.2,
        "compile_seconds": 8.1,
        "gradients": 93000,
        "created": "2026-01-02T03:04:05+00:00",
        "versions": json.dumps({"python": "3.13.1", "numpyro": "0.22.0", "arviz": "1.3.0"}),
        "data_name": data.attrs["name"],
        "data_fingerprint": fingerprint(data),
        "layout": "long",
        "measurebayes_version": "0.1.0",
    }
