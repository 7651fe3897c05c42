"""Figures of several dimensions: traits of agents by dimension, spreads of families."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from measurebayes.errors import InputError
from measurebayes.report import figure as look
from measurebayes.report.dimensions import (
    by_dimension,
    dimension_names,
    dimensions_of,
    rotatable,
)
from measurebayes.report.families import spreads
from measurebayes.report.plots import segments
from measurebayes.report.summary import data_of
from measurebayes.report.text import short, shortened

MOST_AGENTS, FEWER_AGENTS = 40, 25  # of one line of panels, and of several
MOST_FAMILIES = 30
ACROSS = 3  # dimensions side by side
NAME = {1: 25, 2: 20, 3: 16}  # columns of a name beside so many panels
TITLE = 14  # columns of a dimension's name
STYLE: dict[str, Any] = {
    "linestyle": "none",
    "marker": "o",
    "markersize": 4.5,
    "color": "white",
    "markeredgecolor": look.BLUE,
    "markeredgewidth": 1.4,
}


def plot_traits(fit: xr.DataTree) -> Any:
    """Draw every agent's traits with 90 % intervals, one panel a dimension.

    Agents stand in one order in all panels, by the first dimension. Of more than 40 agents (25
    where there are more than three dimensions) those are drawn whose traits are farthest from the
    average agent's.

    Parameters
    ----------
    fit : DataTree
        A fit with ``trait`` and ``loading`` on dimensions, such as one of mirt.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    InputError
        The model has no dimensions.
    """
    number = dimensions_of(fit)
    if not number:
        raise InputError(
            "no traits of agents on dimensions",
            where=f"the posterior of model {fit.attrs.get('model', '')}",
            expected="a model with the variables trait and loading",
            remedy="fit mirt",
        )
    mean, ends = by_dimension(fit, "trait", "agent")
    far = np.argsort(-np.linalg.norm(mean, axis=1), kind="stable")[: most_drawn(number)]
    rows = far[np.argsort(-mean[far, 0], kind="stable")]
    columns = min(number, ACROSS)
    lines = -(-number // columns)
    height = lines * (0.7 + look.ROW * len(rows)) + 0.7
    figure, axes = look.new_figure(height, lines, columns, sharex=True, sharey=True)
    names = shortened(data_of(fit)["agent"].values[rows], NAME[columns])
    unit = "standard deviations" if rotatable(fit) else "logits"
    for k, panel in enumerate(axes.flat):
        if k >= number:
            panel.set_visible(False)
            continue
        _intervals(panel, mean[rows, k], *ends[:, rows, k])
        panel.axvline(0.0, color=look.GREY, linewidth=0.8, zorder=0)
        panel.set_yticks(range(len(rows)), names, parse_math=False)
        panel.tick_params(labelbottom=True)
        panel.locator_params(axis="x", nbins=4 if columns < ACROSS else 3, steps=[1, 2, 5, 10])
        look.label(panel, title=short(dimension_names(fit)[k], TITLE))
    axes[0, 0].set_ylim(len(rows) - 0.4, -0.6)
    figure.supxlabel(f"Trait ({unit})", fontsize=look.FONT, color=look.INK)
    _explain(figure, axes[0, 0], "mean")
    return figure


def most_drawn(dimensions: int) -> int:
    """Return how many agents are drawn at most, so that the figure is not too high."""
    return MOST_AGENTS if dimensions <= ACROSS else FEWER_AGENTS


def plot_families(fit: xr.DataTree) -> Any:
    """Draw how much agents differ in each family beyond ability, with 90 % intervals.

    The families with the largest median spreads are drawn, 30 at most.

    Parameters
    ----------
    fit : DataTree
        A fit with ``testlet_sd`` (chain, draw, family), such as one of testlet or bifactor.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    InputError
        The model has no effects of agents in families.
    """
    table = spreads(fit).head(MOST_FAMILIES)
    figure, axes = look.new_figure(1.2 + look.ROW * len(table))
    panel = axes[0, 0]
    _intervals(panel, table["median"].to_numpy(), table["low"], table["high"])
    panel.set_yticks(range(len(table)), shortened(table["name"], NAME[1]), parse_math=False)
    panel.set_ylim(len(table) - 0.4, -0.6)
    panel.set_xlim(left=0.0)
    # Below the whole figure: the panel alone may be narrower than the words.
    words = "Standard deviation of agents' effects (logits)"
    figure.supxlabel(words, fontsize=look.FONT, color=look.INK)
    _explain(figure, panel, "median")
    return figure


def _intervals(panel: Any, middle: np.ndarray, low: Any, high: Any) -> None:
    y = np.arange(len(middle))
    panel.plot(*segments(low, high, y), color=look.BLUE, linewidth=1.6, alpha=0.9)
    panel.plot(middle, y, **STYLE)


def _explain(figure: Any, panel: Any, middle: str) -> None:
    panel.plot([], [], **STYLE, label=middle)
    panel.plot([], [], color=look.BLUE, linewidth=1.6, label="90 % interval")
    look.legend(figure, panel)
