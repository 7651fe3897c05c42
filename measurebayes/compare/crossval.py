"""Exact cross-validation by groups of cells: fit without them, predict them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr
from scipy.special import logsumexp

from measurebayes.compare.integrated import DRAWS, LEVELS, at_draws, rules, thinned
from measurebayes.compare.psis import BUDGET
from measurebayes.errors import InputError
from measurebayes.program.registry import ModelFile, get_model

_STREAM = 6_180  # keeps these random numbers apart from others made from the same seed


class _Fold(NamedTuple):
    """All that one fit needs; picklable."""

    model: str
    runs: xr.Dataset
    held_out: np.ndarray  # (cell,)
    group: np.ndarray  # (cell,)
    seed: int
    settings: dict[str, Any]
    unit: str | None = None
    rules: Mapping[str, Any] | None = None


def crossval(
    models: Sequence[str] | Mapping[str, str],
    runs: xr.Dataset,
    folds: str = "family",
    k: int = 10,
    seed: int = 0,
    executor: Executor | None = None,
    progress: bool = True,
    **settings: Any,
) -> pd.DataFrame:
    """Compare models by exact K-fold cross-validation of whole tasks, families or agents.

    Where importance sampling can't be trusted (Pareto k over 0.7 in `compare`), this can: each
    model is fitted without a fold, and predicts the successes of every unit in it with the unit's
    own parameters integrated out. It takes k + 1 fits a model; the first, to all data, tells where
    the integrals have their mass.

    Parameters
    ----------
    models
        Names of models (with options: ``"horizon_trend:shape=linear"``), or a mapping to them.
    runs
        The data.
    folds
        What is left out: ``"task"``, ``"family"`` or ``"agent"``.
    k
        Number of folds to which units are dealt at random; one unit a fold where there are fewer.
    seed
        Deals the folds, and seeds the fits.
    executor
        Where the fits of folds run: any `concurrent.futures.Executor` whose processes start afresh.
    progress
        Show a bar on standard error.
    **settings
        Passed to `measurebayes.fit`.

    Returns
    -------
    pandas.DataFrame
        As `compare` returns: index model, best first; elpd, se, elpd_diff, dse, weight, unit, and
        unconverged (number of folds whose fit has not converged). ``attrs["pointwise"]``: the elpd
        of every unit by model.

    Raises
    ------
    InputError
        There are fewer than two units, or a model has a parameter that can't be integrated out.
    """
    from measurebayes.compare import tabulate
    from measurebayes.compare.psis import standard_error

    if folds not in LEVELS:
        raise InputError(
            f"folds={folds!r}",
            where="crossval",
            expected=f"one of {', '.join(LEVELS)}",
            remedy='folds="family"',
        )
    named = dict(models) if isinstance(models, Mapping) else {str(m): m for m in models}
    at = runs["agent_index" if folds == "agent" else "task_index"].values
    group = runs["family_index"].values[at] if folds == "family" else at
    found = held_out_density(
        {name: get_model(model) for name, model in named.items()},
        runs, group, k, seed, executor, progress, folds, **settings,
    )  # fmt: skip
    results = {}
    for name in named:
        elpd = found["elpd"].sel(model=name).values
        attrs = {"elpd": float(elpd.sum()), "se": standard_error(elpd), "p": np.nan, "bad_k": 0}
        results[name] = xr.Dataset({"elpd": (folds, elpd)}, attrs=attrs)
    table = tabulate(results, folds).drop(columns=["p", "bad_k"])
    unconverged = (~found["converged"]).sum("fold").to_series()
    table["unconverged"] = unconverged.reindex(table.index)
    labels = runs[folds].values[found["group"].values]
    pointwise = {name: result["elpd"].values for name, result in results.items()}
    table.attrs["pointwise"] = pd.DataFrame(pointwise, index=pd.Index(labels, name=folds))
    return table


def held_out_density(
    models: Mapping[str, ModelFile],
    runs: xr.Dataset,
    group: np.ndarray,
    folds: int = 5,
    seed: int = 0,
    executor: Executor | None = None,
    progress: bool = True,
    unit: str | None = None,
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
    unit : str, optional
        "task", "family" or "agent", if groups are those: then their own parameters are integrated
        out at each draw, around where a fit to all data has them.
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
        _Fold(
            model.reference, runs, fold_of[index] == fold, index, seed + fold, settings, unit, own
        )
        for model in models.values()
        for own in [_rules_of(model, runs, unit, seed, settings)]
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


def _rules_of(
    model: ModelFile, runs: xr.Dataset, unit: str | None, seed: int, settings: Mapping[str, Any]
) -> Mapping[str, Any] | None:
    if unit is None:
        return None
    whole = _fitted(model, runs, seed, settings)
    return rules(_with_numbers(model, settings), runs, whole["posterior"].to_dataset(), unit)


def _fitted(
    model: ModelFile, runs: xr.Dataset, seed: int, settings: Mapping[str, Any]
) -> xr.DataTree:
    from measurebayes.inference import fit

    # What is left of the data may fall in pieces; the priors hold these together.
    return fit(model, runs, seed=seed, **{"progress": False, "unconnected": "fit", **settings})


def _with_numbers(model: ModelFile, settings: Mapping[str, Any]) -> ModelFile:
    """Return the model with the priors of the fits."""
    return replace(model, priors=model.with_priors(settings.get("priors")))


def _predict(fold: _Fold) -> tuple[np.ndarray, bool]:
    """Return the log predictive density of held-out groups (group,), NaN for others."""
    from measurebayes.backends.evaluate import log_likelihood
    from measurebayes.checks import converged

    model = get_model(fold.model)
    found = _fitted(model, fold.runs.isel(cell=~fold.held_out), fold.seed, fold.settings)
    posterior = found["posterior"].to_dataset()
    left = fold.runs.isel(cell=fold.held_out)
    density = np.full(int(fold.group.max()) + 1, np.nan)
    group = fold.group[fold.held_out]
    if fold.unit is not None and fold.rules is not None:
        model, drawn = _with_numbers(model, fold.settings), thinned(posterior, DRAWS)
        terms = at_draws(model, left, drawn, fold.unit, fold.rules, BUDGET)
        density[np.unique(group)] = logsumexp(terms, axis=1) - np.log(terms.shape[1])
        return density, converged(found)
    values = {str(name): posterior[name] for name in posterior.data_vars}
    terms = log_likelihood(model, left, values).values.reshape(-1, left.sizes["cell"])
    for one in np.unique(group):
        total = terms[:, group == one].sum(axis=1)
        density[one] = logsumexp(total) - np.log(len(total))
    return density, converged(found)
