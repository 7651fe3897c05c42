"""Counts how often order relations among success rates break a cancellation axiom.

Rates are a table of agents by bands of tasks. A case is a choice of distinct agents and distinct
bands for which the premises of an axiom hold; it is a violation where the conclusion fails. With
P[a, x] the rate of agent a in band x:

single   P[a, x] >= P[b, x]                              but P[a, y] < P[b, y]   (agents)
         P[a, x] >= P[a, y]                              but P[b, x] < P[b, y]   (bands)
double   P[a, y] >= P[b, x], P[b, z] >= P[c, y]          but P[a, z] < P[c, x]
triple   P[b, w] >= P[a, x], P[a, z] >= P[b, y],
         P[c, x] >= P[d, w]                              but P[c, z] < P[d, y]

If rates are an increasing function of ability minus difficulty, the premises add up to the
conclusion, so no true violation exists [1]_ [2]_.

Double cancellation is counted without going through triples of agents. For bands (x, y, z), sort
the agents by their rate in y. The agents a that fit a given b are then the last ones of that
order, the agents c the first ones, and the number of violations with b in the middle is the number
of pairs (a, c) with P[a, z] < P[c, x] in a corner of a square: one entry of a table of sums. So a
triple of bands costs agents^2 steps in place of agents^3.

References
----------
.. [1] Luce, Tukey (1964). Simultaneous conjoint measurement: a new type of fundamental measurement.
   Journal of Mathematical Psychology 1(1). doi:10.1016/0022-2496(64)90015-X
.. [2] Krantz, Luce, Suppes, Tversky (1971). Foundations of measurement, vol. 1. Academic Press,
   chapter 6.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import permutations
from typing import NamedTuple

import numpy as np

# Replicates are counted in steps. The tables of a step should fit a core's own cache, but fewer
# than 100 replicates at once are slow whatever fits; and no step's tables may take more than this.
STEP_BYTES, LEAST_AT_ONCE, MOST_BYTES = 2**21, 100, 2**28


class Counts(NamedTuple):
    """Cases and violations of an axiom.

    Attributes
    ----------
    bands : np.ndarray
        Shape (choice, 2, 3 or 4): the bands (x, y), (x, y, z) or (w, x, y, z) of each choice.
    cases, violations : np.ndarray
        Whole numbers, shape (choice, replicate).
    """

    bands: np.ndarray
    cases: np.ndarray
    violations: np.ndarray

    @property
    def rate(self) -> np.ndarray:
        """Violations per case of each replicate (replicate,); NaN without cases."""
        cases, violations = self.cases.sum(axis=0), self.violations.sum(axis=0)
        return np.divide(violations, cases, where=cases > 0, out=np.full(cases.shape, np.nan))


def count(
    rates: np.ndarray, axiom: str = "double", moved: Callable[[float], None] | None = None
) -> Counts:
    """Count cases and violations of an axiom in tables of rates.

    Parameters
    ----------
    rates : np.ndarray
        Shape (agent, band, replicate); NaN where a rate is missing. Only their order matters.
    axiom : str
        ``"single"``, ``"double"`` or ``"triple"``.
    moved : callable, optional
        Told how many replicates more were counted; their parts by bands, so not whole numbers.

    Returns
    -------
    Counts
    """
    ranks = _ranks(rates)
    bands = np.array(list(permutations(range(rates.shape[1]), BANDS_OF[axiom])), dtype=int)
    cases = np.zeros((len(bands), rates.shape[2]), dtype=np.int64)
    violations = np.zeros_like(cases)

    stop = threading.Event()

    def one(part: slice) -> None:
        some = np.ascontiguousarray(ranks[:, :, part])
        for first in np.unique(bands[:, -2]):  # a part of the choices at a time
            at = np.flatnonzero(bands[:, -2] == first)
            if stop.is_set():
                return
            cases[at, part], violations[at, part] = _COUNT[axiom](some, bands[at])
            if moved is not None:
                moved(some.shape[2] * len(at) / len(bands))

    with ThreadPoolExecutor(os.cpu_count()) as threads:  # NumPy computes outside Python's lock
        try:
            list(threads.map(one, _steps(*rates.shape[::2])))
        finally:
            stop.set()  # an interrupt must not wait for what is left
    return Counts(bands, cases, violations)


def count_by_agent(rates: np.ndarray, axiom: str = "double") -> tuple[np.ndarray, np.ndarray]:
    """Count the cases and violations that each agent takes part in.

    Parameters
    ----------
    rates, axiom
        As for `count`.

    Returns
    -------
    tuple of np.ndarray
        Cases and violations, each (agent, replicate): those of the whole table less those of the
        table without the agent.
    """
    agents, bands, replicates = rates.shape
    without = np.repeat(rates[:, :, :, None], agents + 1, axis=3)  # the last one is the whole
    without[np.arange(agents), :, :, np.arange(agents)] = np.nan
    counted = count(without.reshape(agents, bands, -1), axiom)
    totals = (c.sum(axis=0).reshape(replicates, agents + 1) for c in counted[1:])
    cases, violations = ((t[:, -1:] - t[:, :-1]).T for t in totals)
    return cases, violations


BANDS_OF = {"single": 2, "double": 3, "triple": 4}


def _steps(agents: int, replicates: int) -> Iterator[slice]:
    """Cut the replicates into steps: enough at once to be fast, few enough to bound memory."""
    most = max(1, MOST_BYTES // (4 * agents**2))
    step = min(max(STEP_BYTES // (4 * agents**2), LEAST_AT_ONCE), most)
    for start in range(0, replicates, step):
        yield slice(start, start + step)


def _ranks(rates: np.ndarray) -> np.ndarray:
    """Dense ranks from 1 within each replicate: equal rates get equal ranks, missing ones 0."""
    agents, bands, replicates = rates.shape
    flat = rates.reshape(agents * bands, replicates)
    order = np.argsort(flat, axis=0)  # NaN last
    ordered = np.take_along_axis(flat, order, axis=0)
    new = np.ones(flat.shape, dtype=np.int32)
    new[1:] = ordered[1:] > ordered[:-1]
    ranks = np.empty(flat.shape, dtype=np.uint16 if agents * bands < 65_000 else np.uint32)
    np.put_along_axis(ranks, order, np.cumsum(new, axis=0).astype(ranks.dtype), axis=0)
    ranks[np.isnan(flat)] = 0
    return ranks.reshape(rates.shape)


def _missing_high(ranks: np.ndarray) -> np.ndarray:
    """Ranks with missing ones above all: each comparison takes the form that makes it fail."""
    return np.where(ranks == 0, np.iinfo(ranks.dtype).max, ranks)


# -- double cancellation -----------------------------------------------------------------------


def _double(ranks: np.ndarray, bands: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    low, high = ranks, _missing_high(ranks)
    cases = np.zeros((len(bands), ranks.shape[2]), dtype=np.int64)
    violations = np.zeros_like(cases)
    for y in np.unique(bands[:, 1]):
        middle = _Middle(low, high, y)
        for at in np.flatnonzero(bands[:, 1] == y):
            x, _, z = bands[at]
            cases[at] = middle.cases(x, z)
            violations[at] = middle.violations(x, z)
    return cases, violations


class _Middle:
    """Double cancellation with band y in the middle: agents sorted by their rate in y.

    Arrays are (place, band, replicate), the place being that of an agent in the order by y.
    """

    def __init__(self, low: np.ndarray, high: np.ndarray, y: int) -> None:
        agents, _, replicates = low.shape
        order = np.argsort(high[:, y], axis=0, kind="stable")[:, None, :]  # missing ones last
        low, high = (np.take_along_axis(ranks, order, axis=0) for ranks in (low, high))
        # How many rates in y are below a rate, and how many not above it.
        self.below = np.zeros(low.shape, dtype=np.int32)
        self.upto = np.zeros(low.shape, dtype=np.int32)
        for rate in high[:, y]:
            self.below += rate < high
            self.upto += rate <= low
        # Who has no rate in y can be b, but neither a nor c.
        absent = low[:, y] == 0
        self.as_c = np.where(absent[:, None], 0, low)
        self.as_a = np.where(absent[:, None], np.iinfo(high.dtype).max, high)
        self.present = self.as_c > 0
        self.complete = bool(self.present.all())
        self.place = np.arange(agents, dtype=np.int32)[:, None]
        self._make_room(agents, replicates)

    def _make_room(self, agents: int, replicates: int) -> None:
        """Allocate what `violations` fills, and how entries are found in it."""
        small = agents < 256
        shape = (agents, agents + 1, replicates)
        self.failing = np.zeros((agents, agents, replicates), dtype=bool)
        self.columns = np.zeros(shape, dtype=np.uint8 if small else np.int32)
        self.sums = np.zeros((agents + 1, *shape[1:]), dtype=np.uint16 if small else np.int64)
        self.row_at = (agents + 1) * replicates
        self.column_at = replicates
        self.own = self.place * np.int64(self.row_at) + np.arange(replicates)
        self.below_at = self.below * np.int64(self.row_at) + np.arange(replicates)
        self.upto_at = self.upto * np.int64(self.column_at)

    def violations(self, x: int, z: int) -> np.ndarray:
        """Violations of each replicate for bands (x, y, z)."""
        np.less(self.as_a[:, None, z], self.as_c[None, :, x], out=self.failing)
        places = self.place[:, 0]
        self.failing[places, places] = False  # a and c differ
        # columns[i, k]: how many of the places before k fail with i; sums: with i or a later one.
        columns, sums, failing = self.columns, self.sums, self.failing.view(np.uint8)
        for k in range(len(failing)):
            np.add(columns[:, k], failing[:, k], out=columns[:, k + 1])
        for i in range(len(failing) - 1, -1, -1):
            np.copyto(sums[i], columns[i])
            sums[i] += sums[i + 1]
        below, upto, place = self.below[:, x], self.upto[:, z], self.place
        total = self._corner(self.below_at[:, x] + self.upto_at[:, z]).sum(axis=0)
        # b is neither a nor c: out go the row of the corner where it is a, the column where it is c
        row = columns.ravel().take(self.own + self.upto_at[:, z])
        left = self.below_at[:, x] + self.place * np.int64(self.column_at)
        column = self._corner(left + self.column_at) - self._corner(left)
        total -= (row * (place >= below)).sum(axis=0, dtype=np.int64)
        total -= (column * (place < upto)).sum(axis=0)
        return total

    def _corner(self, at: np.ndarray) -> np.ndarray:
        return self.sums.ravel().take(at).astype(np.int64)

    def cases(self, x: int, z: int) -> np.ndarray:
        """As `violations`, where every pair of different agents with rates counts as failing."""
        below, upto, place = self.below[:, x], self.upto[:, z], self.place
        within_a, within_c = place >= below, place < upto
        if self.complete:
            from_below, before_upto = len(place) - below, upto
            same = np.maximum(upto - below, 0)
        else:
            with_z, with_x = self.present[:, z], self.present[:, x]
            within_a, within_c = within_a & with_z, within_c & with_x
            nothing = np.zeros((1, with_z.shape[1]), dtype=np.int64)
            from_on = np.concatenate([np.cumsum(with_z[::-1], axis=0)[::-1], nothing])
            before, both = (
                np.concatenate([nothing, np.cumsum(w, axis=0)]) for w in (with_x, with_z & with_x)
            )
            from_below, before_upto = _at(from_on, below), _at(before, upto)
            same = np.maximum(_at(both, upto) - _at(both, below), 0)
        # b is a, or b is c; where it could be both it is taken out of each, as a and c differ
        as_a, as_c = within_a * (before_upto - within_c), within_c * (from_below - within_a)
        return (from_below * before_upto - same - as_a - as_c).sum(axis=0, dtype=np.int64)


def _at(table: np.ndarray, index: np.ndarray) -> np.ndarray:
    return np.take_along_axis(table, index, axis=0)


# -- single and triple cancellation ------------------------------------------------------------


def _single(ranks: np.ndarray, bands: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Orders of two agents that differ between bands, and of two bands between agents."""
    cases = np.zeros((len(bands), ranks.shape[2]), dtype=np.int64)
    violations = np.zeros_like(cases)
    for at, (x, y) in enumerate(bands):
        there = (ranks[:, x] > 0) & (ranks[:, y] > 0)
        one, other = ranks[:, x], ranks[:, y]
        agents = (one[:, None] >= one[None]) & there[:, None] & there[None]
        cases[at] = agents.sum(axis=(0, 1)) - there.sum(axis=0)  # no agent with itself
        violations[at] = (agents & (other[:, None] < other[None])).sum(axis=(0, 1))
        holds, fails = (there & test for test in (one >= other, one < other))
        cases[at] += holds.sum(axis=0) * (there.sum(axis=0) - 1)
        violations[at] += holds.sum(axis=0) * fails.sum(axis=0)
    return cases, violations


