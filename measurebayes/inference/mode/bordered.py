"""A symmetric matrix that is diagonal along the bottom given the top: factor, solve, draw, invert.

The second derivative of an energy in columns (`columns`) has the form

    [ A   B ]    A: column by column on top, diagonal along the top axis
    [ B'  D ]    D: column by column below, diagonal along the bottom axis

so that with the Schur complement S = A - B D^-1 B' (a dense matrix of the size of the top)

    solve      x_t = S^-1 (g_t - B D^-1 g_b),   x_b = D^-1 (g_b - B' x_t)
    covariance  S^-1 on top,   -S^-1 B D^-1 across,   D^-1 + D^-1 B' S^-1 B D^-1 below.

Nothing is left out. Sums of zero-sum columns are held at zero by conditioning: with V = H^-1 a and
the constraints a, the covariance is H^-1 - V (a' V)^-1 V'.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from scipy.linalg import cho_solve, lapack, solve_triangular
from scipy.linalg.blas import dsyrk, ssyrk

from measurebayes.inference.mode.columns import Columns

Pair = tuple[np.ndarray, np.ndarray]  # of the top (column, element), of the bottom likewise


@dataclass
class Across:
    """The matrix B, block by block of the bottom.

    Attributes
    ----------
    blocks
        Arrays (column, top, column, element).
    part
        Elements of the bottom in a block.
    top, bottom
        Shapes of vectors (column, element).
    """

    blocks: list[np.ndarray]
    part: Callable[[int], slice]
    top: tuple[int, ...]
    bottom: tuple[int, ...]

    def times(self, bottom: np.ndarray) -> np.ndarray:
        """Return B times a vector of the bottom."""
        total = np.zeros(self.top)
        for block, across in enumerate(self.blocks):
            vector = bottom[:, self.part(block)].astype(across.dtype).ravel()
            total += (across.reshape(-1, vector.size) @ vector).reshape(self.top)
        return total

    def turned_times(self, top: np.ndarray) -> np.ndarray:
        """Return B' times a vector of the top."""
        result = np.zeros(self.bottom)
        for block, across in enumerate(self.blocks):
            vector = top.ravel().astype(across.dtype)
            flat = vector @ across.reshape(vector.size, -1)
            result[:, self.part(block)] = flat.reshape(across.shape[2:])
        return result


