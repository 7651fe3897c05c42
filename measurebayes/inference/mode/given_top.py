"""What a normal approximation misses in the bottom: integrals over each element, given the top.

A task that nearly all agents solve has a skewed posterior, and the spread of discriminations that
each rest on few attempts comes out too small from normal approximations: the errors of all tasks
add up. Given the top, elements of the bottom are independent, each with few numbers of its own, so
that their integrals can be done by Gauss-Hermite nodes around the mode (Naylor & Smith 1982,
doi:10.2307/2347995). They give what to add to the log marginal density of the singles, and mean and
covariance of each element.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.polynomial.hermite_e import hermegauss

from measurebayes.inference.mode.columns import Point
from measurebayes.inference.mode.grid import Grid
from measurebayes.inference.mode.prior import Prior

#: Nodes for each number that an element has, in double and in single precision: large grids have
#: many cells for each element, and their posteriors are nearly normal.
NODES = {1: (9, 5), 2: (7, 5), 3: (5, 3)}
LEAST = 0.05  # of a normal approximation's variance: fewer nodes than that carry no weight


@dataclass
class Moments:
    """The bottom given the top.

    Attributes
    ----------
    gain
        Log of the integral over all elements, relative to the normal approximation's.
    mean
        From the mode to the mean (column, element).
    root
        Of the covariance (element, column, column).
    """

    gain: float
    mean: np.ndarray
    root: np.ndarray


class GivenTop:
    """Integrals over elements of the bottom.

    Parameters
    ----------
    prior, grid
        The two parts of the energy.
    """

    def __init__(self, prior: Prior, grid: Grid) -> None:
        self._prior, self._grid = prior, grid
        each = NODES.get(len(prior.columns.bottom))
        self.nodes = np.zeros((0, len(prior.columns.bottom)))
        if each is not None:
            at, weight = hermegauss(each[0 if grid.dtype == np.float64 else 1])
            repeat = len(prior.columns.bottom)
            self.nodes = np.array(list(product(at, repeat=repeat)))
            weights = np.array(list(product(weight / weight.sum(), repeat=repeat)))
            self._log_weights = np.log(weights).sum(axis=1)

    def moments(self, point: Point, bottom: np.ndarray) -> Moments:
        """Return the integrals and moments around a point.

        Parameters
        ----------
        point
            Where the energy is least in the bottom.
        bottom
            Its second derivative there (column, column, element).

        Raises
        ------
        numpy.linalg.LinAlgError
            It is not positive definite.
        """
        root = np.linalg.cholesky(np.linalg.inv(bottom.transpose(2, 0, 1)))
        if not len(self.nodes):
            return Moments(0.0, np.zeros_like(point.bottom), root)
        away = np.einsum("ekm,nm->nke", root, self.nodes)
        rise = self._grid.rises(point, away) + self._prior.rises(point, away)
        square = 0.5 * np.sum(self.nodes**2, axis=1)
        terms = (self._log_weights + square)[:, None] - rise
        most = terms.max(axis=0)
        weights = np.exp(terms - most)
        total = weights.sum(axis=0)
        weights /= total
        gain = float(np.sum(most + np.log(total)))
        mean = np.einsum("ne,nm->em", weights, self.nodes)
        square = np.einsum("ne,nk,nm->ekm", weights, self.nodes, self.nodes)
        values, vectors = np.linalg.eigh(square - mean[:, :, None] * mean[:, None, :])
        spread = vectors * np.sqrt(np.maximum(values, LEAST))[:, None, :]
        return Moments(gain, np.einsum("ekm,em->ke", root, mean), root @ spread)
