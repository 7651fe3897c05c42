"""Time horizons of agents by logistic regression on log2 human minutes, one regression an agent.

The horizon at a success rate p is the human time of tasks at which an agent succeeds with
probability p,

    h = 2^((logit p - intercept) / slope),

slope being in logits per doubling. Where a slope isn't negative success doesn't fall with length;
then the horizon is infinite (success is at least p at the shortest task already) or 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pandas as pd
import xarray as xr

from measurebayes.classical.batch import AgentCells, fit_lines
from measurebayes.classical.bootstrap import resampled_lines
from measurebayes.classical.curves import agent_slopes, common_slope
from measurebayes.errors import InputError, listed

SUCCESS = (0.5, 0.8)


def classical_horizons(
    runs: xr.Dataset,
    *,
    success: Sequence[float] = SUCCESS,
    weighted: bool = True,
    bootstrap: int = 0,
    level: float = 0.95,
    seed: int = 0,
) -> pd.DataFrame:
    """Time horizons by a weighted logistic regression of success on log2 minutes for each agent.

    Parameters
    ----------
    runs : xarray.Dataset
        Data with human minutes.
    success : sequence of float
        Success rates of the horizons, each between 0 and 1.
    weighted : bool
        Whether a cell counts 1 / sqrt(tasks of its family that the agent has), with its mean
        outcome, as METR weights; otherwise each attempt counts 1 (maximum likelihood).
    bootstrap : int
        Number of resamples for intervals: families, tasks within families and attempts within
        cells, each with replacement, the same families and tasks for all agents.
    level : float
        Of the intervals.
    seed : int
        Of the resamples.

    Returns
    -------
    pandas.DataFrame
        One row an agent with attempts, in the order of the data: agent; slope (logits per
        doubling of human time); intercept (log odds at one minute); for each success rate, 50 %
        say, horizon_50 (minutes) and beyond_50, whether it lies beyond the agent's longest task.
        With `bootstrap`, horizon_50_low and horizon_50_high, percentiles in which resamples
        without a finite horizon count as infinite, and not_finite_50, the share of those.
        Last note, "" or why the horizons are infinite, 0 or not determined.

    Raises
    ------
    InputError
        A task with attempts has no human minutes, or an argument is out of range.
    """
    names = success_names(success)
    _check_bootstrap(bootstrap, level)
    cells = AgentCells.of(runs, weighted)
    intercept, slope = (found[0] for found in fit_lines(cells, *_once(cells)))
    shortest, longest = reach(cells)
    table = {"agent": runs["agent"].values[cells.agents], "slope": slope, "intercept": intercept}
    drawn = resampled_lines(cells, bootstrap, seed) if bootstrap else None
    for name, rate in names.items():
        minutes = horizon_minutes(intercept, slope, rate, shortest)
        table |= {
            f"horizon_{name}": minutes,
            f"beyond_{name}": log2_positive(minutes) > longest,
        }
        if drawn is not None:
            table |= _interval(horizon_minutes(*drawn, rate, shortest), name, level)
    table["note"] = remarks(cells, intercept, slope)
    return pd.DataFrame(table)


def horizon_minutes(
    intercept: np.ndarray, slope: np.ndarray, success: float, shortest: np.ndarray
) -> np.ndarray:
    """Horizons in minutes, any shape.

    Parameters
    ----------
    intercept, slope
        Log odds at one minute, and logits per doubling; NaN and an infinite intercept where all
        attempts had one outcome.
    success
        The success rate.
    shortest
        log2 minutes of each agent's shortest task: where the slope isn't negative, success there
        decides between an infinite horizon and 0.
    """
    logit = float(np.log(success / (1.0 - success)))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        falling = np.exp2((logit - intercept) / slope)
    start = intercept + np.nan_to_num(slope) * shortest
    other = np.where(np.isnan(start), np.nan, np.where(start >= logit, np.inf, 0.0))
    return np.where(slope < 0.0, falling, other)


def success_names(success: Sequence[float]) -> dict[str, float]:
    """Names of success rates as columns have them: 0.5 is 50.

    Raises
    ------
    InputError
        There is none, one is not between 0 and 1, or one stands twice.
    """
    rates = [float(rate) for rate in np.atleast_1d(np.asarray(success, dtype=float))]
    names = {f"{100.0 * rate:.10g}": rate for rate in rates}
    if not rates or not all(0.0 < rate < 1.0 for rate in rates) or len(names) < len(rates):
        raise InputError(
            f"success rates {listed(rates)}",
            where="argument success",
            expected="different numbers between 0 and 1",
            remedy="success=[0.5, 0.8]",
        )
    return names


def log2_positive(minutes: np.ndarray) -> np.ndarray:
    """log2 of minutes, a very low number for 0."""
    return np.log2(np.maximum(minutes, np.finfo(float).tiny))


def reach(cells: AgentCells) -> tuple[np.ndarray, np.ndarray]:
    """log2 minutes of the shortest and the longest task that each agent tried (agent,)."""
    starts = np.cumsum(cells.sizes) - cells.sizes
    return np.minimum.reduceat(cells.x, starts), np.maximum.reduceat(cells.x, starts)


def remarks(cells: AgentCells, intercept: np.ndarray, slope: np.ndarray) -> np.ndarray:
    """Why an agent has no usual horizon (agent,): "" where it has."""
    starts = np.cumsum(cells.sizes) - cells.sizes
    longest_solved = np.maximum.reduceat(np.where(cells.successes > 0, cells.x, -np.inf), starts)
    failed = cells.successes < cells.attempts
    shortest_failed = np.minimum.reduceat(np.where(failed, cells.x, np.inf), starts)
    return np.select(
        [intercept == np.inf, intercept == -np.inf, slope >= 0.0, longest_solved < shortest_failed],
        [
            "every attempt succeeded: no finite horizon",
            "every attempt failed: horizon 0",
            "success doesn't fall with length: horizon infinite or 0",
            "lengths part successes from failures: slope not determined",
        ],
        "",
    ).astype(object)


@dataclass(frozen=True)
class SlopeTest:
    """Likelihood ratio test of one slope for all agents.

    Parameters
    ----------
    common, agent
        Log likelihood of the attempts with one slope, and with one for each agent.
    ratio
        Twice the difference.
    df
        Degrees of freedom: agents with attempts, less one.
    p
        Probability of as large a ratio if all agents had one slope, by the chi-squared limit.
    """

    common: float
    agent: float
    ratio: float
    df: int
    p: float


def slope_test(runs: xr.Dataset) -> SlopeTest:
    """Test whether all agents have one slope, by the ratio of unweighted likelihoods.

    The test takes attempts as independent given agent and length. Attempts at one task are not,
    and tasks of one family are not: the p value is far too small as evidence about the slopes of
    agents on other tasks. It is here because it is published.

    Parameters
    ----------
    runs : xarray.Dataset
        Data with human minutes.

    Raises
    ------
    InputError
        A task with attempts has no human minutes.
    """
    from scipy.stats import chi2

    common, agent = common_slope(runs).log_likelihood, agent_slopes(runs).log_likelihood
    ratio, df = 2.0 * (agent - common), np.unique(runs["agent_index"].values).size - 1
    p = float(chi2.sf(ratio, df)) if df else 1.0
    return SlopeTest(common, agent, ratio, df, p)


def inversions(table: pd.DataFrame, success: Sequence[float] = SUCCESS) -> pd.DataFrame:
    """Pairs of agents whose order by horizon changes between two success rates.

    Parameters
    ----------
    table : pandas.DataFrame
        Columns agent, slope and intercept, as `classical_horizons` returns; slopes negative.
    success : sequence of float
        Two success rates.

    Returns
    -------
    pandas.DataFrame
        One row a pair, in the order of the table: longer_50, longer_80 (the agent whose horizon is
        longer at that rate), and ratio_50, ratio_80 (longer over shorter horizon).

    Raises
    ------
    InputError
        Not two success rates, a column is missing, or a slope isn't negative.
    """
    rates = success_names(success)
    if len(rates) != 2:
        raise InputError(
            f"{len(rates)} success rates", where="argument success", expected="two of them"
        )
    missing = [name for name in ("agent", "slope", "intercept") if name not in table]
    if missing:
        raise InputError(
            f"the table has no column {listed(missing)}",
            expected="columns agent, slope and intercept",
            remedy="make it with measurebayes.classical_horizons(runs)",
        )
    agent, slope = table["agent"].tolist(), table["slope"].to_numpy(dtype=float)
    if not (slope < 0.0).all():
        odd = [name for name, value in zip(agent, slope, strict=True) if not value < 0.0]
        raise InputError(
            f"agents without a negative slope: {listed(odd)}",
            where="column 'slope'",
            expected="negative slopes: the order of other horizons is not defined",
            remedy="leave these agents out: table[table.slope < 0]",
        )
    intercept = table["intercept"].to_numpy(dtype=float)
    logs = [(np.log(rate / (1.0 - rate)) - intercept) / slope for rate in rates.values()]
    rows = [_pair(agent, logs, list(rates), i, j) for i, j in combinations(range(len(agent)), 2)]
    first, second = rates
    columns = [f"longer_{first}", f"longer_{second}", f"ratio_{first}", f"ratio_{second}"]
    return pd.DataFrame([row for row in rows if row], columns=columns)


def _pair(
    agent: list[str], logs: list[np.ndarray], names: list[str], i: int, j: int
) -> dict[str, object] | None:
    """Return the row of a pair; None where the order stays, or there is none (ties)."""
    apart = [float(log2_horizon[i] - log2_horizon[j]) for log2_horizon in logs]
    if apart[0] * apart[1] >= 0.0:
        return None
    longer = {f"longer_{n}": agent[i if d > 0 else j] for n, d in zip(names, apart, strict=True)}
    ratio = {f"ratio_{n}": 2.0 ** abs(d) for n, d in zip(names, apart, strict=True)}
    return {**longer, **ratio}


def _once(cells: AgentCells) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return what `fit_lines` takes for the data as they are."""
    return cells.x, cells.weight[None], cells.solved[None]


