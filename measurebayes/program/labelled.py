"""Arrays that know the names of their axes, so that a model text needs no layout."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

# Axes of a product come out in this order whatever the order of its factors; batch axes
# (chain, draw, grid, ...) come first.
CELL_AXES = ("agent", "task", "family", "cell")


@dataclass(frozen=True, eq=False)
class Labelled:
    """An array of any library (NumPy, JAX, PyTensor) with named axes.

    Arithmetic broadcasts by name, as xarray does, so that an ``(agent,)`` array minus a ``(task,)``
    array is an ``(agent, task)`` array.

    Parameters
    ----------
    value
        The array; its number of axes is ``len(dims)``.
    dims
        Name of each axis.
    name
        Name of the variable, where it has one; only for display.
    """

    value: Any
    dims: tuple[str, ...] = ()
    name: str | None = None

    # NumPy scalars and arrays on the left must hand arithmetic over instead of looping.
    __array_ufunc__ = None

    def __add__(self, other: Any) -> Labelled:
        return combine(operator.add, self, other)

    def __radd__(self, other: Any) -> Labelled:
        return combine(operator.add, other, self)

    def __sub__(self, other: Any) -> Labelled:
        return combine(operator.sub, self, other)

    def __rsub__(self, other: Any) -> Labelled:
        return combine(operator.sub, other, self)

    def __mul__(self, other: Any) -> Labelled:
        return combine(operator.mul, self, other)

    def __rmul__(self, other: Any) -> Labelled:
        return combine(operator.mul, other, self)

    def __truediv__(self, other: Any) -> Labelled:
        return combine(operator.truediv, self, other)

    def __rtruediv__(self, other: Any) -> Labelled:
        return combine(operator.truediv, other, self)

    def __pow__(self, exponent: float) -> Labelled:
        # PyTensor would take a Python float as the narrowest that holds it, and round in its type.
        exponent = np.float64(exponent) if isinstance(exponent, float) else exponent
        return combine(operator.pow, self, exponent)

    def __neg__(self) -> Labelled:
        return Labelled(-self.value, self.dims)


def labelled(x: Any) -> Labelled:
    """Return `x` as a `Labelled`: numbers get no axes, DataArrays keep their dims."""
    if isinstance(x, Labelled):
        return x
    if isinstance(x, xr.DataArray):
        return Labelled(x.values, tuple(str(d) for d in x.dims))
    if getattr(x, "ndim", 0) != 0:
        raise TypeError(
            f"an array of {x.ndim} axes without names was used in a model; "
            "use an xarray.DataArray or a variable of the program, whose axes have names, and put "
            "the variable, or pp.cell(array), to the left of a DataArray"
        )
    return Labelled(x)


def combine(function: Callable[[Any, Any], Any], left: Any, right: Any) -> Labelled:
    """Apply a binary function to two operands after aligning their axes by name."""
    left, right = labelled(left), labelled(right)
    dims = union_of_dims(left.dims, right.dims)
    return Labelled(function(expand(left, dims), expand(right, dims)), dims)


def union_of_dims(*several: tuple[str, ...]) -> tuple[str, ...]:
    """Return all names once: batch axes in order of appearance, then agent, task, family, cell."""
    names = list(dict.fromkeys(name for dims in several for name in dims))
    return tuple(sorted(names, key=lambda d: CELL_AXES.index(d) if d in CELL_AXES else -1))


def expand(x: Labelled, dims: tuple[str, ...]) -> Any:
    """Return the array of `x` with its axes in the order `dims`; absent ones have length 1."""
    missing = [d for d in x.dims if d not in dims]
    if missing:
        raise ValueError(f"axes {missing} of {x.name or 'an array'} have no place among {dims}")
    if not x.dims:
        return x.value
    present = [d for d in dims if d in x.dims]
    value = x.value
    if tuple(present) != x.dims:
        value = value.transpose([x.dims.index(d) for d in present])
    if len(present) == len(dims):
        return value
    return value[tuple(slice(None) if d in x.dims else None for d in dims)]
