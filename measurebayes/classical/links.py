"""From a linear predictor to the probability of success: likelihood, slope and curvature.

Each function takes the linear predictor, attempts and successes of every cell and returns

- the log likelihood of the attempts, summed over the cells,
- its derivative by each cell's linear predictor (cell,),
- minus its second derivative (cell,), never negative: both likelihoods are concave.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Link = Callable[[np.ndarray, np.ndarray, np.ndarray], tuple[float, np.ndarray, np.ndarray]]

# Log hazards are held here where exp is taken of them: it stays inside float64.
LOWEST, HIGHEST = -500.0, 300.0
RARE = -40.0  # log hazard: below, the chance of failing is the hazard itself to the last digit


def logistic(
    eta: np.ndarray, attempts: np.ndarray, successes: np.ndarray
) -> tuple[float, np.ndarray, np.ndarray]:
    """P = 1 / (1 + exp(-eta)); see the module for what is returned."""
    small = np.exp(-np.abs(eta))
    chance = np.where(eta >= 0.0, 1.0, small) / (1.0 + small)
    curvature = attempts * small / (1.0 + small) ** 2
    return log_likelihood(eta, small, attempts, successes), successes - attempts * chance, curvature


def log_likelihood(
    eta: np.ndarray, small: np.ndarray, attempts: np.ndarray, successes: np.ndarray
) -> float:
    """Return the log likelihood of log odds eta, given small = exp(-|eta|); any one shape."""
    # Of likely outcomes log1p(small) is all that is lost, of unlikely ones |eta| besides; adding
    # these terms, none of opposite sign, is exact where nearly everything is as expected.
    unlikely = np.where(eta >= 0.0, attempts - successes, successes)
    return -float(np.vdot(attempts, np.log1p(small)) + np.vdot(unlikely, np.abs(eta)))


def survival(
    eta: np.ndarray, attempts: np.ndarray, successes: np.ndarray
) -> tuple[float, np.ndarray, np.ndarray]:
    """P = exp(-exp(eta)), eta being a log cumulative hazard; see the module."""
    hazard = np.exp(np.clip(eta, LOWEST, HIGHEST))
    failures = attempts - successes
    value = float(failures @ log_of_failing(eta, hazard) - successes @ hazard)
    # Derivative of log(1 - P): hazard P / (1 - P), and that of its own: pull (1 - hazard - pull)
    pull = hazard * np.exp(-hazard) / -np.expm1(-hazard)
    curvature = successes * hazard + failures * pull * np.maximum(hazard + pull - 1.0, 0.0)
    return value, failures * pull - successes * hazard, curvature


def survival_log_odds(eta: np.ndarray) -> np.ndarray:
    """Return the log odds of P = exp(-exp(eta)), finite in both tails."""
    hazard = np.exp(np.clip(eta, LOWEST, HIGHEST))
    return -hazard - log_of_failing(eta, hazard)


def log_of_failing(eta: np.ndarray, hazard: np.ndarray) -> np.ndarray:
    """Return log(1 - exp(-hazard)), hazard = exp(eta), precise for small and for large hazards."""
    chance = np.exp(-hazard)
    usual = np.where(hazard > 0.7, np.log1p(-np.minimum(chance, 0.5)), np.log(-np.expm1(-hazard)))
    return np.where(eta < RARE, eta, usual)
