"""Time horizons: human time of the tasks at which an agent succeeds at a given rate."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from measurebayes.classical.horizons import SUCCESS, success_names
from measurebayes.classical.horizons import inversions as classical_inversions
from measurebayes.errors import InputError, check_choice, check_level
from measurebayes.estimands.curves import Curves
from measurebayes.inference.results import check_fit

KINDS = ("typical", "marginal")


def horizons(
    fit: xr.DataTree, success: float | Sequence[float] = SUCCESS, kind: str = "typical"
) -> xr.DataArray:
    """Time horizon of every agent at every draw.

    Parameters
    ----------
    fit
        Fit of a model with a curve over human time: horizon_logistic, horizon_hazard, horizon_task,
        horizon_eiv, horizon_trend.
    success
        Success rates, each between 0 and 1.
    kind
        ``"typical"``: of a task of average difficulty for its length. ``"marginal"``: of a task
        drawn at random from those of its length, which averages success over their difficulties.
        Models without effects of tasks have one curve, and both are the same.

    Returns
    -------
    xarray.DataArray
        Minutes, dims (chain, draw, agent, success). Infinite where success never falls so low, 0
        where it never is so high: such draws are part of every quantile. Attributes: units, kind,
        longest_minutes (of the tasks with attempts, NaN where unknown).

    Raises
    ------
    InputError
        The model has no such curve, or an argument is unknown.
    """
    check_fit(fit)
    check_choice("kind", kind, KINDS, "horizons")
    rates = list(success_names(np.atleast_1d(success)).values())  # type: ignore[arg-type]
    curves = Curves.of(fit)
    each = [curves.log2_horizon(rate, kind) for rate in rates]
    result = 2.0 ** xr.concat(each, xr.DataArray(rates, dims="success", name="success"))
    return result.transpose("chain", "draw", "agent", "success").assign_attrs(
        units="minutes",
        kind=kind,
        model=str(fit.attrs.get("model", "")),
        longest_minutes=longest_minutes(fit["data"].to_dataset()),
    )


def longest_minutes(runs: xr.Dataset) -> float:
    """Human minutes of the longest task with attempts; NaN where none is known."""
    minutes = runs["human_minutes"].values[np.unique(runs["task_index"].values)]
    known = minutes[np.isfinite(minutes)]
    return float(known.max()) if known.size else float("nan")


def horizon_table(draws: xr.DataArray, level: float = 0.9) -> pd.DataFrame:
    """Summarise the result of `horizons`: one row an agent and success rate.

    Parameters
    ----------
    draws
        What `horizons` returns.
    level
        Probability of the equal-tailed interval.

    Returns
    -------
    pandas.DataFrame
        Columns agent, success, median, low, high (minutes; infinite draws count), not_finite
        (probability that there is no finite horizon), beyond (probability that it lies beyond the
        longest task), extrapolated (whether the median does).
    """
    check_level(level, "horizon_table", "level=0.9")
    if not isinstance(draws, xr.DataArray):
        raise InputError(
            f"a {type(draws).__name__}",
            where="horizon_table",
            expected="what mb.horizons returns",
            remedy="mb.horizon_table(mb.horizons(fit))",
        )
    longest = float(draws.attrs.get("longest_minutes", np.nan))
    stacked = draws.stack(sample=("chain", "draw")).transpose("success", "agent", "sample")
    tail = (1.0 - level) / 2.0
    rows = []
    for rate, by_agent in zip(draws["success"].values, stacked.values, strict=True):
        for agent, values in zip(draws["agent"].values, by_agent, strict=True):
            median = quantile(values, 0.5)
            rows.append(
                {
                    "agent": str(agent),
                    "success": float(rate),
                    "median": median,
                    "low": quantile(values, tail),
                    "high": quantile(values, 1.0 - tail),
                    "not_finite": float(np.mean(np.isinf(values))),
                    "beyond": float(np.mean(values > longest)),
                    "extrapolated": bool(median > longest),
                }
            )
    return pd.DataFrame(rows)


def quantile(values: np.ndarray, q: float) -> float:
    """Quantile of draws that may be infinite: one of them, never a mean with infinity."""
    return float(np.quantile(values, q, method="inverted_cdf"))


def inversions(
    fit_or_table: xr.DataTree | pd.DataFrame,
    success: Sequence[float] = SUCCESS,
    kind: str = "typical",
) -> pd.DataFrame:
    """Pairs of agents whose order by horizon changes between two success rates.

    Parameters
    ----------
    fit_or_table
        A fit of a model with a curve over human time; or a table of `classical_horizons`.
    success
        Two success rates.
    kind
        As for `horizons`.

    Returns
    -------
    pandas.DataFrame
        Of a table: see `measurebayes.classical.horizons.inversions`. Of a fit, one row a pair of
        agents, likeliest change first: one, other, p_longer_50, p_longer_80 (probability that the
        horizon of `one` is longer, at each rate), p_changes (that the order is not the same).

    Raises
    ------
    InputError
        Not two success rates, or no curve.
    """
    if isinstance(fit_or_table, pd.DataFrame):
        check_choice("kind", kind, KINDS[:1], "inversions of a table")
        return classical_inversions(fit_or_table, success)
    names = list(success_names(success))
    if len(names) != 2:
        raise InputError(
            f"{len(names)} success rates", where="argument success", expected="two of them"
        )
    draws = horizons(fit_or_table, success, kind).stack(sample=("chain", "draw"))
    values = draws.transpose("agent", "success", "sample").values
    agents = draws["agent"].values.tolist()
    rows: list[dict[str, Any]] = []
    for i, j in combinations(range(len(agents)), 2):
        longer = values[i] > values[j]
        shorter = values[i] < values[j]
        changes = (longer[0] & shorter[1]) | (shorter[0] & longer[1])
        rows.append(
            {
                "one": agents[i],
                "other": agents[j],
                f"p_longer_{names[0]}": float(longer[0].mean()),
                f"p_longer_{names[1]}": float(longer[1].mean()),
                "p_changes": float(changes.mean()),
            }
        )
    return pd.DataFrame(rows).sort_values("p_changes", ascending=False, ignore_index=True)
