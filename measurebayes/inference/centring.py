"""The auxiliary variables that NUTS samples in place of hierarchical parameters.

Two things make hierarchical parameters hard to sample, and both can be read off the counts.

*Centring.* A Normal(m, s) parameter samples well centred where the data inform it and non-centred
where they don't (Papaspiliopoulos, Roberts & Skold 2007, doi:10.1214/088342307000000014). Which of
the two holds depends on s, too: an element on which the data have information I has the variance
s^2 / (1 + I s^2) at given m and s. The auxiliary variable is the element in units of its root, from
m / (1 + I s^2): non-centred where s is small, centred where it is large. At every s it is about as
wide, so that there is no funnel. I is Fisher's information, at first of smoothed counts, then as
the pilot run learns it.

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

from measurebayes.backends.evaluate import cell_logits
from measurebayes.backends.numpyro import ZeroSumVectors
from measurebayes.backends.simulate import Variable, prior_draw
from measurebayes.classical.additive import fit_additive
from measurebayes.classical.counts import Counts
from measurebayes.program.program import DIFFICULTY, LENGTH
from measurebayes.program.registry import ModelFile

BEND_SLOPE = 0.1
# An element is sampled through a bend where at most this share of its attempts are on the rarer
# side, and its information is at most so much: with more, its posterior is symmetric all the same.
NEARLY = 0.1
BEND_INFORMATION = 10.0
RIDGE_SD = 4.0  # logits; keeps the walls of saturated tasks finite

TABLE_AXES = ("agent", "task", "family")


class Auxiliary(dist.Distribution):
    """Distribution of the auxiliary vector whose image under `value_of` is Normal(loc, scale).

    Parameters
    ----------
    loc, scale
        Of the hierarchical parameter, shape (element,) and ().
    information
        Of the data on each element (element,).
    wall
        Where each element's wall lies (element,).
    side
        1 where an element lies above its wall, -1 below, 0 where it has none (element,).
    """

    arg_constraints = {"loc": constraints.real_vector, "scale": constraints.positive}
    support = constraints.real_vector

    def __init__(self, loc: Any, scale: Any, information: Any, wall: Any, side: Any) -> None:
        self.loc, self.scale, self.wall, self.side = loc, scale, wall, side
        self.middle, self.width = _middle_and_width(loc, scale, information)
        super().__init__(event_shape=jnp.shape(loc), validate_args=False)

    def value_of(self, free: Any) -> Any:
        """Return the hierarchical parameter."""
        bend = BEND_SLOPE * free + (1.0 - BEND_SLOPE) * jax.nn.softplus(free)
        bent = self.wall + self.side * self.scale * bend
        return jnp.where(self.side == 0, self.middle + self.width * free, bent)

    def near_middle(self, away: Any) -> Any:
        """Return auxiliary values of parameters that lie `away` scales from their location.

        Behind a bend they lie so far from its middle.
        """
        straight = (self.loc + away * self.scale - self.middle) / self.width
        return jnp.where(self.side == 0, straight, away)

    def log_prob(self, free: Any) -> Any:
        """Return the log density of the auxiliary vector."""
        slope = BEND_SLOPE + (1.0 - BEND_SLOPE) * jax.nn.sigmoid(free)
        widened = jnp.where(self.side == 0, self.width, self.scale * slope)
        value = dist.Normal(self.loc, self.scale).log_prob(self.value_of(free))
        return jnp.sum(value + jnp.log(widened))

    def sample(self, key: Any, sample_shape: tuple[int, ...] = ()) -> Any:
        """Draw starting values only: the sampler never draws from here."""
        return jax.random.normal(key, (*sample_shape, *jnp.shape(self.loc)))


def _middle_and_width(loc: Any, scale: Any, information: Any) -> tuple[Any, Any]:
    """Return where auxiliary variables without a wall are 0, and their unit; NumPy or JAX."""
    wider = 1.0 + information * scale**2  # population's variance, in those of the posterior
    return loc / wider, scale / wider**0.5


class Recentred(Reparam):
    """Sample the auxiliary variable of a site instead of the site.

    Parameters
    ----------
    coordinates
        ``information``, and but for zero-sum vectors ``wall`` and ``side``: see `Auxiliary`.
    """

    def __init__(self, coordinates: Mapping[str, Any]) -> None:
        self.coordinates = coordinates

    def __call__(self, name: str, fn: Any, obs: Any) -> tuple[Any, Any]:
        """Replace the site `name`."""
        numpyro.deterministic(f"{name}_scale", fn.scale)
        if isinstance(fn, dist.ZeroSumNormal):
            root = jnp.sqrt(1.0 + self.coordinates["information"] * fn.scale**2)
            inner = ZeroSumVectors(root, fn.event_shape[-1])
            return None, (fn.scale / root)[..., None] * numpyro.sample(f"{name}_free", inner)
        numpyro.deterministic(f"{name}_loc", fn.loc)
        auxiliary = Auxiliary(fn.loc, fn.scale, **self.coordinates)
        value = auxiliary.value_of(numpyro.sample(f"{name}_free", auxiliary))
        return None, jnp.exp(value) if isinstance(fn, dist.LogNormal) else value


def coordinates(
    model: ModelFile, data: xr.Dataset, variables: list[Variable], priors: Mapping[str, float]
) -> dict[str, dict[str, np.ndarray]]:
    """Choose the coordinates of every array of location-scale parameters.

    Parameters
    ----------
    model, data, priors
        As for `fit`.
    variables
        The model's latent variables.

    Returns
    -------
    dict of str to dict of str to numpy.ndarray
        By variable name ``information``, ``wall`` and ``side`` in the shape of the variable; for
        zero-sum vectors, whose elements can't be treated one by one, one ``information``. Along
        other axes than those of the data nothing is known beforehand: it is 1.
    """
    chosen: dict[str, dict[str, np.ndarray]] = {}
    for variable in variables:
        if len(variable.dims) != 1 or variable.dims[0] not in TABLE_AXES:
            if variable.dims and variable.family in ("normal", "log_normal"):
                chosen[variable.name] = _straight(np.ones(variable.shape))
            elif variable.family == "zero_sum_normal":
                chosen[variable.name] = {"information": np.ones(variable.shape[:-1])}
            continue
        dim = variable.dims[0]
        attempts, successes = _margin(data, dim)
        rate = (successes + 0.5) / (attempts + 1.0)
        information = attempts * rate * (1.0 - rate)
        if variable.name == LENGTH and any(v.name == DIFFICULTY for v in variables):
            information = 0.0 * information  # given its difficulty, counts say little of a length
        if variable.family == "zero_sum_normal":
            chosen[variable.name] = {"information": np.asarray(information.mean())}
        elif variable.family in ("normal", "log_normal"):
            chosen[variable.name] = _straight(information)
        if variable.family == "normal":
            direction = _direction(model, data, variable.name, variables, priors)
            if direction:
                chosen[variable.name] |= _walls(data, dim, direction)
    return chosen


def _straight(information: np.ndarray) -> dict[str, np.ndarray]:
    """Return coordinates without walls."""
    nothing = np.zeros_like(information)
    return {"information": information, "wall": nothing, "side": nothing}


def recentred(
    before: Mapping[str, Mapping[str, np.ndarray]],
    draws: Mapping[str, np.ndarray],
    variances: Mapping[str, np.ndarray],
    at: np.ndarray,
) -> tuple[dict[str, dict[str, np.ndarray]], dict[str, np.ndarray]]:
    """Learn from a pilot run what the data say of each element, and move its draws.

    Parameters
    ----------
    before
        Coordinates of the pilot run, by variable.
    draws
        Named draws of the pilot run (draw, ...): every ``<name>_free`` with its ``<name>_scale``
        and, but for zero-sum variables, ``<name>_loc``.
    variances
        Posterior variance of every ``<name>_free`` at the hyperparameters of some draws
        (point, ...), by variable.
    at
        Which draws those are (point,).

    Returns
    -------
    tuple
        The new coordinates, and the new values of ``<name>_free`` (draw, ...) by that name.
    """
    after: dict[str, dict[str, np.ndarray]] = {}
    moved: dict[str, np.ndarray] = {}
    for name, old in before.items():
        free = draws[f"{name}_free"]
        if "side" not in old:  # zero-sum: one number for all along the last axis, of mean 0
            scale, each = draws[f"{name}_scale"][..., None], old["information"][..., None]
            root = np.sqrt(1.0 + each * scale**2)
            information = np.mean(_information(root, scale, variances[name], at, each), axis=-1)
            after[name] = {"information": information}
            new = np.sqrt(1.0 + information[..., None] * scale**2)
            moved[f"{name}_free"] = free * new / root
            continue
        scale = _beside(draws[f"{name}_scale"], free)
        root = np.sqrt(1.0 + old["information"] * scale**2)
        information = _information(root, scale, variances[name], at, old["information"])
        loc = _beside(draws[f"{name}_loc"], free)
        after[name] = {**old, "information": information}
        middle, width = _middle_and_width(loc, scale, old["information"])
        new_middle, new_width = _middle_and_width(loc, scale, information)
        straight = (middle + width * free - new_middle) / new_width
        moved[f"{name}_free"] = np.where(old["side"] == 0, straight, free)
    return after, moved


def _information(
    root: np.ndarray, scale: np.ndarray, variances: np.ndarray, at: np.ndarray, before: np.ndarray
) -> np.ndarray:
    """Return what the data add to the precision of each element; as `before` if no draw tells.

    Small scales hide it: only the upper half of the scales is asked.
    """
    root, scale = root[at], scale[at]
    learned = (root**2 / variances - 1.0) / scale**2
    known = np.all(np.isfinite(learned), axis=tuple(range(1, learned.ndim)))
    if not known.any():
        return np.asarray(before)
    learned, scale = np.maximum(learned[known], 0.0), scale[known]
    return np.nanmedian(np.where(scale >= np.median(scale, axis=0), learned, np.nan), axis=0)


def _beside(x: np.ndarray, free: np.ndarray) -> np.ndarray:
    """Return an array (draw, ...) with axes of length 1 that let it broadcast against `free`."""
    return x.reshape(len(free), *(1,) * (free.ndim - x.ndim), *x.shape[1:])


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


def _direction(
    model: ModelFile,
    data: xr.Dataset,
    name: str,
    variables: list[Variable],
    priors: Mapping[str, float],
) -> int:
    """Return 1 if a variable is an ability of the additive fit, -1 if a difficulty, 0 if neither.

    That is so where the log odds are 0 at 0 of all location parameters and 1 of all positive ones,
    and change by 1 with the variable: otherwise its wall lies elsewhere, on another scale.
    """
    values = prior_draw(model, data, np.random.default_rng(0), priors)
    del values["successes"]
    at = {"normal": 0.0, "zero_sum_normal": 0.0, "log_normal": 1.0}
    for variable in variables:
        if variable.family in at:
            values[variable.name] = xr.full_like(values[variable.name], at[variable.family])
    before = cell_logits(model, data, values, priors).values
    values[name] = values[name] + 1.0
    after = cell_logits(model, data, values, priors).values
    if not np.allclose(before, 0.0):
        return 0
    return int(np.allclose(after, 1.0)) - int(np.allclose(after, -1.0))


def _walls(data: xr.Dataset, dim: str, direction: int) -> dict[str, np.ndarray]:
    attempts, successes = _margin(data, dim)
    rate = successes / np.maximum(attempts, 1)
    little = (attempts > 0) & (attempts * rate * (1.0 - rate) <= BEND_INFORMATION)
    nearly_all = little & (rate >= 1.0 - NEARLY)
    nearly_none = little & (rate <= NEARLY)
    agent, task = fit_additive(Counts.of(data), RIDGE_SD)
    strength = agent if dim == "agent" else -task
    if dim == "family":
        nearly_all = nearly_none = np.zeros_like(nearly_all)
        strength = np.zeros(len(attempts))
    # A task that all solve lies beyond the wall in the direction that makes success likelier.
    side = direction * (nearly_all.astype(float) - nearly_none.astype(float))
    return {"wall": direction * strength, "side": side}
