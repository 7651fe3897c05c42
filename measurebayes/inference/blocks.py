"""A posterior seen from outside: the many parameters that go by agent or by task integrated out.

Given hyperparameters and, say, all abilities, the parameters of one task have nothing to do with
those of another: the joint density is a product of one factor a task. Each factor has one or a few
dimensions, and is integrated numerically around its mode. What is left is the marginal density of
the few `outer` parameters, which all data inform. The `inner` ones are blocks along one axis of
the data, agents or tasks, whichever leaves fewer outside. What is done with blocks is in `inside`.

The coordinates are the engine's (`centring`), which bend where tasks are always or never solved.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import xarray as xr
from numpyro import handlers
from numpyro.distributions import biject_to, constraints
from numpyro.infer.reparam import Reparam
from numpyro.infer.util import constrain_fn, unconstrain_fn

from measurebayes.backends.numpyro import counts_of, sampler_model
from measurebayes.backends.simulate import prior_draw, variables
from measurebayes.inference.centring import Auxiliary, Recentred, coordinates
from measurebayes.program.cells import Cells
from measurebayes.program.human_times import human_times
from measurebayes.program.registry import ModelFile

Arguments = Mapping[str, Any]
LARGEST_BLOCK = 8  # parameters of one agent or task that are integrated out together
FEW = 100  # blocks that sum to zero; below, the sum's density is not normal enough
LOG_2PI = float(np.log(2.0 * np.pi))
PRIOR_DRAWS = 51


class Deviations(dist.Distribution):
    """Zero-sum vectors with a scale, as all their elements: a density on the plane of sum zero."""

    arg_constraints: dict[str, Any] = {}
    support = constraints.real_vector

    def __init__(self, scale: Any, shape: tuple[int, ...]) -> None:
        self.scale = jnp.broadcast_to(scale, shape[:-1])[..., None]
        super().__init__(event_shape=shape, validate_args=False)

    def sample(self, key: Any, sample_shape: tuple[int, ...] = ()) -> Any:
        """Draw starting values only."""
        return jax.random.normal(key, (*sample_shape, *self.event_shape))

    def terms(self, value: Any) -> Any:
        """Return the log density, spread evenly over the elements."""
        n = self.event_shape[-1]
        constant = (n - 1) / n * (jnp.log(self.scale) + 0.5 * LOG_2PI)
        return -0.5 * (value / self.scale) ** 2 - constant

    def log_prob(self, value: Any) -> Any:
        """Return the log density of all vectors together."""
        return jnp.sum(self.terms(value))


class Untied(Reparam):
    """Take all elements of zero-sum vectors as coordinates; who uses them keeps the sum."""

    def __call__(self, name: str, fn: Any, obs: Any) -> tuple[Any, Any]:
        """Replace the site `name`."""
        shape = (*fn.batch_shape, *fn.event_shape)
        return None, numpyro.sample(f"{name}_free", Deviations(fn.scale, shape))


class Blocks:
    """The joint density of a model as a factor outside and one factor a block.

    Parameters
    ----------
    model, data, priors
        As for `fit`.
    inside
        Whether to look for blocks; else all parameters are outside.

    Attributes
    ----------
    outer, inner
        Names of the coordinates in each part.
    axis
        Of the blocks; None where no axis of the data tells parameters apart.
    size
        Number of outer parameters.
    length, width
        Number of blocks, and of parameters in each.
    scalars
        How many of the outer parameters, the first ones, are single numbers of the model text.
    tied
        Which columns of a block sum to zero over all blocks.
    """

    def __init__(
        self,
        model: ModelFile,
        data: xr.Dataset,
        priors: Mapping[str, float],
        inside: bool = True,
    ) -> None:
        self._base = sampler_model(model, data, priors)
        self._data, self.cells = data, Cells(data, "auto")
        by_hand = model.numpyro is not None  # its sites may be anything
        self.variables = [] if by_hand else variables(model, data, priors)
        self.arguments: dict[str, Any] = {
            "counts": counts_of(data, "auto"),
            "coordinates": coordinates(model, data, self.variables, priors),
        }
        self.zero_sum = {v.name for v in self.variables if v.family == "zero_sum_normal"}
        dims = {v.name: v.dims for v in self.variables}
        self._dims = dims | {f"{name}_free": own for name, own in dims.items()}
        with jax.enable_x64(True):
            if inside:
                self._choose()
            else:
                self._lay_out(None)

    # -- which parameters are inside -----------------------------------------------------------

    def _choose(self) -> None:
        candidates: list[tuple[int, str]] = []
        for axis in ("task", "agent"):
            self._lay_out(axis)
            if not 0 < self.width <= LARGEST_BLOCK or (self.tied and self.length < FEW):
                continue
            candidates.append((self.size, axis))
        for _, axis in sorted(candidates):
            self._lay_out(axis)
            if self._apart():
                return
        self._lay_out(None)

    def _lay_out(self, axis: str | None) -> None:
        self.axis = axis
        inner = {v.name for v in self.variables if axis is not None and axis in v.dims}
        # Sums over another axis than that of the blocks tie no blocks together, but elements.
        crossed = {v.name for v in self.variables if v.name in self.zero_sum and v.dims[-1] != axis}
        inner -= crossed
        self._config: dict[str, Callable[[Arguments], Reparam]] = {
            name: partial(_recentred, name) for name in self.arguments["coordinates"]
        }
        self._config |= dict.fromkeys(inner & self.zero_sum, _untied)
        shapes = self._shapes()
        names = sorted(shapes, key=lambda n: (int(np.prod(shapes[n])), n))
        self.inner = tuple(n for n in names if n.removesuffix("_free") in inner)
        self.outer = tuple(n for n in names if n not in self.inner)
        self.shapes = shapes
        self.size = sum(int(np.prod(shapes[n])) for n in self.outer)
        self.scalars = sum(not shapes[n] for n in self.outer)
        self.length = self._data.sizes[axis] if axis is not None else 0
        number = sum(int(np.prod(shapes[n])) for n in self.inner)
        self.width = number // self.length if self.length else 0
        self.tied = tuple(
            c for n, columns in self._columns() if n in self._tied_names() for c in columns
        )

    def _tied_names(self) -> set[str]:
        return {n for n in self.inner if n.removesuffix("_free") in self.zero_sum}

    def _columns(self) -> list[tuple[str, range]]:
        """Return each inner coordinate with its columns of a block."""
        found, start = [], 0
        for name in self.inner:
            stop = start + int(np.prod(self.shapes[name])) // self.length
            found.append((name, range(start, stop)))
            start = stop
        return found

    def _apart(self) -> bool:
        """Whether blocks really have nothing to do with each other, and the factors are all."""
        rng = np.random.default_rng(0)
        outer = rng.normal(0.0, 0.3, self.size)
        one, other = rng.normal(0.0, 0.5, (2, self.length, self.width))
        mixed = np.where((np.arange(self.length) % 2 == 0)[:, None], one, other)
        terms_of = jax.jit(self.terms)
        whole, terms = terms_of(outer, one, self.arguments)
        whole_too, terms_too = terms_of(outer, mixed, self.arguments)
        same = np.allclose(whole, whole_too) and np.allclose(terms[::2], terms_too[::2])
        return bool(same and np.all(np.isfinite(terms)))

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        def free(arguments: Arguments) -> dict[str, Any]:
            model = self._model(arguments)
            sites = handlers.trace(handlers.seed(model, 0)).get_trace()
            latent = {
                name: site["value"]
                for name, site in sites.items()
                if site["type"] == "sample" and not site["is_observed"]
            }
            found = unconstrain_fn(model, (), {}, latent)
            return {name: found[name] for name in latent}

        return {name: x.shape for name, x in jax.eval_shape(free, self.arguments).items()}

    # -- the density ---------------------------------------------------------------------------

    def _model(self, arguments: Arguments) -> Callable[..., None]:
        config = {name: make(arguments) for name, make in self._config.items()}
        return handlers.reparam(lambda: self._base(arguments["counts"]), config=config)

    def sites(self, outer: Any, inner: Any) -> dict[str, Any]:
        """Return named coordinates of outer (size,) and inner (length, width) parameters."""
        named, start = {}, 0
        for name in self.outer:
            stop = start + int(np.prod(self.shapes[name]))
            named[name] = jnp.reshape(outer[start:stop], self.shapes[name])
            start = stop
        for name, columns in self._columns():
            shape, at = self.shapes[name], self._dims[name].index(self.axis)
            rest = tuple(size for i, size in enumerate(shape) if i != at)
            part = inner[:, columns.start : columns.stop].reshape(self.length, *rest)
            named[name] = jnp.moveaxis(part, 0, at)
        return named

    def middle(self, model: ModelFile, data: xr.Dataset, priors: Mapping[str, float]) -> np.ndarray:
        """Return outer parameters (size,): single numbers at their prior medians, others near 0.

        Never exactly at 0, where abilities that are all alike would leave discriminations free.
        """
        rng = np.random.default_rng(0)
        drawn = [prior_draw(model, data, rng, priors) for _ in range(PRIOR_DRAWS)]
        supports: dict[str, Any] = {}

        def noted(site: Any) -> None:
            if site["type"] == "sample":
                supports[site["name"]] = site["fn"].support

        with jax.enable_x64(True):
            seeded = handlers.seed(self._model(self.arguments), 0)
            jax.eval_shape(lambda: _each_site(seeded, noted))
            start = rng.normal(0.0, 0.1, self.size)
            for place, name in enumerate(self.outer[: self.scalars]):
                median = np.median([x[name].values for x in drawn]) if name in drawn[0] else 1.0
                start[place] = float(biject_to(supports[name]).inv(median))
        return start

    def moving(self) -> np.ndarray:
        """Return which parameters (outer, then inner) have one best place given the scales.

        Single numbers and factors of others (discriminations) stay: see `starts`.
        """
        fixed = {v.name for v in self.variables if v.family == "log_normal"}
        fixed |= set(self.outer[: self.scalars])
        stays = {n: np.full(s, n.removesuffix("_free") in fixed) for n, s in self.shapes.items()}
        inner = np.zeros((self.length, self.width), dtype=bool)
        for name, columns in self._columns():
            inner[:, columns.start : columns.stop] = stays[name].flat[0]
        outer = [np.ravel(stays[n]) for n in self.outer]
        return ~np.concatenate([*outer, inner.ravel()]).astype(bool)

    def named(self, outer: Any, inner: Any, arguments: Arguments) -> dict[str, Any]:
        """Return all variables of the model text."""
        model = self._model(arguments)
        return constrain_fn(model, (), {}, self.sites(outer, inner), return_deterministic=True)

    def terms(self, outer: Any, inner: Any, arguments: Arguments) -> tuple[Any, Any]:
        """Return the log density as its part outside () and its parts by block (length,).

        Of parameters without bounds: Jacobians are included.
        """
        free = self.sites(outer, inner)
        widened: dict[str, Any] = {}

        def chosen(site: Any) -> Any:
            if site["type"] != "sample" or site["is_observed"]:
                return None
            onto = biject_to(site["fn"].support)
            value = onto(free[site["name"]])
            plain = isinstance(site["fn"], Auxiliary | Deviations)  # coordinates as they are
            jacobian = 0.0 if plain else onto.log_abs_det_jacobian(free[site["name"]], value)
            widened[site["name"]] = jacobian
            return value

        model = handlers.substitute(self._model(arguments), substitute_fn=chosen)
        outside, inside = jnp.zeros(()), jnp.zeros(self.length)
        for name, site in handlers.trace(model).get_trace().items():
            if site["type"] != "sample":
                continue
            density = _elements(site["fn"], site["value"])
            placed = self._by_block(name, density) if site["is_observed"] else None
            if name in self.inner:
                density = density + widened[name]
                at = self._dims[name].index(self.axis)
                others = tuple(i for i in range(density.ndim) if i != at)
                placed = jnp.sum(density, axis=others)
            elif name in widened:
                density = jnp.sum(density) + jnp.sum(widened[name])
            if placed is None:
                outside = outside + jnp.sum(density)
            else:
                inside = inside + placed
        return outside, inside

    def _by_block(self, name: str, density: Any) -> Any:
        """Sum what was observed by block (length,); None where it belongs to none."""
        if self.axis is None:
            return None
        if name == "successes":
            if self.cells.layout == "dense":
                return jnp.sum(density, axis=1 - self.cells.dims.index(self.axis))
            index = self._data[f"{self.axis}_index"].values
            return jnp.zeros(self.length).at[index].add(density)
        kind = name.removesuffix("_log2_minutes")
        times = human_times(self._data)
        if self.axis == "task" and kind != name and kind in times:
            return jnp.zeros(self.length).at[times[kind].task].add(density)
        return None


def _untied(arguments: Arguments) -> Reparam:
    return Untied()


def _recentred(name: str, arguments: Arguments) -> Recentred:
    return Recentred(arguments["coordinates"][name])


def _elements(fn: Any, value: Any) -> Any:
    """Return the log density of a site element by element, where it has elements."""
    if isinstance(fn, Deviations):
        return fn.terms(value)
    if isinstance(fn, Auxiliary):
        names = ("loc", "scale", "middle", "width", "wall", "side")
        parts = [getattr(fn, name) for name in names]

        def one(free: Any, *own: Any) -> Any:
            element = copy(fn)
            for name, value in zip(names, own, strict=True):
                setattr(element, name, value)
            return element.log_prob(free)

        flat = [jnp.ravel(jnp.broadcast_to(x, jnp.shape(value))) for x in (value, *parts)]
        return jax.vmap(one)(*flat).reshape(jnp.shape(value))
    return fn.log_prob(value)


def _each_site(model: Callable[..., None], look: Callable[[Any], None]) -> None:
    """Show every site of a model to a function."""
    for site in handlers.trace(model).get_trace().values():
        look(site)
