"""A model text on a block of cells: log prior, and the log odds of some agents on some tasks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import xarray as xr
from numpyro import handlers
from numpyro.distributions import biject_to

from measurebayes.backends.numpyro import BinomialLogOdds, NumPyroProgram
from measurebayes.backends.simulate import Variable
from measurebayes.errors import InputError
from measurebayes.inference.mode.columns import Columns, Point
from measurebayes.program.cells import Cells
from measurebayes.program.labelled import Labelled
from measurebayes.program.registry import ModelFile

LOG_ROOT_TWO_PI = 0.9189385332046727
QUANTILE_DRAWS = 101


class Block(Cells):
    """The cells of some agents and some tasks, as a grid.

    Parameters
    ----------
    data
        The data.
    chosen
        Positions along one axis, by its name; the other axis is taken whole.
    """

    def __init__(self, data: xr.Dataset, chosen: Mapping[str, Any]) -> None:
        super().__init__(data, "dense")
        self._chosen = dict(chosen)
        self._family = jnp.asarray(self._family_of_task)[chosen.get("task", slice(None))]
        sizes = [len(chosen[d]) if d in chosen else data.sizes[d] for d in self.dims]
        self.shape = (sizes[0], sizes[1])

    def gather(self, x: Labelled) -> Labelled:
        """Give every cell of the block its entry of `x`; see `Cells`."""
        index = {**self._chosen, "family": self._family}
        value, dims = jnp.asarray(x.value), list(x.dims)
        for d in x.dims:
            if d in index:
                value = jnp.take(value, index[d], axis=dims.index(d))
                dims[dims.index(d)] = "task" if d == "family" else d
        return Labelled(value, tuple(dims))


class BlockProgram(NumPyroProgram):
    """Runs a model text on a block, and takes note of what it states."""

    def __init__(self, data: xr.Dataset, block: Block) -> None:
        nothing = jnp.zeros(())
        counts = {"attempts": nothing, "successes": nothing, "log_coefficient": nothing}
        super().__init__(data, "dense", counts)
        self.cells = block
        self.latent: list[Variable] = []
        self.dims: dict[str, tuple[str, ...]] = {}

    def note(self, name: str, family: str, parameters: tuple, dims: tuple[str, ...]) -> None:
        """Take note of a latent variable."""
        self.latent.append(Variable(name, family, dims, self.size(dims), ()))
        self.dims[name] = dims

    def keep(self, name: str, x: Any) -> None:
        """Declare a deterministic site."""
        self.dims[name] = x.dims
        super().keep(name, x)

    def cell_products(self, x: Any, y: Any, dim: str) -> Labelled:
        """Sum products over an axis of the model's own, cell by cell."""
        return self.sum(self.cell(x) * self.cell(y), dim)


