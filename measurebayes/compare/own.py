"""Parameters that a whole task, family or agent has of its own, as standard normal numbers.

Every one of them is a function of a number z ~ Normal(0, 1) and of what the model text conditions
it on, through the distribution functions. So one rule of integration serves every model text.

Deviations that sum to zero have no distribution of their own given the others: they would be fixed.
But only their origin is. With N agents a_i, their mean taken off, the deviations of the N - 1
others from the others' own mean m = -a_i / (N - 1) are independent of

    a_i - m ~ Normal(0, sd sqrt(N / (N - 1)))

So an agent that is left out is drawn anew around the mean of the others in that draw. The others'
abilities and the difficulties stay as drawn: a common shift of both changes no probability. That
takes the prior of their level as flat over a shift of (a_i - m) / N, which is small.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr
from scipy import special

from measurebayes.backends.evaluate import EvaluateProgram
from measurebayes.errors import InputError
from measurebayes.program.labelled import Labelled
from measurebayes.program.records_first import RecordsFirst

Draws = Mapping[str, xr.DataArray]
_EDGE = 1e-15
#: Axes whose parameters go when a unit is left out: a family takes its tasks with it.
OWN_AXES = {"task": ("task",), "agent": ("agent",), "family": ("family", "task")}


def _half_normal(z: np.ndarray, scale: Any) -> np.ndarray:
    return -scale * special.ndtri(0.5 * np.clip(special.ndtr(-z), 1e-300, None))


def _beta(z: np.ndarray, a: Any, b: Any) -> np.ndarray:
    p = np.clip(special.ndtr(z), _EDGE, 1.0 - _EDGE)
    return np.clip(special.betaincinv(a, b, p), 1e-300, 1.0 - _EDGE)


_FROM_NORMAL: dict[str, Any] = {
    "normal": lambda z, mean, sd: mean + sd * z,
    "log_normal": lambda z, mean, sd: np.exp(mean + sd * z),
    "half_normal": _half_normal,
    "exponential": lambda z, scale: -scale * special.log_ndtr(-z),
    "beta": _beta,
}


class OwnParameters(RecordsFirst, EvaluateProgram):
    """Evaluates a text with own parameters of a unit made of standard normal numbers.

    Parameters
    ----------
    data, values
        As for `EvaluateProgram`.
    unit
        ``"task"``, ``"family"`` or ``"agent"``.
    numbers
        Name -> z, with batch axes in front; names without are own parameters as they were drawn.
    """

    def __init__(
        self,
        data: xr.Dataset,
        values: Draws,
        unit: str,
        numbers: Mapping[str, Labelled] | None = None,
    ) -> None:
        super().__init__(data, values)
        self.unit, self.numbers = unit, numbers or {}
        self.own: dict[str, tuple[str, ...]] = {}  # axes by name
        self.shared: dict[str, tuple[str, ...]] = {}  # of the others

    def sample(self, name: str, family: str, parameters: tuple[Any, ...], dims: tuple) -> Labelled:
        """Return the value, given or made of z."""
        given = super().sample(name, family, parameters, dims)
        if not set(dims) & set(OWN_AXES[self.unit]):
            self.shared[name] = dims
            return given
        self.own[name] = dims
        together = family == "zero_sum_normal"
        if not (
            family in _FROM_NORMAL or (together and dims[-1] == self.unit and self._many(dims))
        ):
            raise _no_rule(name, family, dims)
        if name not in self.numbers:
            return given
        batch, z = self.batch, self.numbers[name]
        front = tuple(d for d in z.dims if d not in dims)
        order = (*dict.fromkeys((*front, *batch)), *dims)
        own = [aligned(p, (*batch, *dims), order) for p in parameters]
        number = aligned(z.value, z.dims, order)
        if together:
            size = self.size(dims)[-1]
            others = -aligned(given.value, given.dims, order) / (size - 1.0)
            return Labelled(others + own[0] * (size / (size - 1.0)) ** 0.5 * number, order, name)
        return Labelled(_FROM_NORMAL[family](number, *own), order, name)

    def observe_times(self, kind: str, location: Any, scale: Any) -> None:
        """Refuse bounds, which have no place among the normal records."""
        raise InputError(
            "timed attempts that failed are part of the model",
            where="comparison by whole units",
            expected="failed='drop': a bound on a human time is not a normal record",
            remedy="fit without failed='censored', or compare by unit='cell'",
        )

    def _many(self, dims: tuple[str, ...]) -> bool:
        return self.size(dims)[-1] > 1


def aligned(value: Any, dims: tuple[str, ...], order: tuple[str, ...]) -> np.ndarray:
    """Give an array (dims) the axes `order`, absent ones of length 1."""
    value = np.asarray(value, dtype=float)
    if value.ndim == 0:
        return value
    at = [dims.index(d) for d in order if d in dims]
    value = value.transpose(at)
    return value[tuple(slice(None) if d in dims else None for d in order)]


def _no_rule(name: str, family: str, dims: tuple) -> InputError:
    return InputError(
        f"the variable {name!r} ({family}, {' x '.join(dims)}) can't be integrated out",
        where="comparison by whole units",
        expected="own parameters of the unit with a distribution of their own; deviations that sum "
        "to zero have one only along the axis of the unit",
        remedy="compare by unit='cell', or by another unit",
    )
