"""The section "Dimensions": traits of agents and loadings of tasks, of fits that have several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from measurebayes.report.summary import data_of, json_attribute, posterior_of
from measurebayes.report.text import interval, number, share, shown

TAILS = (0.05, 0.95)  # of 90 % intervals
MOST_ROWS = 2000  # agents in a table
MOST_LOADINGS = 8  # tasks shown at each end of a dimension
PART_DRAWS = 400  # draws are enough for the part that each dimension takes


def has_dimensions(fit: xr.DataTree) -> bool:
    """Whether a fit has traits of agents and loadings of tasks on dimensions."""
    return dimensions_of(fit) > 0


def dimensions_of(fit: xr.DataTree) -> int:
    """Return how many dimensions a fit has; 0 of a model that speaks of none."""
    posterior = posterior_of(fit)
    for variable, dim in (("loading", "task"), ("trait", "agent")):
        wanted = {"chain", "draw", dim, "dimension"}
        if variable not in posterior or set(posterior[variable].dims) != wanted:
            return 0
    return posterior.sizes["dimension"]


def dimension_names(fit: xr.DataTree) -> list[str]:
    """Return what dimensions are called: labels that the data gave, or numbers from 1."""
    labels = posterior_of(fit)["dimension"].values
    if labels.dtype.kind in "iuf":
        return [f"Dimension {k + 1}" for k in range(len(labels))]
    return [str(label) for label in labels]


def rotatable(fit: xr.DataTree) -> bool:
    """Whether any task may load on any dimension, so that traits are in standard deviations."""
    return json_attribute(fit.attrs, "options").get("loadings", "explored") != "allowed"


def by_dimension(fit: xr.DataTree, variable: str, dim: str) -> tuple[np.ndarray, np.ndarray]:
    """Summarise a variable of each agent or task and dimension.

    Parameters
    ----------
    fit : DataTree
    variable, dim : str
        ``trait`` of ``agent``, or ``loading`` of ``task``.

    Returns
    -------
    ndarray, ndarray
        Means (entry, dimension), and ends of 90 % intervals (2, entry, dimension).
    """
    draws = posterior_of(fit)[variable].transpose("chain", "draw", dim, "dimension").values
    draws = draws.reshape(-1, *draws.shape[2:]).astype(float)
    return draws.mean(axis=0), np.quantile(draws, TAILS, axis=0)


def parts(fit: xr.DataTree) -> np.ndarray:
    """Return the part that each dimension has in what agents' log odds differ by.

    Returns
    -------
    ndarray
        Median and ends of 90 % intervals (3, dimension) of the share of the variance.
    """
    posterior = posterior_of(fit)
    step = -(-posterior.sizes["draw"] * posterior.sizes["chain"] // PART_DRAWS)
    few = posterior[["loading", "trait"]].isel(draw=slice(None, None, step))
    size = (few["loading"] ** 2).mean("task") * few["trait"].var("agent")
    values = size.transpose("chain", "draw", "dimension").values
    values = values.reshape(-1, values.shape[-1])
    total = np.maximum(values.sum(axis=1, keepdims=True), np.finfo(float).tiny)
    found: np.ndarray = np.quantile(values / total, (0.5, *TAILS), axis=0)
    return found


def dimensions_context(
    fits: Mapping[str, xr.DataTree], doubtful: Sequence[str] = ()
) -> list[dict[str, Any]]:
    """Return what the section shows, one item a fit with dimensions.

    Parameters
    ----------
    fits : mapping of str to DataTree
    doubtful : sequence of str
        Names of fits that have not converged.

    Returns
    -------
    list of dict
        Keys name, doubtful, rotatable, unit, names, agents (rows), agents_total, drawn, figure,
        dimensions (of each: name, lead, rows of tasks).
    """
    return [
        _context(name, fit, name in doubtful) for name, fit in fits.items() if has_dimensions(fit)
    ]


def _context(name: str, fit: xr.DataTree, doubtful: bool) -> dict[str, Any]:
    from markupsafe import Markup

    from measurebayes.report.dimension_figures import most_drawn, plot_traits
    from measurebayes.report.figure import to_svg

    free, names = rotatable(fit), dimension_names(fit)
    words = (
        f"Traits of agents of model {name} on {len(names)} dimensions, means with 90\u202f% "
        "intervals. The table below holds the numbers."
    )
    agents = data_of(fit).sizes["agent"]
    return {
        "name": name,
        "doubtful": doubtful,
        "rotatable": free,
        "unit": "standard deviations" if free else "logits",
        "names": names,
        "agents": _agents(fit),
        "agents_total": agents,
        "drawn": min(agents, most_drawn(len(names))),
        "figure": Markup(to_svg(plot_traits(fit), words)),
        "dimensions": _dimensions(fit, names),
    }


def _agents(fit: xr.DataTree) -> list[dict[str, Any]]:
    """Return rows of the table of agents, by the first dimension, the highest first."""
    mean, (low, high) = by_dimension(fit, "trait", "agent")
    names = data_of(fit)["agent"].values.astype(str)
    return [
        {
            "name": names[i],
            "cells": [
                text
                for k in range(mean.shape[1])
                for text in (number(mean[i, k]), interval(low[i, k], high[i, k]))
            ],
        }
        for i in np.argsort(-mean[:, 0], kind="stable")[:MOST_ROWS]
    ]


def _dimensions(fit: xr.DataTree, names: Sequence[str]) -> list[dict[str, Any]]:
    part, (mean, (low, high)) = parts(fit), by_dimension(fit, "loading", "task")
    tasks = data_of(fit)["task"].values.astype(str)
    found = []
    for k, name in enumerate(names):
        table = pd.DataFrame(
            {"task": tasks, "mean": mean[:, k], "low": low[:, k], "high": high[:, k]}
        )
        # A task that may not load on a dimension has the same loading, 0, in all draws.
        table = table[(table["low"] != 0.0) | (table["high"] != 0.0)]
        sure = int(((table["low"] > 0.0) | (table["high"] < 0.0)).sum())
        found.append(
            {
                "name": name,
                "lead": (
                    f"{shown(name)} makes up {share(part[0, k])} of the variance between agents' "
                    f"log odds (90\u202f% interval {share(part[1, k])} to {share(part[2, k])}). "
                    f"The loadings of {sure} of {len(table)} tasks have 90\u202f% intervals "
                    "without 0."
                ),
                "ends": _ends(table),
            }
        )
    return found


def _ends(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the tasks with the largest loadings in each direction, where there are any."""
    table = table.sort_values("mean", ascending=False, kind="stable")
    positive = table[table["mean"] > 0.0].head(MOST_LOADINGS)
    negative = table[table["mean"] < 0.0].iloc[::-1].head(MOST_LOADINGS)
    ends = (("easier for agents high on it", positive), ("easier for agents low on it", negative))
    return [
        {
            "words": words,
            "rows": [
                {
                    "name": row["task"],
                    "cells": [number(row["mean"]), interval(row["low"], row["high"])],
                }
                for row in rows.to_dict("records")
            ],
        }
        for words, rows in ends
        if len(rows)
    ]
