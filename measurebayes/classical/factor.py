"""Models with products of parameters: two parameters a task, and several dimensions.

Both are fitted on the table of agents by tasks, with penalties that were chosen so that half of the
attempts predict the other half about as well as published (docs/classical.md). The optimiser is a
trust region with conjugate gradients and exact products with the Hessian (Steihaug 1983,
doi:10.1137/0720042): unlike L-BFGS it ends at the maximum itself, and directions in which nothing
changes, such as rotations of the dimensions, don't slow it down.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
import xarray as xr
from scipy.optimize import minimize

from measurebayes.classical.counts import Counts, PointEstimate
from measurebayes.classical.links import log_likelihood, logistic
from measurebayes.errors import InputError

EASINESS_SD = 10.0  # logits
FACTOR_RIDGE = 2.5  # precision of loadings and of traits
STEEP = 1.001  # a direction that is steeper than the ridge by this factor is worth a dimension

# Length of the gradient at which the climb ends, and what rounding adds to it for each attempt.
TOLERANCE, ROUNDING = 1e-4, 1e-9
ON_THE_WAY = 1e3  # times as much is enough before the last dimension
# Limits for each number of dimensions. Some tens of steps and hundreds of Hessian products
# are usual; hopeless fits to huge counts creep along valleys.
MAX_STEPS, MAX_PRODUCTS = 5_000, 40_000
NEAR = 100.0  # times the tolerance, where rounding may end the climb


def two_pl_ml(runs: xr.Dataset) -> PointEstimate:
    """Two-parameter model: logit P = discrimination[j] (ability[i] - difficulty[j]).

    Parameters
    ----------
    runs
        The data; human minutes are not used.

    Returns
    -------
    PointEstimate
        ``ability`` (agent,), ``discrimination`` (task,), positive, and ``difficulty`` (task,). The
        penalties are minus log densities: standard normal for abilities, Rayleigh with mode 1 for
        discriminations (which keeps them from 0, and bounds those that could grow without end),
        Normal(0, `EASINESS_SD`) for -discrimination difficulty.
    """
    counts = Counts.of(runs)
    model = _TwoPL(counts)
    start = np.concatenate([_scores(counts), model.easiness(), np.zeros(counts.tasks)])
    place = _minimum(model, start)
    ability, easiness, log_slope = model.parts(place)
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
    model = _Factors(counts, 0)
    trait, loading = np.zeros((counts.agents, 0)), np.zeros((counts.tasks, 0))
    intercept = model.easiness()
    for used in range(1, number + 1):
        residual = model.terms(intercept + trait @ loading.T)[1]
        left, size, right = np.linalg.svd(residual, full_matrices=False)
        if size[0] <= FACTOR_RIDGE * STEEP:
            break
        model = _Factors(counts, used)
        trait = np.column_stack([trait, left[:, 0]])
        loading = np.column_stack([loading, right[0]])
        start = np.concatenate([trait.ravel(), loading.ravel(), intercept])
        slack = 1.0 if used == number else ON_THE_WAY
        trait, loading, intercept = model.parts(_minimum(model, start, slack))
    log_odds = intercept[counts.what] + np.einsum(
        "ck,ck->c", trait[counts.who], loading[counts.what]
    )
    trait, loading = _axes(trait, loading, number)
    parameters = {"intercept": intercept, "loading": loading, "trait": trait}
    title = f"{number} dimension{'s' if number > 1 else ''}"
    return _result(f"dimensions_{number}", title, counts, log_odds, parameters)


class _Model(ABC):
    """A penalised log likelihood of the table of agents by tasks.

    With J the derivative of the log odds by the parameters, R = successes - attempts P and
    W = attempts P (1 - P), the gradient of the log likelihood is J'R, and the product of its
    Hessian with a direction is (change of J)'R - J'(W J direction).

    Parameters
    ----------
    counts
        The data.
    precision
        Of the ridge on each parameter (parameter,).
    """

    def __init__(self, counts: Counts, precision: np.ndarray) -> None:
        self.counts, self.precision = counts, precision
        self.attempts, self.successes = counts.grid(counts.attempts), counts.grid(counts.successes)
        self._products = 0
        self._seen = np.empty(0)
        self._terms = (0.0, self.attempts, self.attempts)

    @abstractmethod
    def log_odds(self, place: np.ndarray) -> np.ndarray:
        """Return the table of log odds."""

    @abstractmethod
    def change(self, place: np.ndarray, direction: np.ndarray) -> np.ndarray:
        """Return J direction: how the log odds change."""

    @abstractmethod
    def pull(self, place: np.ndarray, table: np.ndarray) -> np.ndarray:
        """Return J' table."""

    @abstractmethod
    def change_of_pull(
        self, place: np.ndarray, direction: np.ndarray, table: np.ndarray
    ) -> np.ndarray:
        """Return how J' table changes while the table stays."""

    def easiness(self) -> np.ndarray:
        """Return smoothed log odds of each task (task,)."""
        solved = self.successes.sum(axis=0) + 0.5
        return np.log(solved / (self.attempts.sum(axis=0) - solved + 1.0))

    def terms(self, log_odds: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        """Return the log likelihood, R and W."""
        small = np.exp(-np.abs(log_odds))
        chance = np.where(log_odds >= 0.0, 1.0, small) / (1.0 + small)
        value = log_likelihood(log_odds, small, self.attempts, self.successes)
        weight = self.attempts * small / (1.0 + small) ** 2
        return value, self.successes - self.attempts * chance, weight

    def terms_at(self, place: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        """Return `terms` at a point; those of the last point are kept."""
        if not np.array_equal(place, self._seen):
            self._seen, self._terms = place.copy(), self.terms(self.log_odds(place))
        return self._terms

    def penalty(self, place: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        """Return the penalty, its gradient and the diagonal of its Hessian."""
        slope = self.precision * place
        return 0.5 * float(slope @ place), slope, self.precision

    def out_of_reach(self) -> InputError:
        """Return the error that says that the maximum was not reached within the limits."""
        return InputError(
            "the maximum of the penalised likelihood was not reached in "
            f"{MAX_STEPS:,} steps and {MAX_PRODUCTS:,} products with the Hessian",
            where=f"a point estimate with several parameters a task, of "
            f"{self.attempts.max():,.0f} attempts in the largest cell",
            expected="counts that a smooth table of log odds comes near to",
            remedy="take fewer dimensions, or another estimate such as rasch_ml",
        )

    def objective(self, place: np.ndarray) -> tuple[float, np.ndarray]:
        """Return what is minimised, and its gradient."""
        value, residual, _ = self.terms_at(place)
        penalty, slope, _ = self.penalty(place)
        return penalty - value, slope - self.pull(place, residual)

    def product(self, place: np.ndarray, direction: np.ndarray) -> np.ndarray:
        """Return the Hessian of what is minimised times a direction.

        Raises
        ------
        InputError
            It was asked for more often than `MAX_PRODUCTS` times.
        """
        self._products += 1
        if self._products > MAX_PRODUCTS:
            raise self.out_of_reach()
        _, residual, weight = self.terms_at(place)
        bent = self.change_of_pull(place, direction, residual)
        spread = self.pull(place, weight * self.change(place, direction))
        return self.penalty(place)[2] * direction - bent + spread


class _TwoPL(_Model):
    """Log odds easiness[j] + exp(log_slope[j]) ability[i]; parameters in the order of `parts`."""

    def __init__(self, counts: Counts) -> None:
        sizes = [counts.agents, counts.tasks, counts.tasks]
        super().__init__(counts, np.repeat([1.0, EASINESS_SD**-2.0, 0.0], sizes))

    def penalty(self, place: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        """Add the Rayleigh density of the slopes, -log a + a^2 / 2 with a = exp(log_slope)."""
        value, slope, curvature = super().penalty(place)
        log_slope = self.parts(place)[2]
        squares = np.exp(2.0 * log_slope)
        others = np.zeros(len(place) - len(squares))
        value += float(squares.sum()) / 2.0 - float(log_slope.sum())
        slope = slope + np.concatenate([others, squares - 1.0])
        return value, slope, curvature + np.concatenate([others, 2.0 * squares])

    def parts(self, place: np.ndarray) -> list[np.ndarray]:
        """Split into abilities (agent,), easinesses and log slopes (task,)."""
        return np.split(place, [self.counts.agents, self.counts.agents + self.counts.tasks])

    def log_odds(self, place: np.ndarray) -> np.ndarray:
        ability, easiness, log_slope = self.parts(place)
        return easiness + np.outer(ability, np.exp(log_slope))

    def change(self, place: np.ndarray, direction: np.ndarray) -> np.ndarray:
        ability, _, log_slope = self.parts(place)
        d_ability, d_easiness, d_log_slope = self.parts(direction)
        slope = np.exp(log_slope)
        return d_easiness + np.outer(d_ability, slope) + np.outer(ability, slope * d_log_slope)

    def pull(self, place: np.ndarray, table: np.ndarray) -> np.ndarray:
        ability, _, log_slope = self.parts(place)
        slope = np.exp(log_slope)
        return np.concatenate([table @ slope, table.sum(axis=0), slope * (ability @ table)])

    def change_of_pull(
        self, place: np.ndarray, direction: np.ndarray, table: np.ndarray
    ) -> np.ndarray:
        ability, _, log_slope = self.parts(place)
        d_ability, d_easiness, d_log_slope = self.parts(direction)
        slope = np.exp(log_slope)
        of_slope = slope * (d_log_slope * (ability @ table) + d_ability @ table)
        return np.concatenate([table @ (slope * d_log_slope), np.zeros_like(d_easiness), of_slope])


class _Factors(_Model):
    """Log odds intercept[j] + sum_k trait[i, k] loading[j, k]; parameters as in `parts`."""

    def __init__(self, counts: Counts, number: int) -> None:
        self.number = number
        products = number * (counts.agents + counts.tasks)
        precision = np.repeat([FACTOR_RIDGE, EASINESS_SD**-2.0], [products, counts.tasks])
        super().__init__(counts, precision)

    def parts(self, place: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Split into traits (agent, k), loadings (task, k) and intercepts (task,)."""
        agents, tasks, number = self.counts.agents, self.counts.tasks, self.number
        trait, loading, intercept = np.split(place, [agents * number, (agents + tasks) * number])
        return trait.reshape(agents, number), loading.reshape(tasks, number), intercept

    def log_odds(self, place: np.ndarray) -> np.ndarray:
        trait, loading, intercept = self.parts(place)
        return intercept + trait @ loading.T

    def change(self, place: np.ndarray, direction: np.ndarray) -> np.ndarray:
        trait, loading, _ = self.parts(place)
        d_trait, d_loading, d_intercept = self.parts(direction)
        return d_intercept + d_trait @ loading.T + trait @ d_loading.T

    def pull(self, place: np.ndarray, table: np.ndarray) -> np.ndarray:
        trait, loading, _ = self.parts(place)
        products = [(table @ loading).ravel(), (table.T @ trait).ravel()]
        return np.concatenate([*products, table.sum(axis=0)])

    def change_of_pull(
        self, place: np.ndarray, direction: np.ndarray, table: np.ndarray
    ) -> np.ndarray:
        d_trait, d_loading, d_intercept = self.parts(direction)
        products = [(table @ d_loading).ravel(), (table.T @ d_trait).ravel()]
        return np.concatenate([*products, np.zeros_like(d_intercept)])


def _minimum(model: _Model, start: np.ndarray, slack: float = 1.0) -> np.ndarray:
    """Return the minimum of the model's objective near a point, `slack` times less precisely.

    Raises
    ------
    InputError
        It was not reached within `MAX_STEPS` and `MAX_PRODUCTS`.
    """
    tolerance = slack * (TOLERANCE + ROUNDING * float(model.attempts.sum()))
    found = minimize(
        model.objective,
        start,
        jac=True,
        hessp=model.product,
        method="trust-ncg",
        # Products of parameters bend: longer steps than this would be chance.
        options={"gtol": tolerance, "maxiter": MAX_STEPS, "max_trust_radius": 10.0},
    )
    left = model.objective(found.x)[1]
    if float(left @ left) > (NEAR * tolerance) ** 2:
        raise model.out_of_reach()
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
