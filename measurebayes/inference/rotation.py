"""Rotations of traits and loadings that the data can't tell apart: draws turned to one orientation.

A model with several dimensions knows loadings and traits by their products alone, which stay the
same when both are rotated. Draws of one chain wander among such rotations, and chains differ in
them, so that means of raw draws say nothing. Each draw's loadings are turned to fit the mean of all
draws best (orthogonal Procrustes), until that mean no longer changes; then all are turned together
so that the mean loadings lie along their principal axes, the strongest first, with positive sums.

What a model states of its dimensions as it was sampled (standard deviations of traits) belongs to
the axes before the rotation. It is kept on an axis of its own, and the rotation is kept with it, so
that the model's text can be evaluated at draws as they were.

References
----------
.. [1] Schonemann, P. H. (1966). A generalized solution of the orthogonal Procrustes problem.
   Psychometrika, 31, 1-10. doi:10.1007/BF02289451
.. [2] Papastamoulis, P., & Ntzoufras, I. (2022). On the identifiability of Bayesian factor analytic
   models. Statistics and Computing, 32, 23. doi:10.1007/s11222-022-10084-4
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import xarray as xr

ROTATION = "rotation"  # (chain, draw, sampled_dimension, dimension): raw @ rotation = aligned
SAMPLED = "sampled_"  # before the name of the axis as it was sampled
MOST_TURNS = 100
SETTLED = 1e-8  # change of the mean loadings, relative to their size, at which turning ends


def align(posterior: xr.Dataset, rotated: Sequence[str]) -> xr.Dataset:
    """Turn the draws of loadings and traits to one orientation.

    Parameters
    ----------
    posterior
        Draws (chain, draw, ...) as they were sampled.
    rotated
        Names of loadings (row, axis), traits (axis, other row) and the traits' standard deviations
        (axis,).

    Returns
    -------
    xarray.Dataset
        The same, with loadings (row, axis) in units of one standard deviation of a trait and traits
        (other row, axis) in standard deviations, both turned; other arrays along their axis on an
        axis ``sampled_<name>``, and ``rotation`` (chain, draw, sampled_<name>, <name>).
    """
    loading, trait, sd = rotated
    axis = str(posterior[sd].dims[-1])
    standard = {
        loading: _last(posterior[loading] * posterior[sd], axis),
        trait: _last(posterior[trait] / posterior[sd], axis),
    }
    rotation = orientation(_stacked(standard[loading]))
    others = [str(n) for n, x in posterior.items() if axis in x.dims and n not in standard]
    named = {
        n: posterior[n].drop_vars(axis, errors="ignore").rename({axis: SAMPLED + axis})
        for n in others
    }
    sizes = (posterior.sizes["chain"], posterior.sizes["draw"])
    turned = {n: (x.dims, (_stacked(x) @ rotation).reshape(x.shape)) for n, x in standard.items()}
    labels = posterior[axis].values
    found = posterior.drop_vars([*others, *standard]).assign(turned).assign(named)
    stored = rotation.reshape(*sizes, *rotation.shape[1:])
    found[ROTATION] = (("chain", "draw", SAMPLED + axis, axis), stored)
    return found.assign_coords({axis: labels, SAMPLED + axis: labels})


def as_sampled(posterior: xr.Dataset, rotated: Sequence[str] = ()) -> xr.Dataset:
    """Return draws as the model's text states them: the inverse of `align`.

    Parameters
    ----------
    posterior
        Draws, aligned or not.
    rotated
        As for `align`.
    """
    if ROTATION not in posterior:
        return posterior
    back = posterior[ROTATION]
    sampled, axis = map(str, back.dims[-2:])
    labels = posterior[axis].values
    others = [str(n) for n, x in posterior.items() if sampled in x.dims and n != ROTATION]
    named = {
        n: posterior[n].drop_vars(sampled, errors="ignore").rename({sampled: axis}) for n in others
    }
    found = posterior.drop_vars([ROTATION, *others, sampled], errors="ignore")
    found = found.assign(named).assign_coords({axis: labels})
    loading, trait, sd = rotated
    for name in (loading, trait):
        raw = posterior[name].values @ np.swapaxes(back.values, -1, -2)
        found[name] = (posterior[name].dims, raw)
    found[loading] = found[loading] / found[sd]
    row = str(found[trait].dims[-2])
    found[trait] = (found[trait] * found[sd]).transpose("chain", "draw", axis, row)
    return found


def _last(x: xr.DataArray, axis: str) -> xr.DataArray:
    """Put an axis last."""
    return x.transpose("chain", "draw", ..., axis)


def orientation(loadings: np.ndarray) -> np.ndarray:
    """Rotations that bring draws of loadings to one orientation.

    Parameters
    ----------
    loadings
        Draws (draw, task, dimension).

    Returns
    -------
    numpy.ndarray
        Orthogonal matrices (draw, dimension, dimension): ``loadings @ rotation`` is aligned.
    """
    mean = loadings[-1]
    for _ in range(MOST_TURNS):
        rotation = procrustes(loadings, mean)
        new = np.mean(loadings @ rotation, axis=0)
        change = np.linalg.norm(new - mean)
        mean = new
        if change <= SETTLED * np.linalg.norm(mean):
            break
    principal = np.linalg.svd(mean, full_matrices=False)[2].T
    signs = np.where(np.sum(mean @ principal, axis=0) < 0.0, -1.0, 1.0)
    return rotation @ (principal * signs)


def procrustes(matrices: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Orthogonal matrices R that make |matrix R - target| smallest.

    Parameters
    ----------
    matrices
        (..., row, dimension).
    target
        (row, dimension).

    Returns
    -------
    numpy.ndarray
        (..., dimension, dimension); reflections are allowed.
    """
    left, _, right = np.linalg.svd(np.swapaxes(matrices, -1, -2) @ target)
    return left @ right


def _stacked(x: xr.DataArray) -> np.ndarray:
    """Draws of all chains one after the other (draw, row, dimension)."""
    return x.values.reshape(-1, *x.shape[2:])
