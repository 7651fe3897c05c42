"""The verbs that a model file may use; each interpreter says what a verb does."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import xarray as xr

from measurebayes.errors import ModelError, listed
from measurebayes.program.cells import Cells
from measurebayes.program.labelled import Labelled, expand, labelled

Dims = str | tuple[str, ...]
AXES = ("agent", "task", "family")
#: Axes and groups of a fit, which neither a variable nor an axis of a model can be named after.
RESERVED = frozenset({"chain", "draw", *AXES, "cell", "successes"})


class Program(ABC):
    """What a model text is run on: ``pp`` in ``model(pp, data, priors)``.

    Parameters
    ----------
    data
        Dataset of the schema: gives the length of every axis and the place of every cell.
    layout
        ``"long"``, ``"dense"`` or ``"auto"``; the model text and its density don't depend on it.
    """

    #: exp, log, logistic, softplus, survival_log_odds and sum of the array library.
    functions: ClassVar[dict[str, Callable[..., Any]]]

    def __init__(self, data: xr.Dataset, layout: str = "long") -> None:
        self.data = data
        self.cells = Cells(data, layout)
        self.axes: dict[str, np.ndarray] = {}

    @abstractmethod
    def sample(self, name: str, family: str, parameters: tuple[Any, ...], dims: tuple) -> Any:
        """Return the value of a latent variable; `parameters` are aligned with `dims`."""

    @abstractmethod
    def observe(self, name: str, family: str, parameters: tuple[Any, ...], observed: Any) -> None:
        """Take note of an observed variable; `parameters` are aligned with it."""

    def keep(self, name: str, x: Labelled) -> None:  # noqa: B027 - most interpreters keep nothing
        """Record a deterministic variable."""

    # -- what the data say --------------------------------------------------------------------

    def axis(self, name: str, labels: Any) -> xr.DataArray:
        """Give the model an axis of its own, and return its labels along it.

        `labels` are numbers or words, or a number n for 0 to n - 1. They are kept in the fit, and
        when the text is evaluated at draws of a fit, the axis has the labels of the fit: what
        depends on the data that were fitted, such as knots at quantiles, then stays where it was.
        """
        stored = self.stored_labels(name)
        if stored is None:
            stored = np.arange(labels) if isinstance(labels, int) else np.asarray(labels)
        if not isinstance(name, str) or not name.isidentifier() or name in RESERVED:
            raise ValueError(f"{str(name)[:40]!r} can't be the name of an axis")
        if stored.ndim != 1 or not 0 < len(np.unique(stored)) == len(stored):
            raise ValueError(f"the labels of the axis {name!r} are not different ones in a row")
        self.axes[name] = stored
        return xr.DataArray(stored, {name: stored}, (name,))

    def stored_labels(self, name: str) -> np.ndarray | None:
        """Return the labels that an axis has in the values that the text is evaluated at."""
        return None

    def log2_minutes(self) -> xr.DataArray:
        """Return log2 of the human minutes of every task (task,).

        The median stands for unknown ones of tasks that nobody attempted: nothing depends on it.

        Raises
        ------
        ModelError
            A task with attempts lacks its human minutes.
        """
        minutes = self.data["human_minutes"].values
        tried = np.zeros(minutes.size, dtype=bool)
        tried[self.data["task_index"].values[self.data["attempts"].values > 0]] = True
        lacks = tried & ~(np.isfinite(minutes) & (minutes > 0))
        if lacks.any():
            raise ModelError(
                f"{lacks.sum()} of {tried.sum()} tasks with attempts have no human minutes: "
                + listed(self.data["task"].values[lacks].tolist()),
                where="human_minutes of the data",
                expected="the time that each task takes a person",
                remedy="mb.subset(runs, task=runs.task[runs.human_minutes > 0].values) keeps the "
                "tasks that have it",
            )
        known = np.isfinite(minutes) & (minutes > 0)
        usual = np.median(minutes[known]) if known.any() else 1.0
        return xr.DataArray(np.log2(np.where(known, minutes, usual)), dims="task")

    # -- latent variables ------------------------------------------------------------------

    def normal(self, name: str, location: Any, scale: Any, dims: Dims = ()) -> Labelled:
        """Normal with mean `location` and standard deviation `scale`."""
        return self._latent(name, "normal", (location, scale), dims)

    def zero_sum_normal(self, name: str, scale: Any, dims: Dims) -> Labelled:
        """Deviations from their own mean of independent Normal(., scale): they sum to 0."""
        return self._latent(name, "zero_sum_normal", (scale,), dims)

    def half_normal(self, name: str, scale: Any, dims: Dims = ()) -> Labelled:
        """Absolute value of a Normal(0, scale)."""
        return self._latent(name, "half_normal", (scale,), dims)

    def log_normal(self, name: str, location: Any, scale: Any, dims: Dims = ()) -> Labelled:
        """Exponential of a Normal(location, scale)."""
        return self._latent(name, "log_normal", (location, scale), dims)

    def exponential(self, name: str, scale: Any, dims: Dims = ()) -> Labelled:
        """Exponential with mean `scale`."""
        return self._latent(name, "exponential", (scale,), dims)

    def beta(self, name: str, a: Any, b: Any, dims: Dims = ()) -> Labelled:
        """Beta(a, b) on the unit interval."""
        return self._latent(name, "beta", (a, b), dims)

    # -- functions -------------------------------------------------------------------------

    def deterministic(self, name: str, x: Any) -> Labelled:
        """Keep a function of other variables under a name of its own in the posterior."""
        x = labelled(x)
        self.keep(name, x)
        return Labelled(x.value, x.dims, name)

    def exp(self, x: Any) -> Labelled:
        """e to the power x."""
        return self._map("exp", x)

    def log(self, x: Any) -> Labelled:
        """Natural logarithm."""
        return self._map("log", x)

    def logistic(self, x: Any) -> Labelled:
        """1 / (1 + exp(-x))."""
        return self._map("logistic", x)

    def softplus(self, x: Any) -> Labelled:
        """log(1 + exp(x))."""
        return self._map("softplus", x)

    def survival_log_odds(self, log_hazard: Any) -> Labelled:
        """Log odds of success where success = exp(-exp(log_hazard)): no event in a Poisson time."""
        return self._map("survival_log_odds", log_hazard)

    def sum(self, x: Any, dim: str) -> Labelled:
        """Sum over the axis `dim`."""
        x = labelled(x)
        dims = tuple(d for d in x.dims if d != dim)
        return Labelled(self.functions["sum"](x.value, axis=x.dims.index(dim)), dims)

    def cell(self, x: Any) -> Labelled:
        """For every observed cell the entry of `x` that belongs to it, found from its axes."""
        return self.cells.gather(labelled(x))

    # -- observations ----------------------------------------------------------------------

    def observe_successes(self, log_odds: Any) -> None:
        """Successes of every cell ~ Binomial(attempts, logistic(log_odds))."""
        log_odds = labelled(log_odds)
        dims = (*(d for d in log_odds.dims if d not in self.cells.dims), *self.cells.dims)
        self.observe("successes", "binomial", (expand(log_odds, dims),), None)

    def observe_normal(self, name: str, location: Any, scale: Any, observed: Any) -> None:
        """Continuous observations ~ Normal(location, scale), e.g. logarithms of times."""
        observed = labelled(observed)
        aligned = tuple(expand(labelled(p), observed.dims) for p in (location, scale))
        self.observe(name, "normal", aligned, observed.value)

    # -- shared by interpreters --------------------------------------------------------------

    def size(self, dims: tuple[str, ...]) -> tuple[int, ...]:
        """Lengths of the axes."""
        known = {d: self.data.sizes[d] for d in AXES} | {d: len(x) for d, x in self.axes.items()}
        unknown = [d for d in dims if d not in known]
        if unknown:
            raise ValueError(f"axis {unknown[0]!r} is not one of {', '.join(known)}")
        return tuple(known[d] for d in dims)

    def _latent(self, name: str, family: str, parameters: tuple, dims: Dims) -> Labelled:
        dims = (dims,) if isinstance(dims, str) else tuple(dims)
        batch = self.batch_dims(parameters, dims)
        aligned = tuple(expand(labelled(p), (*batch, *dims)) for p in parameters)
        self.note(name, family, parameters, dims)
        value = self.sample(name, family, aligned, dims)
        return value if isinstance(value, Labelled) else Labelled(value, dims, name)

    def batch_dims(self, parameters: tuple, dims: tuple[str, ...]) -> tuple[str, ...]:
        """Axes of the parameters that are not the variable's own (chain, draw, ...)."""
        names = [d for p in parameters for d in labelled(p).dims if d not in dims]
        return tuple(dict.fromkeys(names))

    def note(self, name: str, family: str, parameters: tuple, dims: tuple[str, ...]) -> None:  # noqa: B027
        """See a latent variable as the text states it, before alignment."""

    def coordinates(self, dims: tuple[str, ...]) -> dict[str, Any]:
        """Labels of the axes, where they have any."""
        own = {d: self.axes[d] for d in dims if d in self.axes}
        return own | {d: self.data.coords[d] for d in dims if d in self.data.coords}

    def _map(self, function: str, x: Any) -> Labelled:
        x = labelled(x)
        return Labelled(self.functions[function](x.value), x.dims)
