"""The columns at their mode, given the singles: where minus the log density is least."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from measurebayes.errors import ModelError
from measurebayes.inference.mode.bordered import Across, Bordered, Pair
from measurebayes.inference.mode.columns import Point
from measurebayes.inference.mode.grid import Grid
from measurebayes.inference.mode.prior import Prior
from measurebayes.inference.mode.terms import Sums

ROUGH_ROUNDS = 30
LONGEST = 1.0  # step of a number at once, in logits or natural logarithms
ROUGH_ENOUGH = 0.02  # largest step of a single that ends the rough search
NEWTON_STEPS = 30
NEAR = 1e-7  # squared distance from the mode, in posterior SDs, a parameter
FLOOR = 1e-4  # of the largest eigenvalue of an element's second derivative
SETTLED = 1e-12  # the same, of the bottom given the top
MOVED = 1e-3  # squared distance that matters little
CLOSE = 1e-2  # squared distance of all columns together, in posterior SDs
# What single precision can resolve: the same as SETTLED, and differences of the energy.
SETTLED_SINGLE, NOISE_SINGLE = 1e-8, 0.1
TOP_STEPS = 60
SMALL_TOP = 64  # parameters
DIFFERENCE = 0.1  # of a conditional posterior SD
MEMORY = 10  # steps that L-BFGS remembers


@dataclass
class _Integrated:
    """A place with the bottom integrated out: energy and slope of the top (column, element)."""

    point: Point
    value: float
    slope: np.ndarray
    sums: Sums
    across: Across


@dataclass
class Search:
    """The search, and what it cost.

    Attributes
    ----------
    prior, grid
        The two parts of the energy.
    say
        Is told how far it is.
    passes
        Number of passes over all cells so far.
    """

    prior: Prior
    grid: Grid
    say: Callable[[str], None]
    passes: int = 0

    # -- rough: columns in turn, singles from their variances ------------------------------------

    def rough(self, point: Point) -> Point:
        """Move towards the mode, one axis after the other, each element by itself."""
        for number in range(1, ROUGH_ROUNDS + 1):
            self.say(f"rough search, round {number}")
            for which in (0, 1):
                point = point.moved(self._own_step(self.second(point), which))
            step = self._step_of_singles(self.second(point), point)
            point = Point(point.top, point.bottom, point.singles + step)
            if np.abs(step).max(initial=0.0) < ROUGH_ENOUGH:
                break
        return point

    def second(self, point: Point, observed: bool = False) -> Sums:
        """Return the energy and its derivatives, without those between the axes."""
        self.passes += 1
        return self.grid.second(point, observed) + self.prior.sums(point)

    def _own_step(self, sums: Sums, which: int) -> Point:
        """Return Newton's step of each element of one axis, all else fixed."""
        slopes, blocks = [sums.slope.top, sums.slope.bottom], (sums.top, sums.bottom)[which]
        steps = [np.zeros_like(x) for x in slopes]
        if len(blocks):
            step = -np.einsum("kle,le->ke", _inverses(blocks), slopes[which])
            columns = (self.prior.columns.top, self.prior.columns.bottom)[which]
            step = np.clip(step, -LONGEST, LONGEST)
            for i, column in enumerate(columns):
                if column.zero_sum:
                    step[i] -= step[i].mean()
            steps[which] = step
        return Point(steps[0], steps[1], np.zeros_like(sums.slope.singles))

    def _step_of_singles(self, sums: Sums, point: Point) -> np.ndarray:
        """Return a step of the singles as if each element of a column were independent."""
        if not point.singles.size:
            return np.asarray(point.singles)
        spread = [_inverses(x) for x in (sums.top, sums.bottom)]
        slope = sums.slope.singles + self.prior.bent(point, *spread).singles
        step = -np.linalg.solve(positive(sums.single), slope)
        return np.clip(step, -LONGEST, LONGEST)

    def bent_apart(self, sums: Sums, point: Point) -> Point:
        """Return the slope of half the log determinant, elements being independent.

        What they share are a few directions among thousands.
        """
        top, bottom = (_inverses(x) for x in (sums.top, sums.bottom))
        grid = self.grid
        shape = (*point.top.shape, len(point.bottom))

        def spread(block: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
            below = bottom[..., grid.part(block)]
            return below, top, np.zeros((*shape, below.shape[-1]), grid.dtype)

        self.passes += 1
        slope = grid.bent(point, spread, whole=True)
        return slope.moved(self.prior.bent(point, top, bottom))

    # -- the mode --------------------------------------------------------------------------------

    def mode(self, point: Point, inner: Bordered | None) -> tuple[Point, Bordered, Sums]:
        """Return the top at its mode, the bottom at its mode given the top, and the derivatives.

        The mode of the top is that of its density with the bottom integrated out by Laplace's
        method: each of many tasks moves it a little in the same direction away from the mode of
        the joint density. The search is L-BFGS, begun with the joint density's second derivative.

        Parameters
        ----------
        point
            Where to begin.
        inner
            The second derivative near there, if it is known.
        """
        if inner is None:
            point, inner = self.joint_mode(point)
        now = self._integrated(point)
        past: list[tuple[np.ndarray, np.ndarray]] = []
        for _ in range(TOP_STEPS):
            step = _two_loops(inner, now.slope, past)
            distance = -float(np.sum(now.slope * step))
            if distance < NEAR * self.prior.columns.number:
                break
            new = self._lower(now, step, inner)
            past = [*past[-MEMORY:], (new.point.top - now.point.top, new.slope - now.slope)]
            now = new
        schur = self._curvature_of_top(now, inner) if self.small else None
        columns, sums = self.prior.columns, now.sums
        return now.point, Bordered(columns, sums.top, sums.bottom, now.across, schur), sums

    @property
    def noise(self) -> float:
        """What an energy may rise by without its place being worse."""
        return MOVED if self.grid.precise else NOISE_SINGLE

    @property
    def small(self) -> bool:
        """Whether the top is so small that its second derivative is taken by differences."""
        return self.prior.columns.size_of_top <= SMALL_TOP

    def _curvature_of_top(self, now: _Integrated, inner: Bordered) -> np.ndarray:
        """Return the second derivative of the top's energy, the bottom integrated out."""
        diagonal = np.einsum("kke->ke", now.sums.top)
        rows = []
        for at in np.ndindex(*now.slope.shape):
            step = np.zeros_like(now.slope)
            step[at] = DIFFERENCE / np.sqrt(diagonal[at])
            slopes = []
            for sign in (1.0, -1.0):
                away = Point(
                    sign * step, sign * inner.follow(step), np.zeros_like(now.point.singles)
                )
                slopes.append(self._integrated(now.point.moved(away)).slope)
            rows.append(np.ravel(slopes[0] - slopes[1]) / (2.0 * step[at]))
        matrix = np.array(rows)
        return (matrix + matrix.T) / 2

    def _lower(self, now: _Integrated, step: np.ndarray, inner: Bordered) -> _Integrated:
        """Return a place further along, where the energy is lower."""
        factor = 1.0
        while factor > 1e-3:
            top = factor * step
            there = Point(top, inner.follow(top), np.zeros_like(now.point.singles))
            try:
                new = self._integrated(now.point.moved(there))
            except np.linalg.LinAlgError:
                new = None
            if new is not None and new.value < now.value + self.noise:
                return new
            factor *= 0.5
        raise lost("no step towards the mode of the top lowers the energy")

    def _integrated(self, point: Point) -> _Integrated:
        """Return the top's energy and its slope, the bottom integrated out by Laplace's method."""
        point = self._settled(point)
        sums, across = self._full(point)
        roots = np.linalg.cholesky(sums.bottom.transpose(2, 0, 1))
        value = sums.value + float(np.log(np.einsum("ekk->ek", roots)).sum())
        pull = self._pull(point, sums.bottom)
        spread, below = _inverses(sums.bottom), pull.bottom + sums.slope.bottom
        follow = across.times(np.einsum("kme,me->ke", spread, below)) if len(below) else 0.0
        return _Integrated(point, value, sums.slope.top + pull.top - follow, sums, across)

    def _settled(self, point: Point) -> Point:
        """Return the bottom at its mode given the top."""
        for _ in range(NEWTON_STEPS):
            sums = self.second(point, observed=True)
            step = self._own_step(sums, 1)
            point = point.moved(step)
            enough = SETTLED if self.grid.precise else SETTLED_SINGLE
            if np.sum(np.abs(step.bottom * sums.slope.bottom)) < enough * step.bottom.size:
                break
        return point

    def joint_mode(self, point: Point) -> tuple[Point, Bordered]:
        """Return where the energy is nearly least, and its second derivative close to there."""
        point, inner = self._factorised(point)
        before = np.inf
        for _ in range(NEWTON_STEPS):
            value, slope = self.slopes(point)
            found = inner.solve((-slope.top, -slope.bottom))
            distance = _squared_distance(slope, found)
            if distance < MOVED * self.prior.columns.number:
                break
            if distance > 0.1 * before:  # the matrix is that of a place too far from here
                point, inner = self._factorised(point)
                before = np.inf
                continue
            step = Point(*found, np.zeros_like(point.singles))
            point, before = self._stepped(point, step, value), distance
        return point, inner

    def middle(self, point: Point, inner: Bordered) -> tuple[Point, Bordered, Sums, Point]:
        """Return where energy and half the log determinant of its second derivative are least.

        Where thousands of elements give way a little in one direction, as all do when abilities
        stretch, the mass lies there and not at the mode of the joint density. Returned with it are
        the second derivative of the energy close to there, factorised; the derivatives of the
        energy there; and those of half the log determinant.

        Parameters
        ----------
        point
            Where to begin.
        inner
            The second derivative of the energy near there.
        """
        before, nothing = np.inf, np.zeros_like(point.singles)
        for _ in range(NEWTON_STEPS):
            sums = self.second(point, observed=True)
            bent = self.bent_apart(sums, point)
            total = sums.slope.moved(bent)
            step = inner.solve((-total.top, -total.bottom))
            distance = _squared_distance(total, step)
            if distance < CLOSE:
                return point, inner, sums, bent
            if distance > 0.3 * before:  # the matrix is that of a place too far from here
                point, inner = self._factorised(point)
                before = np.inf
                continue
            longest = max(np.abs(x).max(initial=0.0) for x in step)
            factor = min(1.0, LONGEST / max(longest, LONGEST))
            point, before = point.moved(Point(*step, nothing), factor), distance
        raise lost("no middle of the columns was found")

    def _pull(self, point: Point, bottom: np.ndarray) -> Point:
        """Return the slope of half the log determinant of the bottom's second derivative."""
        if not len(bottom):
            return self.grid.nothing()
        spread, part = _inverses(bottom), self.grid.part
        nothing = np.zeros((len(point.top), *point.top.shape))
        self.passes += 1
        slope = self.grid.bent(point, lambda block: (spread[..., part(block)],), whole=False)
        return slope.moved(self.prior.bent(point, nothing, spread))

    def slopes(self, point: Point) -> tuple[float, Point]:
        """Return the energy and its first derivatives."""
        self.passes += 1
        value, slope = self.grid.slopes(point)
        more, other = self.prior.slopes(point)
        return value + more, slope.moved(other)

    def _stepped(self, point: Point, step: Point, value: float) -> Point:
        """Take a step, halved until the energy falls."""
        factor = 1.0
        while factor > 1e-4:
            new = point.moved(step, factor)
            if self.slopes(new)[0] < value:
                return new
            factor *= 0.5
        raise lost("no step towards the mode lowers the energy")

    def _full(self, point: Point) -> tuple[Sums, Across]:
        self.passes += 1
        blocks: list[np.ndarray] = []
        sums = self.grid.full(point, lambda block, x: blocks.append(x)) + self.prior.sums(point)
        return sums, Across(blocks, self.grid.part, point.top.shape, point.bottom.shape)

    def _factorised(self, point: Point) -> tuple[Point, Bordered]:
        """Return the second derivative in the columns, factorised; where it has none, go on."""
        for _ in range(NEWTON_STEPS):
            sums, across = self._full(point)
            try:
                return point, Bordered(self.prior.columns, sums.top, sums.bottom, across)
            except np.linalg.LinAlgError:
                for which in (0, 1):
                    point = point.moved(self._own_step(self.second(point), which))
        raise lost("the energy does not curve up around its lowest place")


def _squared_distance(slope: Point, step: Pair) -> float:
    """Return the squared distance of a Newton step, in units of the second derivative behind it."""
    pulls = zip((slope.top, slope.bottom), step, strict=True)
    return -sum(float(np.sum(a * b)) for a, b in pulls)


def _two_loops(
    inner: Bordered, slope: np.ndarray, past: list[tuple[np.ndarray, np.ndarray]]
) -> np.ndarray:
    """Return the step of L-BFGS (Nocedal 1980, doi:10.1090/S0025-5718-1980-0572855-7)."""
    past = [(s, y) for s, y in past if np.sum(s * y) > 0]
    step, weights = -slope, []
    for moved, change in reversed(past):
        weights.append(np.sum(moved * step) / np.sum(moved * change))
        step = step - weights[-1] * change
    step = inner.solve((step, np.zeros((len(inner.columns.bottom), inner.columns.lengths[1]))))[0]
    for (moved, change), weight in zip(past, reversed(weights), strict=True):
        step = step + (weight - np.sum(change * step) / np.sum(moved * change)) * moved
    return np.asarray(step)


def positive(matrix: np.ndarray) -> np.ndarray:
    """Return a symmetric matrix with its small and negative eigenvalues raised."""
    if not matrix.size:
        return matrix
    scale = np.sqrt(np.maximum(np.abs(np.diagonal(matrix)), 1e-12))
    values, vectors = np.linalg.eigh(matrix / np.outer(scale, scale))
    return ((vectors * np.maximum(values, 1e-3)) @ vectors.T) * np.outer(scale, scale)


def lost(found: str) -> ModelError:
    """Return the error for a search that ended nowhere."""
    return ModelError(
        found,
        where="method 'map'",
        expected="a posterior with one top, as with enough data for every variable",
        remedy="leave method out to get 'nuts'; `measurebayes verify` looks at a model of your own",
    )


def _inverses(blocks: np.ndarray) -> np.ndarray:
    """Return the inverses of small matrices (column, column, element), as if they curved up."""
    if not len(blocks):
        return blocks
    values, vectors = np.linalg.eigh(blocks.transpose(2, 0, 1))
    least = FLOOR * np.abs(values).max(axis=1, keepdims=True)
    return np.einsum("ekv,ev,elv->kle", vectors, 1.0 / np.maximum(np.abs(values), least), vectors)
