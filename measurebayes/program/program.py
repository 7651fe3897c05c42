"""The verbs that a model file may use; each interpreter says what a verb does."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np

from measurebayes.program.data_verbs import AXES, DataVerbs
from measurebayes.program.labelled import Labelled, expand, labelled

Dims = str | tuple[str, ...]
LENGTH, DIFFICULTY = "log2_minutes", "difficulty"  # of tasks with measured lengths


class Program(DataVerbs, ABC):
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

    @abstractmethod
    def sample(self, name: str, family: str, parameters: tuple[Any, ...], dims: tuple) -> Any:
        """Return the value of a latent variable; `parameters` are aligned with `dims`."""

    @abstractmethod
    def observe(self, name: str, family: str, parameters: tuple[Any, ...], observed: Any) -> None:
        """Take note of an observed variable; `parameters` are aligned with it."""

    def keep(self, name: str, x: Labelled) -> None:
        """Record a deterministic variable."""

    # -- latent variables ------------------------------------------------------------------

    def normal(self, name: str, location: Any, scale: Any, dims: Dims = ()) -> Labelled:
        """Normal with mean `location` and standard deviation `scale`."""
        return self._latent(name, "normal", (location, scale), dims)

    def zero_sum_normal(self, name: str, scale: Any, dims: Dims) -> Labelled:
        """Deviations from their own mean of independent Normal(., scale): they sum to 0.

        With several axes they do so along the last.
        """
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

    def measured_lengths(
        self,
        usual: Any,
        spread: Any,
        errors: Mapping[str, tuple[Any, Any]],
        steepness: Any,
        task_sd: Any = None,
        origin: Any = 4.0,
        effect: Any = 0.0,
    ) -> tuple[Labelled, Labelled | None]:
        """Tasks whose log2 minutes are measured with error, and their difficulties.

            log2_minutes ~ Normal(usual, spread)
            a record of human time ~ Normal(log2_minutes + shift, error)
            difficulty ~ Normal(steepness (log2_minutes - origin) + effect, task_sd)

        `errors` holds shift and error by kind of record. It is one verb, so that a sampler may take
        the three densities in another order: records given nothing, difficulty given records,
        log2_minutes given both. Without `task_sd` there are no difficulties.
        """
        log2_minutes = self.normal(LENGTH, usual, spread, dims="task")
        for kind, (shift, error) in errors.items():
            if self.times(kind):
                location = self.timed(kind, log2_minutes) + shift
                self.observe_times(kind, location, error)
        if task_sd is None:
            return log2_minutes, None
        location = labelled(steepness) * (log2_minutes - origin) + effect
        return log2_minutes, self.normal(DIFFICULTY, location, task_sd, dims="task")

    # -- functions -------------------------------------------------------------------------

    def deterministic(self, name: str, x: Any, dims: Dims | None = None) -> Labelled:
        """Keep a function of other variables under a name of its own in the posterior.

        `dims` gives the order of its axes, where that of arithmetic won't do.
        """
        x = labelled(x)
        if dims is not None:
            # Where draws are evaluated all together, their axes go in front.
            order = (*self.batch_dims((x,), (*AXES, *self.axes, *dims)), *dims)
            x = Labelled(expand(x, order), order)
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

    def cell_products(self, x: Any, y: Any, dim: str) -> Labelled:
        """For every observed cell the sum over `dim` of products of its entries of `x` and `y`.

        `x` has the axes (task, dim), `y` the axes (dim, agent).
        """
        x, y = labelled(x), labelled(y)
        if (*x.dims, *y.dims, self.cells.layout) == ("task", dim, dim, "agent", "dense"):
            return Labelled((x.value @ y.value).T, ("agent", "task"))
        return self.sum(self.cell(x) * self.cell(y), dim)

    def mean(self, x: Any) -> Labelled:
        """Mean over all agents, if `x` has one for each."""
        x = labelled(x)
        return self.sum(x, "agent") * (1.0 / self.size(("agent",))[0]) if "agent" in x.dims else x

    def cell(self, x: Any) -> Labelled:
        """For every observed cell the entry of `x` that belongs to it, found from its axes."""
        return self.cells.gather(labelled(x))

    def task(self, x: Any) -> Labelled:
        """For every task the entry of `x` (family,) that belongs to it."""
        return self._taken(labelled(x), "family", self.data["family_index"].values, "task")

    def timed(self, kind: str, x: Any) -> Labelled:
        """For every record of human time of a kind the entry of `x`, along task or suite."""
        x, task = labelled(x), self.records(kind).task
        if "task" in x.dims:
            return self._taken(x, "task", task, kind)
        place = {label: i for i, label in enumerate(self.axes["suite"].tolist())}
        sources = self.data["source"].values[task].tolist()
        return self._taken(x, "suite", np.array([place[s] for s in sources], dtype=int), kind)

    def _taken(self, x: Labelled, dim: str, positions: np.ndarray, new: str) -> Labelled:
        at = x.dims.index(dim)
        index = (slice(None),) * at + (positions,)
        return Labelled(x.value[index], (*x.dims[:at], new, *x.dims[at + 1 :]))

    # -- observations ----------------------------------------------------------------------

    def observe_successes(self, log_odds: Any, weights: Any = None) -> None:
        """Successes of every cell ~ Binomial(attempts, logistic(log_odds)).

        With `weights`, each cell's density is raised to its weight: a power likelihood.
        """
        log_odds = labelled(log_odds)
        dims = (*(d for d in log_odds.dims if d not in self.cells.dims), *self.cells.dims)
        parameters = [expand(log_odds, dims)]
        if weights is not None:
            parameters.append(expand(labelled(weights), self.cells.dims))
        self.observe("successes", "binomial", tuple(parameters), None)

    def observe_times(self, kind: str, location: Any, scale: Any) -> None:
        """Log2 minutes of every record of a kind ~ Normal(location, scale).

        Of failed attempts it is known only that success would have taken longer.
        """
        aligned = tuple(expand(labelled(p), (kind,)) for p in (location, scale))
        family = "normal_above" if kind == "failed" else "normal"
        self.observe(f"{kind}_log2_minutes", family, aligned, self.records(kind).log2_minutes)

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

    def note(self, name: str, family: str, parameters: tuple, dims: tuple[str, ...]) -> None:
        """See a latent variable as the text states it, before alignment."""

    def coordinates(self, dims: tuple[str, ...]) -> dict[str, Any]:
        """Labels of the axes, where they have any."""
        own = {d: self.axes[d] for d in dims if d in self.axes}
        return own | {d: self.data.coords[d] for d in dims if d in self.data.coords}

    def _map(self, function: str, x: Any) -> Labelled:
        x = labelled(x)
        return Labelled(self.functions[function](x.value), x.dims)
