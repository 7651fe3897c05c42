"""The linear coordinates that NUTS moves in: what makes its steps long.

Parameters fall in two parts: `top`, the few that everything hangs on (scalars and the shorter
vectors, here hyperparameters and usually abilities), and `bottom`, the many that each hang on few
data. In the posterior a bottom parameter follows the top ones: when abilities stretch, all
difficulties stretch with them. A diagonal mass matrix can't see that, and a full one is too large
to learn from the draws of a warm-up. The position u = (t, r) of the sampler stands for

    top = L t,        bottom = d r + W top,
    W = -H_bb^-1 H_bt,   L L' = (H_tt + H_tb W)^-1,   d = diag(H_bb)^(-1/2),

H being the mean second derivative of the potential energy over draws of a short pilot run. To
first order the elements of u are uncorrelated with variance 1, so that a diagonal mass matrix
does. The map is linear and constant: no density changes, whatever L, W and d.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

# Most parameters on top (five traits of 60 agents): each costs a row of W and L.
TOP_LIMIT = 320
# Above this number of parameters the second derivative is not formed, and the shear is zero.
HESSIAN_LIMIT = 3000

Sites = Mapping[str, Any]
#: L: root (top, top); W: shear (bottom, top); d: scale (bottom,); and the centre of the mass, in
#: positions of the sampler, NaN where it is not known.
Geometry = dict[str, np.ndarray]


@dataclass(frozen=True)
class Split:
    """Which sites are top and bottom, and how vectors of them become named arrays.

    Attributes
    ----------
    top, bottom
        Names of the sites.
    shapes
        Of the sites' arrays.
    sizes
        Number of parameters in each part.
    separable
        The bottom sites are vectors along one axis, of which different elements share no data, so
        that given the top they are independent.
    """

    top: tuple[str, ...]
    bottom: tuple[str, ...]
    shapes: Mapping[str, tuple[int, ...]]
    sizes: tuple[int, int]
    separable: bool

    @classmethod
    def of(
        cls,
        shapes: Mapping[str, tuple[int, ...]],
        axes: Mapping[str, tuple[str, ...]],
        limit: int,
    ) -> Split:
        """Put scalars and the shortest vectors on top while the block stays within the limit.

        Parameters
        ----------
        shapes
            Of the sampled arrays, by site.
        axes
            Names of the axes that the elements of a site lie along; none where they are mixtures.
        limit
            Number of parameters on top.
        """
        length = {name: int(np.prod(shape, dtype=int)) for name, shape in shapes.items()}
        top: list[str] = []
        for name in sorted(shapes, key=lambda n: (length[n], n)):
            if sum(length[n] for n in top) + length[name] > limit:
                break
            top.append(name)
        parts = (tuple(sorted(top)), tuple(sorted(n for n in shapes if n not in top)))
        sizes = (sum(length[n] for n in parts[0]), sum(length[n] for n in parts[1]))
        along = {axes.get(name, (name,)) for name in parts[1]}
        separable = along in ({("task",)}, {("agent",)})  # a cell has one task and one agent
        return cls(*parts, dict(shapes), sizes, separable)

    def probes(self) -> np.ndarray:
        """Return the directions (direction, all) whose products give the second derivative."""
        top, bottom = self.sizes
        if not self.separable:
            return np.eye(top + bottom)
        ones = np.kron(np.eye(len(self.bottom)), np.ones(bottom // len(self.bottom)))
        return np.block(
            [
                [np.eye(top), np.zeros((top, bottom))],
                [np.zeros((len(self.bottom), top)), ones],
            ]
        )

    def assembled(self, products: np.ndarray) -> np.ndarray:
        """Return the second derivative (all, all) from its products with the probes."""
        if not self.separable:
            return products
        top, bottom = self.sizes
        hessian = np.zeros((top + bottom, top + bottom))
        hessian[:top] = products[:top]
        hessian[:, :top] = products[:top].T
        length = bottom // len(self.bottom)
        for i, row in enumerate(products[top:]):
            for j in range(len(self.bottom)):
                across = row[top + j * length : top + (j + 1) * length]
                at = np.arange(length)
                hessian[top + i * length + at, top + j * length + at] = across
        return hessian

    def sites(self, flat: Any) -> dict[str, Any]:
        """Return the named arrays (..., own axes) of vectors (..., all), in NumPy or JAX."""
        named, start = {}, 0
        for name in (*self.top, *self.bottom):
            shape = self.shapes[name]
            stop = start + math.prod(shape)
            named[name] = flat[..., start:stop].reshape((*flat.shape[:-1], *shape))
            start = stop
        return named

    def joined(self, named: Mapping[str, Any]) -> Any:
        """Return the vectors (..., all) of named arrays: the inverse of `sites`."""
        rows = []
        for name in (*self.top, *self.bottom):
            shape = self.shapes[name]
            others = named[name].shape[: named[name].ndim - len(shape)]
            rows.append(named[name].reshape((*others, math.prod(shape))))
        return rows[0].__array_namespace__().concatenate(rows, axis=-1)

    def elements(self, names: Collection[str]) -> np.ndarray:
        """Return which parameters belong to the sites of these names (all,)."""
        named = self.sites(np.arange(sum(self.sizes)))
        chosen = np.zeros(sum(self.sizes), dtype=bool)
        for name in set(names) & set(named):
            chosen[np.ravel(named[name]).astype(int)] = True
        return chosen

    def conditional_variances(self, hessian: np.ndarray, hyper: frozenset[str]) -> dict[str, Any]:
        """Return the variances of all sites but `hyper` at given values of `hyper`.

        Parameters
        ----------
        hessian
            Second derivative of the potential (all, all).
        hyper
            Names of the sites that are given.

        Returns
        -------
        dict of str to numpy.ndarray
            By site; NaN where the second derivative can't be inverted.
        """
        keep = np.flatnonzero(~self.elements(hyper))
        variances = np.full(len(hessian), np.nan)
        block = hessian[np.ix_(keep, keep)]
        if np.all(np.isfinite(block)):
            with suppress(np.linalg.LinAlgError):
                variances[keep] = np.diagonal(np.linalg.inv(positive(block)))
        return {n: np.asarray(v) for n, v in self.sites(variances).items() if n not in hyper}

    def flat(self, position: Any, geometry: Mapping[str, Any]) -> Any:
        """Return the parameters (top, bottom) of a position of the sampler."""
        size = self.sizes[0]
        top = geometry["root"] @ position[:size]
        bottom = geometry["scale"] * position[size:] + geometry["shear"] @ top
        return jnp.concatenate([top, bottom])

    def position(self, flat: np.ndarray, geometry: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return the position of the sampler: the inverse of `flat`."""
        top, bottom = flat[: self.sizes[0]], flat[self.sizes[0] :]
        rest = (bottom - geometry["shear"] @ top) / geometry["scale"]
        return np.concatenate([np.linalg.solve(geometry["root"], top), rest])

    def plain(self) -> Geometry:
        """Return the geometry to begin with: the parameters themselves."""
        top, bottom = self.sizes
        return {
            "root": np.eye(top),
            "shear": np.zeros((bottom, top)),
            "scale": np.ones(bottom),
            "centre": np.full(top + bottom, np.nan),
        }

    def geometry(self, hessian: np.ndarray) -> Geometry | None:
        """Return the geometry from a mean second derivative (all, all) of the potential.

        None where it can't be used: a pilot run may have ended far from where the mass lies.
        """
        if not np.all(np.isfinite(hessian)):
            return None
        top = self.sizes[0]
        below, across = positive(hessian[top:, top:]), hessian[top:, :top]
        try:
            shear = -np.linalg.solve(below, across)
            marginal = positive(hessian[:top, :top] + across.T @ shear)
            root = np.linalg.cholesky(np.linalg.inv(marginal))
        except np.linalg.LinAlgError:
            return None
        found = {"root": root, "shear": shear, "scale": np.diagonal(below) ** -0.5}
        return found if all(np.all(np.isfinite(x)) for x in found.values()) else None


