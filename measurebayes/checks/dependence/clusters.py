"""Plain success rates with intervals that take tasks, or whole families, as what was sampled.

References
----------
.. [1] Field, Welsh (2007). Bootstrapping clustered data. Journal of the Royal Statistical Society B
   69(3). doi:10.1111/j.1467-9868.2007.00593.x
.. [2] Kish (1965). Survey Sampling. Wiley.
.. [3] Hesterberg (2015). What teachers should know about the bootstrap. The American Statistician
   69(4). doi:10.1080/00031305.2015.1089789
"""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import xarray as xr
from scipy.special import ndtr, stdtrit

from measurebayes.checks.dependence.design import Design, data_of
from measurebayes.checks.replicates import check_replicates
from measurebayes.errors import check_level

RESAMPLES = 2000
_BLOCK = 64 * 2**20  # bytes of resampled weights


def clustered_rates(
    runs: xr.Dataset | xr.DataTree,
    level: float = 0.95,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> pd.DataFrame:
    """Plain success rates of agents, with families and with single tasks resampled.

    The rate of an agent is the mean over the tasks that it tried of its share of successes there.
    Its bootstrap draws families with replacement, each with all of its tasks [1]_; for comparison
    it draws single tasks, as if families did not matter. All agents share the families of a
    resample. No model is involved, so that tasks of a family also go together by being equally
    hard: this is the uncertainty about the rate at other families like these.

    Parameters
    ----------
    runs
        Dataset of the schema, or a fit, whose data are taken.
    level
        Probability of the intervals: percentiles of the resamples, moved outwards as a t interval
        of so many units is wider than a normal one [3]_. Families of different sizes count as the
        number of equal ones that give a mean the same variance. An agent that tried a single one
        has none.
    resamples
        Number of resamples.
    seed
        Of the random numbers.

    Returns
    -------
    pandas.DataFrame
        One row an agent with attempts, the highest rate first: agent, tasks, families (tried),
        rate, low, high (families resampled), low_tasks, high_tasks (tasks resampled),
        design_effect (estimated variance of the rate with families as clusters over that with
        independent tasks [2]_), effective_tasks (tasks / design_effect). The last two are NaN with
        fewer than two families, or where all outcomes are equal.

    Raises
    ------
    InputError
        There are no attempts, `level` is not between 0 and 1, or `resamples` is no whole number of
        1 or more.

    Warns
    -----
    UserWarning
        For agents that tried a single family: their low and high are NaN (low_tasks and high_tasks
        with a single task).
    """
    check_level(level, "clustered_rates")
    check_replicates(resamples, "resamples")
    table = rates_of(data_of(runs), level, resamples, seed)
    _warn_of_single(table["families"].to_numpy())
    return table


def rates_of(
    data: xr.Dataset, level: float = 0.95, resamples: int = RESAMPLES, seed: int = 0
) -> pd.DataFrame:
    """Table of `clustered_rates`, whose missing intervals say themselves what is unknown."""
    design = Design.of(data)
    share = design.successes / design.attempts
    rng = np.random.default_rng(seed)
    present = np.unique(design.agent)
    ends = []
    for place, size in ((design.family, design.families), (design.task, design.tasks)):
        solved, tried = _by_unit(design, share, place, size)
        rates = _resampled(solved, tried, resamples, rng)
        ends.append([_interval(rates[:, at], tried[:, at], level) for at in present])
    table = _effects(design, share)
    table.insert(0, "agent", data["agent"].values[present].astype(object))
    for suffix, pairs in zip(("", "_tasks"), ends, strict=True):
        table[f"low{suffix}"], table[f"high{suffix}"] = np.transpose(pairs)
    columns = ["agent", "tasks", "families", "rate", "low", "high", "low_tasks", "high_tasks"]
    table = table[[*columns, "design_effect", "effective_tasks"]]
    return table.sort_values("rate", ascending=False, ignore_index=True, kind="stable")


def _warn_of_single(families: np.ndarray) -> None:
    single = int(np.count_nonzero(families < 2))
    if single:
        who = "no agent" if single == len(families) else f"{single} of {len(families)} agents"
        tried = "tried two families or more" if single == len(families) else "tried a single family"
        warnings.warn(
            f"{who} {tried}: how much rates differ from family to family can't be told, and low "
            "and high are NaN. low_tasks and high_tasks take tasks for independent.",
            UserWarning,
            stacklevel=3,
        )


def _by_unit(
    design: Design, share: np.ndarray, place: np.ndarray, size: int
) -> tuple[np.ndarray, np.ndarray]:
    """Sums of shares and numbers of tasks by unit and agent, units without attempts left out."""
    solved, tried = np.zeros((2, size, design.agents))
    np.add.at(solved, (place, design.agent), share)
    np.add.at(tried, (place, design.agent), 1.0)
    kept = tried.any(axis=1)
    return solved[kept], tried[kept]


def _resampled(
    solved: np.ndarray, tried: np.ndarray, resamples: int, rng: np.random.Generator
) -> np.ndarray:
    """Rates (resample, agent); NaN where no unit of an agent was drawn."""
    units = len(solved)
    chance = np.full(units, 1.0 / units)
    step = max(1, _BLOCK // (8 * units))
    rates = []
    for start in range(0, resamples, step):
        times = rng.multinomial(units, chance, min(step, resamples - start)).astype(float)
        number = times @ tried
        rates.append(
            np.divide(times @ solved, number, np.full(number.shape, np.nan), where=number > 0)
        )
    return np.concatenate(rates)


def _interval(rates: np.ndarray, tried: np.ndarray, level: float) -> np.ndarray:
    """Ends of the interval of one agent, from its rates (resample,) and tasks by unit.

    A single unit is drawn every time: it says nothing of how others would differ.
    """
    if np.count_nonzero(tried) < 2:
        return np.full(2, np.nan)
    units = tried.sum() ** 2 / (tried**2).sum()
    tail = (1.0 - level) / 2.0
    tail = float(ndtr(np.sqrt(units / (units - 1.0)) * stdtrit(units - 1.0, tail)))
    ends: np.ndarray = np.nanquantile(rates, [tail, 1.0 - tail])
    return ends


def _effects(design: Design, share: np.ndarray) -> pd.DataFrame:
    """Rate and design effect of every agent with attempts; the index is the agent's position."""
    agents = design.agents
    tasks = np.bincount(design.agent, minlength=agents)
    families = np.bincount(design.group_agent, minlength=agents)
    rate = np.bincount(design.agent, share, agents) / np.maximum(tasks, 1)
    away = share - rate[design.agent]
    sums = np.bincount(design.group, away)
    together = np.bincount(design.group_agent, sums**2, agents)
    apart = np.bincount(design.agent, away**2, agents)
    judged = (families >= 2) & (apart > 1e-12)
    # each variance with the usual correction for the mean that was estimated
    correction = families * (tasks - 1.0) / np.where(judged, (families - 1.0) * tasks, 1.0)
    effect = np.where(judged, together / np.where(judged, apart, 1.0) * correction, np.nan)
    table = pd.DataFrame(
        {
            "tasks": tasks,
            "families": families,
            "rate": rate,
            "design_effect": effect,
            # sums of zero within every family leave nothing to divide by
            "effective_tasks": tasks / np.where(effect > 0, effect, np.nan),
        }
    )
    return table[tasks > 0]
