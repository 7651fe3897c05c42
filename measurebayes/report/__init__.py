"""One self-contained HTML page about fits, the figures on it, and what to cite.

``import measurebayes.report`` is fast: matplotlib, Jinja2, ArviZ and jax are imported when a figure
is drawn or a page is written.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

    from measurebayes.checks.cancellation import Cancellation
    from measurebayes.report.cancellation import plot_cancellation, plot_triple
    from measurebayes.report.convergence import plot_ranks
    from measurebayes.report.curves import plot_icc, plot_predictive
    from measurebayes.report.dependence_figures import plot_dimensions, plot_pairs
    from measurebayes.report.dimension_figures import plot_families, plot_traits
    from measurebayes.report.horizon_figures import (
        plot_error_sensitivity,
        plot_horizons,
        plot_success,
        plot_trend,
    )
    from measurebayes.report.plots import plot_abilities, plot_difficulties, plot_wright

__all__ = [
    "cite",
    "plot_abilities",
    "plot_cancellation",
    "plot_difficulties",
    "plot_dimensions",
    "plot_error_sensitivity",
    "plot_families",
    "plot_horizons",
    "plot_icc",
    "plot_pairs",
    "plot_predictive",
    "plot_ranks",
    "plot_success",
    "plot_traits",
    "plot_trend",
    "plot_triple",
    "plot_wright",
    "report",
]

_PLOTS = {
    "plot_abilities": "measurebayes.report.plots",
    "plot_difficulties": "measurebayes.report.plots",
    "plot_dimensions": "measurebayes.report.dependence_figures",
    "plot_pairs": "measurebayes.report.dependence_figures",
    "plot_error_sensitivity": "measurebayes.report.horizon_figures",
    "plot_families": "measurebayes.report.dimension_figures",
    "plot_traits": "measurebayes.report.dimension_figures",
    "plot_horizons": "measurebayes.report.horizon_figures",
    "plot_success": "measurebayes.report.horizon_figures",
    "plot_trend": "measurebayes.report.horizon_figures",
    "plot_wright": "measurebayes.report.plots",
    "plot_icc": "measurebayes.report.curves",
    "plot_predictive": "measurebayes.report.curves",
    "plot_ranks": "measurebayes.report.convergence",
    "plot_cancellation": "measurebayes.report.cancellation",
    "plot_triple": "measurebayes.report.cancellation",
}


def report(
    fits: xr.DataTree | Sequence[xr.DataTree] | Mapping[str, xr.DataTree],
    path: str | Path = "report.html",
    comparison: pd.DataFrame | None = None,
    checks: pd.DataFrame | Mapping[str, pd.DataFrame] | None = None,
    cancellation: Cancellation | None = None,
) -> Path:
    """Write one self-contained HTML page about fits.

    The page loads nothing and runs no script. It holds a summary of the data, the comparison, what
    of local dependence each model misses, agents against agents, dimensions, families and time
    horizons where a model has them, the check of cancellation axioms, each model with its priors,
    abilities and difficulties with intervals, item characteristic curves, a Wright map, predictive
    checks, diagnostics, provenance and citations. A fit that has not converged gets a warning at
    the top.

    Parameters
    ----------
    fits : DataTree, sequence of DataTree, or mapping of names to DataTree
        A list is named by the fits' models, with a suffix (rasch-2) where names clash.
    path : str or Path
        File to write; it is replaced in one step.
    comparison : DataFrame, optional
        Result of ``measurebayes.compare``; made here where there are two fits or more.
    checks : DataFrame or mapping of names to DataFrame, optional
        Results of ``measurebayes.check`` (a DataFrame where there is one fit); made here where
        absent.
    cancellation : Cancellation, optional
        Result of ``measurebayes.cancellation``; made here where absent, against all fits and the
        point estimates rasch_ml and (where human minutes are known) common_slope.

    Returns
    -------
    Path
        The file.

    Raises
    ------
    InputError
        `fits` are no fits, `checks` or `cancellation` don't fit them, or `path` can't be written.
    MeasureBayesError
        Jinja2 or matplotlib is not installed; the message says how to install it.
    """
    from measurebayes.report.need import need
    from measurebayes.report.page import render, writable, write
    from measurebayes.report.sections import page_context
    from measurebayes.report.summary import named_fits

    need("jinja2", "matplotlib", why="writing a report")
    path = writable(path)
    named = named_fits(fits)
    _check_cancellation(cancellation, named)
    return write(path, render(page_context(named, comparison, checks, cancellation)))


def _check_cancellation(result: Any, fits: Mapping[str, xr.DataTree]) -> None:
    """Refuse what is no result of `measurebayes.cancellation`, or one of other data.

    A result may be of a part of the data, so agents and tasks may be fewer than in the fits.
    """
    from measurebayes.checks.cancellation import Cancellation
    from measurebayes.errors import InputError, shown

    remedy = "cancellation=mb.cancellation(runs, against=fits), or leave it out"
    if result is None:
        return
    if not isinstance(result, Cancellation):
        raise InputError(
            f"{shown(result)} is no result of a check",
            where="cancellation",
            expected="what measurebayes.cancellation returned",
            remedy=remedy,
        )
    if not any(_may_be_of(result, fit["data"].to_dataset()) for fit in fits.values()):
        raise InputError(
            "a check of other data than those of the fits",
            where="cancellation",
            expected="the agents and tasks of a fit, or a part of them",
            remedy=remedy,
        )


def _may_be_of(result: Cancellation, runs: xr.Dataset) -> bool:
    """Whether agents, tasks and attempts of a result can be those of data or a part of them."""
    checked, known = (set(each["agent"].values.tolist()) for each in (result.rates, runs))
    left = result.left_out["tasks_without_value"] + result.left_out["tasks_outside_bands"]
    tasks, attempts = int(result.bands["tasks"].sum()) + left, int(result.bands["attempts"].sum())
    size, total = runs.sizes["task"], int(runs["attempts"].sum())
    if checked == known and tasks == size and not left:
        return attempts == total
    return checked <= known and tasks <= size and attempts <= total


def cite(fit: xr.DataTree) -> str:
    """Return what to cite for a fit: data, measurebayes, sampler, ArviZ, and the model.

    Parameters
    ----------
    fit : DataTree

    Returns
    -------
    str
        Numbered references, one a line, with DOIs where there are any.

    Raises
    ------
    InputError
        `fit` is not a fit.
    """
    from measurebayes.report.citations import cite_text

    return cite_text(fit)


def __getattr__(name: str) -> Any:
    if name not in _PLOTS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_PLOTS[name]), name)
