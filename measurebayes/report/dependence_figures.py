"""Figures of what goes together: residual dimensions, and a matrix of agents against agents."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from measurebayes.checks.dependence import LocalDependence
from measurebayes.errors import InputError
from measurebayes.estimands.pairs import ablest, pair_matrix
from measurebayes.report import figure as look
from measurebayes.report.plots import MOST_LABELLED
from measurebayes.report.text import shortened

# Probabilities that the agent of the row is the abler one; darker is surer, also in grey.
CLASSES = (0.0, 0.6, 0.8, 0.95, 0.99, 1.0 + 1e-9)
SHADES = ("#f2f2f2", "#c6dbef", "#7fb3d9", "#2f7fbc", "#08406f")
WORDS = ("under 0.6", "0.6 to 0.8", "0.8 to 0.95", "0.95 to 0.99", "over 0.99")
MOST_NUMBERED = 9  # agents whose probabilities are written into the matrix
MOST_GAPS = 24  # agents whose squares stand apart
ROW = 0.24  # inches


def plot_pairs(fit: xr.DataTree, variable: str | None = None) -> Any:
    """Draw the probability that one agent is abler than another, for every two.

    Rows and columns run from the highest mean to the lowest; a square is the probability that the
    agent of the row exceeds that of the column, darker where it is surer. Of many agents the 40
    with the highest means are drawn.

    Parameters
    ----------
    fit : DataTree
        A fit of a model with a value of each agent.
    variable : str, optional
        Its name; ability, or else log2_horizon.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    InputError
        The model has no such variable, or there is one agent.
    """
    chance = pair_matrix(fit, variable, ablest(fit, MOST_LABELLED, variable))
    number = len(chance)
    figure, axes = look.new_figure(max(2.6, 1.2 + ROW * number))
    panel = axes[0, 0]
    place = np.digitize(chance.to_numpy(), CLASSES[1:-1]).astype(float)
    place[np.tril_indices(number)] = np.nan
    _squares(panel, place)
    if number <= MOST_NUMBERED:
        _numbers(panel, chance)
    panel.set_xlim(-0.5, number - 0.5)
    panel.set_ylim(number - 0.5, -0.5)
    panel.grid(visible=False)
    panel.spines[["left", "bottom"]].set_visible(False)
    panel.tick_params(length=0)
    labels = shortened(chance.index, 20)
    panel.set_yticks(range(number), [f"{text}  {i + 1}" for i, text in enumerate(labels)])
    for text in panel.get_yticklabels():
        text.set_parse_math(False)
    step = 1 if number <= 12 else 2 if number <= 24 else 5
    ranks = range(0, number, step)
    panel.set_xticks(ranks, [str(i + 1) for i in ranks])
    panel.xaxis.tick_top()
    _explain(figure)
    return figure


def _squares(panel: Any, place: np.ndarray) -> None:
    from matplotlib.collections import PolyCollection

    rows, columns = np.nonzero(np.isfinite(place))
    corners = np.array([[-0.5, -0.5], [0.5, -0.5], [0.5, 0.5], [-0.5, 0.5]])
    corners = corners * (0.94 if len(place) <= MOST_GAPS else 1.0)
    shapes = corners + np.stack([columns, rows], axis=1)[:, None]
    colours = [SHADES[int(k)] for k in place[rows, columns]]
    panel.add_collection(PolyCollection(list(shapes), facecolors=colours, linewidths=0))


def _numbers(panel: Any, chance: pd.DataFrame) -> None:
    values = chance.to_numpy()
    for i in range(len(values)):
        for j in range(i + 1, len(values)):
            value = values[i, j]
            colour = "white" if value >= CLASSES[3] else look.INK
            text = ">.99" if value > 0.995 else f"{value:.2f}".lstrip("0")
            style = {"fontsize": look.FONT - 1, "color": colour, "ha": "center", "va": "center"}
            panel.text(j, i, text, **style)


def _explain(figure: Any) -> None:
    from matplotlib.patches import Patch

    handles = [Patch(facecolor=c, label=w) for c, w in zip(SHADES, WORDS, strict=True)]
    figure.legend(
        handles=handles,
        loc="outside upper left",
        ncols=3,
        fontsize=look.FONT - 1,
        frameon=False,
        handlelength=1.2,
        columnspacing=1.2,
    )


def plot_dimensions(result: LocalDependence) -> Any:
    """Draw residual dimensions of the data over those of replicates.

    Parameters
    ----------
    result : LocalDependence
        What `measurebayes.local_dependence` returned.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    InputError
        There are too few agents or tasks for any.
    """
    table = result.dimensions
    if table.empty:
        raise InputError(
            "no residual dimensions",
            where="the result",
            expected="two agents and two tasks or more",
        )
    figure, axes = look.new_figure(3.0)
    panel, x = axes[0, 0], table["dimension"]
    panel.vlines(
        x, 100 * table["low"], 100 * table["high"], color=look.GREY, linewidth=5, alpha=0.5
    )
    panel.plot(
        x, 100 * table["expected"], "_", color=look.GREY, markersize=14, label="replicates, 95 %"
    )
    style = {"color": look.BLUE, "markerfacecolor": "white", "markeredgewidth": 1.6}
    panel.plot(x, 100 * table["observed"], marker="o", linestyle="none", label="data", **style)
    highest = max(table["high"].max(), table["observed"].max())
    panel.set_ylim(0, 108 * highest)
    panel.set_xticks(list(x))
    look.label(panel, x="Residual dimension", y="Share of what is left (%)")
    look.legend(figure, panel)
    return figure