def _interval(drawn: np.ndarray, name: str, level: float) -> dict[str, np.ndarray]:
    """Percentiles (agent,) of horizons (resample, agent); infinite ones count."""
    tail = (1.0 - level) / 2.0
    # Interpolation would take infinity minus infinity; outwards is the careful side.
    low = _quantile(drawn, tail, "lower")
    high = _quantile(drawn, 1.0 - tail, "higher")
    there = ~np.isnan(drawn)
    share = (np.isinf(drawn).sum(axis=0)) / np.maximum(there.sum(axis=0), 1)
    return {
        f"horizon_{name}_low": low,
        f"horizon_{name}_high": high,
        f"not_finite_{name}": np.where(there.any(axis=0), share, np.nan),
    }


def _quantile(drawn: np.ndarray, q: float, method: str) -> np.ndarray:
    """Quantile of each column without its NaNs: resamples that held no task of the agent."""
    columns = (column[~np.isnan(column)] for column in drawn.T)
    return np.array(
        [np.quantile(c, q, method=method) if c.size else np.nan for c in columns]  # type: ignore[call-overload]
    )


def _check_bootstrap(bootstrap: int, level: float) -> None:
    if bootstrap < 0 or not 0.0 < level < 1.0:
        raise InputError(
            f"bootstrap={bootstrap}, level={level}",
            where="arguments bootstrap and level",
            expected="a number of resamples (0: no intervals), and a level between 0 and 1",
            remedy="bootstrap=1000, level=0.95",
        )
