"""Exact cross-validation by groups of cells: fit without them, predict them."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Executor
from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from scipy.special import logsumexp

from measurebayes.errors import InputError
from measurebayes.program.registry import ModelFile

_STREAM = 6_180  # keeps these random numbers apart from others made from the same seed


class _Fold(NamedTuple):
    """All that one fit needs; picklable."""

    model: str
    runs: xr.Dataset
    held_out: np.ndarray  # (cell,)
    group: np.ndarray  # (cell,)
    seed: int
    settings: dict[str, Any]


def held_out_density(
    models: Mapping[str, ModelFile],
    runs: xr.Dataset,
    group: np.ndarray,
    folds: int = 5,
    seed: int = 0,
    executor: Executor | None = None,
    progress: bool = True,
    **settings: Any,
) -> xr.Dataset:
    """Log predictive density of each group of cells, from fits to the groups of other folds.

    All tasks and agents stay in the data, with what is known of them, when their cells are held
    out. Parameters of a task that has no cell left follow its population given each draw, so that
    the mean over draws integrates them out; that mean is noisy where a model has such parameters,
    and exact up to Monte Carlo error of the shared ones where it has none.

    Parameters
    ----------
    models : mapping of str to ModelFile
    runs : xr.Dataset
    group : np.ndarray
        Whole numbers, shape (cell,): cells of one group are held out and predicted together.
    folds : int
        Groups are dealt to this many folds at random, or to one fold each where there are fewer.
    seed : int
        Deals the folds, and seeds the fits.
    executor : concurrent.futures.Executor, optional
        Where the fits run; by default one after another in this process.
    progress : bool
        Show a bar on standard error.
    **settings
        Passed to `measurebayes.fit`.

    Returns
    -------
    xr.Dataset
        ``elpd`` (model, group): natural logarithms, binomial coefficients included; ``converged``
        (model, fold); ``fold_of_group`` (group,).

    Raises
    ------
    InputError
        There are fewer than two groups.
    """
    from measurebayes.checks.studies import run_tasks

    names, index = np.unique(group, return_inverse=True)
    if len(names) < 2:
        raise InputError(
            f"{len(names)} group of cells to hold out",
            where="cross-validation",
            expected="at least two families (or tasks, where families are unknown)",
            remedy="data of more families",
        )
    folds = min(folds, len(names))  # a fold that holds nothing out has nothing to say
    rng = np.random.default_rng([seed, _STREAM])
    fold_of = rng.permutation(len(names)) % folds
    tasks = [
        _Fold(model.reference, runs, fold_of[index] == fold, index, seed + fold, settings)
        for model in models.values()
        for fold in range(folds)
    ]
    done = run_tasks(_predict, tasks, executor, "Cross-validating", progress)
    density = np.full((len(models), len(names)), np.nan)
    for place, (values, _) in enumerate(done):
        row = density[place // folds]
        row[np.isfinite(values)] = values[np.isfinite(values)]
    settled = np.array([converged for _, converged in done]).reshape(len(models), folds)
    return xr.Dataset(
        {
            "elpd": (("model", "group"), density),
            "converged": (("model", "fold"), settled),
            "fold_of_group": ("group", fold_of),
        },
        {"model": list(models), "group": names},
    )


def _predict(fold: _Fold) -> tuple[np.ndarray, bool]:
    """Return the log predictive density of held-out groups (group,), NaN for others."""
    from measurebayes.backends.evaluate import log_likelihood
    from measurebayes.checks import converged
    from measurebayes.inference import fit
    from measurebayes.program.registry import get_model

    model = get_model(fold.model)
    found = fit(
        model,
        fold.runs.isel(cell=~fold.held_out),
        seed=fold.seed,
        unconnected="fit",  # what a fold leaves may fall into pieces; priors relate them
        **{"progress": False, **fold.settings},
    )
    posterior = found["posterior"].to_dataset()
    drawn = {str(name): posterior[name] for name in posterior.data_vars}
    left = fold.runs.isel(cell=fold.held_out)
    terms = log_likelihood(model, left, drawn).values.reshape(-1, left.sizes["cell"])
    density = np.full(int(fold.group.max()) + 1, np.nan)
    group = fold.group[fold.held_out]
    for one in np.unique(group):
        total = terms[:, group == one].sum(axis=1)
        density[one] = logsumexp(total) - np.log(len(total))
    return density, converged(found)
