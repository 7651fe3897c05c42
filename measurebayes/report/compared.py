"""The comparison as rows and as a plain sentence."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
import xarray as xr

from measurebayes.errors import InputError, MeasureBayesError
from measurebayes.report.text import number, shown

COLUMNS = ("elpd", "se", "elpd_diff", "dse", "p", "weight", "unit", "bad_k")
# A difference under 4 is small whatever its standard error says, which then is unreliable:
# Sivula, Magnusson, Matamoros and Vehtari (2020), doi:10.48550/arXiv.2008.10296.
SMALL = 4.0
UNITS_LEFT_OUT = {
    "cell": "one agent's attempts at one task",
    "attempt": "one attempt",
    "task": "all attempts at one task",
    "family": "all attempts at one family of tasks",
    "agent": "all attempts of one agent",
}


def comparison_context(
    fits: Mapping[str, xr.DataTree],
    comparison: pd.DataFrame | None,
    doubtful: Sequence[str] = (),
) -> dict[str, Any] | None:
    """Return rows and sentences, or what kept the fits from being compared.

    Parameters
    ----------
    fits : mapping of str to DataTree
    comparison : DataFrame, optional
    doubtful : sequence of str
        Names of fits that have not converged.

    Returns
    -------
    dict or None
        Keys rows, sentences, warnings, problem; None where there is one fit and no comparison.
    """
    if comparison is None:
        if len(fits) < 2:
            return None
        from measurebayes.compare import ComparisonWarning, compare

        try:
            with warnings.catch_warnings():  # the page shows their texts
                warnings.simplefilter("ignore", ComparisonWarning)
                comparison = compare(dict(fits))
        except MeasureBayesError as error:
            # The rest of the page is still worth having; the page says why this part is missing.
            return {"rows": [], "sentences": [], "warnings": [], "problem": str(error)}
    missing = [column for column in COLUMNS if column not in comparison]
    if missing:
        raise InputError(
            f"no column {', '.join(missing)}",
            where="comparison",
            expected="the columns " + ", ".join(COLUMNS),
            remedy="pass what mb.compare returned",
        )
    records = comparison.to_dict("records")
    return {
        "rows": [
            {"name": str(name), **row} for name, row in zip(comparison.index, records, strict=True)
        ],
        "sentences": _doubts(comparison, doubtful) + sentences(comparison),
        "warnings": comparison.attrs.get("warnings", bad_k_sentences(comparison)),
        "problem": "",
    }


def _doubts(comparison: pd.DataFrame, doubtful: Sequence[str]) -> list[str]:
    names = [shown(name) for name in doubtful if name in comparison.index]
    if not names:
        return []
    return [f"This comparison can't be trusted, since the draws of {' and '.join(names)} can't."]


def sentences(comparison: pd.DataFrame) -> list[str]:
    """Say in plain words what a comparison means.

    Parameters
    ----------
    comparison : DataFrame
        Indexed by model, best first, as ``measurebayes.compare`` returns it.
    """
    unit = UNITS_LEFT_OUT.get(str(comparison["unit"].iloc[0]), "data")
    best = shown(comparison.index[0])
    return [
        _difference(best, shown(name), abs(row["elpd_diff"]), row["dse"], unit)
        for name, row in comparison.iloc[1:].iterrows()
    ]


def bad_k_sentences(comparison: pd.DataFrame) -> list[str]:
    """Say of which models' terms importance sampling is unreliable."""
    return [
        f"{shown(name)}: Pareto k is over 0.7 for {int(row['bad_k'])} of the units left out, so "
        "their terms, and differences of a few units, can't be trusted."
        for name, row in comparison.iterrows()
        if row["bad_k"] > 0
    ]


def _difference(best: str, other: str, difference: float, dse: float, unit: str) -> str:
    sizes = f"{number(difference, 1)} (standard error {number(dse, 1)})"
    if difference < SMALL:
        return (
            f"{best} and {other} predict unseen data equally well ({unit}, left out at a time): "
            f"their expected log predictive densities differ by {sizes}, and a difference under "
            f"{SMALL:g} is small."
        )
    if difference < 2 * dse:
        return (
            f"{best} may predict unseen data better than {other} ({unit}, left out at a time), but "
            f"the difference of {sizes} in expected log predictive density is less than two "
            "standard errors: the data don't tell them apart."
        )
    times = f", {number(difference / dse, 1)} standard errors" if dse > 0 else ""
    return (
        f"{best} predicts unseen data better than {other} ({unit}, left out at a time): its "
        f"expected log predictive density is higher by {sizes}{times}."
    )
