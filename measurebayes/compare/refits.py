"""Exact leave-one-out terms of the units that importance sampling fails for, by fitting again."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Executor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from measurebayes.backends.blocks import in_bytes
from measurebayes.backends.evaluate import log_likelihood
from measurebayes.compare.attempts import outcomes, with_counts
from measurebayes.compare.crossval import fitted, with_numbers
from measurebayes.compare.integrated import unit_log_likelihood
from measurebayes.compare.places import positions_by_axis
from measurebayes.compare.psis import bad_k, draws_of, log_mean, standard_error
from measurebayes.errors import InputError
from measurebayes.program.registry import get_model

_SETTINGS = ("backend", "method", "draws", "tune", "chains", "seed")


class _Refit(NamedTuple):
    """All that one fit needs; picklable."""

    model: str
    runs: xr.Dataset
    unit: str
    label: tuple[str, ...]
    position: int  # of the kind of attempt, the cell, or the label on the unit's axis
    settings: dict[str, Any]
    budget: int
    code: str  # of the model: results in a checkpoint are of this one


def refitted(
    fits: Mapping[str, xr.DataTree],
    results: Mapping[str, xr.Dataset],
    executor: Executor | None = None,
    progress: bool = True,
    checkpoint: str | Path | None = None,
    memory: int | str | None = None,
) -> dict[str, xr.Dataset]:
    """Replace the terms of units with Pareto k over 0.7 by those of fits without these units.

    Parameters
    ----------
    fits
        By name.
    results
        Of `loo`, by the same names.
    executor
        Where the fits run; by default one after another in this process.
    progress
        Show a bar on standard error.
    checkpoint
        File to which each term is added when it is done, and from which those that are there are
        taken.
    memory
        As for `compare`; of each fit.

    Returns
    -------
    dict of str to xarray.Dataset
        The results with other ``elpd`` and ``p``, and ``refitted`` (whether a unit was); bad_k
        counts the units that were not. attrs: refitted, unconverged (numbers).

    Raises
    ------
    InputError
        A fit does not tell how it was made, or the checkpoint is no file of terms.
    ExecutorError
        Its processes were killed.
    """
    from measurebayes.checks.finished import Finished
    from measurebayes.checks.studies import run_tasks

    terms = Finished("refits", checkpoint)
    tasks, owners = [], []
    for name, fit in fits.items():
        for task, places in _tasks(fit, results[name], in_bytes(memory)):
            tasks.append(task)
            owners.append((name, places))
    done = run_tasks(_predict, tasks, executor, "Fitting without units", progress, terms)
    found = {name: result.copy(deep=True) for name, result in results.items()}
    for result in found.values():
        unit = result.attrs["unit"]
        result["refitted"] = (unit, np.zeros(result.sizes[unit], dtype=bool))
        result.attrs |= {"refitted": 0, "unconverged": 0}
    for (name, places), (elpd, settled) in zip(owners, done, strict=True):
        result = found[name]
        result["p"].values[places] += result["elpd"].values[places] - elpd
        result["elpd"].values[places] = elpd
        result["refitted"].values[places] = True
        result.attrs["refitted"] += len(places)
        result.attrs["unconverged"] += not settled
    for result in found.values():
        left = bad_k(result["pareto_k"].values) & ~result["refitted"].values
        pointwise = result["elpd"].values
        sums = {"elpd": float(pointwise.sum()), "p": float(result["p"].sum())}
        result.attrs |= sums | {"se": standard_error(pointwise), "bad_k": int(left.sum())}
    return found


def _tasks(fit: xr.DataTree, result: xr.Dataset, budget: int) -> list[tuple[_Refit, np.ndarray]]:
    """List the fits that a result needs, each with the places of its units."""
    from measurebayes.inference.results import model_of

    unit = result.attrs["unit"]
    bad = np.flatnonzero(bad_k(result["pareto_k"].values))
    if not len(bad):
        return []
    lacks = [name for name in _SETTINGS if name not in fit.attrs]
    if lacks:
        raise InputError(
            f"the fit does not tell its {', '.join(lacks)}",
            where="refits",
            expected="a fit of measurebayes.fit",
            remedy="fit again",
        )
    model, runs = model_of(fit), fit["data"].to_dataset()
    settings: dict[str, Any] = {
        name: str(x) if name in ("backend", "method") else int(x)
        for name, x in ((name, fit.attrs[name]) for name in _SETTINGS)
    }
    settings["priors"] = dict(model.priors)
    if unit == "attempt":
        kind = np.repeat(np.arange(len(outcomes(runs)[0])), outcomes(runs)[2])
    elif unit == "cell":
        kind = np.arange(runs.sizes["cell"])
    else:
        kind = np.unique(positions_by_axis(runs)[unit])
    names = [name for name in ("agent", "task", "family", "success") if name in result.coords]
    found = []
    for position in np.unique(kind[bad]):
        places = np.flatnonzero(kind == position)
        label = tuple(str(result[name].values[places[0]]) for name in names)
        task = _Refit(
            model.reference, runs, unit, label, int(position), settings, budget, model.sha256
        )
        found.append((task, places))
    return found


def _predict(task: _Refit) -> tuple[float, bool]:
    """Fit without a unit and return its log predictive density, and whether the fit converged."""
    from measurebayes.checks import converged

    settings = {name: x for name, x in task.settings.items() if name != "seed"}
    model = get_model(task.model)
    kept, held_out = _without(task)
    fit = fitted(model, kept, task.settings["seed"], settings)
    posterior = draws_of(fit, model)
    model = with_numbers(model, settings)
    if task.unit in ("cell", "attempt"):
        values = {str(name): posterior[name] for name in posterior.data_vars}
        terms = log_likelihood(model, held_out, values).values.reshape(1, -1)
    else:
        left = positions_by_axis(task.runs)[task.unit] == task.position
        terms = unit_log_likelihood(
            model, task.runs, posterior, task.unit, task.budget, left
        ).log_likelihood
    return float(log_mean(terms)[0]), converged(fit)


def _without(task: _Refit) -> tuple[xr.Dataset, xr.Dataset]:
    """Return the data without a unit, and the unit's cells."""
    runs = task.runs
    attempts, successes = runs["attempts"].values.copy(), runs["successes"].values.copy()
    if task.unit == "attempt":
        cell, success, _ = (x[task.position] for x in outcomes(runs))
        attempts[cell] -= 1
        successes[cell] -= success
        one = runs.isel(cell=[cell]).assign(attempts=("cell", [1]), successes=("cell", [success]))
        return with_counts(runs, attempts, successes), one
    if task.unit == "cell":
        left = np.arange(runs.sizes["cell"]) == task.position
    else:
        left = positions_by_axis(runs)[task.unit] == task.position
    return runs.isel(cell=~left), runs.isel(cell=left)
