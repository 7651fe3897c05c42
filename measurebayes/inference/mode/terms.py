"""Sums over the cells of one block, and their derivatives, in JAX."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations_with_replacement
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from measurebayes.inference.mode.columns import Point
from measurebayes.inference.mode.text import Text

RUN = 1024  # cells that are added up in single precision
SEEN = 256  # elements of the bottom at which the log odds are asked what they depend on


@jax.tree_util.register_dataclass
@dataclass
class Sums:
    """Value and derivatives of an energy: minus a log density.

    Attributes
    ----------
    value
        The energy.
    slope
        First derivatives.
    top, bottom
        Second derivatives between columns of one axis, (column, column, element).
    top_single, bottom_single
        Those between columns and singles, (column, single, element).
    single
        Those between singles (single, single).
    """

    value: float
    slope: Point
    top: Any
    bottom: Any
    top_single: Any
    bottom_single: Any
    single: Any

    def __add__(self, other: Sums) -> Sums:
        slope = self.slope.moved(other.slope)
        rest = {k: getattr(self, k) + getattr(other, k) for k in _REST}
        return Sums(self.value + other.value, slope, **rest)


_REST = ("top", "bottom", "top_single", "bottom_single", "single")


class Terms:
    """Energy of a block of cells and its derivatives.

    Parameters
    ----------
    text
        The model.
    width
        Number of elements of the bottom in a block.
    dtype
        Precision of single cells.
    """

    def __init__(self, text: Text, width: int, dtype: Any) -> None:
        self.columns, self._text = text.columns, text
        self.width, self.dtype = width, dtype
        self._of_cells = _columns_of_cells(text)

    def _shifted(self, point: Point, positions: Any) -> tuple[Callable[[Any], Any], list[Any]]:
        """Return the log odds of a block as a function of shifts of whole columns, and a basis."""
        c, s = self.columns, self._of_cells
        point = jax.tree.map(lambda x: jnp.asarray(x, self.dtype), point)

        def log_odds(shift: Any) -> Any:
            k, m = len(c.top), len(c.bottom)
            singles = point.singles
            if s:
                singles = singles.at[jnp.asarray(s)].add(shift[k + m :])
            moved = Point(
                point.top + shift[:k, None], point.bottom + shift[k : k + m, None], singles
            )
            return self._text.log_odds(moved, positions)

        size = len(c.top) + len(c.bottom) + len(s)
        return log_odds, list(jnp.eye(size, dtype=self.dtype))

    def _counts(self, attempts: Any, successes: Any) -> tuple[Any, Any]:
        return attempts.astype(self.dtype), successes.astype(self.dtype)

    def slopes(
        self, point: Point, positions: Any, attempts: Any, successes: Any
    ) -> tuple[Any, Any, Any, Any]:
        """Return the energy and its first derivatives by top, bottom and singles."""
        n, k = self._counts(attempts, successes)
        log_odds, basis = self._shifted(point, positions)
        zero = jnp.zeros(len(basis), self.dtype)
        eta = log_odds(zero)
        residual = n * jax.nn.sigmoid(eta) - k
        terms = [residual * _along(log_odds, e)(zero) for e in basis]
        return (jnp.sum(_energies(eta, n, k), dtype=jnp.float64), *self._first(terms))

    def _first(self, terms: list[Any]) -> tuple[Any, Any, Any]:
        """Sum grids of first derivatives, one a column and single of cells."""
        k, m = len(self.columns.top), len(self.columns.bottom)
        rows = [_total(t, 1) for t in terms[:k]]
        cols = [_total(t, 0) for t in terms[k : k + m]]
        singles = jnp.zeros(self.columns.number_of_singles)
        for at, t in zip(self._of_cells, terms[k + m :], strict=True):
            singles = singles.at[at].set(_total(t, None))
        top, bottom = self.columns.lengths[0], self.width
        return _stacked(rows, top), _stacked(cols, bottom), singles

    def second(
        self,
        observed: bool,
        across: bool,
        point: Point,
        positions: Any,
        attempts: Any,
        successes: Any,
    ) -> tuple[Sums, Any]:
        """Return second derivatives too, and on demand those across (column, top, column, element).

        They are the `observed` ones, or expected ones, which always curve up.
        """
        n, k = self._counts(attempts, successes)
        log_odds, basis = self._shifted(point, positions)
        zero = jnp.zeros(len(basis), self.dtype)
        eta = log_odds(zero)
        chance = jax.nn.sigmoid(eta)
        residual, weight = n * chance - k, n * chance * jax.nn.sigmoid(-eta)
        first = [_along(log_odds, e)(zero) for e in basis]
        grids = {}
        for p, q in combinations_with_replacement(range(len(basis)), 2):
            grid = weight * first[p] * first[q]
            if observed:
                grid = grid + residual * _along(_along(log_odds, basis[p]), basis[q])(zero)
            grids[p, q] = grids[q, p] = grid
        value = jnp.sum(_energies(eta, n, k), dtype=jnp.float64)
        slope = Point(*self._first([residual * f for f in first]))
        return self._arranged(value, slope, grids), self._across(grids) if across else None

    def _arranged(self, value: Any, slope: Point, grids: dict[tuple[int, int], Any]) -> Sums:
        c, s, width = self.columns, self._of_cells, self.width
        k, m, each = len(c.top), len(c.bottom), c.number_of_singles
        top = jnp.zeros((k, k, c.lengths[0]))
        bottom, single = jnp.zeros((m, m, width)), jnp.zeros((each, each))
        top_single = jnp.zeros((k, each, c.lengths[0]))
        bottom_single = jnp.zeros((m, each, width))
        for (p, q), grid in grids.items():
            if p < k and q < k:
                top = top.at[p, q].set(_total(grid, 1))
            elif k <= p < k + m and k <= q < k + m:
                bottom = bottom.at[p - k, q - k].set(_total(grid, 0))
            elif p < k and q >= k + m:
                top_single = top_single.at[p, s[q - k - m]].set(_total(grid, 1))
            elif k <= p < k + m and q >= k + m:
                bottom_single = bottom_single.at[p - k, s[q - k - m]].set(_total(grid, 0))
            elif p >= k + m and q >= k + m:
                single = single.at[s[p - k - m], s[q - k - m]].set(_total(grid, None))
        return Sums(value, slope, top, bottom, top_single, bottom_single, single)

    def _across(self, grids: dict[tuple[int, int], Any]) -> Any:
        k, m = len(self.columns.top), len(self.columns.bottom)
        shape = (self.columns.lengths[0], self.width)
        rows = [[jnp.broadcast_to(grids[p, k + q], shape) for q in range(m)] for p in range(k)]
        if not k or not m:
            return jnp.zeros((k, shape[0], m, shape[1]), self.dtype)
        return jnp.stack([jnp.stack(row, axis=1) for row in rows])

    def bent(
        self,
        whole: bool,
        point: Point,
        positions: Any,
        attempts: Any,
        successes: Any,
        bottom: Any,
        *others: Any,
    ) -> tuple[Any, Any, Any]:
        """Return half the derivative of the trace of covariance times second derivative.

        Of all covariances, the `whole`, or of those among columns of the bottom; see `Grid.bent`.
        """
        n, k = self._counts(attempts, successes)
        log_odds, basis = self._shifted(point, positions)
        at, size = len(self.columns.top), len(self.columns.top) + len(self.columns.bottom)
        spread = _covariances(at, bottom, others, self.dtype)

        def trace(shift: Any) -> Any:
            eta = log_odds(shift)
            chance = jax.nn.sigmoid(eta)
            first = [_along(log_odds, e)(shift) for e in basis[:size]]
            square, bend = 0.0, 0.0
            for p, q in combinations_with_replacement(range(0 if whole else at, size), 2):
                twice = spread[p, q] if p == q else 2.0 * spread[p, q]
                square = square + twice * first[p] * first[q]
                bend = bend + twice * _along(_along(log_odds, basis[p]), basis[q])(shift)
            return 0.5 * (n * chance * (1.0 - chance) * square + (n * chance - k) * bend)

        zero = jnp.zeros(len(basis), self.dtype)
        return self._first([_along(trace, e)(zero) for e in basis])

    def rises(self, point: Point, positions: Any, attempts: Any, successes: Any, away: Any) -> Any:
        """Return by how much the energy rises where elements of the bottom move away."""
        n, k = self._counts(attempts, successes)
        point = jax.tree.map(lambda x: jnp.asarray(x, self.dtype), point)
        here = point.bottom[:, positions]

        def energies(step: Any) -> Any:
            bottom = point.bottom.at[:, positions].set(here + step.astype(self.dtype))
            moved = Point(point.top, bottom, point.singles)
            eta = self._text.log_odds(moved, positions)
            return jnp.sum(_energies(eta, n, k), axis=0, dtype=jnp.float64)

        return jax.lax.map(energies, away) - energies(jnp.zeros_like(away[0]))


def _along(function: Callable[[Any], Any], direction: Any) -> Callable[[Any], Any]:
    """Return the derivative of a function in a direction."""
    return lambda at: jax.jvp(function, (at,), (direction,))[1]


def _energies(eta: Any, n: Any, k: Any) -> Any:
    return n * (jnp.maximum(eta, 0.0) + jnp.log1p(jnp.exp(-jnp.abs(eta)))) - k * eta


def _total(grid: Any, axis: int | None) -> Any:
    """Sum a grid: products with ones, of at most RUN cells in single precision, are fastest."""
    if axis is None:
        return jnp.sum(_total(grid, 0))
    grid = jax.lax.optimization_barrier(grid)  # or each sum would compute all its cells anew
    if axis == 1:
        return (grid @ jnp.ones(grid.shape[1], grid.dtype)).astype(jnp.float64)
    parts = [grid[start : start + RUN] for start in range(0, grid.shape[0], RUN)]
    return sum((jnp.ones(len(x), x.dtype) @ x).astype(jnp.float64) for x in parts)


def _stacked(vectors: list[Any], length: int) -> Any:
    return jnp.stack(vectors) if vectors else jnp.zeros((0, length))


def _covariances(k: int, bottom: Any, others: Any, dtype: Any) -> dict[tuple[int, int], Any]:
    """Return the covariance of each pair of columns as an array that broadcasts over the grid."""
    bottom, *others = (jnp.asarray(x, dtype) for x in (bottom, *others))
    m = len(bottom)
    found = {(k + p, k + q): bottom[p, q][None, :] for p in range(m) for q in range(p, m)}
    if others:
        top, across = others
        found |= {(p, q): top[p, q][:, None] for p in range(k) for q in range(p, k)}
        found |= {(p, k + q): across[p, :, q] for p in range(k) for q in range(m)}
    return found


def _columns_of_cells(text: Text) -> list[int]:
    """Return which singles the log odds depend on."""
    start, length = text.start, text.columns.lengths[1]
    positions = np.linspace(0, length - 1, min(length, SEEN)).astype(int)
    with jax.enable_x64(True):

        def log_odds(singles: Any) -> Any:
            return text.log_odds(Point(start.top, start.bottom, singles), positions)

        jumbled = start.singles + 0.1 * np.arange(1, start.singles.size + 1)
        slopes = jax.jacfwd(log_odds)(jumbled)
    return np.flatnonzero(np.any(np.asarray(slopes) != 0, axis=(0, 1))).tolist()
