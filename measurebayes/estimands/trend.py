"""How time horizons grow with release dates: doubling times, acceleration, dates of crossing.

All is read off fits of horizon_trend, whose text is evaluated at the dates that are asked for, so
that a trend has the shape that was fitted and no other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from scipy.special import logit

from measurebayes.classical.horizons import success_names
from measurebayes.errors import InputError, check_choice, check_level, listed, shown
from measurebayes.estimands.horizons import KINDS, quantile
from measurebayes.inference.results import check_fit, of_other_data
from measurebayes.program.data_verbs import DAYS_A_YEAR, RELEASES

SCATTER = "log2_horizon_sd"  # of agents around the trend
DAY = np.timedelta64(1, "D")
STEP_DAYS = 7  # of numerical rates, and of the grid on which a crossing is looked for


def trend_line(fit: xr.DataTree, dates: Any) -> xr.DataArray:
    """Trend of log2 horizons on dates, at every draw.

    Parameters
    ----------
    fit
        Fit of horizon_trend.
    dates
        Days, in any form that `numpy.datetime64` takes; before, between or after the releases.

    Returns
    -------
    xarray.DataArray
        Log2 minutes of the 50 % horizon of an agent on the trend, dims (chain, draw, date).

    Raises
    ------
    InputError
        The fit has no trend.
    """
    from measurebayes.backends.evaluate import EvaluateProgram
    from measurebayes.inference.results import model_of

    posterior = _with_trend(fit)
    days = np.array([_day(date) for date in np.atleast_1d(np.asarray(dates, dtype=object))])
    runs = fit["data"].to_dataset()
    known = runs["release_date"].values[~np.isnat(runs["release_date"].values)]
    longer = posterior.drop_vars("agent").pad(agent=(0, days.size), mode="edge")
    program = EvaluateProgram(_on(runs, days, known), {str(name): x for name, x in longer.items()})
    model = model_of(fit)
    model.run(program, program.data, model.priors)
    found = program.deterministics["trend"]
    line = xr.DataArray(found.value, dims=found.dims, coords=posterior["draw"].coords)
    line = line.isel(agent=slice(runs.sizes["agent"], None)).rename(agent="date")
    line = line.assign_coords(date=days, chain=posterior["chain"].values)
    return line.transpose("chain", "draw", "date").assign_attrs(units="log2 minutes")


def doubling_days(fit: xr.DataTree, date: Any = None) -> xr.DataArray:
    """Days in which the trend doubles, around a date.

    Parameters
    ----------
    fit
        Fit of horizon_trend.
    date
        Day; by default the last release. A linear trend has the same rate on all days.

    Returns
    -------
    xarray.DataArray
        Days, dims (chain, draw); infinite where the trend doesn't rise there.
    """
    rate = yearly_rate(fit, _releases(fit).max() if date is None else date)
    return xr.where(rate > 0.0, DAYS_A_YEAR / rate, np.inf).assign_attrs(units="days")


def yearly_rate(fit: xr.DataTree, date: Any) -> xr.DataArray:
    """Doublings a year of the trend over the week before a date (chain, draw)."""
    day = np.datetime64(date, "ns")
    line = trend_line(fit, [day - STEP_DAYS * DAY, day])
    return (line.isel(date=1) - line.isel(date=0)) * (DAYS_A_YEAR / STEP_DAYS)


def acceleration(fit: xr.DataTree) -> xr.DataArray:
    """Rate at the last less rate at the first release (chain, draw), doublings a year."""
    releases = _releases(fit)
    first, last = releases.min() + STEP_DAYS * DAY, releases.max()
    change = yearly_rate(fit, last) - yearly_rate(fit, first)
    if _is_linear(fit):
        change = xr.zeros_like(change)  # numerically it is 1e-13 or so, of either sign
    return change.assign_attrs(units="doublings a year")


def crossing_dates(
    fit: xr.DataTree,
    minutes: float,
    success: float = 0.5,
    kind: str = "typical",
    until: Any = "2040-01-01",
) -> xr.DataArray:
    """Date on which the trend first reaches a horizon, at every draw.

    Parameters
    ----------
    fit
        Fit of horizon_trend.
    minutes
        The horizon.
    success
        Its success rate, for an agent on the trend with the typical steepness.
    kind
        "typical" or "marginal", as for `measurebayes.horizons`.
    until
        Day to look up to.

    Returns
    -------
    xarray.DataArray
        Days (datetime64), dims (chain, draw), the first release where the horizon is reached by
        then; NaT where it isn't reached by `until`. Attribute not_reached: the share of those.
    """
    if not (np.isfinite(minutes) and minutes > 0):
        raise InputError(
            f"minutes={minutes!r}", where="crossing_dates", expected="a positive number of minutes"
        )
    [success] = success_names([success]).values()
    check_choice("kind", kind, KINDS, "crossing_dates")
    _with_trend(fit)
    first = _releases(fit).min()
    if not _day(until) > first:
        raise InputError(
            f"until={until!r} is not after the first release, {np.datetime_as_string(first, 'D')}",
            where="crossing_dates",
            expected="a day to look up to",
            remedy='until="2040-01-01"',
        )
    days = np.arange(first, _day(until), STEP_DAYS * DAY)
    line = trend_line(fit, days) + _offset(fit, success, kind)
    date = _first_crossing(line.values, days, float(np.log2(minutes)))
    return xr.DataArray(
        date, {"chain": line["chain"], "draw": line["draw"]}, ("chain", "draw")
    ).assign_attrs(not_reached=float(np.isnat(date).mean()))


def _first_crossing(line: np.ndarray, days: np.ndarray, level: float) -> np.ndarray:
    """First day (...) on which lines (..., day) are at a level; straight between grid points."""
    reached = line >= level
    after = reached.argmax(axis=-1)
    before = np.maximum(after - 1, 0)
    low, high = (np.take_along_axis(line, at[..., None], axis=-1)[..., 0] for at in (before, after))
    rise = np.where(after > before, high - low, 1.0)
    share = np.where(reached.any(axis=-1) & (after > before), (level - low) / rise, 0.0)
    date = days[before] + (share * (days[after] - days[before])).astype("timedelta64[ns]")
    date = date.astype("datetime64[D]").astype("datetime64[ns]")
    return np.where(reached.any(axis=-1), date, np.datetime64("NaT", "ns"))


def trend_table(
    fits: Mapping[str, xr.DataTree] | xr.DataTree,
    weights: Mapping[str, float] | None = None,
    crossing_minutes: Sequence[float] = (),
    level: float = 0.95,
) -> pd.DataFrame:
    """Summarise trends: one row a fit, and one of their mixture where weights are given.

    Parameters
    ----------
    fits
        Fits of horizon_trend by name, such as its shapes; or one fit.
    weights
        Weight of each fit: ``compare(fits, unit="agent")["weight"]``, or any other.
    crossing_minutes
        Horizons whose dates of crossing are told (at 50 %).
    level
        Probability of the intervals.

    Returns
    -------
    pandas.DataFrame
        Index trend. Columns doubling_days, doubling_low, doubling_high (at the last release;
        draws that don't rise count as infinite), p_not_rising, acceleration and its low and high
        (doublings a year, last less first release; 0 for a linear trend), p_accelerates (NaN where
        all are linear), scatter (median standard deviation of agents' log2 horizons around the
        trend, doublings); for each horizon crosses_MINUTES with low and high: dates on which an
        average agent, on the trend, reaches it (NaT where not by 2040).

    Raises
    ------
    InputError
        A fit has no trend, or weights don't fit.
    """
    check_level(level, "trend_table")
    if isinstance(fits, xr.DataTree):
        return trend_table(
            {str(fits.attrs.get("model", "trend")): fits}, weights, crossing_minutes, level
        )
    if not isinstance(fits, Mapping) or not fits:
        raise InputError(
            f"a {type(fits).__name__} without fits",
            where="trend_table",
            expected="a fit of horizon_trend, or a mapping from names to such fits",
            remedy='mb.trend_table({"linear": fit})',
        )
    named: dict[str, xr.DataTree] = dict(fits)  # type: ignore[arg-type]
    for fit in named.values():
        check_fit(fit)
    other = None if weights is None else of_other_data(named)
    if other is not None:
        raise InputError(
            f"{other!r} was fitted to other data than {next(iter(named))!r}",
            where="trend_table",
            expected="weights of fits to the same data",
            remedy="leave weights out, or fit all shapes to the same runs",
        )
    parts = {name: _draws(fit, crossing_minutes) for name, fit in named.items()}
    if weights is not None:
        parts["weighted"] = _mixture(parts, weights)
    rows = {name: _row(part, (1.0 - level) / 2.0) for name, part in parts.items()}
    table = pd.DataFrame.from_dict(rows, orient="index")
    table.index.name = "trend"
    return table


def _draws(fit: xr.DataTree, crossing_minutes: Sequence[float]) -> dict[str, np.ndarray]:
    found = {
        "doubling": doubling_days(fit).values.ravel(),
        "acceleration": acceleration(fit).values.ravel(),
    }
    posterior = fit["posterior"].to_dataset()
    scatter = posterior.get(SCATTER, xr.full_like(posterior["trend"].isel(agent=0), np.nan))
    found["scatter"] = scatter.transpose("chain", "draw").values.ravel()
    for minutes in crossing_minutes:
        found[f"crosses_{minutes:g}"] = crossing_dates(fit, minutes).values.ravel()
    return found


def _mixture(
    parts: Mapping[str, Mapping[str, np.ndarray]], weights: Mapping[str, float]
) -> dict[str, np.ndarray]:
    """Draws of each in proportion to its weight, evenly spaced among its own."""
    numbers = pd.Series(dict(weights), dtype=float)
    if set(numbers.index) != set(parts) or (numbers < 0).any() or not numbers.sum() > 0:
        raise InputError(
            f"weights for {listed(list(map(str, numbers.index)))}",
            where="argument weights",
            expected=f"numbers from 0 up, not all 0, for {listed(list(parts))}",
            remedy='mb.compare(fits, unit="agent")["weight"]',
        )
    numbers = numbers / numbers.sum()
    total = min(len(part["doubling"]) for part in parts.values())
    chosen = {}
    for name, part in parts.items():
        size = len(part["doubling"])
        chosen[name] = np.linspace(0, size - 1, round(total * numbers[name])).round().astype(int)
    keys = next(iter(parts.values()))
    return {key: np.concatenate([p[key][chosen[n]] for n, p in parts.items()]) for key in keys}


def _row(part: Mapping[str, np.ndarray], tail: float) -> dict[str, Any]:
    days, change = part["doubling"], part["acceleration"]
    row: dict[str, Any] = {
        "doubling_days": quantile(days, 0.5),
        "doubling_low": quantile(days, tail),
        "doubling_high": quantile(days, 1.0 - tail),
        "p_not_rising": float(np.mean(np.isinf(days))),
        "acceleration": float(np.median(change)),
        "acceleration_low": float(np.quantile(change, tail)),
        "acceleration_high": float(np.quantile(change, 1.0 - tail)),
        "p_accelerates": float(np.mean(change > 1e-6)) if change.any() else np.nan,
        "scatter": float(np.median(part["scatter"])),
    }
    for name in (key for key in part if key.startswith("crosses_")):
        # Not reached sorts last, as a date after all others.
        order = np.sort(part[name])
        for mark, q in (("", 0.5), ("_low", tail), ("_high", 1.0 - tail)):
            row[name + mark] = order[min(int(q * len(order)), len(order) - 1)]
    return row


def _day(date: Any) -> np.datetime64:
    """Return a day as NumPy has it.

    Raises
    ------
    InputError
        It is none, or lies outside the years 1678 to 2261.
    """
    try:
        found = pd.Timestamp(date).to_datetime64().astype("datetime64[ns]")
    except (ValueError, TypeError, OverflowError):
        found = np.datetime64("NaT", "ns")
    if np.isnat(found):
        raise InputError(
            f"the date {shown(date)}",
            where="the arguments",
            expected="a day between the years 1678 and 2261, such as '2026-03-01'",
        )
    return found


def _is_linear(fit: xr.DataTree) -> bool:
    from measurebayes.inference.results import model_of

    return dict(model_of(fit).options).get("shape") == "linear"


def _with_trend(fit: xr.DataTree) -> xr.Dataset:
    check_fit(fit)
    posterior = fit["posterior"].to_dataset()
    if "trend" not in posterior:
        raise InputError(
            f"model {fit.attrs.get('model')} has no trend over release dates",
            where="the posterior of the fit",
            expected="a fit of horizon_trend",
            remedy='mb.fit("horizon_trend", runs, shape="linear")',
        )
    return posterior


def _on(runs: xr.Dataset, days: np.ndarray, known: np.ndarray) -> xr.Dataset:
    """Return the data with agents added that were released on the days and attempted nothing."""
    agents = np.array([*runs["agent"].values, *(f"\N{EM DASH}{i}" for i in range(len(days)))])
    dates = np.concatenate([runs["release_date"].values, days])
    others = runs.drop_dims("agent")
    reference = f"{known.min()} {known.max()}"
    more = xr.Dataset({"release_date": ("agent", dates)}, {"agent": agents})
    return others.merge(more).assign_attrs(runs.attrs | {RELEASES: reference})


def _releases(fit: xr.DataTree) -> np.ndarray:
    """Known release dates of the fitted agents."""
    dates = fit["data"].to_dataset()["release_date"].values
    return np.asarray(dates[~np.isnat(dates)])


def _offset(fit: xr.DataTree, success: float, kind: str) -> xr.DataArray:
    """Doublings from the 50 % horizon to another, at the typical steepness (chain, draw)."""
    from measurebayes.estimands.curves import log_odds_of_average
    from measurebayes.estimands.length import typical_steepness

    posterior = fit["posterior"].to_dataset()
    steepness = typical_steepness(posterior).transpose("chain", "draw")
    odds = np.asarray(logit(success))
    if kind == "marginal":
        spread = posterior["task_sd"].transpose("chain", "draw").values
        odds = log_odds_of_average(np.asarray(success), spread, np.zeros(1))
    return (-1.0 / steepness) * odds
