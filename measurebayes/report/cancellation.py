"""Figures of cancellation checks: observed against expected violations, and one violation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from measurebayes.errors import InputError
from measurebayes.report import figure as look
from measurebayes.report.quantity import doubt_of, ordered, p_of
from measurebayes.report.text import folded, number, shortened

if TYPE_CHECKING:
    import pandas as pd

    from measurebayes.checks.cancellation import Cancellation

NAME = 22  # columns of the name of an explanation
SIDE = 0.92  # inches, of a cell of the 3 x 3 picture
MARGINS = (1.75, 0.55)  # inches, for names at the left and above
ROWS, COLUMNS = "abc", "zyx"
AXIOM = (("ay", "bx", True), ("bz", "cy", True), ("az", "cx", False))


def plot_cancellation(result: Cancellation) -> Any:
    """Draw the observed rate of violations over the replicates of each explanation.

    Rows are sorted by the rate that they expect, the lowest first. Rates are in per cent of cases.

    Parameters
    ----------
    result : Cancellation
        What ``measurebayes.cancellation`` returned.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    InputError
        There is no case to judge, or no explanation to set it against.
    """
    observed = 100 * float(result.observed["rate"])
    rates = {name: 100 * x[np.isfinite(x)] for name, x in result.replicated.items()}
    names = [name for name in ordered(result) if len(rates.get(name, ()))]
    if not np.isfinite(observed) or not names:
        raise InputError(
            "no case of the axiom to judge" if not np.isfinite(observed) else "no explanation",
            where="plot_cancellation",
            expected="a check with cases and an explanation at least",
            remedy="mb.cancellation(runs, against=['rasch_ml'], min_attempts=10)",
        )
    lines = 3 if any(doubt_of(result.expected[name]) for name in names) else 2
    figure, axes = look.new_figure(1.3 + lines * look.ROW * max(len(names), 2))
    panel = axes[0, 0]
    for row, name in enumerate(names):
        _strip(panel, row, rates[name], first=row == 0)
    panel.axvline(
        observed, color=look.VERMILION, linewidth=2.2, label=f"observed, {number(observed)} %"
    )
    panel.set_yticks(
        np.arange(len(names)),
        [_row_label(result, name, text) for name, text in _short(names)],
        parse_math=False,
    )
    panel.set_ylim(len(names) - 0.5, -0.5)
    panel.set_xlim(left=0)
    panel.tick_params(axis="y", length=0)
    look.label(panel, x="Violations, % of cases")
    look.legend(figure, panel, 2)
    return figure


def _short(names: list[str]) -> Any:
    return zip(names, shortened(names, NAME), strict=True)


def _row_label(result: Cancellation, name: str, text: str) -> str:
    values = result.expected[name]
    doubt = f"\n{said}" if (said := doubt_of(values)) else ""
    return f"{text}\n{p_of(values)}{doubt}"


def _strip(panel: Any, row: int, rates: np.ndarray, first: bool) -> None:
    """Draw one explanation's replicates: their histogram, 95 % and 50 % of them, and the mean."""
    heights, edges = np.histogram(rates, bins=min(40, max(5, len(rates) // 10)))
    top = 0.42 * heights / max(heights.max(), 1)
    panel.stairs(row - top, edges, baseline=row, fill=True, color=look.PALE, linewidth=0)
    for tail, width, text in ((2.5, 1.4, "replicates, 95 %"), (25, 4.5, "50 % and mean")):
        ends = np.percentile(rates, [tail, 100 - tail])
        panel.plot(
            ends, [row, row], color=look.BLUE, linewidth=width, label=text if first else None
        )
    panel.plot([rates.mean()], [row], "o", color="white", markeredgecolor=look.BLUE, markersize=6.5)


def plot_triple(result: Cancellation, row: int = 0) -> Any:
    """Draw one violation of double cancellation as a 3 x 3 table of agents by bands.

    Rows are the agents a, b, c, columns the bands z, y, x, so that each relation reads from left to
    right along its arrow. The two blue ones hold; then "at least as large as" would have to hold
    along the dashed one too, and does not.

    Parameters
    ----------
    result : Cancellation
        What ``measurebayes.cancellation`` returned.
    row : int
        Row of ``result.violations``.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    InputError
        There is no such row.
    """
    one = violation_at(result, row)
    wide = MARGINS[0] + 3 * SIDE
    scale = look.WIDTH / wide  # the picture is as wide as all others
    figure, axes = look.new_figure(scale * (MARGINS[1] + 3 * SIDE) + 0.35)
    panel = axes[0, 0]
    panel.set_axis_off()
    panel.set_xlim(-MARGINS[0] / SIDE, 3.02)
    panel.set_ylim(3.02, -MARGINS[1] / SIDE)
    panel.set_aspect("equal")
    _cells(panel, one)
    for first, second, holds in AXIOM:
        _arrow(panel, first, second, holds)
    _names(panel, one, result.by)
    dashed = {"color": look.VERMILION, "linewidth": 2.6, "linestyle": (0, (2, 1))}
    panel.plot([], [], color=look.BLUE, linewidth=2.2, label="holds")
    panel.plot([], [], **dashed, label="\u2265 should follow, but fails")
    look.legend(figure, panel, 2)
    return figure


def violation_at(result: Cancellation, row: int) -> pd.Series:
    """Return one row of ``result.violations``.

    Raises
    ------
    InputError
        There is no such row.
    """
    found = len(result.violations)
    if not 0 <= row < found:
        raise InputError(
            f"no violation number {row}" if found else "no violation",
            where="plot_triple",
            expected=f"a row from 0 to {found - 1}" if found else "a check that lists violations",
            remedy="row=0 is the largest one"
            if found
            else "axiom='double' without random cuts lists them, where there are any",
        )
    return result.violations.iloc[row]


def _place(entry: str) -> tuple[int, int]:
    """Column and row of an entry such as ``ay``."""
    return COLUMNS.index(entry[1]), ROWS.index(entry[0])


def _cells(panel: Any, one: pd.Series) -> None:
    from matplotlib.patches import Rectangle

    used = {entry for first, second, _ in AXIOM for entry in (first, second)}
    for entry in (a + x for a in ROWS for x in COLUMNS):
        column, line = _place(entry)
        ground = "white" if entry in used else "#ececec"
        panel.add_patch(
            Rectangle((column, line), 1, 1, facecolor=ground, edgecolor=look.GREY, linewidth=0.8)
        )
        if entry in used:
            _write(panel, column, line, one[entry])


def _write(panel: Any, column: int, line: int, rate: float) -> None:
    panel.text(
        column + 0.5,
        line + 0.5,
        f"{100 * rate:.1f} %",
        fontsize=look.FONT + 1,
        fontweight="bold",
        color=look.INK,
        ha="center",
        va="center",
        zorder=4,
    )


def _arrow(panel: Any, first: str, second: str, holds: bool) -> None:
    """Draw an arrow from one entry to another, with the sign between them in its middle."""
    start, end = (np.array(_place(entry)) + 0.5 for entry in (first, second))
    colour = look.BLUE if holds else look.VERMILION
    step = (end - start) / np.abs(end - start).max()
    panel.annotate(
        "",
        xy=end - 0.24 * step,
        xytext=start + 0.24 * step,
        arrowprops={
            "arrowstyle": "-|>,head_width=0.35,head_length=0.7",
            "color": colour,
            "linewidth": 2.2 if holds else 3,
            "linestyle": "-" if holds else (0, (3, 1.2)),
            "shrinkA": 0,
            "shrinkB": 0,
        },
        zorder=3,
    )
    panel.text(
        *(start + end) / 2,
        "\u2265" if holds else "<",
        fontsize=look.FONT + 8,  # small signs on a slanted line look slanted themselves
        color=look.INK,
        rotation=0,
        ha="center",
        va="center_baseline",
        bbox={
            "boxstyle": "circle,pad=0.12",
            "facecolor": "white",
            "edgecolor": colour,
            "linewidth": 2.2,
        },
        zorder=5,
    )


def _names(panel: Any, one: pd.Series, by: str) -> None:
    style = {"fontsize": look.FONT, "color": look.INK, "parse_math": False}
    for line, letter in enumerate(ROWS):
        words = folded(one[f"agent_{letter}"], 15)
        panel.text(-0.12, line + 0.5, words, ha="right", va="center", **style)
    for column, letter in enumerate(COLUMNS):
        words = folded(one[f"band_{letter}"], 11)
        panel.text(column + 0.5, -0.1, words, ha="center", va="bottom", **style)
    panel.text(
        -0.12,
        -0.1,
        f"Bands of\n{folded(by, 15)}",
        ha="right",
        va="bottom",
        **{**style, "color": look.GREY},
    )
