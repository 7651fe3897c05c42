"""Rotations of dimensions to simple structure: few large loadings in each column, the rest small.

A rotation is chosen from the mean loadings of a fit, whose draws are aligned already, and is the
same for all draws: intervals are those of loadings on these axes.

References
----------
.. [1] Kaiser, H. F. (1958). The varimax criterion for analytic rotation in factor analysis.
   Psychometrika, 23, 187-200. doi:10.1007/BF02289233
.. [2] Jennrich, R. I. (2002). A simple general method for oblique rotation. Psychometrika, 67,
   7-19. doi:10.1007/BF02294706
.. [3] Bernaards, C. A., & Jennrich, R. I. (2005). Gradient projection algorithms and software for
   arbitrary rotation criteria in factor analysis. Educational and Psychological Measurement, 65,
   676-696. doi:10.1177/0013164404272507
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import xarray as xr

from measurebayes.errors import InputError
from measurebayes.inference.results import check_fit

METHODS = ("varimax", "oblimin")
STEPS, SETTLED, HALVINGS = 1000, 1e-8, 40


def rotate(fit: xr.DataTree, method: str = "varimax") -> xr.Dataset:
    """Rotate loadings and traits of a multidimensional fit to simple structure.

    Parameters
    ----------
    fit
        Fit of mirt, or of any model with ``loading`` (task, dimension) and ``trait`` (agent,
        dimension).
    method
        ``"varimax"``, whose dimensions stay uncorrelated, or ``"oblimin"`` (with gamma 0, also
        called quartimin), whose traits may correlate.

    Returns
    -------
    xarray.Dataset
        ``loading`` (chain, draw, task, dimension) in logits per standard deviation of a trait;
        ``trait`` (chain, draw, agent, dimension), of standard deviation 1 in its population;
        ``correlation`` of traits (dimension, other_dimension). Dimensions are ordered by the sum
        of their squared mean loadings, and signed so that these have a positive sum.

    Raises
    ------
    InputError
        The fit has no such arrays, or the method is unknown.
    """
    check_fit(fit)
    posterior = fit["posterior"].to_dataset()
    lacks = [name for name in ("loading", "trait") if name not in posterior]
    if lacks:
        raise InputError(
            f"a fit of {fit.attrs.get('model', 'some model')} has no {lacks[0]!r}",
            where="rotate",
            expected="a fit with loadings of tasks and traits of agents, such as mirt",
            remedy="mb.fit('mirt', runs, dimensions=3)",
        )
    if method not in METHODS:
        raise InputError(
            f"the rotation {method!r} is unknown",
            where="rotate",
            expected=" or ".join(METHODS),
            remedy="rotate(fit, 'varimax')",
        )
    mean = posterior["loading"].mean(("chain", "draw")).transpose("task", "dimension").values
    turn = varimax(mean) if method == "varimax" else oblimin(mean)
    # loading trait' stays the same: loadings take the inverse of what traits take
    onto = np.linalg.inv(turn).T
    strength = np.sum((mean @ onto) ** 2, axis=0)
    order = np.argsort(-strength, kind="stable")
    signs = np.where(np.sum(mean @ onto, axis=0) < 0.0, -1.0, 1.0)[order]
    turn, onto = turn[:, order] * signs, onto[:, order] * signs
    found = xr.Dataset(coords=posterior.coords).drop_dims("sampled_dimension", errors="ignore")
    for name, matrix in (("loading", onto), ("trait", turn)):
        x = posterior[name].transpose("chain", "draw", ..., "dimension")
        found[name] = (x.dims, x.values @ matrix)
    found["correlation"] = (("dimension", "other_dimension"), turn.T @ turn)
    found.attrs["rotation"] = method
    return found


def varimax(loadings: np.ndarray) -> np.ndarray:
    """Orthogonal matrix that makes the variance of squared loadings in columns largest.

    Parameters
    ----------
    loadings
        (task, dimension).

    Returns
    -------
    numpy.ndarray
        (dimension, dimension): ``loadings @ matrix`` is rotated, and so are traits.
    """
    turn, before = np.eye(loadings.shape[1]), 0.0
    for _ in range(STEPS):
        turned = loadings @ turn
        gradient = turned**3 - turned * np.mean(turned**2, axis=0)
        left, size, right = np.linalg.svd(loadings.T @ gradient)
        turn = left @ right
        if size.sum() <= before * (1.0 + SETTLED):
            break
        before = size.sum()
    return turn


def oblimin(loadings: np.ndarray) -> np.ndarray:
    """Matrix of unit columns whose inverse makes products of squared loadings smallest.

    Parameters
    ----------
    loadings
        (task, dimension).

    Returns
    -------
    numpy.ndarray
        T (dimension, dimension): loadings become ``loadings @ inv(T).T``, traits ``trait @ T``,
        whose correlations are T' T.
    """
    others = 1.0 - np.eye(loadings.shape[1])

    def criterion(turned: np.ndarray) -> tuple[float, np.ndarray]:
        squared = turned**2 @ others
        return float(np.sum(turned**2 * squared)) / 4.0, turned * squared

    return _projected(loadings, criterion, varimax(loadings))


def _projected(
    loadings: np.ndarray,
    criterion: Callable[[np.ndarray], tuple[float, np.ndarray]],
    turn: np.ndarray,
) -> np.ndarray:
    """Gradient projection over matrices of unit columns (Jennrich 2002)."""
    step = 1.0
    turned = loadings @ np.linalg.inv(turn).T
    value, slope = criterion(turned)
    for _ in range(STEPS):
        gradient = -(turned.T @ slope @ np.linalg.inv(turn)).T
        direction = gradient - turn * np.sum(turn * gradient, axis=0)
        size = np.linalg.norm(direction)
        if size < SETTLED * max(1.0, value):
            break
        step *= 2.0
        for _ in range(HALVINGS):
            new = turn - step * direction
            new = new / np.linalg.norm(new, axis=0)
            turned = loadings @ np.linalg.inv(new).T
            next_value, next_slope = criterion(turned)
            if next_value < value - 0.5 * step * size**2:
                break
            step /= 2.0
        else:
            break
        turn, value, slope = new, next_value, next_slope
    return turn
