"""Models with products of parameters: two parameters a task, and several dimensions.

Both are fitted by L-BFGS on the table of agents by tasks, with penalties that were chosen so that
half of the attempts predict the other half about as well as published (docs/classical.md).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import xarray as xr
from scipy.optimize import minimize

from measurebayes.classical.counts import Counts, PointEstimate
from measurebayes.classical.links import log_likelihood, logistic
from measurebayes.errors import MeasureBayesError

EASINESS_SD = 10.0  # logits
PRECISION = 1.0 / EASINESS_SD**2
LOG_DISCRIMINATION_SD = 0.7
STEEPEST = 5.0  # bound of |log discrimination|: keeps the line search inside float64
FACTOR_RIDGE = 2.5  # precision of loadings and of traits
STEEP = 1.001  # a direction that is steeper than the ridge by this factor is worth a dimension

MAX_STEPS = 50_000  # a few hundred are usual
TOLERANCE = 1e-11  # relative, of the penalised log likelihood

Objective = Callable[[np.ndarray], tuple[float, np.ndarray]]
Bounds = list[tuple[float | None, float | None]]


def two_pl_ml(runs: xr.Dataset) -> PointEstimate:
    """Two-parameter model: logit P = discrimination[j] (ability[i] - difficulty[j]).

    Parameters
    ----------
    runs
        The data; human minutes are not used.

    Returns
    -------
    PointEstimate
        ``ability`` (agent,), drawn to standard normal; ``discrimination`` (task,), positive, its
        logarithm drawn to 0 with SD `LOG_DISCRIMINATION_SD`; ``difficulty`` (task,), the easiness
        -discrimination difficulty being drawn to 0 with SD `EASINESS_SD`.
    """
    counts = Counts.of(runs)
    table = _Table(counts)
    start = np.concatenate([_scores(counts), table.easiness(), np.zeros(counts.tasks)])
    bounds: Bounds = [(None, None)] * (counts.agents + counts.tasks)
    bounds += [(-STEEPEST, STEEPEST)] * counts.tasks
    place = _minimum(table.two_pl, start, bounds)
    ability, easiness, log_slope = np.split(place, [counts.agents, counts.agents + counts.tasks])
    slope = np.exp(log_slope)
    return _result(
        "two_pl_ml",
        "two parameters a task (2PL)",
        counts,
        easiness[counts.what] + slope[counts.what] * ability[counts.who],
        {"ability": ability, "discrimination": slope, "difficulty": -easiness / slope},
    )


def dimensions(runs: xr.Dataset, number: int) -> PointEstimate:
    """Several abilities: logit P = intercept[j] + sum_k loading[j, k] trait[i, k].

    The penalty is `FACTOR_RIDGE` / 2 times the squares of loadings and traits (and intercepts are
    drawn to 0 with SD `EASINESS_SD`). At the optimum it is `FACTOR_RIDGE` times the nuclear norm of
    the table of the sums (Srebro, Rennie & Jaakkola 2004, Advances in Neural Information Processing
    Systems 17), so that only this table matters, not its rotation. Dimensions are added one at a
    time in the steepest direction; where there is none, the optimum over any number of dimensions
    has been found, and the rest are 0.

    Parameters
    ----------
    runs
        The data; human minutes are not used.
    number
        Of dimensions, at least 1. With 1, the model is two_pl_ml without positive discriminations.

    Returns
    -------
    PointEstimate
        ``intercept`` (task,), ``loading`` (task, number) and ``trait`` (agent, number): principal
        axes, the largest first, loadings and traits of an axis of equal length; the loadings of
        an axis have a positive sum.
    """
    counts = Counts.of(runs)
    table = _Table(counts)
    trait, loading = np.zeros((counts.agents, 0)), np.zeros((counts.tasks, 0))
    intercept = table.easiness()
    for _ in range(number):
        residual = table.residual(intercept + trait @ loading.T)[1]
        left, size, right = np.linalg.svd(residual, full_matrices=False)
        if size[0] <= FACTOR_RIDGE * STEEP:
            break
        trait = np.column_stack([trait, left[:, 0]])
        loading = np.column_stack([loading, right[0]])
        start = np.concatenate([trait.ravel(), loading.ravel(), intercept])
        trait, loading, intercept = table.parts(_minimum(table.factors, start))
    log_odds = intercept[counts.what] + np.einsum(
        "ck,ck->c", trait[counts.who], loading[counts.what]
    )
    trait, loading = _axes(trait, loading, number)
    parameters = {"intercept": intercept, "loading": loading, "trait": trait}
    title = f"{number} dimension{'s' if number > 1 else ''}"
    return _result(f"dimensions_{number}", title, counts, log_odds, parameters)


class _Table:
    """The counts as tables of agents by tasks, and the penalised objectives on them."""

    def __init__(self, counts: Counts) -> None:
        self.counts = counts
        self.attempts, self.successes = counts.grid(counts.attempts), counts.grid(counts.successes)

    def easiness(self) -> np.ndarray:
        """Return smoothed log odds of each task (task,)."""
        solved = self.successes.sum(axis=0) + 0.5
        return np.log(solved / (self.attempts.sum(axis=0) - solved + 1.0))

    def residual(self, eta: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the log likelihood and its derivative by the log odds (agent, task)."""
        small = np.exp(-np.abs(eta))
        chance = np.where(eta >= 0.0, 1.0, small) / (1.0 + small)
        value = log_likelihood(eta, small, self.attempts, self.successes)
        return value, self.successes - self.attempts * chance

    def two_pl(self, place: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the objective to minimise and its gradient at (ability, easiness, log slope)."""
        agents, tasks = self.counts.agents, self.counts.tasks
        ability, easiness, log_slope = np.split(place, [agents, agents + tasks])
        slope = np.exp(log_slope)
        value, residual = self.residual(easiness + np.outer(ability, slope))
        precision = np.repeat([1.0, PRECISION, LOG_DISCRIMINATION_SD**-2.0], [agents, tasks, tasks])
        gradient = np.concatenate(
            [residual @ slope, residual.sum(axis=0), slope * (ability @ residual)]
        )
        return 0.5 * precision @ place**2 - value, precision * place - gradient

    def parts(self, place: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Split a flat point into traits (agent, k), loadings (task, k), intercepts (task,)."""
        agents, tasks = self.counts.agents, self.counts.tasks
        number = (len(place) - tasks) // (agents + tasks)
        trait, loading, intercept = np.split(place, [agents * number, (agents + tasks) * number])
        return trait.reshape(agents, number), loading.reshape(tasks, number), intercept

    def factors(self, place: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the objective to minimise and its gradient at (trait, loading, intercept)."""
        trait, loading, intercept = self.parts(place)
        value, residual = self.residual(intercept + trait @ loading.T)
        factors = len(place) - len(intercept)
        precision = np.repeat([FACTOR_RIDGE, PRECISION], [factors, len(intercept)])
        gradient = np.concatenate(
            [(residual @ loading).ravel(), (residual.T @ trait).ravel(), residual.sum(axis=0)]
        )
        return 0.5 * precision @ place**2 - value, precision * place - gradient


def _minimum(objective: Objective, start: np.ndarray, bounds: Bounds | None = None) -> np.ndarray:
    found = minimize(
        objective,
        start,
        jac=True,
        method="L-BFGS-B",
        bounds=bounds,
        options={
            "maxiter": MAX_STEPS,
            "maxfun": 2 * MAX_STEPS,
            "maxcor": 20,
            "ftol": TOLERANCE,
            "gtol": 1e-6,
        },
    )
    if found.status == 1:
        raise MeasureBayesError(
            f"the penalised likelihood was not at its maximum after {found.nit} steps",
            where="measurebayes.classical",
            remedy="please report this with the data: it should not happen",
        )
    return found.x


def _scores(counts: Counts) -> np.ndarray:
    """Return the success rates of the agents, standardised: where abilities begin."""
    rate = (counts.by_agent(counts.successes) + 0.5) / (counts.by_agent(counts.attempts) + 1.0)
    return (rate - rate.mean()) / max(float(rate.std()), 1e-3)


def _axes(trait: np.ndarray, loading: np.ndarray, number: int) -> tuple[np.ndarray, np.ndarray]:
    """Turn to principal axes, from the larger to the smaller; axes that are missing are 0."""
    left, left_triangle = np.linalg.qr(trait)
    right, right_triangle = np.linalg.qr(loading)
    inner, size, outer = np.linalg.svd(left_triangle @ right_triangle.T)
    sign = np.where((right @ outer.T).sum(axis=0) < 0.0, -1.0, 1.0)
    # With more dimensions than agents or tasks, QR gives fewer columns on one side.
    short = len(size)
    scale = sign[:short] * np.sqrt(size)
    full_trait, full_loading = np.zeros((len(trait), number)), np.zeros((len(loading), number))
    full_trait[:, :short] = (left @ inner)[:, :short] * scale
    full_loading[:, :short] = (right @ outer.T)[:, :short] * scale
    return full_trait, full_loading


def _result(
    name: str,
    title: str,
    counts: Counts,
    log_odds: np.ndarray,
    parameters: dict[str, np.ndarray],
) -> PointEstimate:
    value = logistic(log_odds, counts.attempts, counts.successes)[0]
    return PointEstimate(name, title, log_odds, value, dict(parameters))
