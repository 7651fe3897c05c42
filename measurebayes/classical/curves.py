"""Success as a curve over log2 human minutes, fitted by maximum likelihood.

All four have one linear predictor, a level for every agent and a slope over log2 minutes x,

    eta = level[i] + slope (x[j] - centre),

with P = 1 / (1 + exp(-eta)) (logistic) or P = exp(-exp(eta)) (survival: eta is the log of the
hazard that has gathered up to minute 2^x). Maxima exist because of a ridge of `RIDGE_SD` on levels
and on slopes, which otherwise changes nothing that is printed.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import xarray as xr

from measurebayes.classical.counts import RIDGE_SD, Counts, PointEstimate, log2_minutes
from measurebayes.classical.links import Link, logistic, survival, survival_log_odds
from measurebayes.classical.newton import Evaluation, maximise

PRECISION = 1.0 / RIDGE_SD**2
LN2 = float(np.log(2.0))
# Spread of the linear predictor where the climb begins, from which on it begins elsewhere: Newton
# comes down from a log hazard of 500 by one a step.
WIDE = 100.0
HALVINGS = 50
Slopes = Literal["known", "common", "agent"]


def common_slope(runs: xr.Dataset) -> PointEstimate:
    """Logistic regression on log2 minutes: an intercept for every agent, one slope.

    Parameters
    ----------
    runs
        Data with human minutes.

    Returns
    -------
    PointEstimate
        ``intercept`` (agent,), log odds at one minute; ``slope``, logits per doubling.

    Raises
    ------
    InputError
        A task with attempts has no human minutes.
    """
    return _regression(runs, "common_slope", "logistic regression, one slope", "common")


def agent_slopes(runs: xr.Dataset) -> PointEstimate:
    """Logistic regression on log2 minutes for every agent by itself.

    Parameters
    ----------
    runs
        Data with human minutes.

    Returns
    -------
    PointEstimate
        ``intercept`` (agent,), log odds at one minute; ``slope`` (agent,), logits per doubling.

    Raises
    ------
    InputError
        A task with attempts has no human minutes.
    """
    return _regression(runs, "agent_slopes", "logistic regression, a slope each", "agent")


def constant_hazard(runs: xr.Dataset) -> PointEstimate:
    """Failure equally likely in every minute: P = 2^-(t / h).

    Parameters
    ----------
    runs
        Data with human minutes t.

    Returns
    -------
    PointEstimate
        ``log2_horizon`` (agent,), log2 of the minutes h at which half of the attempts succeed.

    Raises
    ------
    InputError
        A task with attempts has no human minutes.
    """
    log_odds, log_likelihood, level, _ = _survival_fit(runs, "known")
    horizon = (np.log(LN2) - level) / LN2
    title = "constant hazard, success 2^-(t/h)"
    return PointEstimate(
        "constant_hazard", title, log_odds, log_likelihood, {"log2_horizon": horizon}
    )


def weibull(runs: xr.Dataset) -> PointEstimate:
    """Hazard that changes as a power of time: P = 2^-(t / h)^k, one shape k for all agents.

    Parameters
    ----------
    runs
        Data with human minutes t.

    Returns
    -------
    PointEstimate
        ``log2_horizon`` (agent,), log2 of the minutes h at which half of the attempts succeed, and
        ``shape`` k: under 1, the hazard falls with time; negative where longer tasks are solved
        more often. Where all tasks are equally long, k is 1.

    Raises
    ------
    InputError
        A task with attempts has no human minutes.
    """
    log_odds, log_likelihood, level, slope = _survival_fit(runs, "common")
    with np.errstate(divide="ignore", over="ignore"):
        horizon = (np.log(LN2) - level) / slope
    parameters = {"log2_horizon": horizon, "shape": float(slope[0]) / LN2}
    title = "Weibull, success 2^-(t/h)^k, one shape"
    return PointEstimate("weibull", title, log_odds, log_likelihood, parameters)


def _regression(runs: xr.Dataset, name: str, title: str, slopes: Slopes) -> PointEstimate:
    counts, minutes = Counts.of(runs), log2_minutes(runs)
    level, slope, centre = fit_lines(counts, minutes, logistic, slopes)
    log_odds = level[counts.who] + slope[counts.who] * (minutes - centre)
    log_likelihood = logistic(log_odds, counts.attempts, counts.successes)[0]
    parameters: dict[str, np.ndarray | float] = {
        "intercept": level - slope * centre,
        "slope": slope if slopes == "agent" else float(slope[0]),
    }
    return PointEstimate(name, title, log_odds, log_likelihood, parameters)


def _survival_fit(
    runs: xr.Dataset, slopes: Slopes
) -> tuple[np.ndarray, float, np.ndarray, np.ndarray]:
    """Return log odds, log likelihood, log hazard at one minute (agent,) and slope (agent,)."""
    counts, minutes = Counts.of(runs), log2_minutes(runs)
    # (t / h)^k ln 2 is exp(eta) for a slope of k ln 2 per doubling; k = 1 is the constant hazard.
    level, slope, centre = fit_lines(counts, minutes, survival, slopes, LN2)
    eta = level[counts.who] + slope[counts.who] * (minutes - centre)
    log_likelihood = survival(eta, counts.attempts, counts.successes)[0]
    return survival_log_odds(eta), log_likelihood, level - slope * centre, slope


def fit_lines(
    counts: Counts, x: np.ndarray, link: Link, slopes: Slopes, typical: float = 0.0
) -> tuple[np.ndarray, np.ndarray, float]:
    """Fit a line of the linear predictor over x to every agent.

    Parameters
    ----------
    counts
        The data.
    x
        Where each cell lies (cell,).
    link
        Turns the linear predictor into a likelihood.
    slopes
        ``"known"``: `typical`; ``"common"``: one for all agents; ``"agent"``: one each.
    typical
        What the ridge draws slopes to, and where the climb begins.

    Returns
    -------
    tuple
        Levels at the centre (agent,), slopes (agent,), and the centre: the mean of x over attempts.
    """
    centre = float(counts.attempts @ x / counts.attempts.sum())
    away = x - centre
    size = {"known": 0, "common": 1, "agent": counts.agents}[slopes]

    def lines(place: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        level, slope = place[: counts.agents], typical + place[counts.agents :]
        return level, np.broadcast_to(slope if size else typical, counts.agents)

    def evaluate(place: np.ndarray) -> Evaluation:
        level, slope = lines(place)
        eta = level[counts.who] + slope[counts.who] * away
        value, first, second = link(eta, counts.attempts, counts.successes)
        step, gain = _newton_step(counts, away, first, second, place, size)
        return value - 0.5 * PRECISION * float(place @ place), step, gain

    start = np.zeros(counts.agents + size)
    if float(np.ptp(away)) * abs(typical) > WIDE:
        if size:
            start[counts.agents :] = -typical  # flat: no linear predictor is far from 0
        else:
            start = _known_levels(counts, typical * away, link)
    return (*lines(maximise(evaluate, start)), centre)


def _known_levels(counts: Counts, offset: np.ndarray, link: Link) -> np.ndarray:
    """Halve intervals around each agent's level (agent,), the rest of the predictor being known."""
    high = np.full(counts.agents, WIDE + float(np.abs(offset).max()))
    low = -high
    for _ in range(HALVINGS):
        level = (low + high) / 2.0
        first = link(level[counts.who] + offset, counts.attempts, counts.successes)[1]
        rising = counts.by_agent(first) > PRECISION * level
        low, high = np.where(rising, level, low), np.where(rising, high, level)
    return (low + high) / 2.0


def _newton_step(
    counts: Counts,
    x: np.ndarray,
    first: np.ndarray,
    second: np.ndarray,
    place: np.ndarray,
    size: int,
) -> tuple[np.ndarray, float]:
    """Solve for the slopes with the levels eliminated, then for the levels.

    The curvature is diagonal in the levels, and each level meets one slope only: no system of
    equations is left but one number, or one number an agent.
    """
    agents = counts.agents
    gradient = counts.by_agent(first) - PRECISION * place[:agents]
    curvature = counts.by_agent(second) + PRECISION
    if size == 0:
        step = gradient / curvature
        return step, float(gradient @ step)

    def over(values: np.ndarray) -> np.ndarray:
        return values if size == agents else values.sum(keepdims=True)

    weighted = second * x
    cross = counts.by_agent(weighted)
    slope_gradient = over(counts.by_agent(first * x)) - PRECISION * place[agents:]
    left = over(counts.by_agent(weighted * x) - cross**2 / curvature) + PRECISION
    slope_step = (slope_gradient - over(cross * gradient / curvature)) / left
    level_step = (gradient - cross * slope_step) / curvature
    gain = gradient @ level_step + slope_gradient @ slope_step
    return np.concatenate([level_step, slope_step]), float(gain)
