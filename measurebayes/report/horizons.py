"""The section "Time horizons": tables, figures and sentences of fits with curves over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import log
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import xarray as xr
from scipy.stats import norm

from measurebayes.errors import InputError
from measurebayes.estimands.curves import Curves
from measurebayes.estimands.horizons import horizon_table, horizons
from measurebayes.estimands.length import length_share
from measurebayes.estimands.trend import trend_table
from measurebayes.report.summary import data_of, json_attribute, posterior_of
from measurebayes.report.text import UNKNOWN, duration, horizon_time, interval, number, share, shown

if TYPE_CHECKING:
    from measurebayes.program.human_times import Records

LEVEL = 0.95  # of intervals, as on the rest of the page
MOST_ROWS = 2000  # of a table on the page
RATES = (0.5, 0.8)


def horizons_context(
    fits: Mapping[str, xr.DataTree], doubtful: Sequence[str] = ()
) -> list[dict[str, Any]]:
    """Return what the section shows of each fit that has curves over human time.

    Parameters
    ----------
    fits : mapping of str to DataTree
    doubtful : sequence of str
        Names of fits that have not converged.

    Returns
    -------
    list of dict
        Keys name, doubtful, lead, cautions, notes, rows, marginal, infinite, figures.
    """
    return [_context(name, fit, name in doubtful) for name, fit in fits.items() if has_curves(fit)]


def has_curves(fit: xr.DataTree) -> bool:
    """Whether a fit has curves of success over human time."""
    try:
        Curves.of(fit)
    except InputError:
        return False
    return bool(np.isfinite(data_of(fit)["human_minutes"].values).any())


def _context(name: str, fit: xr.DataTree, doubtful: bool) -> dict[str, Any]:
    draws = horizons(fit, RATES)
    tables = {
        f"typical_{rate:.0%}": horizon_table(draws.sel(success=[rate]), LEVEL) for rate in RATES
    }
    marginal = _has_task_effects(fit)
    if marginal:
        random = horizon_table(horizons(fit, 0.8, "marginal"), LEVEL)
        tables["random_80%"] = random
    first = tables["typical_50%"]
    longest = draws.attrs["longest_minutes"]
    return {
        "name": name,
        "doubtful": doubtful,
        "lead": _lead(first, longest),
        "cautions": cautions_of(fit, first, longest),
        "notes": [*_length_words(fit), *error_words(fit)],
        "rows": _rows(tables),
        "total": len(first),
        "marginal": marginal,
        "latent": "timing_sd" in posterior_of(fit),
        "infinite": bool((first["not_finite"] > 0).any()),
        "trend": _trend_words(fit),
        "figures": _figures(name, fit, len(first)),
    }


def _has_task_effects(fit: xr.DataTree) -> bool:
    names = {"task_sd", "family_sd", "log_discrimination_sd"}
    return bool(names & set(map(str, posterior_of(fit).data_vars)))


def _lead(table: pd.DataFrame, longest: float) -> str:
    best = table.sort_values("median", ascending=False).iloc[0]
    words = (
        f"{shown(best['agent'])} has the longest 50\u202f% horizon, {horizon_time(best['median'])} "
        f"(95\u202f% interval {_times(best)})"
    )
    if best["extrapolated"]:
        return (
            f"{words}; that is an extrapolation, as the longest task takes {duration(longest)}: it "
            f"lies beyond with probability {_chance(best['beyond'])}."
        )
    if best["beyond"] >= 0.005:
        return (
            f"{words}; with probability {_chance(best['beyond'])} it lies beyond the longest task, "
            f"which takes {duration(longest)}."
        )
    return f"{words}; the longest task takes {duration(longest)}."


def cautions_of(fit: xr.DataTree, table: pd.DataFrame, longest: float) -> list[str]:
    """Return what must be known before a horizon is quoted."""
    found = []
    if json_attribute(fit.attrs, "options").get("weights") == "family":
        found.append(
            "Power likelihood: every cell counts with a weight, fewer for large families of tasks "
            "and many attempts. These are no probabilities of the data: the model can't be "
            "calibrated by simulation, and its intervals are what the weights make them."
        )
    beyond = int(table["extrapolated"].sum())
    if beyond:
        count = "One 50\u202f% horizon lies" if beyond == 1 else f"{beyond} 50\u202f% horizons lie"
        found.append(
            f"{count} beyond the longest task ({duration(longest)}): no task there tests the shape "
            "of the curve, and another shape would give another number."
        )
    infinite = table[table["not_finite"] > 0]
    if len(infinite):
        found.append(
            f"{len(infinite)} agents have no finite 50\u202f% horizon at some draws; these count "
            "as infinite in medians and intervals."
        )
    return found


def _length_words(fit: xr.DataTree) -> list[str]:
    if not {"task_sd", "steepness"} <= set(posterior_of(fit)):
        return []
    found = length_share(fit)
    explained, factor = (found[n].values.ravel() for n in ("share", "factor"))
    low, high = np.quantile(factor, [0.025, 0.975])
    ends = " to ".join(share(q) for q in np.quantile(explained, [0.025, 0.975]))
    return [
        f"Length explains {share(np.median(explained))} (95\u202f% interval {ends}) of the "
        f"variance of difficulty among these tasks. Tasks that are equally difficult for agents "
        f"differ in human time by a factor of {number(np.median(factor), 1)} "
        f"({interval(low, high, 1)}; one standard deviation)."
    ]


def error_words(fit: xr.DataTree) -> list[str]:
    """Say how large errors of human time were found, and whether anything but priors says so."""
    posterior = posterior_of(fit)
    if "timing_sd" not in posterior:
        return []
    from measurebayes.program.human_times import human_times

    data, priors = data_of(fit), json_attribute(fit.attrs, "priors")
    records = human_times(data)
    timed = pd.Series(records["timed"].task).value_counts()
    repeated = timed.index[timed > 1].to_numpy(dtype=int)
    several = pd.Series(data["source"].values[repeated]).value_counts()
    sizes, told, untold, misfits = [], [], [], []
    for suite in posterior["suite"].values.tolist():
        draws = posterior["timing_sd"].sel(suite=suite).values.ravel()
        name, count = shown(suite) or "these data", int(several.get(suite, 0))
        sizes.append(f"{_factor(draws)} in {name}")
        apart = _spread_of_timings(records["timed"], data["source"].values == suite)
        misfits += _misfit_words(name, draws, priors, apart)
        if count:
            told.append(f"{count} in {name}")
        else:
            untold.append(name)
    what = "timings" if records["timed"].size else "recorded human times"
    found = [
        f"Lengths of tasks are latent here: human times are measurements with error. Errors of "
        f"{what}, one standard deviation, are a factor of {'; '.join(sizes)}."
    ]
    if told:
        found.append(f"Tasks that several people were timed on tell that ({', '.join(told)}).")
    if untold:
        prior = _prior(priors.get("timing_sd", np.nan), priors.get("log_timing_sd", np.nan))
        found.append(
            f"No task was timed on several people in {', '.join(untold)}: only agents' successes "
            f"and the prior ({prior}) say how large errors are there, and horizons are "
            "conditional on that prior."
        )
    found += misfits
    if "estimate_sd" in posterior:
        found.append(_estimate_words(posterior, priors, records))
    return found


def _spread_of_timings(timed: Records, of_suite: np.ndarray) -> float:
    """SD of log2 times of people at one task, over the tasks of a suite; NaN: timed once only."""
    chosen = of_suite[timed.task]
    by_task = pd.Series(timed.log2_minutes[chosen]).groupby(timed.task[chosen])
    free = int((by_task.count() - 1).sum())
    squares = float((by_task.var(ddof=0) * by_task.count()).sum())
    return float(np.sqrt(squares / free)) if free else np.nan


def _misfit_words(
    name: str, draws: np.ndarray, priors: Mapping[str, Any], apart: float
) -> list[str]:
    """Say where errors are larger than their prior allows, and timings don't say so."""
    median, spread = (float(priors.get(key, np.nan)) for key in ("timing_sd", "log_timing_sd"))
    most = median * np.exp(norm.ppf(0.975) * spread)
    if not np.median(draws) > most or apart > most:
        return []
    people = (
        ""
        if np.isnan(apart)
        else f" (people who were timed on one task differ by a factor of {number(2.0**apart, 1)})"
    )
    return [
        f"The errors found in {name} lie beyond their prior: a factor of "
        f"{number(2.0 ** np.median(draws), 1)}, where 97.5\u202f% of the prior lie under "
        f"{number(2.0**most, 1)}. Agents' successes drive that, not timings{people}: the lengths "
        "of these tasks fit their difficulty badly. It says nothing of how much people's times "
        "differ."
    ]


