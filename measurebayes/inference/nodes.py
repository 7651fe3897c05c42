"""Nodes and weights of integrals against a standard normal density."""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

import numpy as np

ALONG = {1: 15, 2: 9}  # nodes along each direction; with more directions they are spread out
SPREAD = 128  # a power of 2


class Nodes(NamedTuple):
    """Nodes of an integral.

    Attributes
    ----------
    places
        In standard deviations (node, dimension).
    log_weights
        Natural logarithms (node,); the weights sum to 1.
    """

    places: np.ndarray
    log_weights: np.ndarray


def nodes_of(width: int, finer: bool = False) -> Nodes:
    """Return nodes for integrals over a number of dimensions.

    Products of Gauss and Hermite's rule for one and two dimensions; Sobol's points, of which half
    are the mirror image of the others, for more.

    Parameters
    ----------
    width
        Number of dimensions.
    finer
        More nodes, to see how far the result depends on their number.
    """
    if width in ALONG:
        number = ALONG[width] + (6 if finer else 0)
        places, weights = np.polynomial.hermite_e.hermegauss(number)
        weights = weights / weights.sum()
        grid = np.array(list(product(places, repeat=width)))
        return Nodes(grid, np.log(np.array(list(product(weights, repeat=width)))).sum(axis=1))
    from scipy.special import ndtri
    from scipy.stats import qmc

    number = SPREAD * (4 if finer else 1)
    half = ndtri(qmc.Sobol(width, seed=0).random(number // 2)) if width else np.zeros((1, 0))
    places = np.concatenate([half, -half])
    return Nodes(places, np.full(len(places), -np.log(len(places))))
