"""Figures of time horizons: intervals by agent, success over length, the trend over dates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from measurebayes.errors import InputError
from measurebayes.estimands.curves import Curves
from measurebayes.estimands.horizons import horizons, longest_minutes, quantile
from measurebayes.report import figure as look
from measurebayes.report.plots import MOST_LABELLED, draw_intervals, segments, time_marks
from measurebayes.report.summary import QUANTILES, data_of, place_of, posterior_of
from measurebayes.report.text import folded

REACH = 8.0  # doublings beyond the outermost medians that an axis shows of intervals
DRAWS = 200  # draws are enough for a band on a plot
GRID = 61  # lengths at which a curve is computed
BANDS = 7  # of tasks by length, each a point
BEST = 4  # agents whose curves are drawn
AHEAD = np.timedelta64(183, "D")  # that a trend is drawn beyond the last release
OFFSET = 0.22  # rows, between the horizons of one agent
BEYOND = "beyond the longest task"
SHADE: dict[str, Any] = {"color": look.PALE, "alpha": 0.45, "linewidth": 0}


def plot_horizons(
    fit: xr.DataTree, success: Sequence[float] = (0.5, 0.8), kind: str = "typical"
) -> Any:
    """Draw every agent's time horizons with 50 % and 95 % intervals, longest first.

    The axis is logarithmic, in human working time. The region beyond the longest task is shaded:
    horizons there are extrapolations. Ends of intervals far outside, and infinite ones, are cut at
    the edge.

    Parameters
    ----------
    fit : DataTree
        A fit of a model with a curve over human time.
    success : sequence of float
        One success rate, or two; with more than 40 agents only the first is drawn.
    kind : {"typical", "marginal"}
        As for `measurebayes.horizons`.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    InputError
        The model has no such curve.
    """
    draws = horizons(fit, success, kind)
    tables = [_table(draws.isel(success=i)) for i in range(draws.sizes["success"])]
    order = tables[0].sort_values("mean", ascending=False, kind="stable").index
    first = tables[0].loc[order].reset_index(drop=True)
    figure = draw_intervals(
        first, "Horizon (human working time)", ("longest", "shortest"), "agents", explain=False
    )
    panel, named = figure.axes[0], len(first) <= MOST_LABELLED
    rate = f"{100 * float(draws['success'][0]):g} %"
    style = {"color": look.BLUE, "markerfacecolor": "white", "markeredgewidth": 1.4}
    panel.plot([], [], marker="o", linewidth=3.5, label=f"{rate} horizon", **style)
    for table in tables[1:2] if named else []:
        rate = f"{100 * float(draws['success'][1]):g} %"
        _second_row(panel, table.loc[order], f"{rate} horizon")
    _shade(figure.axes, draws.attrs["longest_minutes"])
    look.legend(figure, panel, 3)
    bottom = figure.axes[-1]
    marks = time_marks(*bottom.get_xlim())
    bottom.set_xticks([at for at, _ in marks], [text for _, text in marks])
    return figure


def _table(draws: xr.DataArray) -> pd.DataFrame:
    """Summarise the log2 of horizons (chain, draw, agent), with the median as the mean."""
    with np.errstate(divide="ignore"):
        logs = np.log2(draws.transpose("agent", "chain", "draw").values)
    rows = [[quantile(row, q) for q in QUANTILES.values()] for row in logs.reshape(len(logs), -1)]
    table = pd.DataFrame(rows, columns=list(QUANTILES))
    medians = table["median"][np.isfinite(table["median"])]
    low, high = (medians.min(), medians.max()) if len(medians) else (0.0, 0.0)
    table = table.clip(low - REACH, high + REACH)
    return table.assign(name=draws["agent"].values.astype(str), mean=table["median"], state="")


def _second_row(panel: Any, table: pd.DataFrame, name: str) -> None:
    """Draw other horizons a little below those of the same agents."""
    y = np.arange(len(table)) + OFFSET
    for low, high, width in (("low95", "high95", 1.0), ("low50", "high50", 2.4)):
        line = segments(table[low], table[high], y)
        panel.plot(*line, color=look.VERMILION, linewidth=width, alpha=0.9)
    style = {"color": look.VERMILION, "markersize": 4, "markerfacecolor": "white"}
    panel.plot(table["mean"], y, marker="D", linestyle="none", **style)
    panel.plot([], [], marker="D", linewidth=2.4, label=name, **style)


def _shade(panels: Sequence[Any], longest: float) -> None:
    """Shade what lies beyond the longest task, without moving the ends of the axis."""
    if not np.isfinite(longest):
        return
    low, high = panels[-1].get_xlim()
    for panel in panels:
        if np.log2(longest) < high:
            label = BEYOND if panel is panels[0] else None
            panel.axvspan(max(np.log2(longest), low), high, label=label, **SHADE)
        panel.set_xlim(low, high)


def plot_success(fit: xr.DataTree, agents: Sequence[str] | None = None) -> Any:
    """Draw agents' curves of success over the length of tasks, against the data.

    The line and its 95 % band are the probability of success at a random task of a length; the
    dashed line is that at a task of average difficulty. Points are observed: an agent's tasks in
    bands of length with equal numbers of tasks, mean share of successes over tasks. Beyond the
    longest task the ground is shaded.

    Parameters
    ----------
    fit : DataTree
        A fit of a model with a curve over human time.
    agents : sequence of str, optional
        Names; default: those with the longest 50 % horizons, four at most.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    InputError
        The model has no such curve, or an agent isn't in the data.
    """
    data = data_of(fit)
    places = _best(fit) if agents is None else [place_of(data, "agent", name) for name in agents]
    curves = _few(Curves.of(fit), fit, places)
    known = data["human_minutes"].values[np.unique(data["task_index"].values)]
    low, high = np.log2(np.nanmin(known)), np.log2(np.nanmax(known))
    grid = xr.DataArray(np.linspace(low - 0.5, high + 2.0, GRID), dims="length")
    random, typical = (
        curves.success(grid, kind).transpose("agent", "length", "chain", "draw").values
        for kind in ("marginal", "typical")
    )
    lines = -(-len(places) // 2)
    figure, axes = look.new_figure(
        0.9 + 2.0 * lines, lines, min(2, len(places)), sharex=True, sharey=True
    )
    for panel, at, curve, average in zip(axes.flat, places, random, typical, strict=False):
        _draw_success(panel, grid.values, curve.reshape(GRID, -1), average.reshape(GRID, -1))
        _draw_bands(panel, data, at)
        look.label(panel, title=folded(data["agent"].values[at], 19))
        panel.set_ylim(-0.04, 1.04)
        panel.set_xlim(grid.values[0], grid.values[-1])
    _shade(list(axes.flat[: len(places)]), longest_minutes(data))
    for panel in axes.flat[len(places) :]:
        panel.set_visible(False)
    inner = 0.08 * float(grid[-1] - grid[0])  # words at the edge would meet those of the neighbour
    marks = time_marks(float(grid[0]) + inner, float(grid[-1]) - inner, most=3)
    axes[-1, 0].set_xticks([at for at, _ in marks], [text for _, text in marks])
    axes[0, 0].set_yticks([0.0, 0.5, 1.0], ["0", "0.5", "1"])
    look.legend(figure, axes[0, 0], 2)
    figure.supxlabel("Human time of the task", fontsize=look.FONT, color=look.INK)
    figure.supylabel("Probability of success", fontsize=look.FONT, color=look.INK)
    return figure


def _best(fit: xr.DataTree) -> list[int]:
    """Return agents with the longest median 50 % horizons, of those with attempts."""
    tried = np.unique(data_of(fit)["agent_index"].values)
    order = np.argsort(-_table(horizons(fit, 0.5).isel(success=0))["median"].to_numpy())
    return [int(at) for at in order if at in tried][:BEST]


def _few(curves: Curves, fit: xr.DataTree, agents: list[int]) -> Curves:
    """Return the curves of some agents at about `DRAWS` draws."""
    chains, draws = (posterior_of(fit).sizes[dim] for dim in ("chain", "draw"))
    kept = np.unique(np.linspace(0, draws - 1, max(1, DRAWS // chains)).astype(int))
    arrays = {f.name: getattr(curves, f.name) for f in fields(curves) if f.name != "survival"}
    few = {name: array.isel(draw=kept) for name, array in arrays.items()}
    return replace(
        curves, **{n: a.isel(agent=agents) if "agent" in a.dims else a for n, a in few.items()}
    )


def _draw_success(panel: Any, grid: np.ndarray, curve: np.ndarray, typical: np.ndarray) -> None:
    low, high = np.quantile(curve, [0.025, 0.975], axis=1)
    panel.fill_between(grid, low, high, color=look.BLUE, alpha=0.25, linewidth=0)
    panel.plot(grid, curve.mean(1), color=look.BLUE, linewidth=1.8, label="random task")
    if np.abs(curve - typical).max() > 1e-3:
        panel.plot(
            grid, typical.mean(1), color=look.BLUE, linewidth=1.2, ls="--", label="typical task"
        )


def _draw_bands(panel: Any, data: xr.Dataset, agent: int) -> None:
    """Draw an agent's mean share of successes in bands of tasks by length."""
    rows = data["agent_index"].values == agent
    minutes = data["human_minutes"].values[data["task_index"].values[rows]]
    rate = (data["successes"].values / np.maximum(data["attempts"].values, 1))[rows]
    known = np.isfinite(minutes)
    order = np.argsort(minutes[known], kind="stable")
    parts = [p for p in np.array_split(order, min(BANDS, len(order) or 1)) if len(p)]
    x = [np.log2(minutes[known][part]).mean() for part in parts]
    y = [rate[known][part].mean() for part in parts]
    panel.scatter(
        x, y, 30, color="white", edgecolor=look.VERMILION, linewidth=1.4, zorder=3, label="observed"
    )


