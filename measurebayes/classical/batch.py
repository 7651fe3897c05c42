"""Logistic regressions on one variable, many at once: one an agent and replicate.

Each is a line of log odds over x, level + slope (x - centre), with the centre at the weighted mean
of x. Resampling and simulation extrapolation fit thousands of such lines to the same cells.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import xarray as xr

from measurebayes.classical.counts import RIDGE_SD, Counts, log2_minutes
from measurebayes.errors import MeasureBayesError

PRECISION = 1.0 / RIDGE_SD**2
TOLERANCE, ROUNDING = 1e-12, 1e-8  # of the gain still to be had, relative to the log likelihood
SUFFICIENT = 1e-4  # share of the gain promised by the gradient that a step must deliver
SHORTEST = 2.0**-20
MAX_STEPS = 200
BLOCK = 20_000  # cells of all replicates that are fitted at once: larger arrays cost page faults


@dataclass(frozen=True)
class AgentCells:
    """The cells, agent after agent, and what each counts in the regression of its agent.

    Parameters
    ----------
    agents
        Positions of the agents that have cells (agent,).
    sizes
        How many cells each of them has (agent,).
    task, family
        Positions of each cell's task and of the task's family (cell,).
    x
        log2 of the human minutes (cell,).
    attempts, successes
        Counts (cell,), int64.
    weight
        What the cell counts (cell,): its attempts, or its weight, with mean 1 over each agent's.
    """

    agents: np.ndarray
    sizes: np.ndarray
    task: np.ndarray
    family: np.ndarray
    x: np.ndarray
    attempts: np.ndarray
    successes: np.ndarray
    weight: np.ndarray

    @classmethod
    def of(cls, runs: xr.Dataset, weighted: bool) -> AgentCells:
        """Take the cells out of a dataset.

        Raises
        ------
        InputError
            There are no cells, or a task with attempts has no human minutes.
        """
        counts, x = Counts.of(runs), log2_minutes(runs)
        agents, sizes = np.unique(counts.who, return_counts=True)
        family = runs["family_index"].values[counts.what]
        found = cls(
            agents=agents,
            sizes=sizes,
            task=counts.what,
            family=family,
            x=x,
            attempts=runs["attempts"].values,
            successes=runs["successes"].values,
            weight=counts.attempts,
        )
        if not weighted:
            return found
        # 1 / sqrt(tasks of the family that this agent has), not that the suite has
        pair = np.repeat(np.arange(agents.size), sizes) * runs.sizes["family"] + family
        _, place, number = np.unique(pair, return_inverse=True, return_counts=True)
        weight = 1.0 / np.sqrt(number[place])
        return replace(found, weight=weight / found.spread(found.total(weight) / sizes))

    @property
    def solved(self) -> np.ndarray:
        """Weighted successes (cell,)."""
        return self.weight * (self.successes / self.attempts)

    def total(self, values: np.ndarray) -> np.ndarray:
        """Sum over the cells of each agent, (..., cell) to (..., agent)."""
        starts = np.cumsum(self.sizes) - self.sizes
        return np.add.reduceat(values, starts, axis=-1)

    def spread(self, values: np.ndarray) -> np.ndarray:
        """Give every cell the value of its agent, (..., agent) to (..., cell)."""
        return np.repeat(values, self.sizes, axis=-1)

    def blocks(self, replicates: int) -> Iterator[slice]:
        """Cut replicates into blocks that fit into the cache."""
        step = max(1, BLOCK // max(self.x.size, 1))
        for start in range(0, replicates, step):
            yield slice(start, min(start + step, replicates))


def fit_lines(
    cells: AgentCells, x: np.ndarray, weight: np.ndarray, solved: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Fit the line of every agent in every replicate.

    A ridge of `RIDGE_SD` on levels and slopes keeps lines finite that separate successes from
    failures; it moves nothing that the data inform. Agents all of whose attempts succeeded (or
    failed) have no line: their intercept is infinite, their slope NaN. Where an agent has no weight
    at all both are NaN.

    Parameters
    ----------
    cells
        Which cells belong to which agent.
    x
        Where cells lie, (cell,) or (replicate, cell).
    weight, solved
        What cells count, and how much of it succeeded, (replicate, cell).

    Returns
    -------
    tuple of numpy.ndarray
        Intercepts (log odds at x = 0) and slopes, (replicate, agent).

    Raises
    ------
    MeasureBayesError
        A maximum was not reached.
    """
    x = np.broadcast_to(x, weight.shape)
    mass, won = cells.total(weight), cells.total(solved)
    with np.errstate(invalid="ignore", divide="ignore"):
        centre = np.nan_to_num(cells.total(weight * x) / mass)
    level, slope = _climb(cells, x - cells.spread(centre), weight, solved)
    intercept = level - slope * centre
    tiny = 1e-12 * mass  # sums of weights are exact to rounding only
    for extreme, value in (
        (won >= mass - tiny, np.inf),
        (won <= tiny, -np.inf),
        (mass == 0, np.nan),
    ):
        intercept[extreme], slope[extreme] = value, np.nan
    return intercept, slope