def _estimate_words(
    posterior: xr.Dataset, priors: Mapping[str, Any], records: Mapping[str, Any]
) -> str:
    bias = posterior["estimate_bias"].values.ravel()
    low, middle, high = 2.0 ** np.quantile(bias, [0.025, 0.5, 0.975])
    words = (
        "Estimates err, one standard deviation, by a factor of "
        f"{_factor(posterior['estimate_sd'].values.ravel())}, and are "
        f"{number(middle)} times the true time on the whole ({interval(low, high)})"
    )
    both = len(set(records["estimated"].task.tolist()) & set(records["timed"].task.tolist()))
    if both:
        return f"{words}; {both} tasks with an estimate and timed people tell that."
    prior = _prior(priors.get("estimate_sd", np.nan), priors.get("log_estimate_sd", np.nan))
    bias_sd = 2.0 ** float(priors.get("estimate_bias", np.nan))
    return (
        f"{words}; no task has both an estimate and timed people, so that little but the priors "
        f"({prior}; bias within a factor of {number(bias_sd, 1)}, one standard deviation) say so."
    )


def _factor(sd: np.ndarray) -> str:
    """Describe draws of a standard deviation in doublings as a factor."""
    low, middle, high = 2.0 ** np.quantile(sd, [0.025, 0.5, 0.975])
    return f"{number(middle, 1)} ({interval(low, high, 1)}; {number(np.median(sd))} doublings)"