def _triple(ranks: np.ndarray, bands: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The pairs (a, b) and (c, d) meet only in being distinct, so their counts multiply."""
    low, high = ranks, _missing_high(ranks)
    pairs = list(permutations(range(ranks.shape[1]), 2))
    # at_least[x, y][i, j]: P[i, x] >= P[j, y], both there
    at_least = {(x, y): low[:, None, x] >= high[None, :, y] for x, y in pairs}
    there = {(x, y): (low[:, None, x] > 0) & (low[None, :, y] > 0) for x, y in pairs}
    different = ~np.eye(len(low), dtype=bool)[:, :, None]
    cases = np.zeros((len(bands), ranks.shape[2]), dtype=np.int64)
    violations = np.zeros_like(cases)
    for at, (w, x, y, z) in enumerate(bands):
        first = at_least[w, x].transpose(1, 0, 2) & at_least[z, y] & different
        second = at_least[x, w] & there[z, y] & different
        cases[at] = _disjoint(first, second)
        violations[at] = _disjoint(first, second & ~at_least[z, y])
    return cases, violations


def _disjoint(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Number of (a, b, c, d), all distinct, with first[a, b] and second[c, d]; no diagonals."""
    rows = [m.sum(axis=1, dtype=np.int64) for m in (first, second)]
    columns = [m.sum(axis=0, dtype=np.int64) for m in (first, second)]
    sharing = ((rows[0] + columns[0]) * (rows[1] + columns[1])).sum(axis=0)
    twice = (first & second).sum(axis=(0, 1)) + (first & second.transpose(1, 0, 2)).sum(axis=(0, 1))
    return rows[0].sum(axis=0) * rows[1].sum(axis=0) - sharing + twice


_COUNT = {"single": _single, "double": _double, "triple": _triple}
