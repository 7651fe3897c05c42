"""Figures that set the data against the model: item characteristic curves, replicated data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr

from measurebayes.errors import InputError
from measurebayes.report import figure as look
from measurebayes.report.plots import LABEL, MOST_LABELLED
from measurebayes.report.summary import (
    counts_table,
    data_of,
    draws_table,
    has_each,
    interval_table,
    json_attribute,
    place_of,
    posterior_of,
    thinned,
)
from measurebayes.report.text import duration, folded, number, shortened

DRAWS = 300  # draws are enough for a band on a plot
GRID = 61  # abilities at which a curve is computed
PANELS = 6
MOST_POINTS = 30  # agents; more are shown in groups of equal ability
BUDGET = 32 * 2**20  # bytes of an array of replicated cells
BANDS = 6


def informative_tasks(fit: xr.DataTree, most: int = PANELS) -> list[str]:
    """Return tasks that tell agents apart: the most informative of each band of difficulty.

    The information of a task is the sum over its attempts of a^2 p (1 - p) at the posterior means,
    a being its discrimination (1 where the model has none).

    Parameters
    ----------
    fit : DataTree
        A fit with ``ability`` and ``difficulty``.
    most : int
        Number of tasks, at most.

    Returns
    -------
    list of str
        Names, from the easiest to the hardest task.
    """
    data, means = data_of(fit), posterior_of(fit).mean(("chain", "draw"))
    agent, task = data["agent_index"].values, data["task_index"].values
    slope = means["discrimination"].values[task] if "discrimination" in means else 1.0
    distance = slope * (means["ability"].values[agent] - means["difficulty"].values[task])
    weight = slope**2 / (4 * np.cosh(distance / 2) ** 2) * data["attempts"].values
    information = np.bincount(task, weight, data.sizes["task"])
    candidates = np.flatnonzero(counts_table(data, "task")["state"] == "")
    candidates = candidates[np.argsort(means["difficulty"].values[candidates], kind="stable")]
    bands = np.array_split(candidates, min(most, len(candidates))) if len(candidates) else []
    best = [band[np.argmax(information[band])] for band in bands]
    return [str(name) for name in data["task"].values[best]]


def plot_icc(fit: xr.DataTree, tasks: Sequence[str] | None = None) -> Any:
    """Draw item characteristic curves: chance of success against ability, for a few tasks.

    The band holds 95 % of the posterior. Points are observed shares of success of agents at
    their posterior mean ability; with more than 30 agents, of groups of agents of like ability. The
    area of a point grows with the number of attempts.

    Parameters
    ----------
    fit : DataTree
        A fit with ``ability`` and ``difficulty``.
    tasks : sequence of str, optional
        Names of tasks; default: `informative_tasks`.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    InputError
        The model has no ability, a task isn't in the data, or no task is informative.
    """
    data = data_of(fit)
    ability = interval_table(fit, "ability", "agent")
    names = informative_tasks(fit) if tasks is None else list(tasks)
    index = [place_of(data, "task", name) for name in names]
    if not index:
        raise InputError(
            "no task to draw",
            where="item characteristic curves",
            expected="a task that some attempts solved and some did not",
            remedy='name tasks: plot_icc(fit, tasks=["name"])',
        )
    grid = _ability_grid(ability)
    curves = _curves(fit, index, grid)
    lines = -(-len(index) // 2)
    figure, axes = look.new_figure(
        0.6 + 2.25 * lines, lines, min(2, len(index)), sharex=True, sharey=True
    )
    for panel, at, curve, name in zip(axes.flat, index, curves, names, strict=False):
        _draw_curve(panel, grid, curve)
        _draw_observed(panel, data, at, ability["mean"].to_numpy())
        look.label(panel, title=folded(name, 19))
        panel.set_ylim(-0.06, 1.06)
    for panel in axes.flat[len(index) :]:
        panel.set_visible(False)
    figure.supxlabel("Ability (logits)", fontsize=look.FONT, color=look.INK)
    figure.supylabel("Probability of success", fontsize=look.FONT, color=look.INK)
    return figure


def _ability_grid(ability: pd.DataFrame) -> np.ndarray:
    low, high = ability["low95"].min(), ability["high95"].max()
    return np.linspace(low - 0.5, high + 0.5, GRID)


def _curves(fit: xr.DataTree, index: list[int], grid: np.ndarray) -> np.ndarray:
    """Return probabilities (task, grid, draw), by the model's own text at a grid of abilities."""
    from scipy.special import expit

    from measurebayes.backends.evaluate import cell_logits
    from measurebayes.inference.results import model_of

    values: dict[str, xr.DataArray] = {}
    for name, draws in thinned(fit, DRAWS).data_vars.items():
        values[str(name)] = draws.isel(task=index) if "task" in draws.dims else draws
        if "agent" in draws.dims and name != "ability":
            values[str(name)] = values[str(name)].isel(agent=[0])
    values["ability"] = xr.DataArray(grid[:, None], dims=("grid", "agent"))
    priors = json_attribute(fit.attrs, "priors")
    logits = cell_logits(model_of(fit), _one_agent(data_of(fit), index), values, priors)
    ordered = logits.transpose("cell", "grid", "chain", "draw").values
    return expit(ordered.reshape(*ordered.shape[:2], -1))


