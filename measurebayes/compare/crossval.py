"""Exact cross-validation: fit without some cells or attempts, predict them."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr

from measurebayes.backends.blocks import USUAL, in_bytes
from measurebayes.backends.evaluate import log_likelihood
from measurebayes.compare.inputs import check_folds, check_runs, check_units, named_models
from measurebayes.compare.integrated import unit_log_likelihood
from measurebayes.compare.own import OWN_AXES
from measurebayes.compare.psis import draws_of, log_mean, standard_error
from measurebayes.errors import InputError
from measurebayes.program.registry import ModelFile, get_model

FOLDS, SPLITS = 10, 3  # by default
LIVE = 6  # arrays of draws by a block of cells at once
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
    budget: int = USUAL


def crossval(
    models: str | Sequence[str] | Mapping[str, str],
    runs: xr.Dataset,
    folds: str = "family",
    k: int | None = None,
    seed: int = 0,
    executor: Executor | None = None,
    progress: bool = True,
    checkpoint: str | Path | None = None,
    memory: int | str | None = None,
    **settings: Any,
) -> pd.DataFrame:
    """Compare models by fitting each without a part of the data and predicting that part.

    Where importance sampling can't be trusted (Pareto k over 0.7 in `compare`), this can. It takes
    k fits a model. The own parameters of tasks, families and agents that are predicted are
    integrated out.

    Parameters
    ----------
    models
        Names of models (with options: ``"horizon_trend:shape=linear"``), a single one or each once,
        or a mapping to them.
    runs
        The data.
    folds
        What is left out: ``"task"``, ``"family"``, ``"agent"``, ``"cell"`` (one agent at one task)
        or ``"attempt"``, dealt to k folds at random; or ``"half-attempts"``: the attempts of every
        cell are dealt to two halves, models are fitted to the first and predict the second.
    k
        Number of folds, by default 10; one unit a fold where there are fewer. Of ``half-attempts``
        the number of random splits, by default 3.
    seed
        Deals the folds, and seeds the fits.
    executor
        Where the fits run: any `concurrent.futures.Executor` whose processes start afresh.
    progress
        Show a bar on standard error.
    checkpoint
        File to which what each fit predicted is added when it is done, and from which that of the
        same fits is taken.
    memory
        What temporary arrays of draws by cells may take together, such as "2GiB" or "500MB"; 128
        MiB by default, in each process. Changes no result.
    **settings
        Passed to `measurebayes.fit`.

    Returns
    -------
    pandas.DataFrame
        As `compare` returns: index model, best first; elpd, se, elpd_diff, dse, weight, unit, and
        unconverged (number of fits whose draws can't be trusted: see `measurebayes.check`). Of
        attempts also log_likelihood: that of the attempts, one by one, under the posterior mean
        probability of success (no binomial coefficient), while elpd is the log of the mean density
        of each cell's attempts together; of ``half-attempts`` all are means over the splits.
        ``attrs["pointwise"]``: the elpd of every unit (of attempts: of every cell) by model;
        ``attrs["integral_error"]``: by model, as `loo` has it; ``attrs["splits"]``: log_likelihood
        and elpd by model and split; ``attrs["warnings"]``: in words what to be careful about.

    Raises
    ------
    InputError
        There are fewer than two units, models or data are none, a model has a parameter that
        can't be integrated out, the checkpoint is no file of results, or `memory` no size.
    ExecutorError
        Processes of the executor were killed. Results that were done are kept.

    Warns
    -----
    UnconvergedWarning
        For a model with fits whose convergence checks fail.
    """
    if folds not in (*OWN_AXES, "cell", "attempt", "half-attempts"):
        raise InputError(
            f"folds={folds!r}",
            where="crossval",
            expected=f"one of {', '.join(OWN_AXES)}, cell, attempt, half-attempts",
            remedy='folds="family"',
        )
    check_folds(k, folds, seed)
    files, budget = named_models(models), in_bytes(memory)
    check_runs(runs, "crossval")
    check_units(runs, "cell" if folds == "half-attempts" else folds, "crossval")
    if "attempt" in folds:
        from measurebayes.compare.held_attempts import crossval_attempts

        k = k or (SPLITS if folds == "half-attempts" else FOLDS)
        return crossval_attempts(
            files, runs, folds, k, seed, executor, progress, checkpoint, budget, **settings
        )
    if folds == "cell":
        group, unit = np.arange(runs.sizes["cell"]), None
    else:
        at = runs["agent_index" if folds == "agent" else "task_index"].values
        group, unit = runs["family_index"].values[at] if folds == "family" else at, folds
    found = held_out_density(
        files,
        runs,
        group,
        k or FOLDS,
        seed,
        executor,
        progress,
        unit,
        checkpoint,
        budget,
        **settings,
    )
    if folds == "cell":
        names = [runs[name].values[runs[f"{name}_index"].values] for name in ("agent", "task")]
        labels: pd.Index = pd.MultiIndex.from_arrays(names, names=["agent", "task"])
    else:
        labels = pd.Index(runs[folds].values[found["group"].values], name=folds)
    elpd = {name: found["elpd"].sel(model=name).values for name in files}
    table = tabulated(pd.DataFrame(elpd, labels), folds)
    unconverged = (~found["converged"]).sum("fold").to_series()
    table["unconverged"] = unconverged.reindex(table.index)
    table.attrs["integral_error"] = found["integral_error"].to_series().to_dict()
    warn_unsettled(table, found.sizes["fold"], settings)
    return table


def warn_unsettled(
    table: pd.DataFrame, fits: int, settings: Mapping[str, Any], stacklevel: int = 3
) -> None:
    """Warn of models with fits that can't be trusted, and keep the texts with the table.

    Parameters
    ----------
    table
        With the column unconverged.
    fits
        How many there are of each model.
    settings
        Of the fits: an engine that approximates has nothing that converges.
    stacklevel
        How many calls up the user's own lies.

    Warns
    -----
    UnconvergedWarning
    """
    from measurebayes.compare import UnconvergedWarning

    if settings.get("method", "nuts") == "nuts":
        what, remedy = "have not converged", "More draws may settle it."
    else:
        what, remedy = "are poor approximations", 'method="nuts" settles it.'
    table.attrs["warnings"] = [
        f"{name!r}: {number} of {fits} fits {what}: their terms can't be trusted. {remedy}"
        for name, number in table["unconverged"].items()
        if number
    ]
    for text in table.attrs["warnings"]:
        warnings.warn(text, UnconvergedWarning, stacklevel=stacklevel)


def tabulated(pointwise: pd.DataFrame, unit: str) -> pd.DataFrame:
    """Make the table of a comparison from the elpd of every unit (unit, model)."""
    from measurebayes.compare import tabulate

    results = {}
    for name, column in pointwise.items():
        elpd = column.to_numpy()
        attrs = {"elpd": float(elpd.sum()), "se": standard_error(elpd), "p": np.nan, "bad_k": 0}
        results[str(name)] = xr.Dataset({"elpd": ("unit", elpd)}, attrs=attrs)
    table = tabulate(results, unit).drop(columns=["p", "bad_k"])
    table.attrs["pointwise"] = pointwise
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
    checkpoint: str | Path | None = None,
    budget: int = USUAL,
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
        out at each draw.
    checkpoint : str or Path, optional
        As for `crossval`.
    budget : int
        Bytes that temporary arrays of draws by cells may take together.
    **settings
        Passed to `measurebayes.fit`.

    Returns
    -------
    xr.Dataset
        ``elpd`` (model, group): natural logarithms, binomial coefficients included; ``converged``
        (model, fold); ``fold_of_group`` (group,); ``integral_error`` (model,).

    Raises
    ------
    InputError
        There are fewer than two groups.
    """
    from measurebayes.checks.finished import Finished
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
            model.reference,
            runs,
            fold_of[index] == fold,
            index,
            seed + fold,
            settings,
            unit,
            budget,
        )
        for model in models.values()
        for fold in range(folds)
    ]
    finished = Finished(["crossval", *(model.sha256 for model in models.values())], checkpoint)
    done = run_tasks(_predict, tasks, executor, "Cross-validating", progress, finished)
    density = np.full((len(models), len(names)), np.nan)
    for place, (values, _, _) in enumerate(done):
        row = density[place // folds]
        row[np.isfinite(values)] = values[np.isfinite(values)]
    settled, errors = (
        np.array([one[i] for one in done]).reshape(len(models), folds) for i in (1, 2)
    )
    return xr.Dataset(
        {
            "elpd": (("model", "group"), density),
            "converged": (("model", "fold"), settled),
            "fold_of_group": ("group", fold_of),
            "integral_error": ("model", errors.max(axis=1)),
        },
        {"model": list(models), "group": names},
    )


def fitted(
    model: ModelFile, runs: xr.Dataset, seed: int, settings: Mapping[str, Any]
) -> xr.DataTree:
    """Fit a model to what is left of the data."""
    from measurebayes.inference import fit

    # What is left of the data may fall in pieces; the priors hold these together.
    return fit(model, runs, seed=seed, **{"progress": False, "unconnected": "fit", **settings})


def with_numbers(model: ModelFile, settings: Mapping[str, Any]) -> ModelFile:
    """Return the model with the priors of the fits."""
    return replace(model, priors=model.with_priors(settings.get("priors")))


def _predict(fold: _Fold) -> tuple[np.ndarray, bool, float]:
    """Predict held-out groups.

    Returns
    -------
    tuple
        Log predictive density (group,), NaN for others; whether the fit has converged; and the
        error of its integrals.
    """
    from measurebayes.checks import converged

    model = get_model(fold.model)
    found = fitted(model, fold.runs.isel(cell=~fold.held_out), fold.seed, fold.settings)
    posterior = draws_of(found, model)
    density = np.full(int(fold.group.max()) + 1, np.nan)
    group = fold.group[fold.held_out]
    if fold.unit is not None:
        model = with_numbers(model, fold.settings)
        whole = unit_log_likelihood(
            model, fold.runs, posterior, fold.unit, fold.budget, fold.held_out
        )
        density[np.unique(group)] = log_mean(whole.log_likelihood)
        return density, converged(found), whole.error
    left = fold.runs.isel(cell=fold.held_out)
    values = {str(name): posterior[name] for name in posterior.data_vars}
    draws = posterior.sizes["chain"] * posterior.sizes["draw"]
    step = max(1, fold.budget // (8 * LIVE * draws))
    order = np.argsort(group, kind="stable")
    total: dict[int, np.ndarray] = {}  # of the group that the last block ended in
    for start in range(0, len(order), step):
        at = order[start : start + step]
        terms = log_likelihood(model, left.isel(cell=at), values).values.reshape(draws, -1)
        here, first = np.unique(group[at], return_index=True)
        for one, add in zip(here, np.add.reduceat(terms, first, axis=1).T, strict=True):
            total = {one: total.get(one, 0.0) + add}
            density[one] = log_mean(total[one])
    return density, converged(found), 0.0
