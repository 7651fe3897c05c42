"""Passes over the grid of cells, a block of the bottom at a time: sums that the search needs.

The counts lie in the narrowest whole numbers that hold them. Terms of single cells are computed in
single precision where the grid is large, and always added up in double precision.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import combinations_with_replacement
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from measurebayes.inference.mode.columns import Point
from measurebayes.inference.mode.text import Text

BLOCK_CELLS = 2**20
SINGLE_PRECISION = 2**22  # grids of more cells are computed in single precision
PLACED_AT_ONCE = 2**22  # cells
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


class Grid:
    """The counts of all cells, and passes over them.

    Parameters
    ----------
    text
        The model.
    data
        The data.
    """

    def __init__(self, text: Text, data: xr.Dataset) -> None:
        self.columns, self._text = text.columns, text
        top, bottom = self.columns.lengths
        self.width = max(1, min(bottom, BLOCK_CELLS // top))
        self.number = -(-bottom // self.width)
        self.dtype = np.float64 if top * bottom <= SINGLE_PRECISION else np.float32
        self.precise = self.dtype == np.float64
        self._attempts, self._successes = self._placed(data)
        self._of_cells = _columns_of_cells(text)
        self._slopes = jax.jit(self._slopes_of_block)
        self._second = {
            observed: jax.jit(partial(self._second_of_block, observed, False))
            for observed in (False, True)
        }
        self._full = jax.jit(partial(self._second_of_block, True, True))
        self._bent = {
            across: jax.jit(partial(self._bent_of_block, across)) for across in (False, True)
        }
        self._rise = jax.jit(self._rises_of_block)

    def _placed(self, data: xr.Dataset) -> tuple[np.ndarray, np.ndarray]:
        """Return attempts and successes (block, top, element); 0 where nothing was run."""
        shape = (self.number, self.columns.lengths[0], self.width)
        most = int(data["attempts"].values.max(initial=0))
        grids = [np.zeros(shape, dtype=np.min_scalar_type(most)) for _ in range(2)]
        names = (f"{self.columns.top_axis}_index", f"{self.columns.bottom_axis}_index")
        for start in range(0, data.sizes["cell"], PLACED_AT_ONCE):
            part = slice(start, start + PLACED_AT_ONCE)
            row, col = (data[name].values[part] for name in names)
            at = (col // self.width, row, col % self.width)
            for grid, name in zip(grids, ("attempts", "successes"), strict=True):
                grid[at] = data[name].values[part]
        return grids[0], grids[1]

    def positions(self, block: int) -> np.ndarray:
        """Return the elements of the bottom in a block; beyond the end the last one, unused."""
        at = np.arange(block * self.width, (block + 1) * self.width)
        return np.minimum(at, self.columns.lengths[1] - 1)

    def part(self, block: int) -> slice:
        """Return the elements of the bottom in a block as a slice."""
        return slice(block * self.width, min((block + 1) * self.width, self.columns.lengths[1]))

    # -- passes ------------------------------------------------------------------------------

    def slopes(self, point: Point) -> tuple[float, Point]:
        """Return the energy of all cells and its first derivatives."""
        value, slope = 0.0, self.nothing()
        for block, (part, top, bottom, singles) in self._run(self._slopes, point):
            value += float(part)
            slope.top[...] += top
            slope.bottom[:, self.part(block)] = self._cut(block, bottom)
            slope.singles[...] += singles
        return value, slope

    def second(self, point: Point, observed: bool) -> Sums:
        """Return the energy of all cells and its derivatives, second ones expected or observed."""
        return self._summed(self._run(self._second[observed], point), lambda block, x: None)

    def full(self, point: Point, take: Callable[[int, np.ndarray], None]) -> Sums:
        """Do the same, and hand over those between the axes block by block.

        `take` is called with a block and an array (column, top, column, element).
        """
        return self._summed(self._run(self._full, point), take)

    def bent(self, point: Point, spread: Callable[[int], tuple], whole: bool) -> Point:
        """Return half the derivative of the trace of covariance times second derivative.

        `spread` gives for a block the covariances of the columns: bottom (column, column, element),
        and, for the `whole`, top (column, column, top) and across (column, top, column, element).
        """
        slope = self.nothing()

        def extra(block: int) -> tuple:
            bottom, *others = spread(block)
            padded = [self._padded(block, x) for x in (bottom, *others[1:])]
            return (padded[0], *others[:1], *padded[1:])

        for block, (top, bottom, singles) in self._run(self._bent[whole], point, extra):
            slope.top[...] += top
            slope.bottom[:, self.part(block)] = self._cut(block, bottom)
            slope.singles[...] += singles
        return slope

    def rises(self, point: Point, away: np.ndarray) -> np.ndarray:
        """Return by how much the energy rises where elements of the bottom move away.

        Steps (node, column, element) are taken for each element by itself; returned are
        (node, element).
        """
        result = np.empty((len(away), self.columns.lengths[1]))

        def extra(block: int) -> tuple:
            steps = away[..., self.part(block)]
            short = self.width - steps.shape[-1]
            return (np.pad(steps, ((0, 0), (0, 0), (0, short)), mode="edge"),)

        for block, found in self._run(self._rise, point, extra):
            result[:, self.part(block)] = self._cut(block, found)
        return result

    def value_of(self) -> Callable[[Point], Any] | None:
        """Return the energy of all cells as a JAX function, where they are one block."""
        if self.number > 1:
            return None
        positions, attempts, successes = self.positions(0), self._attempts[0], self._successes[0]
        return lambda point: self._slopes_of_block(point, positions, attempts, successes)[0]

    def nothing(self) -> Point:
        """Return zeros for all parameters."""
        (top, bottom), c = self.columns.lengths, self.columns
        return Point(
            np.zeros((len(c.top), top)),
            np.zeros((len(c.bottom), bottom)),
            np.zeros(c.number_of_singles),
        )

    def _cut(self, block: int, x: Any) -> np.ndarray:
        return np.asarray(x)[..., : self.part(block).stop - self.part(block).start]

    def _padded(self, block: int, x: np.ndarray) -> np.ndarray:
        """Fill an array over the elements of the last block to the width of all blocks."""
        short = self.width - (self.part(block).stop - self.part(block).start)
        return np.concatenate([x, np.zeros((*x.shape[:-1], short), x.dtype)], axis=-1)

    def _run(
        self, function: Any, point: Point, extra: Callable[[int], tuple] = lambda block: ()
    ) -> Iterator[tuple[int, Any]]:
        """Yield each block's result in order, some blocks being computed ahead in threads."""

        def one(block: int) -> Any:
            with jax.enable_x64(True):
                counts = self._attempts[block], self._successes[block]
                found = function(point, self.positions(block), *counts, *extra(block))
                return jax.tree.map(np.asarray, found)

        yield 0, one(0)  # compiles: NumPyro's stack of handlers belongs to the process
        workers = min(os.cpu_count() or 1, self.number)
        with ThreadPoolExecutor(workers) as pool:
            ahead = [pool.submit(one, block) for block in range(1, min(1 + workers, self.number))]
            for block in range(1, self.number):
                found = ahead.pop(0).result()
                if block + workers < self.number:
                    ahead.append(pool.submit(one, block + workers))
                yield block, found

    def _summed(
        self, results: Iterator[tuple[int, Any]], take: Callable[[int, np.ndarray], None]
    ) -> Sums:
        c, (top, bottom) = self.columns, self.columns.lengths
        k, m, s = len(c.top), len(c.bottom), c.number_of_singles
        total = Sums(
            0.0,
            self.nothing(),
            np.zeros((k, k, top)),
            np.zeros((m, m, bottom)),
            np.zeros((k, s, top)),
            np.zeros((m, s, bottom)),
            np.zeros((s, s)),
        )
        for block, (found, across) in results:
            part = self.part(block)
            total.value += float(found.value)
            total.slope.top[...] += found.slope.top
            total.slope.singles[...] += found.slope.singles
            total.slope.bottom[:, part] = self._cut(block, found.slope.bottom)
            for name in ("top", "top_single", "single"):
                getattr(total, name)[...] += getattr(found, name)
            for name in ("bottom", "bottom_single"):
                getattr(total, name)[..., part] = self._cut(block, getattr(found, name))
            if across is not None:
                take(block, self._cut(block, across))
        return total

    # -- one block, in JAX -------------------------------------------------------------------

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

    def _slopes_of_block(
        self, point: Point, positions: Any, attempts: Any, successes: Any
    ) -> tuple[Any, Any, Any, Any]:
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

    def _second_of_block(
        self,
        observed: bool,
        across: bool,
        point: Point,
        positions: Any,
        attempts: Any,
        successes: Any,
    ) -> tuple[Sums, Any]:
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

    def _bent_of_block(
        self,
        whole: bool,
        point: Point,
        positions: Any,
        attempts: Any,
        successes: Any,
        bottom: Any,
        *others: Any,
    ) -> tuple[Any, Any, Any]:
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

    def _rises_of_block(
        self, point: Point, positions: Any, attempts: Any, successes: Any, away: Any
    ) -> Any:
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
