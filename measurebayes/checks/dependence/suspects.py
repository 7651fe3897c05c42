"""Suspect tasks: those that able agents fail and weak ones solve, as with a wrong key."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from scipy.special import stdtr

from measurebayes.checks.dependence.design import Design, data_of

SUSPECT = 0.5  # probability of a negative discrimination
LEAST_AGENTS = 3
BACKWARDS, UNLIKELY = "probably backwards", "rest correlation is negative"


def suspect_tasks(source: xr.DataTree | xr.Dataset, level: float = 0.95) -> pd.DataFrame:
    """Rank tasks by how probably success falls with ability: wrong keys, broken scorers.

    The cheap measure needs no fit: over the agents that tried a task, the correlation of their
    share of successes there with how they do on the others. What an agent does elsewhere is the
    mean, over its other tasks, of its share of successes less the mean of all agents at that task,
    so that agents that tried easy tasks look no abler. In complete data it is the corrected
    item-total correlation. It is noise where few agents tried a task, and pulled to 0 where
    nearly all or nearly none succeed; a fit takes both into account.

    Parameters
    ----------
    source
        A dataset of the schema; or a fit. Where its model lets discriminations be negative, the
        probability that they are is read off the posterior. Other models can't tell: with positive
        slopes a wrong key becomes a flat curve.
    level
        Probability of the interval of the discrimination.

    Returns
    -------
    pandas.DataFrame
        One row a task with attempts, the most suspect first: task, agents, attempts, rate,
        item_rest (correlation; NaN with fewer than 3 agents, or equal shares), item_rest_p (chance
        of so low a correlation were there none, Student's t); for fits with signed discrimination
        p_negative, discrimination (median), low, high; and note: "probably backwards" where
        p_negative exceeds 0.5, else "rest correlation is negative" where item_rest_p is below 0.05,
        else "".

    Raises
    ------
    InputError
        There are no attempts.
    """
    fit = source if isinstance(source, xr.DataTree) else None
    runs = data_of(source)
    design = Design.of(runs)
    number = np.bincount(design.task, minlength=design.tasks)
    attempts, successes = (
        np.bincount(design.task, runs[name].values, design.tasks)
        for name in ("attempts", "successes")
    )
    table = pd.DataFrame(
        {
            "task": runs["task"].values.astype(object),
            "agents": number,
            "attempts": attempts.astype(np.int64),
            "rate": successes / np.where(attempts > 0, attempts, np.nan),
        }
    )
    table["item_rest"] = item_rest(design)
    table["item_rest_p"] = _chance(table["item_rest"].to_numpy(), number)
    backwards = np.zeros(len(table), dtype=bool)
    order, ascending = ["item_rest_p", "item_rest"], [True, True]
    slopes = None if fit is None else signed_discrimination(fit)
    if slopes is not None:
        tail = (1.0 - level) / 2.0
        table["p_negative"] = (slopes < 0).mean(axis=0)
        low, middle, high = np.quantile(slopes, [tail, 0.5, 1 - tail], axis=0)
        table["discrimination"], table["low"], table["high"] = middle, low, high
        backwards = table["p_negative"].to_numpy() > SUSPECT
        order, ascending = ["p_negative", "item_rest"], [False, True]
    note = np.select([backwards, table["item_rest_p"] < 0.05], [BACKWARDS, UNLIKELY], "")
    table["note"] = note.astype(object)
    table = table[number > 0]
    return table.sort_values(order, ascending=ascending, ignore_index=True, kind="stable")


def item_rest(design: Design) -> np.ndarray:
    """Correlation of a task's shares of successes with agents' results on their other tasks.

    Returns
    -------
    np.ndarray
        Shape (task,); NaN where it is not defined.
    """
    share = design.successes / design.attempts
    number = np.bincount(design.task, minlength=design.tasks)
    mean = np.bincount(design.task, share, design.tasks) / np.maximum(number, 1)
    away = share - mean[design.task]
    tried = np.bincount(design.agent, minlength=design.agents)[design.agent]
    total = np.bincount(design.agent, away, design.agents)[design.agent]
    kept = tried >= 2
    rest = (total - away)[kept] / (tried - 1)[kept]
    task, away = design.task[kept], away[kept]
    number = np.bincount(task, minlength=design.tasks)
    x, y = (
        v - (np.bincount(task, v, design.tasks) / np.maximum(number, 1))[task] for v in (away, rest)
    )
    xx, yy, xy = (np.bincount(task, v, design.tasks) for v in (x * x, y * y, x * y))
    defined = (number >= LEAST_AGENTS) & (xx > 1e-12) & (yy > 1e-12)
    result: np.ndarray = np.divide(
        xy, np.sqrt(np.maximum(xx * yy, 1e-300)), out=np.full(design.tasks, np.nan), where=defined
    )
    return np.clip(result, -1.0, 1.0)


def _chance(correlation: np.ndarray, agents: np.ndarray) -> np.ndarray:
    """Chance of a correlation as low as this among unrelated numbers."""
    freedom = np.maximum(agents - 2, 1)
    left = np.maximum(1.0 - correlation**2, 1e-12)
    chance: np.ndarray = stdtr(freedom, correlation * np.sqrt(freedom / left))
    return chance


def signed_discrimination(fit: xr.DataTree) -> np.ndarray | None:
    """Draws of discriminations (draw, task) of a model that lets them be negative, else None.

    Where a model leaves it open which end of the ability is up, a draw is turned so that most
    tasks point up.
    """
    posterior = fit["posterior"].to_dataset()
    variable = posterior.get("discrimination")
    if variable is None or "task" not in variable.dims:
        return None
    slopes = variable.transpose("chain", "draw", "task").values
    slopes = slopes.reshape(-1, slopes.shape[-1]).astype(float)
    options: dict[str, Any] = json.loads(str(fit.attrs.get("options") or "{}"))
    if not (slopes < 0).any() and "signed" not in map(str, options.values()):
        return None
    turned = np.where(np.median(slopes, axis=1) < 0, -1.0, 1.0)
    signed: np.ndarray = slopes * turned[:, None]
    return signed
