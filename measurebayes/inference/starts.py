"""Where a run begins: scales near the middle of their priors, all else where it then fits best.

Models with several scales have regions where one of them is nearly zero and another explains all
the data. They hold next to none of the posterior's mass, but a run that begins near one may stay
there. At scales of the size that the priors expect, the other parameters have one good place,
which a gradient search finds quickly; from there the scales find theirs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpyro import handlers
from numpyro.distributions import biject_to
from numpyro.infer.util import unconstrain_fn
from scipy.optimize import minimize

from measurebayes.inference.centring import Auxiliary

AROUND = (-1.0, 1.0)  # range of hierarchical parameters in scales; never exactly zero
MIDDLE = (0.35, 0.65)  # probabilities under the prior between which hyperparameters begin
PRIOR_DRAWS = 101  # where a quantile of the prior has no formula
SEARCH_STEPS = 200  # at most


def random_start(model: Callable[[], None], names: Iterable[str], chance: Any) -> dict[str, Any]:
    """Return unconstrained values of each site near the middle of what those above it say of it.

    Parameters
    ----------
    model
        The model, reparametrised.
    names
        Of its latent sites.
    chance
        Numbers between 0 and 1, at least as many as there are parameters.
    """
    used = 0

    def between(low: float, high: float, shape: tuple[int, ...]) -> Any:
        nonlocal used
        start, used = used, used + math.prod(shape)
        return low + (high - low) * chance[start:used].reshape(shape)

    def chosen(site: Any) -> Any:
        if site["type"] != "sample" or site["is_observed"]:
            return None
        fn = site["fn"]
        if isinstance(fn, Auxiliary):
            return fn.near_middle(between(*AROUND, fn.shape()))
        if fn.shape() and fn.event_shape:  # deviations that sum to zero
            onto = biject_to(fn.support)
            return onto(between(*AROUND, onto.inverse_shape(fn.shape())))
        return _quantile(fn, between(*MIDDLE, ()))

    seeded = handlers.substitute(handlers.seed(model, 0), substitute_fn=chosen)
    sites = handlers.trace(seeded).get_trace()
    return unconstrain_fn(model, (), {}, {name: sites[name]["value"] for name in names})


def _quantile(prior: Any, probability: Any) -> Any:
    with suppress(NotImplementedError, ImportError):
        return jnp.broadcast_to(prior.icdf(probability), prior.shape())
    drawn = prior.sample(jax.random.PRNGKey(0), (PRIOR_DRAWS,))
    return jnp.quantile(drawn, probability, axis=0)


def settled(
    energy: Callable[[np.ndarray], tuple[float, np.ndarray]], start: np.ndarray, free: np.ndarray
) -> np.ndarray:
    """Return a position where the energy is least in some of its elements, the others given.

    Parameters
    ----------
    energy
        Potential energy and its gradient (element,) at a position.
    start
        Where to begin (element,).
    free
        Which elements move (element,).
    """
    if not free.any():
        return start

    def at(moving: np.ndarray) -> tuple[float, np.ndarray]:
        position = start.copy()
        position[free] = moving
        value, gradient = energy(position)
        return (value, gradient[free]) if np.isfinite(value) else (1e300, np.zeros(free.sum()))

    found = minimize(
        at, start[free], jac=True, method="L-BFGS-B", options={"maxiter": SEARCH_STEPS}
    )
    position = start.copy()
    position[free] = found.x
    return position