def _prior(median: float, spread: float) -> str:
    """Describe a log-normal prior of a standard deviation in doublings as factors."""
    ends = np.exp(log(median) + norm.ppf([0.025, 0.5, 0.975]) * spread)
    low, middle, high = 2.0**ends
    return f"median a factor of {number(middle, 1)}, 95\u202f% {interval(low, high, 1)}"


def _trend_words(fit: xr.DataTree) -> str:
    if "trend" not in posterior_of(fit):
        return ""
    row = trend_table(fit, level=LEVEL).iloc[0]
    shape = json_attribute(fit.attrs, "options").get("shape", "linear")
    days = [
        "never" if np.isinf(row[f"doubling_{end}"]) else f"{row[f'doubling_{end}']:,.0f} days"
        for end in ("days", "low", "high")
    ]
    words = (
        f"Under a {shape} trend, 50\u202f% horizons of agents on it double in {days[0]} (95\u202f% "
        f"interval {days[1]} to {days[2]})"
    )
    if shape == "linear":
        return words + "."
    ends = interval(row["acceleration_low"], row["acceleration_high"])
    return (
        f"{words} at the last release. The rate there is higher than at the first by "
        f"{number(row['acceleration'])} doublings a year ({ends}); the probability that it is "
        f"higher at all is {_chance(row['p_accelerates'])}."
    )


def _times(row: Any) -> str:
    return " to ".join(horizon_time(row[end], row["median"]) for end in ("low", "high"))


def _chance(value: float) -> str:
    if value < 0.005:
        return "less than 0.01" if value > 0 else "0"
    return "more than 0.99" if value > 0.995 else number(value)


def _rows(tables: Mapping[str, pd.DataFrame]) -> list[dict[str, Any]]:
    """Return rows by agent, the longest 50 % horizon first."""
    first = tables["typical_50%"]
    found = []
    for at in first.sort_values("median", ascending=False, kind="stable").index[:MOST_ROWS]:
        cells = []
        for table in tables.values():
            cells += [horizon_time(table.loc[at, "median"]), _times(table.loc[at])]
        found.append(
            {
                "name": first.loc[at, "agent"],
                "extrapolated": bool(first.loc[at, "extrapolated"]),
                "cells": cells,
                "beyond": share(first.loc[at, "beyond"]) or UNKNOWN,
                "not_finite": share(first.loc[at, "not_finite"]),
            }
        )
    return found


def _figures(name: str, fit: xr.DataTree, agents: int) -> dict[str, Any]:
    from markupsafe import Markup

    from measurebayes.report.figure import to_svg
    from measurebayes.report.horizon_figures import plot_horizons, plot_success, plot_trend

    who = f"of model {name}"
    wanted: dict[str, tuple[Any, str]] = {
        "horizons": (
            plot_horizons,
            f"Time horizons {who}: {agents} agents, longest first, at success rates of 50 and 80 "
            "per cent, with intervals on a logarithmic axis. The table below holds the numbers.",
        ),
        "success": (
            plot_success,
            f"Probability of success over human time {who}, for the agents with the longest "
            "horizons, with observed shares in bands of length.",
        ),
    }
    if "trend" in posterior_of(fit):
        wanted["trend"] = (
            plot_trend,
            f"Horizons {who} over release dates, with the trend and its 95 per cent band.",
        )
    return {key: Markup(to_svg(draw(fit), words)) for key, (draw, words) in wanted.items()}