def _one_agent(data: xr.Dataset, index: list[int]) -> xr.Dataset:
    """Return the data of one agent who tried every task of `index` once."""
    kept = data.drop_dims([dim for dim in ("cell", "timing") if dim in data.dims])
    size = len(index)
    cells = {
        "agent_index": np.zeros(size, dtype=np.int64),
        "task_index": np.arange(size, dtype=np.int64),
        "attempts": np.ones(size, dtype=np.int64),
        "successes": np.zeros(size, dtype=np.int64),
    }
    return kept.isel(task=index, agent=[0]).assign(
        {name: ("cell", value) for name, value in cells.items()}
    )


def _draw_curve(panel: Any, grid: np.ndarray, curve: np.ndarray) -> None:
    low, high = np.quantile(curve, [0.025, 0.975], axis=1)
    panel.fill_between(grid, low, high, color=look.BLUE, alpha=0.25, linewidth=0)
    panel.plot(grid, curve.mean(1), color=look.BLUE, linewidth=1.8)


def _draw_observed(panel: Any, data: xr.Dataset, task: int, ability: np.ndarray) -> None:
    rows = data["task_index"].values == task
    x = ability[data["agent_index"].values[rows]]
    attempts, successes = data["attempts"].values[rows], data["successes"].values[rows]
    if len(x) > MOST_POINTS:
        x, attempts, successes = _grouped(x, attempts, successes)
    area = 12 + 60 * attempts / max(attempts.max(initial=1), 1)
    panel.scatter(
        x, successes / attempts, area, color="white", edgecolor=look.VERMILION, alpha=0.9, zorder=3
    )


