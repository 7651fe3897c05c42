"""How many longer tasks a suite needs before a long horizon can be measured.

An agent with a given horizon is simulated on the suite and on n longer tasks, and its horizon is
estimated as the model would: by the posterior of (log2 horizon, steepness) on a grid, with the
effects of tasks integrated out by Gauss-Hermite quadrature. No sampler runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import xarray as xr
from scipy.special import expit, log_expit, logsumexp
from scipy.stats import norm

from measurebayes.errors import InputError
from measurebayes.estimands.curves import hermite
from measurebayes.estimands.horizons import longest_minutes
from measurebayes.estimands.length import typical_steepness
from measurebayes.inference.results import check_fit

MOST_ATTEMPTS = 100  # of which the quadrature over effects of tasks is still exact enough
REACH, STEP = 8.0, 0.125  # doublings to each side of the true horizon, and between points
STEEPNESSES = 13  # points of a grid over its middle 99.8 %
NODES = 31  # of the quadrature over effects of tasks
SHIFT_NODES = 5  # and over each of what the fit leaves open of all effects together
BEYOND = 4.0  # longest new task, in horizons


@dataclass(frozen=True)
class Suite:
    """What is known of the tasks of a suite, and of the agents that attempt it.

    Attributes
    ----------
    log2_minutes
        Lengths of the tasks (task,).
    effects
        Draws of what makes each task harder than its length (draw, task), in logits.
    new_sd
        Standard deviation of the effects of new tasks (draw,).
    steepness
        Of the typical agent (draw,), logits a doubling.
    log_steepness_sd
        Spread of agents around it, as one number.
    """

    log2_minutes: np.ndarray
    effects: np.ndarray
    new_sd: np.ndarray
    steepness: np.ndarray
    log_steepness_sd: float

    def shifts(self) -> tuple[np.ndarray, np.ndarray]:
        """Return means of the effects (node, task), and the probabilities of the nodes.

        The nodes are a quadrature over what the fit leaves open of all effects together: their
        common level, and a tilt over lengths. Without it intervals would be too narrow.
        """
        directions, coefficients = self._common()
        root = np.linalg.cholesky(np.cov(coefficients.T) + 1e-12 * np.eye(2))
        z, weights = hermite(SHIFT_NODES)
        pairs = np.stack(np.meshgrid(z, z, indexing="ij"), axis=-1).reshape(-1, 2)
        return self.effects.mean(0) + pairs @ root.T @ directions, np.outer(
            weights, weights
        ).ravel()

    def residual_sd(self) -> np.ndarray:
        """Return the standard deviation of each effect (task,) beside level and tilt."""
        directions, coefficients = self._common()
        return (self.effects - self.effects.mean(0) - coefficients @ directions).std(0)

    def _common(self) -> tuple[np.ndarray, np.ndarray]:
        """Level and tilt over tasks (2, task), and their share in every draw (draw, 2)."""
        x, apart = self.log2_minutes, self.effects - self.effects.mean(0)
        directions = np.stack([np.ones_like(x), (x - x.mean()) / max(x.std(), 1e-9)])
        weighted = directions / np.maximum(apart.var(0), 1e-12)
        return directions, apart @ weighted.T @ np.linalg.pinv(weighted @ directions.T)


def plan_suite(
    fit: xr.DataTree,
    hours: float,
    factor: float = 2.0,
    added: Sequence[int] = (0, 5, 10, 20, 40),
    *,
    attempts: int | None = None,
    between: tuple[float, float] | None = None,
    level: float = 0.9,
    replications: int = 200,
    seed: int = 0,
) -> pd.DataFrame:
    """Say how many longer tasks a suite needs before a horizon can be measured to a factor.

    Each replication takes one draw of the posterior as the truth: the effects of the tasks, and an
    agent of typical steepness whose 50 % horizon is `hours`. It attempts the tasks of the suite and
    new ones. Its horizon is then estimated with a flat prior on its logarithm, up to a factor 2^8
    to both sides of the truth, and the fit's population as the prior of steepness. Effects of old
    tasks are known as well as the fit knows them (each by itself, and their level and tilt over
    lengths together), those of new tasks from the population only.
    Lengths are taken for known, as those that the fit measured (posterior means).

    Parameters
    ----------
    fit
        Fit of horizon_task, horizon_eiv or horizon_trend with discrimination 1.
    hours
        The horizon to be measured.
    factor
        The interval shall reach no further than estimate times or divided by this.
    added
        Numbers of new tasks to try, each once. Their lengths are spread evenly on the log scale.
    attempts
        At each task, at most 100; by default the most frequent number in the data.
    between
        Hours of the shortest and the longest new task; by default from the longest task of the
        suite to 4 times `hours` (the other way round where the suite reaches further).
    level
        Probability of the equal-tailed interval.
    replications, seed
        Simulated agents for each number of tasks, and their random numbers.

    Returns
    -------
    pandas.DataFrame
        One row a number of tasks: added; width (median over replications of the factor by which
        the interval reaches to each side, 2^(half its width in doublings)); narrow (share of
        replications whose interval is as narrow as `factor`); close (share that is bounded and
        whose median is within `factor` of the truth); covers (share of intervals that hold the
        truth); unbounded (share whose posterior goes on at an end of the grid: nothing bounds the
        horizon there, and width says where the grid ends). Attributes: hours, factor, level,
        attempts, between.

    Raises
    ------
    InputError
        The fit has no effects of tasks, or an argument is out of range.

    Notes
    -----
    The standard error of a share p is sqrt(p (1 - p) / replications).
    """
    _check(hours, factor, added, level, replications)
    suite, data = suite_of(fit), fit["data"].to_dataset()
    tried = attempts or int(np.bincount(data["attempts"].values).argmax())
    ends = between or tuple(sorted((longest_minutes(data) / 60.0, BEYOND * hours)))
    if not 0.0 < ends[0] <= ends[1] < np.inf or not 1 <= tried <= MOST_ATTEMPTS:
        raise InputError(
            f"between={between!r}, attempts={attempts!r}",
            where="plan_suite",
            expected="hours of the shortest and longest new task; 1 to "
            f"{MOST_ATTEMPTS} attempts: more say nothing about a task's own effect",
            remedy=f"between=(30, {BEYOND * hours:g}), attempts=6",
        )
    truth = float(np.log2(60.0 * hours))
    grid = _Grid.around(truth, suite)
    rng = np.random.default_rng(seed)
    draw = rng.integers(len(suite.steepness), size=replications)
    steepness = suite.steepness[draw][:, None]
    won = rng.binomial(tried, expit(steepness * (truth - suite.log2_minutes) - suite.effects[draw]))
    means, weights = suite.shifts()
    spread = suite.residual_sd()
    known = [sum_terms(grid, suite.log2_minutes, mean, spread, tried, won) for mean in means]
    rows = []
    for number in dict.fromkeys(map(int, added)):
        x = np.log2(60.0 * _spread(ends, number))
        effect = suite.new_sd[draw][:, None] * rng.normal(size=(replications, number))
        more = rng.binomial(tried, expit(steepness * (truth - x) - effect))
        usual = np.full(number, np.sqrt(np.mean(suite.new_sd**2)))
        new = sum_terms(grid, x, np.zeros(number), usual, tried, more)
        terms = new + logsumexp(known, axis=0, b=weights[:, None, None, None])
        rows.append({"added": number, **_judge(grid, terms, truth, factor, level)})
    table = pd.DataFrame(rows)
    table.attrs |= {"hours": hours, "factor": factor, "level": level}
    table.attrs |= {"attempts": tried, "between": ends}
    return table


def suite_of(fit: xr.DataTree) -> Suite:
    """Read from a fit what planning needs.

    Raises
    ------
    InputError
        The model has no effects of tasks, or discriminations.
    """
    check_fit(fit)
    posterior = fit["posterior"].to_dataset()
    needed = {"task_effect", "task_sd", "steepness"} <= set(posterior)
    if not needed or "log_discrimination_sd" in posterior:
        raise InputError(
            f"model {fit.attrs.get('model')} with options {fit.attrs.get('options')}",
            where="planning a suite",
            expected="effects of tasks that all agents share, with discrimination 1",
            remedy="fit horizon_task",
        )
    data = fit["data"].to_dataset()
    minutes = data["human_minutes"].values
    attempted = np.unique(data["task_index"].values)
    usable = attempted[np.isfinite(minutes[attempted])]
    typical = typical_steepness(posterior)
    effects = posterior["task_effect"].isel(task=usable).transpose("chain", "draw", "task")
    lengths = xr.DataArray(np.log2(minutes[usable]), dims="task")
    if "log2_minutes" in posterior:
        # What is uncertain of a latent length is put into the effect, at the typical steepness.
        latent = posterior["log2_minutes"].isel(task=usable)
        lengths = latent.mean(("chain", "draw"))
        effects = effects + typical * (latent - lengths)
    squares = posterior["task_sd"] ** 2
    if "family_sd" in posterior:
        squares = squares + posterior["family_sd"] ** 2
    log_sd = float(np.log(typical).std())
    if "log_steepness_sd" in posterior:
        log_sd = float(np.sqrt(log_sd**2 + (posterior["log_steepness_sd"] ** 2).mean()))
    flat = effects.transpose("chain", "draw", "task").values.reshape(-1, usable.size)
    return Suite(
        lengths.values,
        flat,
        np.sqrt(squares.transpose("chain", "draw").values).ravel(),
        typical.transpose("chain", "draw").values.ravel(),
        log_sd,
    )


@dataclass(frozen=True)
class _Grid:
    """Points of (log2 horizon, steepness), and the log prior of the second."""

    horizon: np.ndarray
    steepness: np.ndarray
    log_prior: np.ndarray

    @classmethod
    def around(cls, truth: float, suite: Suite) -> _Grid:
        """Return a grid around the true log2 horizon."""
        horizon = truth + np.arange(-REACH, REACH + STEP / 2, STEP)
        z = np.linspace(-3.1, 3.1, STEEPNESSES)
        middle = np.log(suite.steepness).mean()
        return cls(horizon, np.exp(middle + suite.log_steepness_sd * z), norm.logpdf(z))


def sum_terms(
    grid: _Grid,
    log2_minutes: np.ndarray,
    mean: np.ndarray,
    sd: np.ndarray,
    attempts: int,
    won: np.ndarray,
) -> np.ndarray:
    """Log likelihood at every point of a grid (replication, horizon, steepness).

    Parameters
    ----------
    grid
        Points.
    log2_minutes, mean, sd
        Length of each task, and mean and standard deviation of its effect (task,).
    attempts
        At each task.
    won
        Successes (replication, task).
    """
    nodes, weights = hermite(NODES)
    total = np.zeros((len(won), len(grid.horizon), len(grid.steepness)))
    for task, x in enumerate(log2_minutes):
        line = grid.steepness * (grid.horizon[:, None] - x)
        eta = line[..., None] - mean[task] - sd[task] * nodes
        log_p, log_q = log_expit(eta), log_expit(-eta)
        for y in np.unique(won[:, task]):
            terms = y * log_p + (attempts - y) * log_q
            largest = terms.max(axis=-1)  # with very many attempts all of them would vanish
            term = largest + np.log(np.exp(terms - largest[..., None]) @ weights)
            total[won[:, task] == y] += term
    return total


def shares_below(grid: _Grid, terms: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Posterior of log2 horizons, steepness summed out: edges (edge,), shares (replication, edge).

    The mass of a point of the grid lies evenly around it.
    """
    density = terms + grid.log_prior
    density = np.exp(density - density.max((1, 2), keepdims=True)).sum(2)
    mass = np.cumsum(density, axis=1)
    edges = np.concatenate([[grid.horizon[0] - STEP / 2], grid.horizon + STEP / 2])
    return edges, np.concatenate([np.zeros((len(mass), 1)), mass / mass[:, -1:]], axis=1)


