"""The Rasch model with free abilities and difficulties: joint maximum likelihood, kept finite."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import xarray as xr

from measurebayes.classical.counts import RIDGE_SD, Counts, PointEstimate
from measurebayes.classical.links import logistic
from measurebayes.classical.newton import Evaluation, maximise

# Attempts added to every task, half of them solved, spread over its cells. Without them a task
# that was always solved never fails in replicates. A ridge strong enough to do the same would
# shrink again, and so expect too few violations, when data simulated from the fit are fitted.
ADDED_ATTEMPTS = 0.25


def rasch_ml(runs: xr.Dataset, added: float = ADDED_ATTEMPTS) -> PointEstimate:
    """Rasch model: logit P = ability[i] - difficulty[j], every ability and difficulty free.

    Parameters
    ----------
    runs
        The data; human minutes are not used.
    added
        Attempts added to every task, half of them solved: they draw the tasks that always or never
        succeeded, which have no maximum, to finite values. A ridge of standard deviation 100 does
        so for agents.

    Returns
    -------
    PointEstimate
        ``ability`` (agent,), mean 0, and ``difficulty`` (task,), logits.
    """
    counts = Counts.of(runs)
    share = added / np.bincount(counts.what, minlength=counts.tasks)[counts.what]
    ability, difficulty = fit_additive(
        replace(counts, attempts=counts.attempts + share, successes=counts.successes + share / 2),
        RIDGE_SD,
    )
    log_odds = ability[counts.who] - difficulty[counts.what]
    return PointEstimate(
        "rasch_ml",
        "Rasch, free abilities and difficulties",
        log_odds,
        logistic(log_odds, counts.attempts, counts.successes)[0],
        {"ability": ability, "difficulty": difficulty},
    )


def fit_additive(counts: Counts, ridge_sd: float) -> tuple[np.ndarray, np.ndarray]:
    """Maximise the penalised likelihood by Newton steps, the longer side eliminated.

    Parameters
    ----------
    counts
        The data.
    ridge_sd
        As for `rasch_ml`.

    Returns
    -------
    tuple of numpy.ndarray
        Abilities (agent,), mean 0, and difficulties (task,).
    """
    agents, precision = counts.agents, 1.0 / ridge_sd**2

    def evaluate(place: np.ndarray) -> Evaluation:
        eta = place[counts.who] - place[agents:][counts.what]
        value, first, second = logistic(eta, counts.attempts, counts.successes)
        gradient = np.concatenate([counts.by_agent(first), -counts.by_task(first)])
        gradient -= precision * place
        step = _newton_step(counts.grid(second), gradient, precision)
        return value - 0.5 * precision * float(place @ place), step, float(gradient @ step)

    place = maximise(evaluate, np.zeros(agents + counts.tasks))
    shift = place[:agents].mean()
    return place[:agents] - shift, place[agents:] - shift


def _newton_step(weight: np.ndarray, gradient: np.ndarray, precision: float) -> np.ndarray:
    """Solve [[A, -W], [-W', T]] step = gradient, A and T being diagonal.

    Parameters
    ----------
    weight
        Curvature of each cell, W (agent, task).
    gradient
        By abilities, then by difficulties (agent + task,).
    precision
        Of the ridge.
    """
    agents = len(weight)
    if agents > weight.shape[1]:  # the smaller system is that of the tasks
        turned = np.concatenate([gradient[agents:], gradient[:agents]])
        step = _newton_step(weight.T, turned, precision)
        return np.concatenate([step[-agents:], step[:-agents]])
    of_agent, of_task = gradient[:agents], gradient[agents:]
    diagonal = weight.sum(axis=0) + precision
    scaled = weight / diagonal
    left = -(scaled @ weight.T)
    left[np.diag_indices(agents)] += weight.sum(axis=1) + precision
    step = np.linalg.solve(left, of_agent + scaled @ of_task)
    return np.concatenate([step, (of_task + weight.T @ step) / diagonal])
