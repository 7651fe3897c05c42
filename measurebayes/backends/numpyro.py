"""NumPyro interpreter: the program as NumPyro sample statements in float64."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import xarray as xr
from jax.scipy.special import gammaln, log_ndtr
from numpyro.distributions import constraints
from numpyro.distributions.transforms import ZeroSumTransform
from scipy import special

from measurebayes.backends.survival import survival_log_odds
from measurebayes.data.schema import check_is_dataset
from measurebayes.program.cells import Cells
from measurebayes.program.human_times import human_times
from measurebayes.program.labelled import Labelled
from measurebayes.program.program import Program
from measurebayes.program.records_first import RecordsFirst
from measurebayes.program.registry import ModelFile, get_model

Counts = Mapping[str, jax.Array]


@jax.custom_jvp
def binomial_kernel(log_odds: jax.Array, successes: jax.Array, attempts: jax.Array) -> jax.Array:
    """Return k eta - n log(1 + exp(eta)): the part of a binomial density that depends on eta."""
    return _kernel_and_slope(log_odds, successes, attempts)[0]


@binomial_kernel.defjvp
def _binomial_kernel_jvp(primals: tuple, tangents: tuple) -> tuple[jax.Array, jax.Array]:
    # Value and slope share one exponential: the cell term is nearly all of a gradient's cost.
    value, slope = _kernel_and_slope(*primals)
    return value, slope * tangents[0]


def _kernel_and_slope(
    log_odds: jax.Array, successes: jax.Array, attempts: jax.Array
) -> tuple[jax.Array, jax.Array]:
    small = jnp.exp(-jnp.abs(log_odds))
    value = successes * log_odds - attempts * (jnp.maximum(log_odds, 0.0) + jnp.log1p(small))
    chance = jnp.where(log_odds >= 0, 1.0, small) / (1.0 + small)
    return value, successes - attempts * chance


class BinomialLogOdds(dist.Distribution):
    """Binomial(attempts, logistic(log_odds)) with a derivative that shares the exponential."""

    arg_constraints = {
        "log_odds": constraints.real,
        "attempts": constraints.nonnegative_integer,
    }
    pytree_data_fields = ("log_odds", "attempts", "log_coefficient", "weight")

    def __init__(
        self, log_odds: Any, attempts: Any, log_coefficient: Any = None, weight: Any = None
    ) -> None:
        self.log_odds, self.attempts = log_odds, attempts
        self.log_coefficient, self.weight = log_coefficient, weight
        shape = jnp.broadcast_shapes(jnp.shape(log_odds), jnp.shape(attempts))
        super().__init__(batch_shape=shape, validate_args=False)

    @property
    def support(self) -> Any:
        """Whole numbers from 0 to the number of attempts."""
        return constraints.integer_interval(0, self.attempts)

    def sample(self, key: Any, sample_shape: tuple[int, ...] = ()) -> jax.Array:
        """Draw numbers of successes."""
        return dist.Binomial(self.attempts, logits=self.log_odds).sample(key, sample_shape)

    def log_prob(self, value: Any) -> jax.Array:
        """Return the log density, binomial coefficient included."""
        coefficient = self.log_coefficient
        if coefficient is None:
            coefficient = log_binomial_coefficient(value, self.attempts)
        terms = binomial_kernel(self.log_odds, value, self.attempts) + coefficient
        return terms if self.weight is None else self.weight * terms


class ZeroSumVectors(dist.ZeroSumNormal):
    """Vectors of a length that each sum to zero, with a scale () or scales (vector,)."""

    def __init__(self, scale: Any, length: int) -> None:
        self.scale = scale
        free = dist.Normal(0.0, jnp.asarray(scale)[..., None])
        free = free.expand((*jnp.shape(scale), length - 1)).to_event(1)
        dist.TransformedDistribution.__init__(self, free, ZeroSumTransform(1))


class NormalAbove(dist.Distribution):
    """The event that a Normal(loc, scale) exceeds the bound that is observed."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real

    def __init__(self, loc: Any, scale: Any) -> None:
        self.loc, self.scale = loc, scale
        super().__init__(batch_shape=jnp.shape(loc), validate_args=False)

    def sample(self, key: Any, sample_shape: tuple[int, ...] = ()) -> jax.Array:
        """Bounds are given, not drawn: return the location."""
        return jnp.broadcast_to(self.loc, (*sample_shape, *jnp.shape(self.loc)))

    def log_prob(self, value: Any) -> jax.Array:
        """Return the log probability of exceeding the bound."""
        return log_ndtr((self.loc - value) / self.scale)


def log_binomial_coefficient(
    successes: Any, attempts: Any, log_gamma: Callable[[Any], Any] = gammaln
) -> Any:
    """Return log C(attempts, successes)."""
    failures = attempts - successes
    return log_gamma(attempts + 1.0) - log_gamma(successes + 1.0) - log_gamma(failures + 1.0)


