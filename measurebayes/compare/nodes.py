"""Nodes and weights of integrals around a mode, by the number of dimensions.

Posteriors are narrow where the successes tell much and as wide as the prior beyond, many times the
width at the mode: a task that was never solved may be of any difficulty. In one and two dimensions
nodes lie at

    x = sinh(BEND t) / BEND

with t evenly spaced: the trapezium rule, which converges as fast as a Gaussian one for smooth
functions on the whole line [1]_. In more, scrambled Sobol points [2]_ are drawn from normal
distributions with different widths to the left and to the right of the mode, along each axis as the
density itself falls there [3]_.

References
----------
.. [1] Trefethen, L. N., & Weideman, J. A. C. (2014). The exponentially convergent trapezoidal rule.
   SIAM Review, 56, 385-458. doi:10.1137/130932132
.. [2] Owen, A. B. (1998). Scrambling Sobol' and Niederreiter-Xing points. Journal of Complexity,
   14, 466-489. doi:10.1006/jcom.1998.0487
.. [3] Geweke, J. (1989). Bayesian inference in econometric models using Monte Carlo integration.
   Econometrica, 57, 1317-1339. doi:10.2307/1913710
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import product

import numpy as np
from scipy import special, stats

from measurebayes.program.records_first import LOG_TWO_PI

BEND, REACH = 0.6, 5.0  # REACH of t, on both sides
MILD_BEND, MILD_REACH = 0.2, 4.5  # where the prior is about as wide as the posterior
POOL = 16  # sets of nodes that draws take turns with, so that their errors average out
_STREAM = 1_618


@dataclass(frozen=True)
class Nodes:
    """Weighted points t of standard normal distributions.

    Attributes
    ----------
    t
        (set, node, dimension).
    log_weight
        (set, node); weights sum to about 1.
    bend
        Of a grid; quasi-random points have none, and are split.
    """

    t: np.ndarray
    log_weight: np.ndarray
    bend: float | None

    def of(self, draws: np.ndarray, dimensions: int) -> tuple[np.ndarray, np.ndarray]:
        """Give numbered draws the first so many coordinates of their nodes.

        Returns
        -------
        tuple
            t (draw, node, dimension), and log weights (draw, node).
        """
        which = draws % len(self.t)
        return self.t[which, :, :dimensions], self.log_weight[which]

    def __len__(self) -> int:
        """Return the number of nodes."""
        return self.t.shape[1]


def bent(t: np.ndarray, bend: float) -> tuple[np.ndarray, np.ndarray]:
    """Spread normal coordinates t (..., dimension); give places and their log density (...)."""
    density = -0.5 * (t**2 + LOG_TWO_PI) - np.log(np.cosh(bend * t))
    return np.sinh(bend * t) / bend, density.sum(axis=-1)


def split(t: np.ndarray, below: np.ndarray, above: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Give normal coordinates t one width below 0 and another above, without a step at 0.

    Parameters
    ----------
    t
        (..., dimension).
    below, above
        Widths, of shapes that broadcast with t.

    Returns
    -------
    tuple
        Places (..., dimension), and their log density (...).
    """
    share = below / (below + above)
    p, rest = special.ndtr(t), special.ndtr(-t)
    left = p < share
    side = np.where(left, below, above)
    part = np.where(left, p / share, rest / (1.0 - share))
    standard = special.ndtri(0.5 * np.clip(part, 1e-300, 1.0))  # negative
    density = -0.5 * (standard**2 + LOG_TWO_PI) + np.log(2.0 / (below + above))
    return np.where(left, standard, -standard) * side, density.sum(axis=-1)


@lru_cache(maxsize=16)
def grid(number: int, dimensions: int, mild: bool = False) -> Nodes:
    """Make a product rule with `number` nodes a dimension; sets are shifted by parts of a step."""
    bend, reach = (MILD_BEND, MILD_REACH) if mild else (BEND, REACH)
    t = np.linspace(-reach, reach, number)
    node = np.array(list(product(t, repeat=dimensions))).reshape(1, -1, dimensions)
    turn = np.arange(POOL)[:, None] * (2 * np.arange(dimensions) + 1)[None] + 0.5
    node = node + (t[1] - t[0]) * (turn / POOL % 1.0 - 0.5)[:, None]
    log_weight = -0.5 * (node**2 + LOG_TWO_PI) + np.log(t[1] - t[0])
    return Nodes(node, log_weight.sum(axis=-1), bend)


@lru_cache(maxsize=16)
def quasi_random(number: int, dimensions: int, seed: int) -> Nodes:
    """Make `number` points, a power of 2, in each of several independent sets."""
    sets = []
    for one in range(POOL):
        rng = np.random.default_rng([_STREAM, seed, one])
        points = stats.qmc.Sobol(dimensions, rng=rng).random(number)
        sets.append(special.ndtri(np.clip(points, 1e-12, 1.0 - 1e-12)))
    t = np.stack(sets)
    return Nodes(t, np.full(t.shape[:2], -np.log(number)), None)
