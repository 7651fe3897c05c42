"""The auxiliary variables that NUTS samples in place of hierarchical parameters.

Two things make hierarchical parameters hard to sample, and both can be read off the counts.

*Centring.* A Normal(m, s) parameter samples well centred where the data inform it and non-centred
where they don't. Element j gets the weight w = I / (1 + I), I being the Fisher information of its
smoothed counts: 1 is centred, 0 non-centred (Papaspiliopoulos, Roberts & Skold 2007,
doi:10.1214/088342307000000014).

*Walls.* The difficulty of a task that was nearly always or nearly never solved is bounded sharply
on one side and by its population alone on the other. A step that suits the open side is far too
long at the wall. Such an element is sampled through a bend, a smooth monotone function whose
slope is 1 on the open side and `BEND_SLOPE` behind the wall.

Neither changes the density of a model: only the coordinates, Jacobian included.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import xarray as xr
from numpyro.distributions import constraints
from numpyro.infer.reparam import Reparam
from scipy.special import expit

from measurebayes.backends.evaluate import cell_logits
from measurebayes.backends.simulate import Variable, prior_draw
from measurebayes.program.registry import ModelFile

BEND_SLOPE = 0.1
# Share of attempts on the rarer side up to which an element is sampled through a bend.
NEARLY = 0.1
RIDGE_SD = 4.0  # logits; keeps the walls of saturated tasks finite

TABLE_AXES = ("agent", "task", "family")


class Auxiliary(dist.Distribution):
    """Distribution of the auxiliary vector whose image under `value_of` is Normal(loc, scale).

    Parameters
    ----------
    loc, scale
        Of the hierarchical parameter, shape (element,) and ().
    weight
        Centring weights (element,).
    wall
        Where each element's wall lies (element,).
    side
        1 where an element lies above its wall, -1 below, 0 where it has none (element,).
    """

    arg_constraints = {"loc": constraints.real_vector, "scale": constraints.positive}
    support = constraints.real_vector

    def __init__(self, loc: Any, scale: Any, weight: Any, wall: Any, side: Any) -> None:
        self.loc, self.scale = loc, scale
        self.weight, self.wall, self.side = weight, wall, side
        super().__init__(event_shape=jnp.shape(loc), validate_args=False)

    def value_of(self, free: Any) -> Any:
        """Return the hierarchical parameter."""
        straight = self.loc + self.scale ** (1.0 - self.weight) * (free - self.weight * self.loc)
        bend = BEND_SLOPE * free + (1.0 - BEND_SLOPE) * jax.nn.softplus(free)
        return jnp.where(self.side == 0, straight, self.wall + self.side * self.scale * bend)

    def log_prob(self, free: Any) -> Any:
        """Return the log density of the auxiliary vector."""
        slope = BEND_SLOPE + (1.0 - BEND_SLOPE) * jax.nn.sigmoid(free)
        log_jacobian = jnp.where(
            self.side == 0,
            (1.0 - self.weight) * jnp.log(self.scale),
            jnp.log(self.scale) + jnp.log(slope),
        )
        return jnp.sum(dist.Normal(self.loc, self.scale).log_prob(self.value_of(free)) + log_jacobian)

    def sample(self, key: Any, sample_shape: tuple[int, ...] = ()) -> Any:
        """Draw starting values only: the sampler never draws from here."""
        return jax.random.normal(key, (*sample_shape, *jnp.shape(self.loc)))


class Recentred(Reparam):
    """Sample the auxiliary variable of a site instead of the site.

    Parameters
    ----------
    coordinates
        ``weight``, and for vectors ``wall`` and ``side``: see `Auxiliary`.
    """

    def __init__(self, coordinates: Mapping[str, Any]) -> None:
        self.coordinates = coordinates

    def __call__(self, name: str, fn: Any, obs: Any) -> tuple[Any, Any]:
        """Replace the site `name`."""
        if isinstance(fn, dist.ZeroSumNormal):
            weight = self.coordinates["weight"]
            inner = dist.ZeroSumNormal(fn.scale**weight, event_shape=fn.event_shape)
            return None, fn.scale ** (1.0 - weight) * numpyro.sample(f"{name}_free", inner)
        auxiliary = Auxiliary(fn.loc, fn.scale, **self.coordinates)
        value = auxiliary.value_of(numpyro.sample(f"{name}_free", auxiliary))
        return None, jnp.exp(value) if isinstance(fn, dist.LogNormal) else value


def coordinates(
    model: ModelFile, data: xr.Dataset, variables: list[Variable], priors: Mapping[str, float]
) -> dict[str, dict[str, np.ndarray]]:
    """Choose the coordinates of every vector of location-scale parameters.

    Parameters
    ----------
    model, data, priors
        As for `fit`.
    variables
        The model's latent variables.

    Returns
    -------
    dict of str to dict of str to numpy.ndarray
        By variable name ``weight`` (element,), ``wall`` (element,) and ``side`` (element,); for
        zero-sum variables, whose elements can't be treated one by one, ``weight`` ().
    """
    chosen: dict[str, dict[str, np.ndarray]] = {}
    for variable in variables:
        if len(variable.dims) != 1 or variable.dims[0] not in TABLE_AXES:
            continue
        dim = variable.dims[0]
        attempts, successes = _margin(data, dim)
        rate = (successes + 0.5) / (attempts + 1.0)
        information = attempts * rate * (1.0 - rate)
        weight = information / (1.0 + information)
        if variable.family == "zero_sum_normal":
            chosen[variable.name] = {"weight": weight.mean()}
        elif variable.family in ("normal", "log_normal"):
            nothing = np.zeros_like(weight)
            chosen[variable.name] = {"weight": weight, "wall": nothing, "side": nothing}
        if variable.family == "normal":
            direction = _direction(model, data, variable.name, priors)
            if direction:
                chosen[variable.name] |= _walls(data, dim, direction)
    return chosen


def _margin(data: xr.Dataset, dim: str) -> tuple[np.ndarray, np.ndarray]:
    """Return attempts and successes of each agent, task or family."""
    index = data["agent_index" if dim == "agent" else "task_index"].values
    if dim == "family":
        index = data["family_index"].values[index]
    size = data.sizes[dim]
    return (
        np.bincount(index, data["attempts"].values, size),
        np.bincount(index, data["successes"].values, size),
    )


def _direction(model: ModelFile, data: xr.Dataset, name: str, priors: Mapping[str, float]) -> int:
    """Return 1 if success gets likelier as the variable grows, -1 if rarer, 0 if it depends."""
    values = prior_draw(model, data, np.random.default_rng(0), priors)
    del values["successes"]
    before = cell_logits(model, data, values, priors)
    after = cell_logits(model, data, {**values, name: values[name] + 1.0}, priors)
    change = (after - before).values
    return int(np.all(change >= 0) and np.any(change > 0)) - int(
        np.all(change <= 0) and np.any(change < 0)
    )


def _walls(data: xr.Dataset, dim: str, direction: int) -> dict[str, np.ndarray]:
    attempts, successes = _margin(data, dim)
    nearly_all = (attempts - successes <= NEARLY * attempts) & (attempts > 0)
    nearly_none = (successes <= NEARLY * attempts) & (attempts > 0)
    agent, task = additive_fit(data)
    strength = agent if dim == "agent" else -task
    if dim == "family":
        nearly_all = nearly_none = np.zeros_like(nearly_all)
        strength = np.zeros(len(attempts))
    # A task that all solve lies beyond the wall in the direction that makes success likelier.
    side = direction * (nearly_all.astype(float) - nearly_none.astype(float))
    return {"wall": direction * strength, "side": side}


def additive_fit(data: xr.Dataset, steps: int = 50) -> tuple[np.ndarray, np.ndarray]:
    """Return rough abilities and difficulties: a Rasch fit with a ridge, by Newton steps in turn.

    Returns
    -------
    tuple of numpy.ndarray
        Abilities (agent,), mean 0, and difficulties (task,), logits.
    """
    who, what = data["agent_index"].values, data["task_index"].values
    attempts, successes = data["attempts"].values, data["successes"].values
    ability, difficulty = np.zeros(data.sizes["agent"]), np.zeros(data.sizes["task"])
    for _ in range(steps):
        for index, value, sign in ((who, ability, 1.0), (what, difficulty, -1.0)):
            chance = expit(ability[who] - difficulty[what])
            gain = np.bincount(index, sign * (successes - attempts * chance), len(value))
            curvature = np.bincount(index, attempts * chance * (1.0 - chance), len(value))
            step = (gain - value / RIDGE_SD**2) / (curvature + 1.0 / RIDGE_SD**2)
            value += np.clip(step, -1.0, 1.0)
        shift = ability.mean()
        ability -= shift
        difficulty -= shift
    return ability, difficulty
