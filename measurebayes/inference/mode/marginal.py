"""The scales at the maximum of their marginal density, and what the columns are there.

The maximum of the joint density over everything is no summary of a hierarchical model: scales come
out too small, as if columns were known without error. Here columns are integrated out by Laplace's
method (Tierney & Kadane 1986, doi:10.1080/01621459.1986.10478240). With E the energy (minus the log
density), x the columns at their mode given the singles s, H the second derivative of E there, and g
the gain of nodes over the normal approximation in the bottom (`given_top`),

    F(s) = E(x(s), s) + log |H(x(s), s)| / 2 - g(s)

is minus the log marginal density of the singles. The derivative of its first two terms is exact:
with C = H^-1 and b half the derivative of the trace of C H (C held fixed), it is
dE/ds + b_s + b_x dx/ds. The same b gives the first-order distance of the mean of the columns from
their mode, -C b_x. That the top's mode moves with the singles a little otherwise than the joint
mode does is left out of the derivative. The derivative of g is a difference.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from measurebayes.inference.mode.bordered import Bordered, Pair
from measurebayes.inference.mode.columns import Point
from measurebayes.inference.mode.given_top import GivenTop, Moments
from measurebayes.inference.mode.search import LONGEST, Search, lost, positive
from measurebayes.inference.mode.terms import Sums

STEPS = 40
CLOSE, CLOSE_SINGLE = 1e-3, 1e-2  # squared distance from the maximum, in posterior SDs
BLUNT = 1.0  # distance in posterior SDs within which derivatives may miss what the density does
KNOWN = 0.05  # share of a curvature that must be left when columns follow, to begin with it
WIDE = 0.1  # of a posterior SD: what derivatives are differences over
# Products of a factorisation above which the marginal's curvature is not taken by differences.
DEAR = 10**9
# The same above which only the energy is looked at: hundreds of cells for each column.
LARGE = 10**10


@dataclass
class Found:
    """What is found at given singles.

    Attributes
    ----------
    point
        Columns at their mode, and the singles.
    value, slope
        F and its derivative (single,).
    inner
        Second derivative of the energy in the columns, factorised.
    follow
        How the columns' mode moves with the singles (single, column, element), top and bottom.
    shift
        From the mode of the columns to their mean.
    root
        Of the covariance of each element of the bottom given the top (element, column, column).
    complete, profile
        Second derivative of the energy in the singles: columns fixed, and following.
    """

    point: Point
    value: float
    slope: np.ndarray
    inner: Bordered
    follow: Pair
    shift: Pair
    root: np.ndarray
    complete: np.ndarray
    profile: np.ndarray

    def followed(self, step: np.ndarray) -> Point:
        """Return the point at other singles, the columns moved along."""
        if not len(self.follow[0]):
            return Point(self.point.top, self.point.bottom, self.point.singles + step)
        top, bottom = (np.tensordot(step, x, 1) for x in self.follow)
        return self.point.moved(Point(top, bottom, step))


class Marginal:
    """The marginal density of the singles.

    Parameters
    ----------
    search
        Finds the columns' mode.
    """

    def __init__(self, search: Search) -> None:
        self._search, self._columns = search, search.prior.columns
        self._given_top = GivenTop(search.prior, search.grid)

    def at(self, point: Point, inner: Bordered | None = None) -> Found:
        """Return the marginal and its derivative at the singles of a point.

        `inner` is the second derivative in the columns near there, if it is known.
        """
        point, inner, sums = self._search.mode(point, inner)
        given = self._given_top.moments(point, sums.bottom)
        value = sums.value + 0.5 * inner.log_determinant - given.gain
        slope, complete = sums.slope.singles, sums.single
        nothing = _stacked([], point)
        shift = np.zeros_like(point.top), given.mean
        found = Found(point, value, slope, inner, nothing, shift, given.root, complete, complete)
        if self._search.small:
            return found
        self._differentiate(found, sums, given)
        return found

    def _differentiate(self, found: Found, sums: Sums, given: Moments) -> None:
        """Put in the derivative of the marginal, and what goes with it."""
        point, inner = found.point, found.inner
        follow, profile = _following(point, inner, sums)
        bent = self._bent(point, inner)
        slope = sums.slope.singles + bent.singles
        total = bent.moved(sums.slope)  # the energy is not least in the top: see `Search.mode`
        for moves, pull in zip(follow, (total.top, total.bottom), strict=True):
            slope += np.einsum("ske,ke->s", moves, pull)
        shift = inner.solve((-total.top, -total.bottom))
        if len(self._given_top.nodes):
            shift = shift[0], given.mean + inner.follow(shift[0])
        found.follow, found.shift, found.profile = follow, shift, profile
        found.slope = slope - self._slope_of_gain(found, given.gain)

    def with_slope(self, found: Found) -> Found:
        """Put in the derivative by differences, where the top is small."""
        if not self._search.small:
            return found
        slope, follow = np.zeros(found.slope.size), []
        for i, width in enumerate(self._widths(found)):
            step = np.zeros(slope.size)
            step[i] = width
            ends = [self.at(found.followed(s * step), found.inner) for s in (1.0, -1.0)]
            slope[i] = (ends[0].value - ends[1].value) / (2.0 * width)
            one, other = (end.point for end in ends)
            follow.append(
                ((one.top - other.top) / (2 * width), (one.bottom - other.bottom) / (2 * width))
            )
        return replace(found, slope=slope, follow=_stacked(follow, found.point))

    def _slope_of_gain(self, found: Found, gain: float) -> np.ndarray:
        slope = np.zeros(found.slope.size)
        if not len(self._given_top.nodes):
            return slope
        for i, width in enumerate(self._widths(found)):
            step = np.zeros(slope.size)
            step[i] = width
            there = found.followed(step)
            bottom = self._search.second(there, observed=True).bottom
            slope[i] = (self._given_top.moments(there, bottom).gain - gain) / width
        return slope

    def _widths(self, found: Found) -> np.ndarray:
        return WIDE * np.diagonal(positive(found.complete)) ** -0.5

    def _bent(self, point: Point, inner: Bordered) -> Point:
        self._search.passes += 1
        blocks, part = inner.covariances(), self._search.grid.part
        bottom = np.zeros((*inner.below.shape[1:], len(inner.below)))
        kept: list[np.ndarray] = []

        def spread(block: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
            below, top, across = blocks(block)
            bottom[..., part(block)] = below
            kept[:] = [top]
            return below, top, across

        slope = self._search.grid.bent(point, spread, whole=True)
        return slope.moved(self._search.prior.bent(point, kept[0], bottom))

    def best(self, start: Point) -> tuple[Found, np.ndarray]:
        """Return where the marginal of the singles is largest, and its second derivative there."""
        if self._columns.size_of_top**2 * self._columns.lengths[1] > LARGE:
            return self._of_large(start)
        now = self.with_slope(self.at(self._search.rough(start)))
        matrix = _first_matrix(now)
        for number in range(1, STEPS + 1):
            step = -np.linalg.solve(matrix, now.slope)
            distance = float(np.sqrt(max(0.0, -step @ now.slope)))
            self._search.say(f"scales, step {number}: {distance:.2f} SD from the maximum")
            if distance**2 < (CLOSE if self._search.grid.precise else CLOSE_SINGLE):
                break
            step *= min(1.0, LONGEST / np.abs(step).max())
            new = self._better(now, step)
            if new is None and distance < BLUNT:
                break
            if new is None:
                raise lost("no step of the scales raises their marginal density")
            step, change = new.point.singles - now.point.singles, new.slope - now.slope
            matrix, now = _updated(matrix, step, change), new
        return now, self._curvature(now)

    def _of_large(self, start: Point) -> tuple[Found, np.ndarray]:
        """Return the same where each number of a column rests on hundreds of cells.

        Nodes add nothing there, and of H only what is not shared among elements matters to its
        determinant's derivative: a look at the marginal needs no new factorisation.
        """
        search = self._search
        point, inner = search.joint_mode(search.rough(start))
        for number in range(1, STEPS + 1):
            point, inner, sums, bent = search.middle(point, inner)
            follow, profile = _following(point, inner, sums)
            profile, slope = positive(profile), sums.slope.singles + bent.singles
            root = np.linalg.cholesky(np.linalg.inv(sums.bottom.transpose(2, 0, 1)))
            shift = np.zeros_like(point.top), np.zeros_like(point.bottom)
            found = Found(
                point, sums.value, slope, inner, follow, shift, root, sums.single, profile
            )
            step = -np.linalg.solve(profile, slope)
            distance = float(-step @ slope)
            search.say(f"scales, step {number}: {np.sqrt(distance):.2f} SD from the maximum")
            if distance < CLOSE_SINGLE:
                return found, profile
            point = found.followed(step * min(1.0, LONGEST / np.abs(step).max()))
        raise lost("the scales do not settle")

    def _better(self, now: Found, step: np.ndarray) -> Found | None:
        for factor in (1.0, 0.5, 0.25, 0.1, 0.03, 0.01):
            new = self.at(now.followed(factor * step), now.inner)
            if new.value < now.value + self._search.noise:
                return self.with_slope(new)
        return None

    def _curvature(self, now: Found) -> np.ndarray:
        """Return the second derivative of the marginal, by differences where they are cheap.

        Elsewhere columns are so well known that the energy's own, columns following, is the same.
        """
        if self._columns.size_of_top**2 * self._columns.lengths[1] > DEAR or not now.slope.size:
            return positive(now.profile)
        rows = []
        for i, width in enumerate(self._widths(now)):
            step = np.zeros(now.slope.size)
            step[i] = width
            there = [self.at(now.followed(s * step), now.inner) for s in (1.0, -1.0)]
            ends = [self.with_slope(end).slope for end in there]
            rows.append((ends[0] - ends[1]) / (2.0 * width))
        matrix = np.array(rows)
        return positive((matrix + matrix.T) / 2)


def _following(point: Point, inner: Bordered, sums: Sums) -> tuple[Pair, np.ndarray]:
    """Return how the columns' mode moves with the singles, and the energy's curvature in these."""
    follow = _stacked(
        [
            inner.solve((-sums.top_single[:, i], -sums.bottom_single[:, i]))
            for i in range(point.singles.size)
        ],
        point,
    )
    profile = sums.single.copy()
    for across, moves in zip((sums.top_single, sums.bottom_single), follow, strict=True):
        profile += np.einsum("rke,kse->rs", moves, across)
    return follow, profile


def _first_matrix(found: Found) -> np.ndarray:
    """Return a second derivative to begin with: the profile's, where columns are well known."""
    complete = positive(found.complete)
    if not complete.size:
        return complete
    root = np.linalg.inv(np.linalg.cholesky(complete))
    known = np.linalg.eigvalsh(root @ found.profile @ root.T).min() > KNOWN
    return found.profile if known else complete


def _updated(matrix: np.ndarray, step: np.ndarray, change: np.ndarray) -> np.ndarray:
    """Return a matrix that has seen a step and the change of slope over it, as BFGS does."""
    curved, pulled = float(step @ change), matrix @ step
    if curved < 0.1 * float(step @ pulled):
        return matrix
    return matrix - np.outer(pulled, pulled) / (step @ pulled) + np.outer(change, change) / curved


def _stacked(pairs: list[Pair], point: Point) -> Pair:
    if not pairs:
        return np.zeros((0, *point.top.shape)), np.zeros((0, *point.bottom.shape))
    return np.stack([p[0] for p in pairs]), np.stack([p[1] for p in pairs])
