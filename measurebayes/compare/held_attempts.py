"""Cross-validation by attempts: a part of the attempts of agents and tasks is predicted."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Executor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr

from measurebayes.backends.evaluate import binomial_density, cell_logits
from measurebayes.compare.attempts import half, parts, with_counts
from measurebayes.compare.crossval import LIVE, fitted, tabulated, warn_unsettled
from measurebayes.compare.inputs import check_halves
from measurebayes.compare.psis import draws_of, log_mean
from measurebayes.errors import InputError
from measurebayes.program.registry import ModelFile, get_model


class _Split(NamedTuple):
    """All that one fit needs; picklable."""

    model: str
    runs: xr.Dataset
    attempts: np.ndarray  # held out (cell,)
    successes: np.ndarray
    seed: int
    settings: dict[str, Any]
    budget: int


def crossval_attempts(
    models: Mapping[str, ModelFile],
    runs: xr.Dataset,
    folds: str,
    k: int,
    seed: int,
    executor: Executor | None,
    progress: bool,
    checkpoint: str | Path | None,
    budget: int,
    **settings: Any,
) -> pd.DataFrame:
    """Compare models by held-out attempts; see `measurebayes.compare.crossval.crossval`.

    Parameters
    ----------
    models
        By name.
    runs
        The data.
    folds
        ``"attempt"`` or ``"half-attempts"``.
    k, seed, executor, progress, checkpoint, **settings
        See there.
    budget
        Bytes that temporary arrays of draws by cells may take together.
    """
    from measurebayes.checks.finished import Finished
    from measurebayes.checks.studies import run_tasks

    if folds == "half-attempts":
        check_halves(runs)
    held = _held_out(runs, folds, k, seed)
    tasks = [
        _Split(model.reference, runs, attempts, successes, seed + i, settings, budget)
        for model in models.values()
        for i, (attempts, successes) in enumerate(held)
    ]
    finished = Finished(["attempts", *(model.sha256 for model in models.values())], checkpoint)
    done = run_tasks(_predict, tasks, executor, "Cross-validating", progress, finished)
    shape = (len(models), len(held), runs.sizes["cell"])
    singly, together = (np.stack([one[i] for one in done]).reshape(shape) for i in (0, 1))
    joined = np.sum if folds == "attempt" else np.mean
    # Attempts that are left out one by one have no density together.
    elpd = joined(singly if folds == "attempt" else together, axis=1)
    names = [runs[name].values[runs[f"{name}_index"].values] for name in ("agent", "task")]
    labels = pd.MultiIndex.from_arrays(names, names=["agent", "task"])
    table = tabulated(pd.DataFrame(elpd.T, labels, list(models)), folds)
    likelihood = pd.Series(joined(singly.sum(axis=-1), axis=1), list(models))
    table.insert(4, "log_likelihood", likelihood.reindex(table.index))
    unconverged = np.array([not one[2] for one in done]).reshape(shape[:2]).sum(axis=1)
    table["unconverged"] = pd.Series(unconverged, list(models)).reindex(table.index)
    which = pd.MultiIndex.from_product([list(models), range(len(held))], names=["model", "split"])
    totals = {"log_likelihood": singly.sum(axis=-1), "elpd": together.sum(axis=-1)}
    table.attrs["splits"] = pd.DataFrame({n: x.ravel() for n, x in totals.items()}, which)
    warn_unsettled(table, len(held), settings, stacklevel=4)  # crossval lies between
    return table


def _held_out(
    runs: xr.Dataset, folds: str, k: int, seed: int
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Attempts and successes (cell,) that each fit does without."""
    attempts, successes = runs["attempts"].values, runs["successes"].values
    most = int(attempts.max(initial=0))
    if most < 2 and folds == "half-attempts":
        raise InputError(
            "no agent has attempted a task twice",
            where="crossval",
            expected="cells of at least two attempts, to fit to one half and predict the other",
            remedy='folds="cell"',
        )
    if folds == "attempt":
        return list(zip(*parts(runs, min(k, int(attempts.sum())), seed), strict=True))
    found = []
    for i in range(k):
        number, solved = half(runs, seed + i)
        found.append((attempts - number, successes - solved))
    return found


def _predict(split: _Split) -> tuple[np.ndarray, np.ndarray, bool]:
    """Log likelihood of held-out attempts by cell, singly and together, and convergence."""
    from measurebayes.checks import converged

    model, runs = get_model(split.model), split.runs
    kept = with_counts(
        runs,
        runs["attempts"].values - split.attempts,
        runs["successes"].values - split.successes,
    )
    found = fitted(model, kept, split.seed, split.settings)
    posterior = draws_of(found, model)
    left = with_counts(runs, split.attempts, split.successes)
    singly, together = np.zeros((2, runs.sizes["cell"]))
    at = split.attempts > 0
    singly[at], together[at] = _densities(model, left, posterior, split.budget)
    return singly, together, converged(found)


def _densities(
    model: ModelFile, left: xr.Dataset, posterior: xr.Dataset, budget: int
) -> tuple[np.ndarray, np.ndarray]:
    """Log density of the attempts of every cell (cell,): singly, and together."""
    values = {str(name): posterior[name] for name in posterior.data_vars}
    draws = posterior.sizes["chain"] * posterior.sizes["draw"]
    step, found = max(1, budget // (8 * LIVE * draws)), []
    for start in range(0, left.sizes["cell"], step):
        some = left.isel(cell=slice(start, start + step))
        eta = cell_logits(model, some, values).transpose("chain", "draw", "cell").values
        eta = eta.reshape(draws, -1)
        success, failure = (log_mean(-np.logaddexp(0.0, sign * eta).T) for sign in (-1.0, 1.0))
        solved, tried = some["successes"].values, some["attempts"].values
        singly = solved * success + (tried - solved) * failure
        found.append(np.stack([singly, log_mean(binomial_density(eta, some).T)]))
    singly, together = np.concatenate(found, axis=1) if found else np.zeros((2, 0))
    return singly, together
