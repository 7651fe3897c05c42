"""Passes over the grid of cells, a block of the bottom at a time: sums that the search needs.

The counts lie in the narrowest whole numbers that hold them. Terms of single cells are computed in
single precision where the grid is large, and always added up in double precision.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import jax
import numpy as np
import xarray as xr

from measurebayes.inference.mode.columns import Point
from measurebayes.inference.mode.terms import Sums, Terms
from measurebayes.inference.mode.text import Text

BLOCK_CELLS = 2**20
SINGLE_PRECISION = 2**22  # grids of more cells are computed in single precision
PLACED_AT_ONCE = 2**22  # cells


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
        self.columns = text.columns
        top, bottom = self.columns.lengths
        self.width = max(1, min(bottom, BLOCK_CELLS // top))
        self.number = -(-bottom // self.width)
        self.dtype = np.float64 if top * bottom <= SINGLE_PRECISION else np.float32
        self.precise = self.dtype == np.float64
        self._attempts, self._successes = self._placed(data)
        terms = self._terms = Terms(text, self.width, self.dtype)
        self._slopes = jax.jit(terms.slopes)
        self._second = {
            observed: jax.jit(partial(terms.second, observed, False)) for observed in (False, True)
        }
        self._full = jax.jit(partial(terms.second, True, True))
        self._bent = {across: jax.jit(partial(terms.bent, across)) for across in (False, True)}
        self._rise = jax.jit(terms.rises)

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
        return lambda point: self._terms.slopes(point, positions, attempts, successes)[0]

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