def plot_trend(fit: xr.DataTree) -> Any:
    """Draw agents' 50 % horizons over their release dates, and the trend with its 95 % band.

    Half a year beyond the last release the trend is dashed: it is an extrapolation.

    Parameters
    ----------
    fit : DataTree
        A fit of horizon_trend.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    InputError
        The fit has no trend.
    """
    from matplotlib.dates import ConciseDateFormatter

    from measurebayes.estimands.trend import trend_line

    dates = data_of(fit)["release_date"].values
    known = ~np.isnat(dates)
    first, last = dates[known].min(), dates[known].max()
    days = np.linspace(0.0, 1.0, GRID) * ((last + AHEAD) - first).astype(float)
    days = first + days.astype("timedelta64[ns]")
    line = trend_line(fit, days).values.reshape(-1, GRID)
    low, middle, high = np.quantile(line, [0.025, 0.5, 0.975], axis=0)
    figure, axes = look.new_figure(4.0)
    panel = axes[0, 0]
    panel.fill_between(days, low, high, color=look.BLUE, alpha=0.2, linewidth=0)
    past = days <= last
    panel.plot(days[past], middle[past], color=look.BLUE, linewidth=1.8, label="trend")
    panel.plot(days[~past], middle[~past], color=look.BLUE, linewidth=1.8, ls="--")
    _draw_agents(panel, dates, _table(horizons(fit, 0.5).isel(success=0)))
    _level(panel, longest_minutes(data_of(fit)))
    locator = panel.xaxis.get_major_locator()
    panel.xaxis.set_major_formatter(ConciseDateFormatter(locator, show_offset=False))
    low_end, high_end = panel.get_ylim()
    marks = time_marks(low_end, high_end, most=7)
    panel.set_yticks([at for at, _ in marks], [text for _, text in marks])
    panel.grid(axis="y", color="#e6e6e6", linewidth=0.8)
    look.label(panel, x="Release of the agent", y="50 % horizon (working time)")
    look.legend(figure, panel, 3)
    return figure