class NumPyroProgram(Program):
    """Runs a model text inside a NumPyro model.

    Parameters
    ----------
    data, layout
        See `Program`.
    counts
        What is observed: see `counts_of`. They are
        arguments, so that one compiled program serves other counts of the same shape.
    """

    functions = {
        "exp": jnp.exp,
        "log": jnp.log,
        "logistic": jax.nn.sigmoid,
        "softplus": jax.nn.softplus,
        "survival_log_odds": survival_log_odds(jnp),
        "sum": jnp.sum,
        "total_by": lambda x, at, size: jnp.zeros((*x.shape[:-1], size)).at[..., at].add(x),
    }

    def __init__(self, data: xr.Dataset, layout: str, counts: Counts) -> None:
        super().__init__(data, layout)
        self.counts = counts

    def sample(self, name: str, family: str, parameters: tuple[Any, ...], dims: tuple) -> Any:
        """Declare a NumPyro site."""
        shape = self.size(dims)
        if family == "zero_sum_normal":
            scale = jnp.broadcast_to(parameters[0], (*shape[:-1], 1))[..., 0]
            distribution = ZeroSumVectors(scale, shape[-1])
        else:
            first, *others = (jnp.asarray(p, dtype=float) for p in parameters)
            distribution = _DISTRIBUTIONS[family](jnp.broadcast_to(first, shape), *others)
        return numpyro.sample(name, distribution)

    def keep(self, name: str, x: Any) -> None:
        """Declare a deterministic site."""
        numpyro.deterministic(name, x.value)

    def observe(self, name: str, family: str, parameters: tuple[Any, ...], observed: Any) -> None:
        """Declare an observed site."""
        if family == "binomial":
            counts = self.counts
            eta = jnp.broadcast_to(parameters[0], self.cells.shape)
            coefficient = counts["log_coefficient"]
            site = BinomialLogOdds(eta, counts["attempts"], coefficient, *parameters[1:])
            numpyro.sample(name, site, obs=counts["successes"])
        else:
            make = NormalAbove if family == "normal_above" else dist.Normal
            observed = self.counts.get(name, observed)
            size = jnp.shape(observed)
            location, scale = (jnp.broadcast_to(p, size) for p in parameters)
            numpyro.sample(name, make(location, scale), obs=jnp.asarray(observed))


class SamplerProgram(RecordsFirst, NumPyroProgram):
    """The same joint density, factorised as suits a sampler."""

    def observed_times(self, kind: str) -> Labelled:
        """Return log2 minutes of the records of a kind: an argument of the program."""
        return Labelled(self.counts[f"{kind}_log2_minutes"], (kind,))

    def records_density(self, density: Labelled) -> None:
        """Add the log density of the records."""
        numpyro.factor("records", density.value)


_DISTRIBUTIONS: dict[str, Callable[..., dist.Distribution]] = {
    "normal": dist.Normal,
    "half_normal": dist.HalfNormal,
    "log_normal": dist.LogNormal,
    "exponential": lambda scale: dist.Exponential(1.0 / scale),
    "beta": dist.Beta,
}


def counts_of(data: xr.Dataset, layout: str) -> dict[str, np.ndarray]:
    """Return what is observed, in float64.

    Attempts, successes and log binomial coefficients have the layout's shape; log2 minutes of each
    kind of record of human time are vectors.
    """
    cells = Cells(data, layout)
    attempts = cells.place(data["attempts"].values.astype(float))
    successes = cells.place(data["successes"].values.astype(float))
    coefficient = log_binomial_coefficient(successes, attempts, special.gammaln)
    times = {f"{kind}_log2_minutes": x.log2_minutes for kind, x in human_times(data).items()}
    return {
        "attempts": attempts,
        "successes": successes,
        "log_coefficient": coefficient,
        **times,
    }


def numpyro_model(
    model: str | ModelFile,
    data: xr.Dataset,
    priors: Mapping[str, float] | None = None,
    layout: str = "auto",
    **options: Any,
) -> Callable[..., None]:
    """Return a NumPyro model of the data, for use with any NumPyro function.

    Run it in float64 (``with jax.enable_x64(True):``). It takes the counts as an optional
    argument (see `counts_of`); without, it uses those of `data`.

    Parameters
    ----------
    model
        Name of a model, or path of a model file.
    data
        Dataset of the schema (dims cell, agent, task, family).
    priors
        Numbers that replace those of the file's PRIORS.
    layout
        ``"auto"``, ``"long"`` or ``"dense"``.
    **options
        Options of the model.

    Returns
    -------
    callable
        Function of the counts; its sites have the names of the model text, and ``successes``.
    """
    check_is_dataset(data)
    return _built(get_model(model, **options), data, priors, layout, NumPyroProgram)


def sampler_model(
    model: ModelFile, data: xr.Dataset, priors: Mapping[str, float] | None = None
) -> Callable[..., None]:
    """Return a NumPyro model of the same joint density, factorised as suits a sampler."""
    return _built(model, data, priors, "auto", SamplerProgram)


def _built(
    model: ModelFile,
    data: xr.Dataset,
    priors: Mapping[str, float] | None,
    layout: str,
    make: type[NumPyroProgram],
) -> Callable[..., None]:
    numbers = model.with_priors(priors)
    defaults = counts_of(data, layout)

    def run(counts: Counts = defaults) -> None:
        program = make(data, layout, counts)
        if model.numpyro is not None:
            model.run_by_hand(model.numpyro, data, numbers)
        else:
            model.run(program, data, numbers)

    return run