def _climb(
    cells: AgentCells, away: np.ndarray, weight: np.ndarray, solved: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Newton's method for all lines at once; a replicate leaves when all its lines are done."""
    shape = (len(weight), cells.sizes.size)
    result = np.zeros((2, *shape))
    here, place = np.arange(len(weight)), np.zeros((2, *shape))
    for _ in range(MAX_STEPS):
        value, step, gain = _evaluate(cells, place, away, weight, solved)
        size = np.ones_like(gain)
        while True:
            found = _value(cells, place + size * step, away, weight, solved)
            short = (found < value + SUFFICIENT * size * gain) & (size > SHORTEST)
            small = gain <= ROUNDING * (1.0 + np.abs(value))
            if not (short & ~small).any():
                break
            size = np.where(short & ~small, size / 2.0, size)
        # Near the maximum rounding hides what a step gains: it is taken where nothing is lost.
        place = place + np.where(found >= value, size, 0.0) * step
        done = (gain <= TOLERANCE * (1.0 + np.abs(value))) | ((found < value) & small)
        ended = done.all(axis=1)
        result[:, here[ended]] = place[:, ended]
        if ended.all():
            return result[0], result[1]
        if ended.any():
            here, place = here[~ended], place[:, ~ended]
            away, weight, solved = away[~ended], weight[~ended], solved[~ended]
    raise MeasureBayesError(
        f"the maximum of the likelihood was not reached in {MAX_STEPS} steps",
        where="measurebayes.classical",
        remedy="please report this with the data: it should not happen",
    )


def _value(
    cells: AgentCells, place: np.ndarray, away: np.ndarray, weight: np.ndarray, solved: np.ndarray
) -> np.ndarray:
    """Return the penalised log likelihood of every line (replicate, agent)."""
    eta = cells.spread(place[0]) + cells.spread(place[1]) * away
    gathered = solved * eta - weight * (np.maximum(eta, 0.0) + np.log1p(np.exp(-np.abs(eta))))
    return cells.total(gathered) - 0.5 * PRECISION * (place**2).sum(axis=0)


def _evaluate(
    cells: AgentCells, place: np.ndarray, away: np.ndarray, weight: np.ndarray, solved: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return values, Newton's steps (2, replicate, agent) and the gains that they promise."""
    eta = cells.spread(place[0]) + cells.spread(place[1]) * away
    small = np.exp(-np.abs(eta))
    chance = np.where(eta >= 0.0, 1.0, small) / (1.0 + small)
    value = cells.total(solved * eta - weight * (np.maximum(eta, 0.0) + np.log1p(small)))
    value -= 0.5 * PRECISION * (place**2).sum(axis=0)
    first = solved - weight * chance
    second = weight * small / (1.0 + small) ** 2
    pull = (
        cells.total(first) - PRECISION * place[0],
        cells.total(first * away) - PRECISION * place[1],
    )
    bent = second * away
    a, b, c = (
        cells.total(second) + PRECISION,
        cells.total(bent),
        cells.total(bent * away) + PRECISION,
    )
    determinant = a * c - b * b
    step = np.stack([c * pull[0] - b * pull[1], a * pull[1] - b * pull[0]]) / determinant
    return value, step, pull[0] * step[0] + pull[1] * step[1]