def _draw_agents(panel: Any, dates: np.ndarray, table: pd.DataFrame) -> None:
    known = ~np.isnat(dates)
    part, at = table[known], dates[known]
    style = {"color": look.VERMILION, "linewidth": 1.2, "alpha": 0.8}
    panel.vlines(at, part["low95"], part["high95"], **style)
    panel.plot(
        at,
        part["median"],
        "o",
        color="white",
        markeredgecolor=look.VERMILION,
        markersize=5,
        label="agents, 95 %",
    )


def _level(panel: Any, longest: float) -> None:
    """Shade horizons beyond the longest task."""
    low, high = panel.get_ylim()
    if np.isfinite(longest) and np.log2(longest) < high:
        panel.axhspan(max(np.log2(longest), low), high, label=BEYOND, **SHADE)
    panel.set_ylim(low, high)


def plot_error_sensitivity(table: pd.DataFrame, success: float = 0.5, most: int = 8) -> Any:
    """Draw horizons over the error of human times that is assumed.

    Parameters
    ----------
    table : DataFrame
        What `measurebayes.error_sensitivity` returns.
    success : float
        One of its success rates.
    most : int
        Agents to draw, those with the longest horizons at the smallest error.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    InputError
        The table has no such success rate.
    """
    part = table[np.isclose(table["success"], success)]
    if part.empty:
        raise InputError(
            f"success={success:g}",
            where="plot_error_sensitivity",
            expected="one of " + ", ".join(f"{rate:g}" for rate in table["success"].unique()),
        )
    sds = np.sort(part["error_sd"].unique())
    first = part[part["error_sd"] == sds[0]].sort_values("median", ascending=False)
    names = first["agent"].head(most).tolist()
    figure, axes = look.new_figure(4.6)
    panel = axes[0, 0]
    shift = 0.02 * (sds[-1] - sds[0] or 1.0)
    with np.errstate(divide="ignore"):
        logs = part.assign(**{n: np.log2(part[n]) for n in ("median", "low", "high")})
    for place, name in enumerate(names):
        rows = logs[logs["agent"] == name].sort_values("error_sd")
        rows = rows[np.isfinite(rows["median"])]
        x = rows["error_sd"] + (place - len(names) / 2) * shift
        colour = look.COLOURS[place % len(look.COLOURS)]
        style = {"color": colour, "linestyle": look.STYLES[place // len(look.COLOURS) % 4]}
        panel.plot(x, rows["median"], marker="o", markersize=4, label=folded(name, 30), **style)
        ends = rows[["low", "high"]].clip(
            rows["median"].min() - REACH, rows["median"].max() + REACH
        )
        panel.vlines(x, ends["low"], ends["high"], color=colour, linewidth=0.8, alpha=0.7)
    _level(panel, float(table.attrs.get("longest_minutes", np.nan)))
    panel.set_xticks(sds, [f"{sd:g}" for sd in sds])
    low, high = panel.get_ylim()
    marks = time_marks(low, high, most=7)
    panel.set_yticks([at for at, _ in marks], [text for _, text in marks])
    look.label(
        panel,
        x="Assumed error of human times (SD, doublings)",
        y=f"{100 * success:g} % horizon (working time)",
    )
    look.legend(figure, panel, 2)
    return figure
