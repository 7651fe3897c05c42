"""Draws of the outer parameters of `blocks`: a normal density around their mode, and importance.

The density to draw from is known but for a factor. It is approached by a normal at its mode with
the second derivatives there; single numbers of the model text (scales, means), of which few data
tell, have a t distribution instead. Rounds of weighted draws move and widen it, the last
round is kept. The shape k of the weights' tail says whether the weights may be used [1]_.

References
----------
.. [1] Vehtari, Simpson, Gelman, Yao, Gabry (2024). Pareto smoothed importance sampling. Journal of
   Machine Learning Research 25(72).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import gammaln, logsumexp

from measurebayes.errors import ModelError
from measurebayes.inference.geometry import positive

DEGREES = 7.0  # of freedom of the t distribution
FIRST = 400  # draws of each round before the one that is kept
FIRST_ROUNDS = 5  # at most; fewer where the weights are good
GOOD_K = 0.5
ENOUGH = 10.0  # effective draws that may move the next round
SEARCH_STEPS, ROUNDS = 40, 20
LONGEST, HALVINGS = 5.0, 12  # steps of the search, in standard deviations
SETTLED = 0.05  # standard deviations that the last round moves at most
DIFFERENCE = 1e-3  # between which slopes give second derivatives
LOG_2PI = float(np.log(2.0 * np.pi))

#: From draws (draw, parameter) to their log densities (draw,).
Density = Callable[[np.ndarray], np.ndarray]
#: From one point (parameter,) to its log density and the slope there (parameter,).
Slope = Callable[[np.ndarray], tuple[float, np.ndarray]]


@dataclass(frozen=True)
class Proposal:
    """A distribution: t in the first parameters, normal in the others given these.

    Attributes
    ----------
    centre
        (parameter,)
    root
        Lower triangle whose square is the scale (parameter, parameter).
    heavy
        Number of parameters with a t distribution.
    """

    centre: np.ndarray
    root: np.ndarray
    heavy: int

    def draw(self, rng: np.random.Generator, number: int) -> tuple[np.ndarray, np.ndarray]:
        """Return draws (draw, parameter), and them in units of the root around the centre."""
        unit = rng.normal(size=(number, len(self.centre)))
        unit[:, : self.heavy] /= np.sqrt(rng.chisquare(DEGREES, size=(number, 1)) / DEGREES)
        return self.centre + unit @ self.root.T, unit

    def log_density(self, unit: np.ndarray) -> np.ndarray:
        """Return the log density (draw,) of draws in units of the root."""
        h, v = self.heavy, DEGREES
        heavy, light = (np.sum(part**2, axis=1) for part in (unit[:, :h], unit[:, h:]))
        tail = gammaln((v + h) / 2) - gammaln(v / 2) - 0.5 * h * np.log(v * np.pi)
        tail = tail - 0.5 * (v + h) * np.log1p(heavy / v)
        normal = -0.5 * (light + (len(self.centre) - h) * LOG_2PI)
        return tail + normal - np.sum(np.log(np.diagonal(self.root)))

    def moved(self, unit: np.ndarray, log_weights: np.ndarray) -> Proposal:
        """Return the proposal with centre and widths of its weighted draws.

        Widths are those along the directions of the root; the t part has its whole covariance.
        """
        weights = np.exp(log_weights - logsumexp(log_weights))
        if 1.0 / np.sum(weights**2) < ENOUGH:
            return self
        mean = weights @ unit
        away = unit - mean
        widen = np.diag(np.sqrt(np.maximum(weights @ away**2, 0.25)))
        h = self.heavy
        inside = (weights[:, None] * away[:, :h]).T @ away[:, :h]
        widen[:h, :h] = np.linalg.cholesky(positive(inside)) * np.sqrt((DEGREES - 2) / DEGREES)
        return Proposal(self.centre + self.root @ mean, self.root @ widen, h)


@dataclass(frozen=True)
class Explored:
    """Draws of the outer parameters.

    Attributes
    ----------
    draws
        (draw, parameter)
    log_density
        Of the target at the draws, but for a constant (draw,).
    log_weights
        Smoothed, their exponentials sum to 1 (draw,).
    pareto_k
        Shape of the tail of the weights.
    """

    draws: np.ndarray
    log_density: np.ndarray
    log_weights: np.ndarray
    pareto_k: float

    @property
    def effective(self) -> float:
        """Number of equally weighted draws that the weighted ones are worth."""
        return float(np.exp(-logsumexp(2.0 * self.log_weights)))


def mode_of(slope: Slope, start: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return where a log density is highest (parameter,), and minus its second derivative there.

    Parameters
    ----------
    slope
        Log density and its slope.
    start
        Where the search begins (parameter,).

    Raises
    ------
    ModelError
        The density is not finite at the start.
    """

    def energy(at: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = slope(at)
        if not (np.isfinite(value) and np.all(np.isfinite(gradient))):
            return 1e300, np.zeros_like(at)
        return -value, -gradient

    if energy(start)[0] == 1e300:
        raise ModelError(
            "the log density is not finite where the search for its mode begins",
            where="the approximation",
            expected="a finite density in the middle of the priors",
            remedy='fit with method="nuts"',
        )
    at = start
    for _ in range(ROUNDS):
        # In units of the density's own width, where all parameters are alike.
        root = np.linalg.cholesky(np.linalg.inv(positive(second_at(slope, at))))
        moved = _downhill(energy, at, root)
        at = at + root @ moved
        if np.linalg.norm(moved) < SETTLED:
            break
    return at, second_at(slope, at)


def _downhill(energy: Slope, start: np.ndarray, root: np.ndarray) -> np.ndarray:
    """Return the way from a start to lower energy, in units of a root (parameter,).

    The method of Broyden, Fletcher, Goldfarb and Shanno, with short steps that are halved until the
    energy falls: where it can't be computed, it is as good as infinite.
    """

    def at(unit: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = energy(start + root @ unit)
        return value, root.T @ gradient

    unit, inverse = np.zeros(len(start)), np.eye(len(start))
    value, gradient = at(unit)
    for _ in range(SEARCH_STEPS):
        step = -inverse @ gradient
        step *= min(1.0, LONGEST / max(float(np.linalg.norm(step)), 1e-12))
        for _ in range(HALVINGS):
            new_value, new_gradient = at(unit + step)
            if new_value < value:
                break
            step = step / 2.0
        else:
            return unit
        change, fell = new_gradient - gradient, value - new_value
        unit, value, gradient = unit + step, new_value, new_gradient
        if (curve := float(change @ step)) > 1e-10:
            left = np.eye(len(unit)) - np.outer(step, change) / curve
            inverse = left @ inverse @ left.T + np.outer(step, step) / curve
        if fell < 1e-6:
            break
    return unit


def second_at(slope: Slope, at: np.ndarray) -> np.ndarray:
    """Return minus the second derivative (parameter, parameter), by differences of slopes."""
    steps = DIFFERENCE * np.eye(len(at))
    rows = [slope(at - step)[1] - slope(at + step)[1] for step in steps]
    second = np.array(rows) / (2.0 * DIFFERENCE)
    return (second + second.T) / 2.0


def explore(
    density: Density,
    mode: np.ndarray,
    second: np.ndarray,
    heavy: int,
    number: int,
    rng: np.random.Generator,
) -> tuple[Explored, Proposal]:
    """Draw from a density around its mode.

    Parameters
    ----------
    density
        Log density, but for a constant.
    mode
        Where it is highest (parameter,).
    second
        Minus its second derivative there (parameter, parameter).
    heavy
        How many parameters, the first ones, have a proposal with heavy tails.
    number
        Of draws.
    rng
        Source of chance.

    Returns
    -------
    tuple
        Draws with weights, and the normal density that fits them best.
    """
    root = np.linalg.cholesky(np.linalg.inv(positive(second, 1e-4)))
    proposal = Proposal(mode, root, heavy)
    for _ in range(FIRST_ROUNDS):
        draws, unit = proposal.draw(rng, FIRST)
        log_weights, k = smoothed(_finite(density(draws)) - proposal.log_density(unit))
        proposal = proposal.moved(unit, log_weights)
        if k < GOOD_K:
            break
    draws, unit = proposal.draw(rng, number)
    log_density = _finite(density(draws))
    log_weights, k = smoothed(log_density - proposal.log_density(unit))
    return Explored(draws, log_density, log_weights, k), replace(proposal, heavy=0)


def smoothed(log_weights: np.ndarray) -> tuple[np.ndarray, float]:
    """Return log weights (draw,) with a smoothed tail that sum to 1, and the tail's shape k."""
    from arviz_stats.base import array_stats

    if np.ptp(log_weights) < 1e-3:  # nothing to smooth
        return log_weights - logsumexp(log_weights), 0.0
    with np.errstate(all="ignore"):
        # ArviZ takes log likelihoods, whose inverses weight draws.
        smooth, k = array_stats.psislw(-log_weights, r_eff=1.0)
    smooth = np.asarray(smooth)
    k = float(k) if np.isfinite(k) else float("inf")
    return smooth - logsumexp(smooth), k


def _finite(log_density: np.ndarray) -> np.ndarray:
    """Return log densities with what could not be computed as good as impossible."""
    return np.where(np.isfinite(log_density), log_density, -1e10)


def resampled(log_weights: np.ndarray, number: int, rng: np.random.Generator) -> np.ndarray:
    """Return positions of draws, as often as their weights say, in random order (number,).

    One random number places a comb of equal distances on the summed weights.
    """
    steps = np.cumsum(np.exp(log_weights))
    comb = (rng.uniform() + np.arange(number)) / number * steps[-1]
    return rng.permutation(np.searchsorted(steps, comb).clip(max=len(log_weights) - 1))
