"""Other Python programs for item-response models: time, estimates, and tasks that nobody solved.

``python benchmarks/run.py --part peers --peers-python PYTHON`` fits a one- and a two-parameter
model to verbal aggression (316 people, 24 items) and SWE-bench Verified (158 agents, 500 tasks,
32 of them never solved) by the programs that PYTHON has (peers.txt). They maximise the marginal
likelihood; this package draws from a hierarchical posterior, whose means are compared here.

All is put on one scale, on which abilities have mean 0 and SD 1 in the population. The log
likelihood is computed here, from each program's item parameters, by quadrature over that
population, for the tasks that somebody solved.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from scipy.optimize import minimize
from scipy.special import expit, log_expit, logsumexp
from scipy.stats import spearmanr

HERE = Path(__file__).resolve().parent
SHARED = HERE.parent.parent / "shared" / "data"
LIMIT_SECONDS = 240
NOT_INSTALLED = 3  # exit status of peers_child.py
REPEATED_SECONDS = 10  # longer fits are not repeated
DATA = {
    "verbagg": ("Verbal aggression, 316 x 24", "verbagg/verbagg_wide01.csv"),
    "swebench": ("SWE-bench Verified, 158 x 500", "swebench_verified/swe_a_pyirt.jsonl"),
}
MODELS = {"rasch": "one parameter", "two_pl": "two parameters"}
OURS = "measurebayes"
PROGRAMS = (OURS, "mirt", "theta-irt", "girth")
NO_MAXIMUM = ("swebench", "two_pl")  # discriminations of rarely solved tasks grow without bound
CHAINS, DRAWS, TUNE = 2, 500, 500


@cache
def loaded(data: str) -> xr.Dataset:
    """Return the data, which lie beside the project and are no part of it."""
    import measurebayes as mb

    shared = Path(os.environ.get("MEASUREBAYES_SHARED_DATA", SHARED))
    return mb.load(shared / DATA[data][1])


def matrix(runs: xr.Dataset) -> np.ndarray:
    """Return 0, 1 and NaN (agent, task)."""
    found = np.full((runs.sizes["agent"], runs.sizes["task"]), np.nan)
    found[runs["agent_index"].values, runs["task_index"].values] = runs["successes"].values
    return found


def measure(data: str, model: str, repeats: int, python: str) -> dict[str, Any]:
    """Fit one model to one data set by every program.

    Returns
    -------
    dict
        ``largest``: the largest log likelihood, where there is one; and by program its figures, or
        why there are none.
    """
    responses = matrix(loaded(data))
    ours: dict[str, Any] | None = None
    found: dict[str, Any] = {"largest": None}
    if (data, model) != NO_MAXIMUM:
        found["largest"] = largest(responses[:, np.nanmean(responses, axis=0) > 0], model)
    for program in PROGRAMS:
        fit = fitted(program, data, model, python)
        if "skipped" in fit:
            found[program] = fit
            continue
        seconds = [float(fit["seconds"])]
        while len(seconds) < repeats and seconds[0] < REPEATED_SECONDS:
            seconds.append(float(fitted(program, data, model, python)["seconds"]))
        ours = fit if ours is None else ours
        found[program] = {"seconds": seconds, **figures(responses, fit, ours)}
    return found


def fitted(program: str, data: str, model: str, python: str) -> dict[str, Any]:
    """Fit in a new process: arrays a, b, theta and seconds; or `skipped`, a reason."""
    with tempfile.TemporaryDirectory() as folder:
        output, given = Path(folder) / "out.npz", Path(folder) / "in.npz"
        if program == OURS:
            command = [sys.executable, __file__, data, model, str(output)]
        else:
            np.savez(given, responses=matrix(loaded(data)))
            child = str(HERE / "peers_child.py")
            command = [python, child, program, model, str(given), str(output)]
        environment = {**os.environ, "MEASUREBAYES_CACHE": ""}
        try:
            done = subprocess.run(
                command, check=False, capture_output=True, text=True, env=environment,
                timeout=None if program == OURS else LIMIT_SECONDS,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return {"skipped": f"no result within {LIMIT_SECONDS} s"}
        if done.returncode == NOT_INSTALLED:
            return {"skipped": "not installed: benchmarks/peers.txt says how to get it"}
        if done.returncode and program == OURS:
            raise SystemExit(done.stderr[-3000:])
        if done.returncode:
            return {"skipped": f"failed: {done.stderr.strip().splitlines()[-1][:200]}"}
        with np.load(output) as arrays:
            return {name: arrays[name] for name in arrays}


def fit_ours(data: str, model: str, output: str) -> None:
    """Fit in this process and write posterior means in units of the population of agents."""
    import arviz  # noqa: F401
    import numpyro  # noqa: F401

    import measurebayes as mb

    runs, fit = loaded(data), mb.fit
    started = time.perf_counter()
    posterior = fit(
        model, runs, chains=CHAINS, draws=DRAWS, tune=TUNE, seed=1, progress=False
    )["posterior"].to_dataset()  # fmt: skip
    seconds = time.perf_counter() - started
    unit = posterior["ability_sd"]
    slope = posterior.get("discrimination", 1.0)
    arrays = {
        "a": slope * unit * xr.ones_like(posterior["difficulty"]),
        "b": posterior["difficulty"] / unit,
        "theta": posterior["ability"] / unit,
    }
    means = {name: x.mean(("chain", "draw")).values for name, x in arrays.items()}
    np.savez(output, **means, seconds=seconds)


def figures(responses: np.ndarray, fit: dict[str, Any], ours: dict[str, Any]) -> dict[str, Any]:
    """Compare estimates with ours, and say what became of tasks that nobody solved."""
    rate = np.nanmean(responses, axis=0)
    solved, middling = rate > 0, (rate >= 0.05) & (rate <= 0.95)
    never = {
        "never_solved": [float(fit["b"][~solved].min()), float(fit["b"][~solved].max())]
        if not solved.all()
        else []
    }
    return {
        "log_likelihood": marginal(responses[:, solved], fit["a"][solved], fit["b"][solved]),
        "ability_r": float(np.corrcoef(fit["theta"], ours["theta"])[0, 1]),
        "ability_rms": _rms(fit["theta"] - ours["theta"]),
        "difficulty_rank_r": float(spearmanr(fit["b"][middling], ours["b"][middling])[0]),
        "difficulty_rms": _rms(fit["b"][middling] - ours["b"][middling]),
        "largest_difficulty": float(np.abs(fit["b"][solved]).max()),
        "discriminations": [float(fit["a"].min()), float(fit["a"].max())],
        **never,
    }


def _rms(x: np.ndarray) -> float:
    return float(np.sqrt(np.mean(np.square(x))))


NODES = np.linspace(-8.0, 8.0, 401)  # of ability; four times as many change nothing
LOG_WEIGHTS = -0.5 * NODES**2 - logsumexp(-0.5 * NODES**2)


def marginal(responses: np.ndarray, a: np.ndarray, b: np.ndarray) -> float:
    """Return the log likelihood with abilities integrated out over the standard normal."""
    return _likelihood_and_slopes(responses, a, -a * b)[0]


def _likelihood_and_slopes(
    responses: np.ndarray, a: np.ndarray, easiness: np.ndarray
) -> tuple[float, np.ndarray, np.ndarray]:
    """Return the log likelihood and its derivatives by a and easiness (task)."""
    eta = a * NODES[:, None] + easiness
    solved, tried = np.nan_to_num(responses), (~np.isnan(responses)).astype(float)
    of_nodes = solved @ log_expit(eta).T + (tried - solved) @ log_expit(-eta).T + LOG_WEIGHTS
    of_agents = logsumexp(of_nodes, axis=1)
    weights = np.exp(of_nodes - of_agents[:, None]).T  # node, agent
    residuals = weights @ solved - (weights @ tried) * expit(eta)
    return float(of_agents.sum()), NODES @ residuals, residuals.sum(axis=0)


def largest(responses: np.ndarray, model: str) -> float:
    """Return the maximum of the log likelihood over item parameters, apart from all programs."""
    tasks = responses.shape[1]
    of_each = model == "two_pl"

    def energy(x: np.ndarray) -> tuple[float, np.ndarray]:
        a = x[tasks:] if of_each else np.repeat(x[tasks:], tasks)
        value, by_a, by_easiness = _likelihood_and_slopes(responses, a, x[:tasks])
        return -value, -np.concatenate([by_easiness, by_a if of_each else [by_a.sum()]])

    rate = np.clip(np.nanmean(responses, axis=0), 0.01, 0.99)
    start = np.concatenate([1.5 * np.log(rate / (1 - rate)), np.ones(tasks if of_each else 1)])
    settings = {"maxiter": 1000, "maxcor": 30, "ftol": 1e-14, "gtol": 1e-5}
    return -float(minimize(energy, start, jac=True, method="L-BFGS-B", options=settings).fun)


if __name__ == "__main__":
    fit_ours(*sys.argv[1:])
