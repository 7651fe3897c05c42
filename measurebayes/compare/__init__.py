"""Which model predicts best: leave-one-out comparison of fits to the same data."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from concurrent.futures import Executor
    from pathlib import Path

    import pandas as pd
    import xarray as xr

__all__ = ["ComparisonWarning", "UnconvergedWarning", "compare", "loo"]


INTEGRAL_LIMIT = 0.2  # units of elpd
_PLURALS = {
    "cell": "cells",
    "attempt": "attempts",
    "task": "tasks",
    "family": "families",
    "agent": "agents",
}


class ComparisonWarning(UserWarning):
    """A comparison whose numbers must be read with care."""


class UnconvergedWarning(ComparisonWarning):
    """A comparison includes a fit whose sampler has not converged, or a poor approximation."""


def loo(fit: xr.DataTree, unit: str = "cell", **options: Any) -> xr.Dataset:
    """Leave-one-out predictive density of each unit; see `measurebayes.compare.psis.loo`."""
    from measurebayes.compare import psis

    return psis.loo(fit, unit, **options)


def compare(
    fits: Mapping[str, xr.DataTree],
    unit: str = "cell",
    memory: int | str | None = None,
    refit: bool = False,
    executor: Executor | None = None,
    progress: bool = True,
    checkpoint: str | Path | None = None,
) -> pd.DataFrame:
    """Compare fits of the same data by leave-one-out cross-validation. Higher elpd is better.

    Parameters
    ----------
    fits : mapping of str to xr.DataTree
        Fits by name; one alone is allowed.
    unit : {"cell", "attempt", "task", "family", "agent"}
        What is left out: one agent's attempts at one task, one of these attempts, or all of one
        task, family or agent. For whole tasks, families and agents their own parameters are
        integrated out.
    memory : int or str, optional
        What temporary arrays of draws by cells may take together, such as "2GiB" or "500MB"; 128
        MiB by default. Changes no result. Processes of an executor take as much each.
    refit : bool
        Whether to fit again, with the settings of each fit, without every unit whose Pareto k is
        over 0.7, for its exact term: a fit a unit and model.
    executor : concurrent.futures.Executor, optional
        Where these fits run: any executor whose processes start afresh; by default one after
        another in this process.
    progress : bool
        Show bars of these fits, and of the integrals over parameters of whole units, on standard
        error.
    checkpoint : str or Path, optional
        File (JSON lines) to which each term is added when it is done: a new one, or one that holds
        nothing but terms. Terms of the same fits that are there already are taken from it.

    Returns
    -------
    pd.DataFrame
        Index model, best first. Columns: elpd (expected log predictive density, summed over units,
        binomial coefficient included), se (its standard error), elpd_diff (0 for the best, else
        negative), dse (standard error of the difference, paired over units), p (effective number
        of parameters), weight (stacking), unit, bad_k (units with Pareto k over 0.7
        that were not fitted again); with `refit` also refitted (units that were).
        ``attrs["warnings"]`` lists in words what to be careful about.

    Raises
    ------
    InputError
        Without fits, for fits to different data, an unknown unit, one with parameters that can't
        be integrated out, or one that the data have only one of; for a memory that is no size; or
        for a checkpoint that is no file of terms, which then stays as it is.

    Warns
    -----
    UnconvergedWarning
        For a fit whose convergence checks fail.
    ComparisonWarning
        Where the importance sampling of some units, or an integral, can't be trusted.

    References
    ----------
    Vehtari, Gelman, Gabry (2017), doi:10.1007/s11222-016-9696-4; Vehtari et al. (2024), JMLR
    25(72); Yao et al. (2018), doi:10.1214/17-BA1091.
    """
    from measurebayes.backends.blocks import in_bytes
    from measurebayes.checks.finished import check_results
    from measurebayes.checks.studies import share_bar
    from measurebayes.compare import psis
    from measurebayes.compare.inputs import check_units

    psis.check_unit(unit)
    in_bytes(memory)
    fits = same_data(fits)
    check_units(next(iter(fits.values()))["data"].to_dataset(), unit, "compare")
    if refit and checkpoint is not None:
        check_results(checkpoint)  # integrals and refits take minutes to hours
    results = {}
    for name, fit in fits.items():
        whole = progress and unit not in ("cell", "attempt")
        with share_bar(f"{name}: integrals by {unit}", whole) as done:
            results[name] = psis.loo(fit, unit, memory, done)
    if refit:
        from measurebayes.compare.refits import refitted

        results = refitted(fits, results, executor, progress, checkpoint, memory)
    table = tabulate(results, unit)
    if refit:
        table["refitted"] = [results[name].attrs["refitted"] for name in table.index]
    notes = [*unconverged(fits), *_untrusted(results)]
    table.attrs["warnings"] = [text for _, text in notes]
    for category, text in notes:
        warnings.warn(text, category, stacklevel=2)
    return table


def tabulate(results: Mapping[str, xr.Dataset], unit: str = "cell") -> pd.DataFrame:
    """Table of `compare` from results of `loo`, in the same order of cells.

    Parameters
    ----------
    results : mapping of str to xr.Dataset
    unit : str
    """
    import numpy as np
    import pandas as pd

    from measurebayes.compare.psis import standard_error
    from measurebayes.compare.stacking import stacking_weights

    names = sorted(results, key=lambda name: -results[name].attrs["elpd"])
    pointwise = np.stack([results[name]["elpd"].values for name in names], axis=1)
    best = pointwise[:, 0]
    rows = {
        name: {
            "elpd": results[name].attrs["elpd"],
            "se": results[name].attrs["se"],
            "elpd_diff": float((column - best).sum()),
            "dse": standard_error(column - best),
            "p": results[name].attrs["p"],
            "weight": float(weight),
            "unit": unit,
            "bad_k": results[name].attrs["bad_k"],
        }
        for name, column, weight in zip(
            names, pointwise.T, stacking_weights(pointwise), strict=True
        )
    }
    table = pd.DataFrame.from_dict(rows, orient="index")
    table.index.name = "model"
    return table


def same_data(fits: Mapping[str, xr.DataTree]) -> dict[str, xr.DataTree]:
    """Return fits as a dict, which must be of the same data.

    Raises
    ------
    InputError
        Something is no fit, or a fit is of other data than the first.
    """
    from measurebayes.compare.inputs import named_fits
    from measurebayes.errors import InputError
    from measurebayes.inference.results import of_other_data

    fits = named_fits(fits)
    name = of_other_data(fits)
    if name is not None:
        first = next(iter(fits))
        raise InputError(
            f"{name!r} ({_data_name(fits[name])}) was fitted to other data than "
            f"{first!r} ({_data_name(fits[first])})",
            where="fits",
            expected="fits of the same cells: predictive densities of different data differ "
            "for other reasons than the model",
            remedy="fit both models to the same runs",
        )
    return fits


def _data_name(fit: xr.DataTree) -> str:
    return f"{fit.attrs.get('data_name') or 'unnamed data'}, {fit['data'].sizes['cell']} cells"


def unconverged(fits: Mapping[str, xr.DataTree]) -> list[tuple[type[Warning], str]]:
    """Return what is to be warned of, for every fit whose convergence checks fail.

    Parameters
    ----------
    fits : mapping of str to xr.DataTree
    """
    from measurebayes.checks.approximation import doubt
    from measurebayes.checks.convergence import convergence, failures

    notes: list[tuple[type[Warning], str]] = []
    for name, fit in fits.items():
        failed = failures(convergence(fit))
        if failed:
            text = (
                f"{name!r} {doubt(fit)} ({', '.join(row.name for row in failed)}): its "
                f"numbers can't be trusted. {failed[0].text}"
            )
            notes.append((UnconvergedWarning, text))
    return notes


def _untrusted(results: Mapping[str, xr.Dataset]) -> list[tuple[type[Warning], str]]:
    from measurebayes.compare.psis import K_LIMIT

    notes: list[tuple[type[Warning], str]] = []
    for name, result in results.items():
        bad = result.attrs["bad_k"]
        if bad:
            at = int(result["pareto_k"].fillna(float("inf")).values.argmax())
            unit, plural = result.attrs["unit"], _PLURALS[result.attrs["unit"]]
            names = ("agent", "task") if unit == "cell" else (unit,)
            worst = " at ".join(str(result[name].values[at]) for name in names)
            text = (
                f"{name!r}: Pareto k is over {K_LIMIT} for {bad} of {result.attrs['n_units']} "
                f"{plural} (worst: {worst}), so their terms, and differences of a few units of "
                "elpd, can't be trusted. Nothing was done about it: more draws help a little; what "
                f"settles it is fitting again without these {plural}, one by one: "
                f'mb.compare(fits, unit="{unit}", refit=True), or in groups: '
                f'mb.crossval(models, runs, folds="{unit}").'
            )
            notes.append((ComparisonWarning, text))
        unsettled = result.attrs.get("unconverged", 0)
        if unsettled:
            text = (
                f"{name!r}: {unsettled} of the fits without a unit can't be trusted, nor can their "
                "terms. More draws of the fit may settle it."
            )
            notes.append((UnconvergedWarning, text))
        error = result.attrs["integral_error"]
        if error > INTEGRAL_LIMIT:
            text = (
                f"{name!r}: integrals over the own parameters of {_PLURALS[result.attrs['unit']]} "
                f"change by up to {error:.2f} with more nodes (root mean square over draws, of the "
                "worst), so differences of that size can't be trusted."
            )
            notes.append((ComparisonWarning, text))
    return notes