def positive(matrix: np.ndarray, floor: float = 1e-2) -> np.ndarray:
    """Return a symmetric matrix with its eigenvalues raised to `floor` times their median."""
    if matrix.size == 0:
        return matrix
    matrix = (matrix + matrix.T) / 2
    try:
        # A factor whose smallest diagonal is not small settles it, at a tenth of the cost.
        diagonal = np.diagonal(np.linalg.cholesky(matrix)) ** 2
        if diagonal.min() >= floor * np.median(diagonal):
            return matrix
    except np.linalg.LinAlgError:
        pass
    values, vectors = np.linalg.eigh(matrix)
    least = floor * max(float(np.median(np.abs(values))), np.finfo(float).tiny)
    return (vectors * np.maximum(values, least)) @ vectors.T


def curved_up(matrix: np.ndarray) -> np.ndarray:
    """Return a second derivative without the directions in which it curves down.

    The mean over draws is to say how stiff a direction is where the mass lies. Where scales are
    small, single draws curve down steeply; in a mean they would make stiff directions look loose.
    """
    if not np.all(np.isfinite(matrix)):
        return matrix
    matrix = (matrix + matrix.T) / 2
    with suppress(np.linalg.LinAlgError):
        np.linalg.cholesky(matrix)  # curves up everywhere: a tenth of the cost
        return matrix
    values, vectors = np.linalg.eigh(matrix)
    return (vectors * np.maximum(values, 0.0)) @ vectors.T


def hessian_products(
    gradient: Callable[[Any, Any], Any],
    expected: Callable[[Any, Any], Any],
    probes: Any,
    point: Any,
    arguments: Any,
) -> Any:
    """Return the products of a second derivative with probes (probe, all), those of a split.

    It is taken where what was observed is what is `expected` at that point: it is Fisher's
    information then, which does not curve down by the luck of the data.

    Where the bottom is separable, one product with a vector of ones gives the second derivatives of
    all its elements at once, and only the columns of the top are taken one by one.
    """
    at_expected = expected(point, arguments)

    def product(direction: Any) -> Any:
        return jax.jvp(lambda x: gradient(x, at_expected), (point,), (direction,))[1]

    return jax.lax.map(product, probes)