def _grouped(
    x: np.ndarray, attempts: np.ndarray, successes: np.ndarray, groups: int = 8
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Pool agents in groups of equal size by ability."""
    parts = np.array_split(np.argsort(x, kind="stable"), groups)
    return (
        np.array([x[part].mean() for part in parts]),
        np.array([attempts[part].sum() for part in parts]),
        np.array([successes[part].sum() for part in parts]),
    )


class Grouping(NamedTuple):
    """Groups of cells in which success is predicted.

    Attributes
    ----------
    names : list of str
        One a group, in the order of the plot.
    of_cell : ndarray
        Group of every cell, (cell,).
    title : str
        What the groups are.
    """

    names: list[str]
    of_cell: np.ndarray
    title: str


def grouping(fit: xr.DataTree, by: str | None = None) -> Grouping:
    """Group the cells of a fit by agent, human time or difficulty.

    Parameters
    ----------
    fit : DataTree
    by : {"agent", "minutes", "difficulty"}, optional
        Default: minutes where they are known for every task, else difficulty. Bands hold equal
        numbers of tasks. Agents are in the order of their ability, or else horizon, or else share
        of successes; more than 40 are put into ten groups.

    Raises
    ------
    InputError
        `by` is unknown, or the human times are.
    """
    data = data_of(fit)
    task = data["task_index"].values
    minutes = data["human_minutes"].values
    known = bool(np.isfinite(minutes).all())
    by = by or ("minutes" if known else "difficulty")
    if by == "agent":
        return _by_agent(fit, data)
    if by == "minutes" and known:
        return _by_band(minutes, task, "Human time", duration)
    if by == "difficulty":
        means = interval_table(fit, "difficulty", "task")["mean"].to_numpy()
        return _by_band(means, task, "Difficulty (logits)", _one_decimal)
    raise InputError(
        f"by={by!r}" if by != "minutes" else "tasks without human_minutes",
        where="predictive check",
        expected='by="agent", "minutes" (all tasks timed) or "difficulty"',
        remedy='plot_predictive(fit, by="difficulty")',
    )


def _one_decimal(value: float) -> str:
    return number(value, 1)


def _by_agent(fit: xr.DataTree, data: xr.Dataset) -> Grouping:
    agent = data["agent_index"].values
    means, by = _standing(fit)
    order = np.argsort(-means, kind="stable")
    place = np.empty(len(order), dtype=int)
    if len(order) <= MOST_LABELLED:
        place[order] = np.arange(len(order))
        return Grouping([str(name) for name in data["agent"].values[order]], place[agent], "Agent")
    parts = np.array_split(order, 10)
    for tenth, part in enumerate(parts):
        place[part] = tenth
    names = [f"tenth {tenth + 1}" for tenth in range(10)]
    return Grouping(names, place[agent], f"Agents by {by}, best tenth first")


def _standing(fit: xr.DataTree) -> tuple[np.ndarray, str]:
    """Return what agents are put in order by, (agent,), and its name."""
    for name, words in (("ability", "ability"), ("log2_horizon", "horizon")):
        if has_each(fit, name, "agent"):
            return interval_table(fit, name, "agent")["mean"].to_numpy(), words
    rates = counts_table(data_of(fit), "agent")["rate"]
    return rates.fillna(-1.0).to_numpy(), "share of successes"  # those without attempts last


def _by_band(values: np.ndarray, task: np.ndarray, title: str, wording: Any) -> Grouping:
    # The same bands as measurebayes.checks.predictive.time_bands has, with words of our own.
    edges = np.unique(np.quantile(values, np.linspace(0, 1, BANDS + 1)))
    band = np.searchsorted(edges[1:-1], values, side="right")
    present = np.unique(band[task])
    ends = edges if len(edges) > 1 else np.repeat(edges, 2)
    names = [f"{wording(ends[b])} to {wording(ends[b + 1])}" for b in present]
    return Grouping(names, np.searchsorted(present, band[task]), title)


def predictive_table(fit: xr.DataTree, by: str | None = None, seed: int = 1) -> pd.DataFrame:
    """Compare observed shares of success with those of replicated data, group by group.

    Parameters
    ----------
    fit : DataTree
    by : str, optional
        See `grouping`.
    seed : int
        Seed of the replicates.

    Returns
    -------
    DataFrame
        One row a group: name, observed (share of attempts that succeeded), and of the replicates
        mean, sd, low95, low50, median, high50, high95; attempts. attrs["title"] names the groups.
    """
    from measurebayes.checks.discrepancy import group_sums

    groups = grouping(fit, by)
    place, size = groups.of_cell, len(groups.names)
    data = data_of(fit)
    attempts = group_sums(data["attempts"].values, place, size)
    observed = group_sums(data["successes"].values, place, size) / attempts
    rates = [group_sums(block, place, size) / attempts for block in _replicates(fit, data, seed)]
    table = draws_table(np.concatenate(rates).T, groups.names)
    table = table.assign(observed=observed, attempts=attempts.astype(int))
    table.attrs["title"] = groups.title
    return table


def _replicates(fit: xr.DataTree, data: xr.Dataset, seed: int) -> Iterator[np.ndarray]:
    """Yield replicated successes (draw, cell) in blocks of bounded size."""
    from measurebayes.backends.blocks import blocks_of_draws
    from measurebayes.backends.evaluate import replicate
    from measurebayes.inference.results import model_of

    rng = np.random.default_rng(seed)
    model, draws = model_of(fit), thinned(fit, DRAWS)
    for block in blocks_of_draws(draws, data.sizes["cell"], BUDGET):
        values = {str(name): block[name] for name in block.data_vars}
        made = replicate(model, data, values, rng).transpose("chain", "draw", "cell").values
        yield made.reshape(-1, made.shape[-1])


def plot_predictive(fit: xr.DataTree, by: str | None = None, seed: int = 1) -> Any:
    """Draw observed shares of success over the intervals of replicated data.

    Parameters
    ----------
    fit : DataTree
    by : {"agent", "minutes", "difficulty"}, optional
        See `grouping`.
    seed : int
        Seed of the replicates.

    Returns
    -------
    matplotlib.figure.Figure
    """
    return draw_predictive(predictive_table(fit, by, seed))


def draw_predictive(table: pd.DataFrame) -> Any:
    """Draw a table of `predictive_table`."""
    figure, axes = look.new_figure(1.2 + look.ROW * max(len(table), 3))
    panel = axes[0, 0]
    y = np.arange(len(table))
    panel.hlines(y, table["low95"], table["high95"], color=look.BLUE, linewidth=2.2)
    panel.hlines(y, table["low50"], table["high50"], color=look.BLUE, linewidth=6, alpha=0.55)
    panel.plot([], [], color=look.BLUE, linewidth=2.2, label="replicated, 95 %")
    panel.plot([], [], color=look.BLUE, linewidth=6, alpha=0.55, label="50 %")
    # An upright stroke doesn't hide a narrow interval, as a filled mark would.
    stroke = {"marker": "|", "markersize": 11, "markeredgewidth": 2.2, "linestyle": "none"}
    panel.plot(table["observed"], y, color=look.VERMILION, label="observed", zorder=3, **stroke)
    panel.set_yticks(y, shortened(table["name"], LABEL), parse_math=False)
    panel.set_ylim(len(table) - 0.4, -0.6)
    look.label(panel, x="Share of successes", y=table.attrs["title"])
    look.legend(figure, panel)
    return figure
