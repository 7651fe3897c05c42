"""Where the own parameters of every unit have their mass, given a draw of everything else.

The density of the numbers z of a unit, given its successes, is p(y | z) Normal(z; 0, 1). Its mode
is found by Fisher scoring, and its curvature there is the expected one, 1 + J' W J, with W the
binomial information of the cells and J how their log odds change with z. Both only place the nodes
of an integral; they bias nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from scipy import sparse
from scipy.special import expit

from measurebayes.backends.evaluate import binomial_density
from measurebayes.compare.places import Kind, Places

#: Log odds of every cell (sample, node, cell) from numbers (sample, node, number).
LogOdds = Callable[[np.ndarray], np.ndarray]
STEPS = 60
STEP = 1e-5  # of the derivative
SMALL = 1e-5  # gain in log density that is not worth another step


@dataclass(frozen=True)
class Mode:
    """Mode z (sample, number), log density there (sample, unit), curvature (sample, entry)."""

    z: np.ndarray
    value: np.ndarray
    curvature: np.ndarray

    def part(self, some: slice) -> Mode:
        """Take some of the draws."""
        return Mode(self.z[some], self.value[some], self.curvature[some])


class Curvature:
    """Sums of the cells' information into one matrix a unit.

    Parameters
    ----------
    where
        Places of the numbers.
    """

    def __init__(self, where: Places) -> None:
        self.kinds: list[tuple[Kind, np.ndarray]] = []
        self.count = 0
        self.place = np.zeros(where.count, dtype=int)  # of a number within its unit
        first, size = np.zeros(where.units, dtype=int), np.zeros(where.units, dtype=int)
        for kind in where.kinds():
            units, width = kind.at.shape
            self.place[kind.at] = np.arange(width)
            entries = self.count + np.arange(units * width**2).reshape(units, width, width)
            first[kind.units], size[kind.units] = entries[:, 0, 0], width
            self.kinds.append((kind, entries))
            self.count += entries.size
        self.first, self.size = first[where.unit_of], size[where.unit_of]
        row = self.entry(where.of_cell[:, :, None], where.of_cell[:, None, :])
        column = np.arange(row.size)
        ones = np.ones(row.size)
        self.sum = sparse.csr_array((ones, (row.ravel(), column)), (self.count, row.size))
        numbers = where.of_cell.ravel()
        column = np.arange(numbers.size)
        ones = np.ones(numbers.size)
        self.gather = sparse.csr_array((ones, (numbers, column)), (where.count, numbers.size))

    def entry(self, row: np.ndarray, column: np.ndarray) -> np.ndarray:
        """Place of the entry of two numbers of one unit."""
        return np.asarray(self.first[row] + self.place[row] * self.size[row] + self.place[column])

    def matrix(self, jacobian: np.ndarray, weight: np.ndarray) -> np.ndarray:
        """Return 1 + J' W J (sample, entry) from J (sample, number, cell), W (sample, cell)."""
        pairs = np.einsum("sic,sjc->scij", jacobian * weight[:, None], jacobian)
        found = (self.sum @ pairs.reshape(len(pairs), -1).T).T
        for _, entries in self.kinds:
            found[:, np.diagonal(entries, axis1=1, axis2=2)] += 1.0
        return np.asarray(found)

    def gradient(self, jacobian: np.ndarray, residual: np.ndarray) -> np.ndarray:
        """Return J' r (sample, number)."""
        terms = (jacobian * residual[:, None]).transpose(0, 2, 1)
        return np.asarray((self.gather @ terms.reshape(len(terms), -1).T).T)

    def solve(self, matrix: np.ndarray, vector: np.ndarray) -> np.ndarray:
        """Solve for every unit."""
        found = np.zeros_like(vector)
        for kind, entries in self.kinds:
            right = vector[:, kind.at][..., None]
            found[:, kind.at] = np.linalg.solve(matrix[:, entries], right)[..., 0]
        return found


