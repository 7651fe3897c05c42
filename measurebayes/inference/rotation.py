"""Traits and loadings that the data can't tell apart: draws brought to the same axes.

A model with several dimensions knows loadings and traits by their products alone, which stay the
same when traits are mapped by any invertible matrix and loadings by its inverse. Draws of one chain
wander among such maps, and chains differ in them, so that means of raw draws say nothing. Here each
draw's traits are made uncorrelated with SD 1 over the agents, which leaves rotations alone. Its
loadings are then turned to fit the mean of all draws best (orthogonal Procrustes), until that mean
no longer changes.

A last map is the same for all draws. Traits that are uncorrelated in their population are not quite
so in a few agents. The map makes their population's mean covariance that of uncorrelated traits of
SD 1, and takes mean loadings to their principal axes, the strongest first, with positive sums.

What a model states of its dimensions as it was sampled (standard deviations of traits) belongs to
the axes as they were. It is kept on an axis of its own, and the map is kept with it, so that the
model's text can be evaluated at draws as they were.

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

AXES = "axes"  # (chain, draw, sampled_dimension, dimension): loadings @ axes = aligned
SAMPLED = "sampled_"  # before the name of the axis as it was sampled
LEAST = 1e-12  # of a variance, relative to the largest: a dimension that is switched off has none
FURTHEST = 4.0  # factor between variances in the population and over the agents
MOST_TURNS = 100
SETTLED = 1e-8  # change of the mean loadings, relative to their size, at which turning ends


def align(posterior: xr.Dataset, rotated: Sequence[str]) -> xr.Dataset:
    """Bring the draws of loadings and traits to the same axes.

    Parameters
    ----------
    posterior
        Draws (chain, draw, ...) as they were sampled.
    rotated
        Names of loadings (row, axis) and traits (axis, other row).

    Returns
    -------
    xarray.Dataset
        The same, with traits (other row, axis) in standard deviations and loadings (row, axis) for
        one; other arrays along their axis on an axis ``sampled_<name>``, and ``axes`` (chain, draw,
        sampled_<name>, <name>).
    """
    loading, trait = rotated
    axis = str(posterior[loading].dims[-1])
    raw = {name: _last(posterior[name], axis) for name in rotated}
    axes = common_axes(_stacked(raw[loading]), _stacked(raw[trait]))
    onto = {loading: axes, trait: np.linalg.inv(axes).mT}
    others = [str(n) for n, x in posterior.items() if axis in x.dims and n not in rotated]
    named = {
        n: posterior[n].drop_vars(axis, errors="ignore").rename({axis: SAMPLED + axis})
        for n in others
    }
    sizes = (posterior.sizes["chain"], posterior.sizes["draw"])
    turned = {n: (x.dims, (_stacked(x) @ onto[n]).reshape(x.shape)) for n, x in raw.items()}
    labels = posterior[axis].values
    found = posterior.drop_vars([*others, *rotated]).assign(turned).assign(named)
    found[AXES] = (("chain", "draw", SAMPLED + axis, axis), axes.reshape(*sizes, *axes.shape[1:]))
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
    if AXES not in posterior:
        return posterior
    axes = posterior[AXES]
    sampled, axis = map(str, axes.dims[-2:])
    labels = posterior[axis].values
    others = [str(n) for n, x in posterior.items() if sampled in x.dims and n != AXES]
    named = {
        n: posterior[n].drop_vars(sampled, errors="ignore").rename({sampled: axis}) for n in others
    }
    found = posterior.drop_vars([AXES, *others, sampled], errors="ignore")
    found = found.assign(named).assign_coords({axis: labels})
    loading, trait = rotated
    back = {loading: np.linalg.inv(axes.values), trait: axes.values.mT}
    for name, matrix in back.items():
        found[name] = (posterior[name].dims, posterior[name].values @ matrix)
    row = str(found[trait].dims[-2])
    found[trait] = found[trait].transpose("chain", "draw", axis, row)
    return found


def _standardised(traits: np.ndarray) -> np.ndarray:
    """Matrices whose inverse transposed makes draws (draw, row, axis) uncorrelated, of SD 1."""
    values, vectors = np.linalg.eigh(traits.mT @ traits / traits.shape[-2])
    least = np.maximum(LEAST * values[..., -1:], np.finfo(float).tiny)
    return vectors * np.sqrt(np.maximum(values, least))[..., None, :]


def _last(x: xr.DataArray, axis: str) -> xr.DataArray:
    """Put an axis last."""
    return x.transpose("chain", "draw", ..., axis)


def common_axes(loadings: np.ndarray, traits: np.ndarray) -> np.ndarray:
    """Matrices that bring draws of loadings to the same axes; inverse transposed, those of traits.

    Parameters
    ----------
    loadings
        Draws (draw, row, dimension).
    traits
        Draws (draw, other row, dimension), uncorrelated in their population.

    Returns
    -------
    numpy.ndarray
        (draw, dimension, dimension): ``loadings @ axes``.
    """
    axes = _standardised(traits)
    axes = axes @ orientation(loadings @ axes)
    spread = np.sqrt(np.mean(traits**2, axis=-2))[..., None] * np.linalg.inv(axes).mT
    values, vectors = np.linalg.eigh(np.mean(spread.mT @ spread, axis=0))
    # With hardly more agents than dimensions, correlations of the few say nothing.
    onto = (vectors * np.sqrt(np.clip(values, 1.0 / FURTHEST, FURTHEST))) @ vectors.T
    return axes @ onto @ _principal(np.mean(loadings @ axes, axis=0) @ onto)


def orientation(loadings: np.ndarray) -> np.ndarray:
    """Rotations that bring draws of loadings to one orientation.

    Parameters
    ----------
    loadings
        Draws (draw, row, dimension).

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
    return rotation @ _principal(mean)


def _principal(loadings: np.ndarray) -> np.ndarray:
    """Rotation of loadings (row, dimension) to principal axes with positive sums."""
    axes = np.linalg.svd(loadings, full_matrices=False)[2].T
    return axes * np.where(np.sum(loadings @ axes, axis=0) < 0.0, -1.0, 1.0)


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
    left, _, right = np.linalg.svd(matrices.mT @ target)
    return left @ right


def _stacked(x: xr.DataArray) -> np.ndarray:
    """Draws of all chains one after the other (draw, row, dimension)."""
    return x.values.reshape(-1, *x.shape[2:])