class Text:
    """Log prior, log odds and named variables of a model, as functions of a `Point`.

    Parameters
    ----------
    model, data, priors
        As for `fit`.

    Raises
    ------
    InputError
        The model has a form that this method can't take.
    """

    def __init__(self, model: ModelFile, data: xr.Dataset, priors: Mapping[str, float]) -> None:
        self._model, self._data, self._priors = model, data, priors
        if model.numpyro is not None:
            raise InputError(
                f"the model {model.label} is written by hand for NumPyro",
                where="method 'map'",
                expected="a model text, whose parts can be told apart",
                remedy="leave method out to get 'nuts'",
            )
        program, sites = self._run(None, {"agent": np.arange(1), "task": np.arange(1)})
        lengths = {axis: data.sizes[axis] for axis in ("agent", "task")}
        self.columns = Columns(program.latent, lengths, model.label)
        if model.rotated and {v.name for v in program.latent} >= set(model.rotated):
            raise self.columns.refused("only a rotation tells dimensions apart, so that")
        if "cells" in program.reads or sites["successes"]["fn"].weight is not None:
            raise self.columns.refused("cells have weights, so that")
        self._onto = {
            v.name: biject_to(dist.constraints.real)
            if v.family == "zero_sum_normal"
            else biject_to(sites[v.name]["fn"].support)
            for v in program.latent
        }
        kept = [n for n in program.dims if n in sites]
        self.like = {
            n: xr.DataArray(
                np.zeros(np.shape(sites[n]["value"])),
                program.coordinates(program.dims[n]),
                program.dims[n],
            )
            for n in kept
        }
        middles = {n: self._onto[n].inv(sites[n]["value"]) for n in self._onto}
        self.start = self.columns.point(middles)

    def _run(
        self, values: Mapping[str, Any] | None, chosen: Mapping[str, Any]
    ) -> tuple[BlockProgram, dict[str, Any]]:
        """Run the text at values of its variables, or at the middle of their priors."""
        program = BlockProgram(self._data, Block(self._data, chosen))
        given = values.get if values is not None else None

        def chosen_value(site: Any) -> Any:
            if site["type"] != "sample" or site["is_observed"]:
                return None
            return given(site["name"]) if given else _middle(site["fn"])

        def run() -> None:
            self._model.run(program, self._data, self._priors)

        seeded = handlers.substitute(handlers.seed(run, 0), substitute_fn=chosen_value)
        return program, handlers.trace(seeded).get_trace()

    def _values(self, point: Point) -> tuple[dict[str, Any], dict[str, Any]]:
        free = self.columns.sites(point)
        return free, {name: self._onto[name](x) for name, x in free.items()}

    def log_odds(self, point: Point, positions: Any) -> Any:
        """Return the log odds of the cells of some elements of the bottom (top, element)."""
        chosen = {self.columns.bottom_axis: positions}
        _, sites = self._run(self._values(point)[1], chosen)
        fn = sites["successes"]["fn"]
        if not isinstance(fn, BinomialLogOdds):
            raise self.columns.refused("successes are not binomial, so that")
        return fn.log_odds if self.columns.top_axis == "agent" else fn.log_odds.T

    def log_prior(self, point: Point) -> Any:
        """Return the log density of everything but successes, in the coordinates of the point."""
        free, values = self._values(point)
        _, sites = self._run(values, {"agent": np.arange(1), "task": np.arange(1)})
        total = 0.0
        for name, site in sites.items():
            if site["type"] != "sample" or name == "successes":
                continue
            if isinstance(site["fn"], dist.ZeroSumNormal):
                total = total + _zero_sum_density(values[name], site["fn"].scale)
                continue
            total = total + jnp.sum(site["fn"].log_prob(site["value"]))
            if name in free:
                jacobian = self._onto[name].log_abs_det_jacobian(free[name], values[name])
                total = total + jnp.sum(jacobian)
        return total

    def named(self, point: Point) -> dict[str, Any]:
        """Return all variables of the text, deterministic ones too."""
        _, sites = self._run(self._values(point)[1], {"agent": np.arange(1), "task": np.arange(1)})
        return {name: sites[name]["value"] for name in self.like}


def _zero_sum_density(x: Any, scale: Any) -> Any:
    """Log density of vectors that sum to zero, written so that it is a sum over their elements."""
    scale = jnp.broadcast_to(jnp.asarray(scale)[..., None], x.shape)
    share = (x.shape[-1] - 1) / x.shape[-1]
    return -jnp.sum(0.5 * (x / scale) ** 2 + share * (jnp.log(scale) + LOG_ROOT_TWO_PI))


def _middle(fn: Any) -> Any:
    """Return the middle of a prior; of deviations that sum to zero, zeros."""
    if isinstance(fn, dist.ZeroSumNormal):
        return jnp.zeros(fn.shape())
    if isinstance(fn, dist.Normal):
        return fn.loc
    return jnp.median(fn.sample(jax.random.PRNGKey(0), (QUANTILE_DRAWS,)), axis=0)
