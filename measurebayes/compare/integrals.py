"""Integrals over the own parameters of all units at once: nodes around each unit's mode."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import xarray as xr
from scipy.special import logsumexp

from measurebayes.compare.around_mode import AroundMode, root_of, starts
from measurebayes.compare.laplace import Curvature, LogOdds, Mode
from measurebayes.compare.nodes import (
    MILD_BEND,
    MILD_REACH,
    Nodes,
    bent,
    grid,
    quasi_random,
)
from measurebayes.compare.own import Draws, OwnParameters, aligned
from measurebayes.compare.places import Kind, Places, positions_by_axis
from measurebayes.errors import InputError, shown
from measurebayes.program.records_first import LOG_TWO_PI
from measurebayes.program.registry import ModelFile

Done = Callable[[int], None]
ROUGH, FEW = 0.01, 6  # gain not worth a step towards the mode of a block; most steps
MOST = 200  # numbers of a unit that no block can take


def nobody(number: int) -> None:
    """Tell nobody what is done."""


@dataclass(frozen=True)
class Fineness:
    """How many nodes there are.

    Attributes
    ----------
    alone, outer, inner
        Nodes of a grid a number, by the count of numbers of a unit: in units without blocks, of
        outer numbers, within blocks.
    points, outer_points, inner_points
        Quasi-random points where there are more numbers.
    seed
        Of these points.
    """

    alone: dict[int, int]
    points: int
    outer: dict[int, int]
    outer_points: int
    inner: dict[int, int]
    inner_points: int
    seed: int = 0


COARSE = Fineness({1: 51, 2: 17}, 256, {1: 7, 2: 7}, 64, {1: 9, 2: 7}, 128)
FINE = Fineness({1: 81, 2: 25}, 1024, {1: 11, 2: 11}, 256, {1: 15, 2: 11}, 512, 1)


class Integral:
    """Integrals of all units of some cells, by one rule.

    Parameters
    ----------
    model, unit
        The model, and the unit whose parameters are integrated out.
    runs
        Data of the cells, sorted by unit and block.
    where
        Places of the numbers.
    fineness
        How many nodes.
    """

    def __init__(
        self, model: ModelFile, runs: xr.Dataset, unit: str, where: Places, fineness: Fineness
    ) -> None:
        self.model, self.runs, self.unit, self.where = model, runs, unit, where
        _check_sizes(model, runs, unit, where)
        self.curve = Curvature(where)
        widest = max(kind.at.shape[1] - kind.inner for kind, _ in self.curve.kinds)
        self.inside: AroundMode | None = None
        if where.blocks:
            within = where.within_blocks()
            most = int(np.bincount(within.unit_of).max())
            rule = _nodes(most, fineness.inner, fineness.inner_points, fineness.seed, mild=True)
            self.inside = AroundMode(runs, within, Curvature(within), rule, ROUGH, FEW)
            self.inner = np.flatnonzero(where.block_of >= 0)
            self.rule = _nodes(
                widest, fineness.outer, fineness.outer_points, fineness.seed, mild=True
            )
        else:
            self.rule = _nodes(widest, fineness.alone, fineness.points, fineness.seed)
        self.plain = AroundMode(runs, where, self.curve, self.rule)

    def bytes_of_a_draw(self) -> int:
        """Bytes that the search for modes takes a draw."""
        cells, each = self.where.of_cell.shape
        return 8 * (cells * (4 * (each + 1) + 2 * each**2) + 4 * self.curve.count)

    def at(self, values: Draws, start: int, budget: int, done: Done = nobody) -> np.ndarray:
        """Return log integrals at some draws, and their squared relative errors (2, sample, unit).

        Parameters
        ----------
        values
            Draws (sample, ...) by name.
        start
            Number of the first one, by which sets of nodes are dealt.
        budget
            Bytes that an array of draws x nodes x cells may take.
        done
            Is told of how many more draws the integrals are done.
        """
        samples = next(iter(values.values())).sizes["sample"]
        zero = np.zeros((samples, self.where.count))
        mode = self.plain.mode(self._log_odds(values), zero)
        nodes = len(self.inside.rule if self.inside else self.rule)
        parts = []
        for first, some in draws_in_blocks(values, 32 * nodes * self.runs.sizes["cell"], budget):
            end = first + next(iter(some.values())).sizes["sample"]
            near = mode.part(slice(first, end))
            number = start + np.arange(first, end)
            log_odds = self._log_odds(some)
            if self.inside:
                parts.append(self._nested(self.inside, log_odds, near, number))
            else:
                parts.append(self.plain.around(log_odds, near, number))
            done(end - first)
        return np.concatenate(parts, axis=1)

    def _nested(
        self, inside: AroundMode, log_odds: LogOdds, mode: Mode, number: np.ndarray
    ) -> np.ndarray:
        """Integrate over outer numbers what the integrals within blocks are, given them.

        A first round with rough inner integrals finds where the outer numbers have their mass.
        """
        outer = [
            _Outer(kind, mode.z[:, kind.at], mode.curvature[:, entries], self.rule, number)
            for kind, entries in self.curve.kinds
        ]
        first, noises, widths = starts(self.where.unit_of_block), [], None
        if not inside.rule.bend:  # once, for all outer nodes
            given = self._given(log_odds, mode.z)
            widths = inside.widths(given, inside.mode(given, mode.z[:, self.inner]))
        for final in (False, True):
            found = []
            for node in range(len(self.rule)):
                z, log_weight = mode.z.copy(), np.empty((len(number), self.where.units))
                for each in outer:
                    log_weight[:, each.kind.units] = each.move(z, node)
                given = self._given(log_odds, z)
                near = inside.mode(given, z[:, self.inner])
                if final:
                    by_block, noise = inside.around(given, near, number, widths)
                    noises.append(np.add.reduceat(noise, first, axis=-1))
                else:
                    by_block = inside.laplace(near)
                found.append(np.add.reduceat(by_block, first, axis=-1) + log_weight)
            for each in outer:
                each.centre_on(np.stack(found)[:, :, each.kind.units])
        total = logsumexp(found, axis=0)
        share = np.exp(found - total)
        noise = np.sum(share * noises, axis=0)
        if not self.rule.bend:
            noise += np.sum(share**2, axis=0) - 1.0 / len(self.rule)
        return np.stack([total, noise])

    def _given(self, log_odds: LogOdds, z: np.ndarray) -> LogOdds:
        """Log odds as a function of inner numbers alone."""

        def of_inner(inner: np.ndarray) -> np.ndarray:
            full = np.repeat(z[:, None], inner.shape[1], axis=1)
            full[..., self.inner] = inner
            return log_odds(full)

        return of_inner

    def _log_odds(self, values: Draws) -> LogOdds:
        def of_numbers(z: np.ndarray) -> np.ndarray:
            numbers = self.where.numbers(z, ("sample", "node"))
            program = OwnParameters(self.runs, values, self.unit, numbers)
            self.model.run(program, self.runs, self.model.priors)
            eta = program.log_odds
            assert eta is not None
            shape = (*z.shape[:2], self.runs.sizes["cell"])
            return np.broadcast_to(aligned(eta.value, eta.dims, ("sample", "node", "cell")), shape)

        return of_numbers


class _Outer:
    """Outer numbers of units of a kind, and how the modes of the inner ones follow them."""

    def __init__(
        self, kind: Kind, mode: np.ndarray, matrix: np.ndarray, rule: Nodes, number: np.ndarray
    ) -> None:
        self.kind, n = kind, kind.inner
        self.mode, self.centre = mode, mode[..., n:].copy()
        inner, across = matrix[..., :n, :n], matrix[..., :n, n:]
        self.follow = -np.linalg.solve(inner, across)  # (sample, unit, inner, outer)
        schur = matrix[..., n:, n:] + np.swapaxes(across, -1, -2) @ self.follow
        self.root, self.log_det = root_of(schur)
        t, weight = rule.of(number, kind.at.shape[1] - n)
        self.away, density = bent(t, rule.bend or MILD_BEND)
        self.weight = weight - density
        self.step = MILD_REACH / len(t[0]) ** (
            1.0 / max(1, t.shape[-1])
        )  # about half a node's distance

    def move(self, z: np.ndarray, node: int) -> np.ndarray:
        """Put the outer numbers at a node, let inner modes follow; return log weights."""
        n, at = self.kind.inner, self.kind.at
        outer = self.centre + np.einsum("suij,sj->sui", self.root, self.away[:, node])
        away = outer - self.mode[..., n:]
        z[:, at[:, n:]] = outer
        z[:, at[:, :n]] = self.mode[..., :n] + np.einsum("suij,suj->sui", self.follow, away)
        square = np.sum(outer**2 + LOG_TWO_PI, axis=-1)
        return np.asarray(self.weight[:, node, None] + self.log_det - 0.5 * square)

    def centre_on(self, found: np.ndarray) -> None:
        """Move to mean and covariance of the nodes with log weights (node, sample, unit)."""
        if not self.away.shape[-1]:
            return
        share = np.exp(found - found.max(axis=0))
        share /= share.sum(axis=0)
        mean = np.einsum("nsu,snj->suj", share, self.away)
        away = self.away[:, None] - mean[:, :, None]  # (sample, unit, node, number)
        covariance = np.einsum("nsu,suni,sunj->suij", share, away, away)
        covariance += 0.1 * self.step**2 * np.eye(covariance.shape[-1])
        self.centre = self.centre + np.einsum("suij,suj->sui", self.root, mean)
        self.root = self.root @ np.linalg.cholesky(covariance)
        self.log_det = np.log(np.diagonal(self.root, axis1=-2, axis2=-1)).sum(axis=-1)


def _nodes(width: int, number: dict[int, int], points: int, seed: int, mild: bool = False) -> Nodes:
    if width == 0:
        return grid(2, 0)
    if width in number:
        return grid(number[width], width, mild)
    return quasi_random(points, width, seed)


def _check_sizes(model: ModelFile, runs: xr.Dataset, unit: str, where: Places) -> None:
    """Refuse more numbers than points can be laid around the mode of, all at once.

    Raises
    ------
    InputError
        Naming the model and the unit.
    """
    together = [(where, where.block_of < 0)]
    if where.blocks:
        within = where.within_blocks()
        together.append((within, np.ones(within.count, dtype=bool)))
    for places, of_these in together:
        size = np.bincount(places.unit_of[of_these], minlength=1)
        if size.max() > MOST:
            cell = int(np.flatnonzero(places.unit_of_cell == size.argmax())[0])
            label = runs[unit].values[positions_by_axis(runs)[unit][cell]]
            others = [other for other in ("task", "family", "agent") if other != unit]
            raise InputError(
                f"{model.label}: the {unit} {shown(str(label))} has {size.max()} parameters of its "
                "own that depend on one another",
                where="comparison by whole units",
                expected=f"at most {MOST}, which is as many as can be integrated out together",
                remedy="compare by "
                + " or ".join(f"unit={u!r}" for u in others)
                + ", or mb.crossval(models, runs, folds='cell'), which integrates nothing out",
            )


def draws_in_blocks(values: Draws, each: int, budget: int) -> Iterator[tuple[int, Draws]]:
    """Cut draws into blocks of at most so many bytes; give the number of each one's first draw."""
    samples = next(iter(values.values())).sizes["sample"]
    step = max(1, budget // max(1, each))
    for first in range(0, samples, step):
        yield first, {name: x.isel(sample=slice(first, first + step)) for name, x in values.items()}
