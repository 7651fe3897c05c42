"""Figures of abilities and difficulties: intervals, and both on one scale (Wright map).

Every function takes a fit and returns a matplotlib Figure, which a notebook shows and
``figure.savefig("name.pdf")`` writes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from measurebayes.report import figure as look
from measurebayes.report.summary import counts_table, data_of, interval_table
from measurebayes.report.text import shortened, time_of

MOST_LABELLED = 40  # rows; with more, only the ends are labelled
ENDS = 10  # labelled rows at each end
LINE = 0.2  # inches, height of a line of text
LABEL = 25  # columns of a name
THICK, THIN = (1.4, 3.5), (0.7, 1.6)  # points, lines of 95 % and 50 % intervals
SATURATED = {"always solved": "v", "never solved": "^", "not attempted": "s"}


def plot_abilities(fit: xr.DataTree) -> Any:
    """Draw every agent's ability with its 50 % and 95 % intervals, ablest first.

    Parameters
    ----------
    fit : DataTree
        A fit with ``ability`` (chain, draw, agent), in logits.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    InputError
        The model has no ability of each agent.
    """
    table = interval_table(fit, "ability", "agent").assign(state="")
    return draw_intervals(table, "Ability (logits)", ("ablest", "least able"), "agents")


# In minutes of work, the marks that say most first: a day's 8 hours, a week's 40.
TIME_MARKS = (
    {1 / 60: "1 s", 1: "1 min", 60: "1 h", 480: "8 h", 2400: "40 h", 120_000: "2,000 h"},
    {1 / 6: "10 s", 10: "10 min", 9600: "160 h", 1 / 60_000: "1 ms", 1_200_000: "20,000 h"},
    {m / 60: f"{m} s" for m in (2, 5, 20, 30)} | {m: f"{m} min" for m in (2, 5, 20, 30)},
    {60 * h: f"{h} h" for h in (2, 4)} | {4800: "80 h"},
)


def time_marks(low: float, high: float, most: int = 5) -> list[tuple[float, str]]:
    """Return marks of a logarithmic axis of times: their places and words.

    Parameters
    ----------
    low, high : float
        Ends of the axis, the log2 of minutes.
    most : int
        About how many there is room for.
    """
    found: dict[float, str] = {}
    for level in TIME_MARKS:
        for minutes, words in level.items():
            at = float(np.log2(minutes))
            far = all(abs(at - other) * most >= high - low for other in found)
            if low <= at <= high and far:
                found[at] = words
    if len(found) < 2:
        found = {float(at): time_of(at) for at in np.linspace(low, high, 4)[1:3]}
    return sorted(found.items())


def plot_difficulties(fit: xr.DataTree) -> Any:
    """Draw every task's difficulty with its 50 % and 95 % intervals, hardest first.

    Tasks that were always, or never, solved have markers and a colour of their own: their
    difficulty is bounded on one side by the data and on the other by the population alone.

    Parameters
    ----------
    fit : DataTree
        A fit with ``difficulty`` (chain, draw, task), in logits.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    InputError
        The model has no difficulty of each task.
    """
    table = interval_table(fit, "difficulty", "task")
    table["state"] = counts_table(data_of(fit), "task")["state"]
    return draw_intervals(table, "Difficulty (logits)", ("hardest", "easiest"), "tasks")


def draw_intervals(
    table: pd.DataFrame, x: str, ends: tuple[str, str], kind: str, explain: bool = True
) -> Any:
    """Draw a table of intervals (as `interval_table` has, and a state), the highest mean first.

    Parameters
    ----------
    table : DataFrame
    x : str
        Label of the axis.
    ends : tuple of str
        Words for the first and the last rows.
    kind : str
        What the rows are.
    explain : bool
        Whether to add the legend.
    """
    table = table.sort_values("mean", ascending=False, kind="stable").reset_index(drop=True)
    if len(table) <= MOST_LABELLED:
        figure, axes = look.new_figure(1.1 + look.ROW * len(table))
        _labelled_rows(axes[0, 0], table)
        bottom, top = axes[0, 0], axes[0, 0]
    else:
        figure, axes = _three_panels(table, ends, kind)
        bottom, top = axes[-1, 0], axes[0, 0]
    look.label(bottom, x=x)
    bottom.locator_params(axis="x", nbins=5)
    if explain:
        _legend(figure, top, table)
    return figure


def _three_panels(table: pd.DataFrame, ends: tuple[str, str], kind: str) -> tuple[Any, Any]:
    """Draw both ends with names and, between them, all rows without.

    Saturated tasks are left out of the ends: they lie where the population puts them, all in about
    the same place, and naming ten of them would say nothing.
    """
    named = table[table["state"] == ""]
    note = ", not saturated" if 0 < len(named) < len(table) else ""
    named = named if len(named) else table
    size = min(ENDS, len(named))
    heights = [size * look.ROW, 4.2, size * look.ROW]
    figure, axes = look.new_figure(
        sum(heights) + 1.8, 3, 1, sharex=True, gridspec_kw={"height_ratios": heights}
    )
    first, middle, last = axes[:, 0]
    _labelled_rows(first, named.head(size))
    _labelled_rows(last, named.tail(size))
    _rows(middle, table, thin=True)
    middle.set_yticks([])
    for panel in (first, middle):  # the axis at the bottom may be off the screen
        panel.tick_params(labelbottom=True)
    middle.margins(y=0.01)
    look.label(first, y=f"{size} {ends[0]}{note}")
    look.label(middle, y=f"all {len(table)} {kind}")
    look.label(last, y=f"{size} {ends[1]}{note}")
    return figure, axes


def _labelled_rows(panel: Any, table: pd.DataFrame) -> None:
    _rows(panel, table)
    labels = shortened(table["name"], LABEL)
    panel.set_yticks(np.arange(len(table)), labels, parse_math=False)
    panel.set_ylim(len(table) - 0.4, -0.6)


def _rows(panel: Any, table: pd.DataFrame, thin: bool = False) -> None:
    """Draw one interval a row; rows of one state share a line so that the file stays small."""
    y = np.arange(len(table))
    widths = THIN if thin else THICK
    for state in ["", *SATURATED]:
        rows = (table["state"] == state).to_numpy()
        if not rows.any():
            continue
        colour = look.VERMILION if state else look.BLUE
        part = table[rows]
        for low, high, width in zip(("low95", "low50"), ("high95", "high50"), widths, strict=True):
            line = segments(part[low], part[high], y[rows])
            panel.plot(*line, color=colour, linewidth=width, alpha=0.9)
        panel.plot(
            part["mean"],
            y[rows],
            linestyle="none",
            marker=SATURATED.get(state, "o"),
            markersize=2.2 if thin else 5,
            color=colour if thin else "white",
            markeredgecolor=colour,
            markeredgewidth=0.3 if thin else 1.4,
        )
    if thin:
        panel.set_ylim(len(table), -1)


def segments(low: Any, high: Any, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return x and y of horizontal segments as one line with gaps."""
    x = np.column_stack([low, high, np.full(len(y), np.nan)]).ravel()
    return x, np.repeat(y.astype(float), 3)


