"""The section "Families": how much agents differ in each, of fits with effects of families."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from measurebayes.errors import InputError
from measurebayes.report.summary import data_of, has_each, posterior_of
from measurebayes.report.text import interval, number, shown

SPREAD = "testlet_sd"
QUANTILES = (0.05, 0.5, 0.95)
MOST_ROWS = 2000  # of the table


def families_context(
    fits: Mapping[str, xr.DataTree], doubtful: Sequence[str] = ()
) -> list[dict[str, Any]]:
    """Return what the section shows, one item a fit with effects of agents in families.

    Parameters
    ----------
    fits : mapping of str to DataTree
    doubtful : sequence of str
        Names of fits that have not converged.
    """
    return [
        _context(name, fit, name in doubtful)
        for name, fit in fits.items()
        if has_each(fit, SPREAD, "family")
    ]


def spreads(fit: xr.DataTree) -> pd.DataFrame:
    """Return the spread of agents' effects in every family, the largest first.

    Returns
    -------
    DataFrame
        Columns name, tasks, median, low, high (90 % interval), in logits.

    Raises
    ------
    InputError
        The model has no effects of agents in families.
    """
    if not has_each(fit, SPREAD, "family"):
        raise InputError(
            f"no variable {SPREAD} of each family",
            where=f"the posterior of model {fit.attrs.get('model', '')}",
            expected="a model with effects of agents in families",
            remedy="fit testlet or bifactor",
        )
    data = data_of(fit)
    draws = posterior_of(fit)[SPREAD].transpose("family", "chain", "draw").values
    low, median, high = np.quantile(draws.reshape(len(draws), -1), QUANTILES, axis=1)
    tasks = np.bincount(data["family_index"].values, minlength=len(draws))
    columns = {"name": data["family"].values.astype(str), "tasks": tasks, "median": median}
    table = pd.DataFrame({**columns, "low": low, "high": high})
    return table.sort_values("median", ascending=False, kind="stable", ignore_index=True)


def _context(name: str, fit: xr.DataTree, doubtful: bool) -> dict[str, Any]:
    from markupsafe import Markup

    from measurebayes.report.dimension_figures import MOST_FAMILIES, plot_families
    from measurebayes.report.figure import to_svg

    table = spreads(fit)
    words = (
        f"Spreads of agents' effects by family, of model {name}: medians with 90\u202f% intervals, "
        "in logits. The table below holds the numbers."
    )
    return {
        "name": name,
        "doubtful": doubtful,
        "lead": _lead(fit, table),
        "single": int((table["tasks"] == 1).sum()),
        "rows": [
            {
                "name": row["name"],
                "cells": [
                    number(row["tasks"], 0),
                    number(row["median"]),
                    interval(row["low"], row["high"]),
                ],
            }
            for row in table.head(MOST_ROWS).to_dict("records")
        ],
        "total": len(table),
        "drawn": min(len(table), MOST_FAMILIES),
        "figure": Markup(to_svg(plot_families(fit), words)),
    }


def _lead(fit: xr.DataTree, table: pd.DataFrame) -> str:
    """Say what a spread is, and the largest one."""
    first = table.iloc[0]
    where = " (where family loadings are 1)" if "family_loading" in posterior_of(fit) else ""
    size = f"{number(first['median'])} logits"
    between = f"90\u202f% interval {interval(first['low'], first['high'])}"
    return (
        "The spread of a family is by how much agents are better or worse at its tasks together "
        f"than their abilities say{where}, as a standard deviation; near 0, its tasks are "
        f"independent given ability. The largest is that of {shown(first['name'])}, {size} "
        f"({between})."
    )
