"""How the parameters of a model lie along agents and tasks: what makes large tables tractable.

A *column* is a vector with one number for every agent, or for every task: an ability, a difficulty,
the logarithm of a discrimination, one dimension of a trait. A cell has one agent and one task, so
that given all else the numbers of one column share no data, and the second derivative of the log
density is diagonal between any two columns of one axis. The longer axis (usually tasks) is the
*bottom*, the shorter the *top*. What lies along neither (scales, means, effects of families) are
*singles*.

Zero-sum vectors are kept whole, with their sum as a constraint: their free elements would each
touch all others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from measurebayes.backends.simulate import Variable
from measurebayes.errors import InputError

AXES = ("agent", "task")
MOST_COLUMNS = 12  # second derivatives are taken for every pair of columns, in every cell
MOST_SINGLES = 100
MOST_ON_TOP = 12_000  # parameters: a dense matrix of their number squared is factorised


@dataclass(frozen=True)
class Column:
    """One vector along agents or tasks; `part` is which, of the site's other axes flattened."""

    site: str
    part: int
    zero_sum: bool


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Point:
    """Values of all parameters, unconstrained but for the sums of zero-sum columns.

    Attributes
    ----------
    top, bottom
        Columns along the shorter and the longer axis, (column, element).
    singles
        All others (single,).
    """

    top: Any
    bottom: Any
    singles: Any

    def moved(self, step: Point, factor: float = 1.0) -> Point:
        """Return the point a step further."""
        return Point(
            self.top + factor * step.top,
            self.bottom + factor * step.bottom,
            self.singles + factor * step.singles,
        )


class Columns:
    """Which column or single each number of each site is.

    Parameters
    ----------
    variables
        The model's latent variables.
    lengths
        Number of agents and of tasks, by axis.
    label
        Name of the model, for messages.

    Raises
    ------
    InputError
        A variable lies along both axes, or there are too many columns.
    """

    def __init__(self, variables: list[Variable], lengths: Mapping[str, int], label: str) -> None:
        self.label, self.variables = label, {v.name: v for v in variables}
        along: dict[str, list[Column]] = {axis: [] for axis in AXES}
        self._singles: dict[str, tuple[int, int]] = {}
        count = 0
        for v in variables:
            axes = [axis for axis in AXES if axis in v.dims]
            if len(axes) == 2:
                raise self.refused(f"{v.name} lies along both agents and tasks")
            if v.family == "zero_sum_normal" and v.dims[-1] not in AXES:
                raise self.refused(f"{v.name} sums to zero along {v.dims[-1]}")
            size = int(np.prod(v.shape, dtype=int))
            if axes:
                number = size // lengths[axes[0]]
                zero_sum = v.family == "zero_sum_normal"
                if number > MOST_COLUMNS:
                    raise self.refused(f"{v.name} is {number} vectors along {axes[0]}")
                along[axes[0]] += [Column(v.name, i, zero_sum) for i in range(number)]
            else:
                self._singles[v.name] = (count, count + size)
                count += size
        numbers = {axis: len(along[axis]) * lengths[axis] for axis in AXES}
        self.top_axis = "agent" if numbers["agent"] <= numbers["task"] else "task"
        self.bottom_axis = "task" if self.top_axis == "agent" else "agent"
        self.top, self.bottom = tuple(along[self.top_axis]), tuple(along[self.bottom_axis])
        self.lengths = (lengths[self.top_axis], lengths[self.bottom_axis])
        self.number_of_singles = count
        self._check_sizes()

    def _check_sizes(self) -> None:
        if not self.top and not self.bottom:
            raise self.refused("no variable lies along agents or tasks")
        if len(self.top) + len(self.bottom) > MOST_COLUMNS:
            raise self.refused(f"{len(self.top) + len(self.bottom)} vectors lie along the axes")
        if self.number_of_singles > MOST_SINGLES:
            raise self.refused(f"{self.number_of_singles} numbers lie along neither")
        if self.size_of_top > MOST_ON_TOP:
            raise self.refused(f"{self.size_of_top:,} numbers along {self.top_axis}s")

    def refused(self, found: str) -> InputError:
        """Return the error for a model that this method can't take."""
        return InputError(
            f"in the model {self.label} {found}",
            where="method 'map'",
            expected=f"at most {MOST_COLUMNS} vectors along agents or tasks in all, "
            f"{MOST_ON_TOP:,} numbers along the shorter axis, and {MOST_SINGLES} other numbers",
            remedy="leave method out to get 'nuts'",
        )

    @property
    def size_of_top(self) -> int:
        """Number of parameters in the columns on top."""
        return len(self.top) * self.lengths[0]

    @property
    def number(self) -> int:
        """Number of parameters."""
        return self.size_of_top + len(self.bottom) * self.lengths[1] + self.number_of_singles

    def sites(self, point: Point) -> dict[str, Any]:
        """Return the arrays of all sites, in their own shapes, at a point."""
        found: dict[str, Any] = {}
        for name, v in self.variables.items():
            if name in self._singles:
                start, stop = self._singles[name]
                found[name] = point.singles[start:stop].reshape(v.shape)
                continue
            axis = self.top_axis if self.top_axis in v.dims else self.bottom_axis
            columns, values = (
                (self.top, point.top) if axis == self.top_axis else (self.bottom, point.bottom)
            )
            at = [i for i, column in enumerate(columns) if column.site == name]
            others = tuple(n for d, n in zip(v.dims, v.shape, strict=True) if d != axis)
            value = values[at[0] : at[-1] + 1].reshape(*others, values.shape[-1])
            found[name] = jnp.moveaxis(value, -1, v.dims.index(axis))
        return found

    def point(self, sites: Mapping[str, Any]) -> Point:
        """Return the point at which the sites have these values: the inverse of `sites`."""
        parts = []
        for axis, columns in ((self.top_axis, self.top), (self.bottom_axis, self.bottom)):
            length = self.lengths[0 if axis == self.top_axis else 1]
            rows = [np.zeros((0, length))]
            for name in dict.fromkeys(column.site for column in columns):
                value = np.moveaxis(
                    np.asarray(sites[name]), self.variables[name].dims.index(axis), -1
                )
                rows.append(value.reshape(-1, length))
            parts.append(np.concatenate(rows))
        singles = [np.zeros(0), *(np.ravel(sites[name]) for name in self._singles)]
        return Point(parts[0], parts[1], np.concatenate(singles))