def _legend(figure: Any, panel: Any, table: pd.DataFrame) -> None:
    """Explain interval and markers, of the states that occur."""
    blue = {"color": look.BLUE, "markerfacecolor": "white", "markeredgewidth": 1.4}
    panel.plot([], [], marker="o", linewidth=3.5, label="mean, 50 %", **blue)
    panel.plot([], [], linewidth=1.4, label="95 %", color=look.BLUE)
    for state, marker in SATURATED.items():
        if (table["state"] == state).any():
            style = {"color": look.VERMILION, "markerfacecolor": "white", "markeredgewidth": 1.4}
            panel.plot([], [], marker=marker, linewidth=1.0, label=state, **style)
    look.legend(figure, panel, 2)


def plot_wright(fit: xr.DataTree) -> Any:
    """Draw abilities and difficulties on one scale in logits (a Wright map).

    An agent and a task at the same height mean a 50 % chance of success. Posterior means are shown;
    tasks that were always or never solved are set apart, and only counted where they lie beyond the
    others.

    Parameters
    ----------
    fit : DataTree
        A fit with ``ability`` and ``difficulty``, in logits.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    InputError
        The model lacks one of the two.
    """
    ability = interval_table(fit, "ability", "agent")
    difficulty = interval_table(fit, "difficulty", "task")["mean"].to_numpy()
    saturated = (counts_table(data_of(fit), "task")["state"] != "").to_numpy()
    kept = difficulty[~saturated] if (~saturated).any() else difficulty
    means = np.concatenate([ability["mean"], kept])
    low, high = means.min(), means.max()
    pad = 0.04 * (high - low) or 1.0
    inner = (low - pad, high + pad)
    outside = (difficulty > inner[1]).sum(), (difficulty < inner[0]).sum()
    # Room for a line of text below and above the bars, where tasks lie beyond the scale.
    room = 0.06 * (inner[1] - inner[0]) if any(outside) else 0.0
    limits = (inner[0] - room, inner[1] + room)
    named = len(ability) <= MOST_LABELLED
    height = max(7.0, 1.2 + LINE * len(ability)) if named else 7.0
    figure, axes = look.new_figure(height, 1, 2, sharey=True)
    left, right = axes[0]
    left.set_ylim(*limits)
    bins = np.linspace(*inner, 31)
    if named:
        _name_agents(left, ability, limits, LINE / (height - 1.1))
        look.label(left, y="Ability and difficulty (logits)", title="Agents")
    else:
        _histogram(left, [ability["mean"].to_numpy()], bins, ["agents"])
        left.invert_xaxis()
        look.label(left, x="Number of agents", y="Ability and difficulty (logits)", title="Agents")
    parts = [difficulty[~saturated], difficulty[saturated]]
    _histogram(right, parts, bins, ["tasks", "saturated tasks"])
    look.legend(figure, right)
    look.label(right, x="Number of tasks", title="Tasks")
    _note_outside(right, *outside)
    return figure