def quantiles(grid: _Grid, terms: np.ndarray, at: Sequence[float]) -> np.ndarray:
    """Quantiles of the posterior of log2 horizons (replication, quantile)."""
    edges, shares = shares_below(grid, terms)
    return np.array([np.interp(at, row, edges) for row in shares])


def open_ended(grid: _Grid, terms: np.ndarray, tail: float) -> np.ndarray:
    """Whether half of a tail's probability, or more, lies in the last doubling at an end.

    There a flat prior would go on, so that interval and median are those of the grid.
    """
    edges, shares = shares_below(grid, terms)
    first = np.array([np.interp(edges[0] + 1.0, edges, row) for row in shares])
    last = 1.0 - np.array([np.interp(edges[-1] - 1.0, edges, row) for row in shares])
    return np.maximum(first, last) > tail / 2.0


def _judge(
    grid: _Grid, terms: np.ndarray, truth: float, factor: float, level: float
) -> dict[str, float]:
    tail = (1.0 - level) / 2.0
    low, middle, high = quantiles(grid, terms, [tail, 0.5, 1.0 - tail]).T
    width = 2.0 ** ((high - low) / 2.0)
    unbounded = open_ended(grid, terms, tail)
    return {
        "width": float(np.median(width)),
        "narrow": float(np.mean(width <= factor)),
        "close": float(np.mean((np.abs(middle - truth) <= np.log2(factor)) & ~unbounded)),
        "covers": float(np.mean((low <= truth) & (truth <= high))),
        "unbounded": float(np.mean(unbounded)),
    }


def _spread(ends: tuple[float, ...], number: int) -> np.ndarray:
    """Return lengths, evenly spread on the log scale."""
    places = (np.arange(number) + 0.5) / max(number, 1)
    return ends[0] * (ends[1] / ends[0]) ** places


def _check(
    hours: float, factor: float, added: Sequence[int], level: float, replications: int
) -> None:
    right = 0.0 < hours < np.inf and factor > 1.0 and 0.0 < level < 1.0 and replications > 0
    if not right or not len(added) or min(added) < 0:
        raise InputError(
            f"hours={hours}, factor={factor}, added={list(added)}, level={level}, "
            f"replications={replications}",
            where="plan_suite",
            expected="a positive number of hours, a factor above 1, numbers of tasks from 0 up, a "
            "level between 0 and 1, at least one replication",
            remedy="mb.plan_suite(fit, hours=24, factor=2)",
        )