def find_mode(
    log_odds: LogOdds,
    where: Places,
    runs: xr.Dataset,
    curve: Curvature,
    z: np.ndarray,
    small: float = SMALL,
    steps: int = STEPS,
) -> Mode:
    """Find mode and curvature of all units at some draws.

    Parameters
    ----------
    log_odds
        Log odds of the cells.
    where, curve
        Places of the numbers.
    runs
        Data of the cells.
    z
        Where to start (sample, number).
    small
        Gain in log density that is not worth another step.
    steps
        At most.
    """
    state = _State(log_odds, where, runs, curve, z)
    for _ in range(steps):
        if not state.step(small):
            break
    return Mode(state.z, state.value, state.matrix)


class _State:
    """Fisher scoring of all units at all draws at once; each stops by itself."""

    def __init__(
        self, log_odds: LogOdds, where: Places, runs: xr.Dataset, curve: Curvature, z: np.ndarray
    ) -> None:
        self.log_odds, self.where, self.runs, self.curve = log_odds, where, runs, curve
        self.z = z
        self.length = np.ones((len(z), where.units))
        self.moving = np.ones((len(z), where.units), dtype=bool)
        self.value, self.direction, self.matrix, self.gain = self._at(z)

    def step(self, small: float) -> bool:
        """Take a step where it is worth one; tell whether any unit still moves."""
        self.moving &= (self.gain > small) & (self.length > 1e-4)
        if not self.moving.any():
            return False
        of_number = self.where.unit_of
        new = self.z + (self.length * self.moving)[:, of_number] * self.direction
        value, direction, matrix, gain = self._at(new)
        better = self.moving & (value > self.value)
        self.length = np.where(better, np.minimum(1.0, 2.0 * self.length), 0.25 * self.length)
        self.value = np.where(better, value, self.value)
        self.gain = np.where(better, gain, self.gain)
        moved = better[:, of_number]
        self.z = np.where(moved, new, self.z)
        self.direction = np.where(moved, direction, self.direction)
        for kind, entries in self.curve.kinds:
            which = better[:, kind.units][..., None, None]
            self.matrix[:, entries] = np.where(which, matrix[:, entries], self.matrix[:, entries])
        return True

    def _at(self, z: np.ndarray) -> tuple[Any, ...]:
        """Log density of every unit, the step from here, curvature, and the gain it promises."""
        each = self.where.of_cell.shape[1]
        moved = np.repeat(z[:, None], each + 1, axis=1)
        for i in range(each):
            moved[:, i + 1, np.unique(self.where.of_cell[:, i])] += STEP
        eta = self.log_odds(moved)
        jacobian = (eta[:, 1:] - eta[:, :1]) / STEP
        chance, attempts = expit(eta[:, 0]), self.runs["attempts"].values
        weight = attempts * chance * (1.0 - chance)
        matrix = self.curve.matrix(jacobian, weight)
        residual = self.runs["successes"].values - attempts * chance
        slope = self.curve.gradient(jacobian, residual) - z
        direction = self.curve.solve(matrix, slope)
        terms = binomial_density(eta[:, 0], self.runs)
        value = by_unit(terms, self.where.unit_of_cell, self.where.units)
        value -= 0.5 * by_unit(z**2, self.where.unit_of, self.where.units)
        gain = 0.5 * by_unit(slope * direction, self.where.unit_of, self.where.units)
        return value, direction, matrix, gain


def by_unit(x: np.ndarray, unit: np.ndarray, units: int) -> np.ndarray:
    """Sum the last axis by unit: (..., place) to (..., unit)."""
    total = sparse.csr_array((np.ones(len(unit)), (unit, np.arange(len(unit)))), (units, len(unit)))
    flat = x.reshape(-1, x.shape[-1])
    return np.asarray((total @ flat.T).T).reshape(*x.shape[:-1], units)