def _note_outside(panel: Any, above: int, below: int) -> None:
    """Count, at the edges, the tasks that lie beyond the scale (only saturated ones do)."""
    notes = (
        (above, "↑ {} more above", 0.99, "top"),
        (below, "↓ {} more below", 0.01, "bottom"),
    )
    for number, text, height, side in notes:
        if number:
            panel.text(
                0.98,
                height,
                text.format(number),
                transform=panel.transAxes,
                fontsize=look.FONT,
                color=look.VERMILION,
                ha="right",
                va=side,
            )


def _histogram(panel: Any, parts: list[np.ndarray], bins: np.ndarray, labels: list[str]) -> None:
    from matplotlib.ticker import MaxNLocator

    below = np.zeros(len(bins) - 1)
    looks = ((look.BLUE, ""), (look.VERMILION, "////"))
    for values, text, (colour, hatch) in zip(parts, labels, looks, strict=False):
        count, _ = np.histogram(values, bins)
        some = count > 0  # a bar of no width would still have an outline
        if not some.any():
            continue
        panel.barh(
            ((bins[1:] + bins[:-1]) / 2)[some],
            count[some],
            np.diff(bins)[some] * 0.9,
            left=below[some],
            color="white" if hatch else colour,
            edgecolor=colour,
            hatch=hatch or None,
            linewidth=0.6,
            label=text,
        )
        below += count
    panel.xaxis.set_major_locator(MaxNLocator(4, integer=True))


def _name_agents(panel: Any, table: pd.DataFrame, limits: tuple[float, float], line: float) -> None:
    """Write agents' names at their abilities, `line` (a share of the height) or more apart."""
    table = table.sort_values("mean", kind="stable")
    heights = spread(table["mean"].to_numpy(), (limits[1] - limits[0]) * line, limits)
    panel.plot(np.ones(len(table)), table["mean"], "o", color=look.BLUE, markersize=5, zorder=3)
    names = shortened(table["name"], 21)
    for name, at, height in zip(names, table["mean"], heights, strict=True):
        panel.plot([0.86, 0.98], [height, at], color=look.GREY, linewidth=0.6)
        panel.text(
            0.84,
            height,
            name,
            fontsize=look.FONT - 1,
            color=look.INK,
            ha="right",
            va="center",
            parse_math=False,
        )
    panel.set_xlim(-0.4, 1.05)
    panel.set_xticks([])
    panel.spines["bottom"].set_visible(False)


def spread(values: np.ndarray, gap: float, limits: tuple[float, float]) -> np.ndarray:
    """Move sorted positions apart to at least `gap`, as little as possible, within limits.

    Parameters
    ----------
    values : ndarray
        Positions in ascending order.
    gap : float
        Smallest distance between neighbours; made smaller where they can't all fit.
    limits : tuple of float
        Lowest and highest position allowed.

    Returns
    -------
    ndarray
        New positions in the same order.
    """
    low, high = limits[0] + gap / 2, limits[1] - gap / 2
    if len(values) > 1:
        gap = min(gap, (high - low) / (len(values) - 1))
    # Pool adjacent violators: y_k - k * gap must not fall, and means of pools are least squares.
    offset = np.arange(len(values)) * gap
    pools: list[list[float]] = []
    for target in values - offset:
        pools.append([float(target), 1.0])
        while len(pools) > 1 and pools[-2][0] > pools[-1][0]:
            value, weight = pools.pop()
            total = pools[-1][1] + weight
            pools[-1] = [(pools[-1][0] * pools[-1][1] + value * weight) / total, total]
    level = np.concatenate([np.full(int(weight), value) for value, weight in pools])
    return np.clip(level, low, high - offset[-1] if len(values) else high) + offset
