"""How the sampler did: worst parameters, chains, and a figure of ranks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from measurebayes.errors import InputError, did_you_mean, shown
from measurebayes.report import figure as look
from measurebayes.report.summary import posterior_of
from measurebayes.report.text import folded

WORST = 10  # rows of the table
RANKED = 4  # panels of the figure
BINS = 20
# Checks of measurebayes.checks.convergence whose failure means that draws can't be trusted;
# tree_depth is left out, as it is a matter of speed.
TRUST = ("rhat", "ess_bulk", "ess_tail", "divergences", "ebfmi", "approximation")


def worst_parameters(fit: xr.DataTree, number: int = WORST) -> pd.DataFrame:
    """Return the parameters with the largest R-hat.

    Returns
    -------
    DataFrame
        Columns name, rhat, ess_bulk, ess_tail; worst first. Parameters that can't be judged
        (NaN) come first.
    """
    from measurebayes.checks.convergence import comparable, diagnostics

    table = pd.DataFrame(diagnostics(comparable(posterior_of(fit))))
    if table.empty:
        return pd.DataFrame(columns=["name", "rhat", "ess_bulk", "ess_tail"])
    order = table.sort_values(
        ["rhat", "ess_bulk"], ascending=[False, True], na_position="first", kind="stable"
    )
    return order.head(number).rename_axis("name").reset_index()


def chains_table(fit: xr.DataTree) -> pd.DataFrame:
    """Return one row a chain: divergences, gradients a draw, depth, acceptance, step size.

    Columns that a sampler doesn't report are left out.
    """
    if "sample_stats" not in fit.children:
        return pd.DataFrame()
    stats = fit["sample_stats"].to_dataset()
    columns = {
        "divergences": ("diverging", "sum"),
        "steps": ("n_steps", "mean"),
        "tree_depth": ("tree_depth", "max"),
        "acceptance": ("acceptance_rate", "mean"),
        "step_size": ("step_size", "mean"),
    }
    found = {
        name: getattr(stats[variable].transpose("chain", "draw").values, how)(axis=1)
        for name, (variable, how) in columns.items()
        if variable in stats
    }
    return pd.DataFrame(found)


def plot_ranks(fit: xr.DataTree, parameters: Sequence[str] | None = None) -> Any:
    """Draw how the draws of each chain rank among all, for the worst parameters.

    Chains that sample the same distribution have flat, overlapping lines; the band holds 99 % of
    the bins of independent draws. A chain that is high at one end disagrees with the others.

    Parameters
    ----------
    fit : DataTree
    parameters : sequence of str, optional
        Names of scalars, such as ``ability[GPT-4]``; default: the four with the largest R-hat.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    InputError
        There is no such parameter.
    """
    from measurebayes.checks.approximation import is_approximate
    from measurebayes.checks.convergence import scalars

    if is_approximate(fit):
        raise InputError(
            "draws of an approximation, which are independent: no chains to compare",
            where="fit",
            expected="a fit by a sampler",
            remedy='mb.fit(..., method="nuts")',
        )
    names, draws = scalars(posterior_of(fit))
    if parameters is None:
        parameters = list(worst_parameters(fit, RANKED)["name"])
    wanted = list(parameters) or names[:RANKED]
    unknown = [name for name in wanted if name not in names]
    if unknown:
        raise InputError(
            f"no parameter {shown(unknown[0])}",
            where="parameters",
            expected='names such as "ability_sd" or "ability[AGENT]"',
            remedy=did_you_mean(unknown[0], names) or 'fit["posterior"] lists the variables',
        )
    lines = -(-len(wanted) // 2)
    figure, axes = look.new_figure(0.9 + 2.0 * lines, lines, 2, sharex=True, sharey=True)
    for panel, name in zip(axes.flat, wanted, strict=False):
        _draw_ranks(panel, draws[names.index(name)])
        look.label(panel, title=folded(name, 19))
    for panel in axes.flat[len(wanted) :]:
        panel.set_visible(False)
    figure.supxlabel("Rank among the draws of all chains (share)", fontsize=look.FONT)
    figure.supylabel("Draws, relative to even", fontsize=look.FONT)
    return figure


def _draw_ranks(panel: Any, draws: np.ndarray) -> None:
    from scipy.stats import binom, rankdata

    chains, number = draws.shape
    bins = min(BINS, max(2, number // 10))
    share = (rankdata(draws, method="average").reshape(draws.shape) - 0.5) / draws.size
    low, high = binom.ppf([0.005, 0.995], number, 1 / bins) * bins / number
    panel.fill_between([0, 1], low, high, color=look.PALE, alpha=0.6, linewidth=0)
    edges = np.linspace(0, 1, bins + 1)
    for chain in range(chains):
        count, _ = np.histogram(share[chain], edges)
        colour = look.COLOURS[chain % len(look.COLOURS)]
        style = look.STYLES[chain // len(look.COLOURS) % len(look.STYLES)]
        height = count * bins / number
        panel.step(edges, [*height, height[-1]], where="post", color=colour, linestyle=style)
    panel.set_xlim(0, 1)
    panel.set_ylim(bottom=0)
