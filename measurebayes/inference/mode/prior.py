"""Derivatives of the log prior: what the search needs of it, without any cell."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from measurebayes.inference.mode.columns import Columns, Point
from measurebayes.inference.mode.terms import Sums
from measurebayes.inference.mode.text import Text

PLACES = 6  # on the way to a node, where the slope is taken
SAME = 1e-6  # relative: above it two ways to a second derivative differ


class Prior:
    """Minus the log density of everything but successes, and its derivatives.

    Parameters
    ----------
    text
        The model.

    Raises
    ------
    InputError
        Elements of one column, or of both axes, depend on one another.
    """

    def __init__(self, text: Text) -> None:
        self.columns: Columns = text.columns
        self._energy = lambda point: -text.log_prior(point)
        self._gradient = jax.grad(self._energy)
        self._sums = jax.jit(self._all)
        self._bent = jax.jit(jax.grad(self._trace))
        self._rise = jax.jit(self._rises)
        self._value = jax.jit(jax.value_and_grad(self._energy))
        with jax.enable_x64(True):
            self._check(text)

    def sums(self, point: Point) -> Sums:
        """Return the energy and its derivatives."""
        with jax.enable_x64(True):
            return jax.tree.map(np.array, self._sums(point))

    def slopes(self, point: Point) -> tuple[float, Point]:
        """Return the energy and its first derivatives."""
        with jax.enable_x64(True):
            value, slope = self._value(point)
            return float(value), jax.tree.map(np.array, slope)

    def bent(self, point: Point, top: np.ndarray, bottom: np.ndarray) -> Point:
        """Return half the derivative of the trace of covariance times second derivative.

        The covariances are (column, column, element).
        """
        with jax.enable_x64(True):
            return jax.tree.map(np.array, self._bent(point, top, bottom))

    def rises(self, point: Point, away: np.ndarray) -> np.ndarray:
        """Return by how much the energy rises where elements of the bottom move away.

        Parameters
        ----------
        away
            Steps (node, column, element), which are taken for each element by itself.

        Returns
        -------
        numpy.ndarray
            (node, element).
        """
        with jax.enable_x64(True):
            return np.asarray(self._rise(point, away))

    def _rises(self, point: Point, away: Any) -> Any:
        """Integrate the slope along the way: the energy itself is known for all elements only."""
        at, weight = np.polynomial.legendre.leggauss(PLACES)

        def rise(step: Any) -> Any:
            def slope(along: Any) -> Any:
                there = Point(point.top, point.bottom + along * step, point.singles)
                return jnp.sum(self._gradient(there).bottom * step, axis=0)

            slopes = jax.lax.map(slope, jnp.asarray((at + 1.0) / 2.0))
            return jnp.tensordot(jnp.asarray(weight / 2.0), slopes, 1)

        return jax.lax.map(rise, away)

    def _product(self, point: Point, direction: Point) -> Point:
        return jax.jvp(self._gradient, (point,), (direction,))[1]

    def _products(self, point: Point) -> tuple[Point, Point, Point]:
        """Return products of the second derivative with ones along each column and single."""
        c = self.columns
        sizes = (len(c.top), len(c.bottom), c.number_of_singles)

        def product(flat: Any) -> Point:
            top, bottom, singles = jnp.split(flat, np.cumsum(sizes[:-1]))
            ones = (jnp.ones_like(x) for x in (point.top, point.bottom))
            parts = [a[:, None] * b for a, b in zip((top, bottom), ones, strict=True)]
            return self._product(point, Point(parts[0], parts[1], singles))

        found = jax.lax.map(product, jnp.eye(sum(sizes)))
        ends = np.cumsum(sizes)
        cut = [slice(0, ends[0]), slice(ends[0], ends[1]), slice(ends[1], ends[2])]
        one, two, three = (jax.tree.map(lambda x, at=at: x[at], found) for at in cut)
        return one, two, three

    def _all(self, point: Point) -> Sums:
        value, slope = jax.value_and_grad(self._energy)(point)
        top, bottom, singles = self._products(point)
        return Sums(
            value,
            slope,
            top.top,
            bottom.bottom,
            jnp.swapaxes(singles.top, 0, 1),
            jnp.swapaxes(singles.bottom, 0, 1),
            singles.singles,
        )

    def _trace(self, point: Point, top: Any, bottom: Any) -> Any:
        along_top, along_bottom, _ = self._products(point)
        return 0.5 * (jnp.sum(top * along_top.top) + jnp.sum(bottom * along_bottom.bottom))

    def _check(self, text: Text) -> None:
        """Compare with a product in a random direction, which sees every dependence."""
        rng, start = np.random.default_rng(0), text.start
        jumbled = Point(*(x + 0.1 * rng.normal(size=x.shape) for x in _parts(start)))
        away = Point(
            rng.normal(size=start.top.shape),
            rng.normal(size=start.bottom.shape),
            np.zeros(start.singles.shape),
        )
        found, sums = jax.jit(self._product)(jumbled, away), self.sums(jumbled)
        for one, blocks, vector in (
            (found.top, sums.top, away.top),
            (found.bottom, sums.bottom, away.bottom),
        ):
            expected = np.einsum("kle,le->ke", blocks, vector)
            if not np.allclose(one, expected, rtol=SAME, atol=SAME * np.abs(blocks).max(initial=0)):
                raise self.columns.refused("the priors of different elements depend on each other:")


def _parts(point: Point) -> tuple[Any, Any, Any]:
    return point.top, point.bottom, point.singles
