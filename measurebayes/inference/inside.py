"""Integrals over blocks of parameters around their modes, and draws of them, given all others.

Parameters that sum to zero over all blocks are tied by that alone. Their blocks are integrated as
if they were free, and the density of the sum at zero is that of a normal with the sum's mean and
variance, with the first terms of Edgeworth's series [1]_: blocks are many where this is used.

References
----------
.. [1] Barndorff-Nielsen, O. E., & Cox, D. R. (1989). Asymptotic techniques for use in statistics.
   Chapman and Hall. doi:10.1007/978-1-4899-3424-6
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular
from jax.scipy.special import logsumexp

from measurebayes.inference.blocks import LOG_2PI, Arguments, Blocks
from measurebayes.inference.nodes import Nodes

NEWTON_STEPS = 40
LEAST_CURVED = 0.05  # second derivative in coordinates in which 1 is usual
DEGREES = 5.0  # of freedom of the draws of blocks, of which one is taken
CELLS_AT_ONCE = 400_000  # numbers that one sweep over nodes may hold


class Inside:
    """What is done with the inner parameters of a model.

    Parameters
    ----------
    blocks
        The model's density as factors.
    """

    def __init__(self, blocks: Blocks) -> None:
        self.blocks = blocks

    def settled(self, outer: Any, start: Any, arguments: Arguments) -> tuple[Any, Any]:
        """Return every block's mode (length, width), and a root of its variance there.

        Newton's steps, damped in each block for itself; the root A (length, width, width) is such
        that A A' is the inverse of the second derivative.
        """

        def inside(inner: Any) -> Any:
            return self.blocks.terms(outer, inner, arguments)[1]

        def evaluated(inner: Any) -> tuple[Any, Any, Any]:
            """Return energies, slopes and second derivatives of all blocks."""

            def slope(x: Any) -> Any:
                energies, pull = jax.vjp(lambda y: -inside(y), x)
                return pull(jnp.ones(self.blocks.length))[0], energies

            def along(unit: Any) -> Any:
                direction = jnp.broadcast_to(unit, inner.shape)
                return jax.jvp(slope, (inner,), (direction,), has_aux=True)

            downhill, rows, energies = jax.vmap(along)(jnp.eye(self.blocks.width))
            return energies[0], downhill[0], _raised(jnp.moveaxis(rows, 0, -1))

        def step(carry: Any) -> Any:
            at, value, downhill, second, damping, count, _ = carry
            move = _solved(second + damping[:, None, None] * jnp.eye(self.blocks.width), downhill)
            new = (at - move, *evaluated(at - move))
            better = new[1] <= value + 1e-10 * jnp.abs(value)
            left = jnp.where(better, jnp.sum(move * downhill, axis=1), jnp.inf)
            left = jnp.where(count == 0, jnp.inf, left)  # the first step only evaluates the start
            damping = jnp.where(better, damping / 10.0, jnp.maximum(10.0 * damping, 1.0))
            damping = jnp.where(damping < 1e-2, 0.0, damping)
            kept = [
                jnp.where(jnp.expand_dims(better, tuple(range(1, x.ndim))), x, old)
                for x, old in zip(new, (at, value, downhill, second), strict=True)
            ]
            return (*kept, damping, count + 1, jnp.max(left))

        def unsettled(carry: Any) -> Any:
            return (carry[-1] > 1e-3) & (carry[-2] < NEWTON_STEPS)

        nothing, eye = jnp.zeros(self.blocks.length), jnp.eye(self.blocks.width)
        every = jnp.broadcast_to(eye, (self.blocks.length, *eye.shape))
        begin = (start, nothing + jnp.inf, jnp.zeros_like(start), every, nothing, 0, jnp.inf)
        at, _, _, second, _, _, left = jax.lax.while_loop(unsettled, step, begin)
        # Where a block has not found its mode, nothing can be said: no number comes out.
        second = jnp.where(left < 1.0, second, jnp.nan)
        factor = jnp.linalg.cholesky(second)
        return at, solve_triangular(factor, every, lower=True, trans=1)

    def marginal(
        self, outer: Any, start: Any, nodes: Nodes, arguments: Arguments
    ) -> tuple[Any, Any]:
        """Return the log density of outer parameters, all others integrated out, and their modes.

        Parameters
        ----------
        outer
            Parameters (size,).
        start
            Where the search for the modes of blocks begins (length, width).
        nodes
            Of the integrals.
        """
        if self.blocks.axis is None:
            return self.blocks.terms(outer, start, arguments)[0], start
        fixed = jax.lax.stop_gradient(outer)
        mode, root = self.settled(fixed, start, arguments)
        mode, root = (jax.lax.stop_gradient(x) for x in (mode, root))

        def at(node: Any) -> Any:
            inner = mode + root @ node
            outside, inside = self.blocks.terms(outer, inner, arguments)
            kept = inner[:, np.array(self.blocks.tied)] if self.blocks.tied else ()
            return outside, inside + 0.5 * node @ node, kept

        together = max(1, CELLS_AT_ONCE // int(np.prod(self.blocks.cells.shape)))
        outside, inside, tied = _over(at, nodes.places, together)
        inside = inside + nodes.log_weights[:, None]
        whole = logsumexp(inside, axis=0)
        widths = jnp.linalg.slogdet(root)[1] + 0.5 * self.blocks.width * LOG_2PI
        total = outside[0] + jnp.sum(whole + widths)
        if self.blocks.tied:
            total = total + self._sum_at_zero(jnp.exp(inside - whole), tied)
        return total, mode

    def _sum_at_zero(self, chance: Any, tied: Any) -> Any:
        """Return the log density at zero of sums over blocks, each over the root of their number.

        Parameters
        ----------
        chance
            Of each node in each block (node, length).
        tied
            Values there (node, length, sum).
        """
        mean = jnp.einsum("ql,qlk->lk", chance, tied)
        away = tied - mean
        variance = jnp.einsum("ql,qlk,qlj->kj", chance, away, away) / self.blocks.length
        centre = jnp.sum(mean, axis=0) / jnp.sqrt(self.blocks.length)
        solved = jnp.linalg.solve(variance, centre)
        log_normal = -0.5 * (
            centre @ solved + jnp.linalg.slogdet(variance)[1] + len(self.blocks.tied) * LOG_2PI
        )
        if len(self.blocks.tied) > 1:
            return log_normal
        # One sum: Edgeworth's terms of the third and fourth cumulants.
        sd = jnp.sqrt(variance[0, 0])
        third = jnp.einsum("ql,ql->", chance, away[..., 0] ** 3) / self.blocks.length**1.5 / sd**3
        square = jnp.einsum("ql,ql->l", chance, away[..., 0] ** 2)
        fourth = jnp.einsum("ql,ql->l", chance, away[..., 0] ** 4) - 3.0 * square**2
        fourth = jnp.sum(fourth) / self.blocks.length**2 / sd**4
        z = -centre[0] / sd
        series = (
            1.0
            + third * (z**3 - 3.0 * z) / 6.0
            + fourth * (z**4 - 6.0 * z**2 + 3.0) / 24.0
            + third**2 * (z**6 - 15.0 * z**4 + 45.0 * z**2 - 15.0) / 72.0
        )
        return log_normal + jnp.log(jnp.maximum(series, 0.1))

    def drawn(
        self, key: Any, outer: Any, start: Any, tries: int, arguments: Arguments
    ) -> tuple[Any, Any]:
        """Draw inner parameters (length, width) given outer ones, and the log joint density.

        In each block one of `tries` draws of t distributions around its mode is taken, by its
        importance.
        """
        if self.blocks.axis is None:
            return start, self.blocks.terms(outer, start, arguments)[0]
        mode, root = self.settled(outer, start, arguments)
        normal, pick = jax.random.split(key)
        places = jax.random.t(normal, DEGREES, (tries, self.blocks.length, self.blocks.width))

        def at(place: Any) -> Any:
            inner = mode + jnp.einsum("lij,lj->li", root, place)
            inside = self.blocks.terms(outer, inner, arguments)[1]
            tails = 0.5 * (DEGREES + 1.0) * jnp.sum(jnp.log1p(place**2 / DEGREES), axis=1)
            return inner, inside + tails

        together = max(1, CELLS_AT_ONCE // int(np.prod(self.blocks.cells.shape)))
        inner, weights = _over(at, places, together)
        chosen = jax.random.categorical(pick, weights, axis=0)
        inner = inner[chosen, jnp.arange(self.blocks.length)]
        if self.blocks.tied:
            inner = self._tied_together(inner, root)
        outside, inside = self.blocks.terms(outer, inner, arguments)
        return inner, outside + jnp.sum(inside)

    def _tied_together(self, inner: Any, root: Any) -> Any:
        """Move draws of blocks onto the plane where they sum to zero, as a normal would be."""
        columns = np.array(self.blocks.tied)
        variance = root @ jnp.swapaxes(root, 1, 2)
        across = variance[:, :, columns]  # covariance with each block's part of the sums
        total = jnp.sum(across[:, columns, :], axis=0)
        excess = jnp.sum(inner[:, columns], axis=0)
        return inner - across @ jnp.linalg.solve(total, excess)


def _raised(second: Any) -> Any:
    """Return second derivatives (block, width, width) that curve up in every direction."""
    second = (second + jnp.swapaxes(second, 1, 2)) / 2.0
    width = second.shape[-1]
    if width == 1:
        return jnp.maximum(second, LEAST_CURVED)
    if width == 2:
        one, other, across = second[:, 0, 0], second[:, 1, 1], second[:, 0, 1]
        lowest = (one + other) / 2.0 - jnp.hypot((one - other) / 2.0, across)
    else:
        lowest = jnp.linalg.eigvalsh(second)[:, 0]
    raise_by = jnp.maximum(LEAST_CURVED - lowest, 0.0)
    return second + raise_by[:, None, None] * jnp.eye(width)


def _solved(matrix: Any, vector: Any) -> Any:
    """Solve equations of every block: (block, width, width) x = (block, width)."""
    if matrix.shape[-1] == 1:
        return vector / matrix[..., 0]
    return jnp.linalg.solve(matrix, vector[..., None])[..., 0]


def _over(function: Callable[[Any], Any], several: Any, together: int) -> Any:
    """Return a function of each of several (number, ...), some of them at a time."""
    number = len(several)
    if number <= together:
        return jax.vmap(function)(several)
    size = max(d for d in range(1, together + 1) if number % d == 0)
    parts = jnp.reshape(several, (number // size, size, *several.shape[1:]))
    found = jax.lax.map(jax.vmap(function), parts)
    return jax.tree.map(lambda x: x.reshape(number, *x.shape[2:]), found)