class Bordered:
    """The factorised matrix.

    Parameters
    ----------
    columns
        Which columns there are.
    top, bottom
        A (column, column, element) and D (column, column, element).
    across
        B.
    schur
        What stands for S, where it is known better than from these (all on top, all on top).

    Raises
    ------
    numpy.linalg.LinAlgError
        It is not positive definite.
    """

    def __init__(
        self,
        columns: Columns,
        top: np.ndarray,
        bottom: np.ndarray,
        across: Across,
        schur: np.ndarray | None = None,
    ) -> None:
        self.columns, self.across, self.part = columns, across, across.part
        self.below = np.linalg.inv(bottom.transpose(2, 0, 1))  # (element, column, column)
        self._root = np.linalg.cholesky((self.below + self.below.transpose(0, 2, 1)) / 2)
        determinants = -2.0 * np.log(np.einsum("ekk->ek", self._root)).sum()
        self._factor = _factor(self._schur(top) if schur is None else np.array(schur, order="F"))
        determinants += 2.0 * np.log(np.diagonal(self._factor)).sum()
        self._constraints = self._zero_sums()
        self._inverse_of_sums: np.ndarray | None = None
        if self._constraints:
            self._bound = [self._solved(a) for a in self._constraints]
            sums = [[_inner(a, v) for v in self._bound] for a in self._constraints]
            self._inverse_of_sums = np.linalg.inv(np.array(sums))
            determinants += np.linalg.slogdet(np.array(sums))[1]
        self.log_determinant = float(determinants)

    def _schur(self, top: np.ndarray) -> np.ndarray:
        k, length = len(top), self.columns.lengths[0]
        schur = np.zeros((k * length, k * length), order="F")
        if schur.size and self.across.blocks:
            dtype = self.across.blocks[0].dtype
            syrk: Any = dsyrk if dtype == np.float64 else ssyrk
            total = np.zeros(schur.shape, dtype, order="F")
            for block, across in enumerate(self.across.blocks):
                scaled = _scaled(across, self._root[self.part(block)]).reshape(k * length, -1)
                total = syrk(-1.0, scaled.T, 1.0, total, trans=1, lower=1, overwrite_c=1)
            schur[...] = total
        at = np.arange(length)
        for p in range(k):
            for q in range(k):
                schur[p * length + at, q * length + at] += top[p, q]
        return schur

    def _zero_sums(self) -> list[Pair]:
        c, (top, bottom) = self.columns, self.columns.lengths
        found = []
        for columns, which in ((c.top, 0), (c.bottom, 1)):
            for i, column in enumerate(columns):
                if column.zero_sum:
                    pair = np.zeros((len(c.top), top)), np.zeros((len(c.bottom), bottom))
                    pair[which][i] = 1.0
                    found.append(pair)
        return found

    def solve(self, right: Pair) -> Pair:
        """Return the inverse, conditional on the constraints, times a vector."""
        top, bottom = self._solved(right)
        if self._inverse_of_sums is None:
            return top, bottom
        sums = np.array([_inner(a, (top, bottom)) for a in self._constraints])
        for weight, (t, b) in zip(self._inverse_of_sums @ sums, self._bound, strict=True):
            top, bottom = top - weight * t, bottom - weight * b
        return top, bottom

    def _solved(self, right: Pair) -> Pair:
        top, bottom = right
        left = top - self.across.times(np.einsum("ekm,me->ke", self.below, bottom))
        if left.size:
            left = cho_solve((self._factor, True), left.ravel()).reshape(left.shape)
        rest = bottom - self.across.turned_times(left)
        return left, np.einsum("ekm,me->ke", self.below, rest)

    def covariances(self) -> Callable[[int], tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Return a function that gives for a block the covariances that its cells need.

        They are bottom (column, column, element), top (column, column, top) and across (column,
        top, column, element).
        """
        k, length = len(self.columns.top), self.columns.lengths[0]
        inverse = lapack.dpotri(self._factor, lower=1)[0] if k else np.zeros((0, 0))
        at = np.arange(length)
        diagonal = np.zeros((k, k, length))
        for p, q in product(range(k), repeat=2):
            row, col = p * length + at, q * length + at
            diagonal[p, q] = inverse[np.maximum(row, col), np.minimum(row, col)]
        diagonal -= self._conditioned(lambda a, b: np.einsum("kt,lt->klt", a[0], b[0]))
        single = inverse.astype(self.across.blocks[0].dtype)
        single += np.tril(single, -1).T

        def of_block(block: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
            across, bottom = self._covariances_of(block, single)
            return bottom, diagonal, across

        return of_block

    def _covariances_of(self, block: int, inverse: np.ndarray) -> Pair:
        across, part = self.across.blocks[block], self.part(block)
        k, length, m, width = across.shape
        below = self.below[part]
        scaled = _scaled(across, below)
        covariance = -(inverse @ scaled.reshape(k * length, m * width)).reshape(across.shape)
        bottom = below.transpose(1, 2, 0).copy()
        for p, q in product(range(m), repeat=2):
            bottom[p, q] -= np.einsum("kte,kte->e", scaled[:, :, p], covariance[:, :, q])
        bottom -= self._conditioned(
            lambda a, b: np.einsum("me,qe->mqe", a[1][:, part], b[1][:, part])
        )
        if self._inverse_of_sums is not None:
            for i, a in enumerate(self._bound):
                for j, b in enumerate(self._bound):
                    weight = self._inverse_of_sums[i, j]
                    left = (weight * a[0]).astype(across.dtype)
                    covariance -= left[:, :, None, None] * b[1][:, part].astype(across.dtype)
        return covariance, bottom

    def _conditioned(self, product: Callable[[Pair, Pair], np.ndarray]) -> np.ndarray | float:
        """Return what the constraints take off a part of the covariance."""
        if self._inverse_of_sums is None:
            return 0.0
        return sum(
            self._inverse_of_sums[i, j] * product(a, b)
            for i, a in enumerate(self._bound)
            for j, b in enumerate(self._bound)
        )

    def follow(self, top: np.ndarray) -> np.ndarray:
        """Return how the bottom moves with the top (column, element)."""
        return -np.einsum("ekm,me->ke", self.below, self.across.turned_times(top))

    def draws(
        self, rng: np.random.Generator, number: int, root: np.ndarray
    ) -> tuple[Pair, np.ndarray]:
        """Draw from the normal distribution with this matrix as precision.

        Parameters
        ----------
        rng
            Source of chance.
        number
            Of draws.
        root
            Of the covariance of each element of the bottom given the top, where it is known better
            than from this matrix (element, column, column).

        Returns
        -------
        tuple
            Deviations of top (draw, column, element) and of bottom, and for each draw half their
            square in this matrix (draw,).
        """
        k, length = len(self.columns.top), self.columns.lengths[0]
        m, width = len(self.columns.bottom), self.columns.lengths[1]
        plain = rng.normal(size=(number, k * length)), rng.normal(size=(number, m, width))
        half = 0.5 * np.sum([np.sum(x.reshape(number, -1) ** 2, axis=1) for x in plain], axis=0)
        top = plain[0]
        if k:
            top = solve_triangular(self._factor, plain[0].T, lower=True, trans="T").T
        bottom = np.einsum("ekm,nme->nke", root, plain[1])
        for block, across in enumerate(self.across.blocks):
            part, shape = self.part(block), across.shape
            pulled = top.astype(across.dtype) @ across.reshape(k * length, -1)
            pulled = pulled.reshape(number, m, shape[3])
            bottom[:, :, part] -= np.einsum("ekm,nme->nke", self.below[part], pulled)
        pair = top.reshape(number, k, length), bottom
        return self._conditional(pair, half)

    def _conditional(self, pair: Pair, half: np.ndarray) -> tuple[Pair, np.ndarray]:
        if self._inverse_of_sums is None:
            return pair, half
        top, bottom = pair
        sums = np.stack(
            [
                np.einsum("nkt,kt->n", top, a[0]) + np.einsum("nme,me->n", bottom, a[1])
                for a in self._constraints
            ]
        )
        weights = self._inverse_of_sums @ sums
        for weight, (t, b) in zip(weights, self._bound, strict=True):
            top -= weight[:, None, None] * t
            bottom -= weight[:, None, None] * b
        return (top, bottom), half - 0.5 * np.sum(weights * sums, axis=0)


def _scaled(across: np.ndarray, small: np.ndarray) -> np.ndarray:
    """Return across (column, top, column, element) times small matrices (element, column, ...)."""
    scaled = np.zeros_like(across)
    small = small.astype(across.dtype)
    for p, q in product(range(small.shape[1]), repeat=2):
        if np.any(small[:, p, q]):
            scaled[:, :, q] += across[:, :, p] * small[:, p, q]
    return scaled


def _inner(one: Pair, other: Pair) -> float:
    return float(sum(np.sum(a * b) for a, b in zip(one, other, strict=True)))


def _factor(matrix: np.ndarray) -> np.ndarray:
    """Return the lower Cholesky factor, in the place of the matrix."""
    if not matrix.size:
        return matrix
    factor, info = lapack.dpotrf(matrix, lower=1, overwrite_a=1, clean=1)
    if info:
        raise np.linalg.LinAlgError("the matrix is not positive definite")
    return np.asarray(factor)
