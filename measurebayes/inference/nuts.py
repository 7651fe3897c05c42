"""The No-U-Turn sampler (Hoffman & Gelman 2014, JMLR 15, 1593-1623) in the engine's coordinates.

NumPyro's sampler does the steps. What is added here: auxiliary variables (`centring`) and linear
coordinates (`geometry`) that a short run chooses (`pilot`); blocks of draws between which a run can
be stopped, saved and gone on with; and one compiled program for warm-up, sampling and all chains,
which takes the counts as an argument and so serves other data of the same shape.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from numpyro import handlers
from numpyro.infer.hmc import hmc
from numpyro.infer.util import constrain_fn, potential_energy, unconstrain_fn

from measurebayes.backends.numpyro import BinomialLogOdds, counts_of, sampler_model
from measurebayes.backends.simulate import variables
from measurebayes.data import fingerprint
from measurebayes.errors import ModelError
from measurebayes.inference.centring import Recentred, coordinates
from measurebayes.inference.compiling import compiled, compiled_in
from measurebayes.inference.geometry import HESSIAN_LIMIT, TOP_LIMIT, Split, hessian_products
from measurebayes.inference.starts import random_start, settled
from measurebayes.program.data_verbs import AXES
from measurebayes.program.registry import ModelFile

BLOCK = 50  # draws between two looks at the clock, the progress bar and the checkpoint
MAX_TREE_DEPTH = 10
WARMUP_TREE_DEPTH = 6  # longer trajectories before the masses are known are mostly wasted
TARGET_ACCEPT = 0.9  # at 0.8 a few draws in thousands diverge where tasks are few or hard
# Chains start around the mean of the pilot run, twice as far out as the posterior is wide.
START_SPREAD = 2.0
START_TRIES = 20
CONSTRAIN_BLOCK = 250

Arguments = dict[str, Any]
# NumPyro's stack of handlers belongs to the process, and fits may run in threads.
TRACING = threading.Lock()


@dataclass
class Records:
    """What is kept of each draw: arrays over draws.

    Attributes
    ----------
    flat
        Unconstrained parameters (draw, all), order (top, bottom) of the split.
    n_steps, diverging, energy, acceptance_rate, step_size, lp
        Sample statistics (draw,).
    """

    flat: np.ndarray
    n_steps: np.ndarray
    diverging: np.ndarray
    energy: np.ndarray
    acceptance_rate: np.ndarray
    step_size: np.ndarray
    lp: np.ndarray

    @classmethod
    def joined(cls, several: list[Records]) -> Records:
        """Put consecutive records one after the other."""
        return cls(**{name: np.concatenate([vars(r)[name] for r in several]) for name in _FIELDS})

    @classmethod
    def cut(cls, buffers: Mapping[str, Any], count: int) -> Records:
        """Take the filled part of the buffers of a block."""
        return cls(**{name: np.asarray(buffers[name])[:count] for name in _FIELDS})


_FIELDS = tuple(Records.__dataclass_fields__)


@dataclass
class Chain:
    """A chain on its way: where it is, what it drew, how far it got (warm-up included)."""

    state: Any
    done: int = 0
    warmup_steps: int = 0
    records: list[Records] = field(default_factory=list)


class Engine:
    """NUTS for one model on one design; built once and used by all chains.

    Parameters
    ----------
    model, data, priors
        As for `fit`; the successes of `data` are not part of the compiled program.
    tune
        Number of warm-up draws.
    """

    def __init__(
        self, model: ModelFile, data: xr.Dataset, priors: Mapping[str, float], tune: int
    ) -> None:
        self.tune = tune
        self.variables = variables(model, data, priors)
        self._base = sampler_model(model, data, priors)
        self._model, self._priors = model, dict(priors)
        with jax.enable_x64(True):
            self._build(data)

    def _build(self, data: xr.Dataset) -> None:
        example = self.arguments(data)
        shapes = self._free_shapes(example)
        # The free elements of a zero-sum vector each touch all its elements: they have no axis.
        axes = {v.name: v.dims for v in self.variables if v.family != "zero_sum_normal"}
        axes |= {f"{name}_free": dims for name, dims in axes.items()}
        self.split = Split.of(shapes, axes, TOP_LIMIT)
        moving = {v.name for v in self.variables if set(v.dims) & set(AXES)}
        moving -= {v.name for v in self.variables if v.family == "log_normal"}
        self._along_axes = self.split.elements({*moving, *(f"{name}_free" for name in moving)})
        start, step = hmc(potential_fn_gen=self._potential, algo="NUTS")

        def begin(key: Any, position: Any, arguments: Arguments) -> Any:
            return start(
                position,
                self.tune,
                target_accept_prob=TARGET_ACCEPT,
                max_tree_depth=(WARMUP_TREE_DEPTH, MAX_TREE_DEPTH),
                model_args=(arguments,),
                rng_key=key,
            )

        def advance(state: Any, count: Any, arguments: Arguments) -> Any:
            def one(i: Any, carry: Any) -> Any:
                state, buffers = carry
                state = step(state, model_args=(arguments,))
                kept = self._kept(state, arguments)
                return state, {name: b.at[i].set(kept[name]) for name, b in buffers.items()}

            kept = jax.eval_shape(self._kept, state, arguments)
            buffers = {n: jnp.zeros((BLOCK, *x.shape), x.dtype) for n, x in kept.items()}
            return jax.lax.fori_loop(0, count, one, (state, buffers))

        example["geometry"] = self.split.plain()
        self._compile(begin, advance, example)

    def _compile(
        self, begin: Callable[..., Any], advance: Callable[..., Any], example: Arguments
    ) -> None:
        started = time.perf_counter()
        size = sum(self.split.sizes)
        key, position = jax.random.PRNGKey(0), np.zeros(size)
        state = jax.eval_shape(begin, key, position, example)
        self.of_chains = {  # what a chain runs, wherever it does (see `devices`)
            "begin": (jax.jit(begin), (key, position, example)),
            "advance": (jax.jit(advance), (state, np.int64(0), example)),
        }
        programs = {
            **{name: function.lower(*given) for name, (function, given) in self.of_chains.items()},
            "start": jax.jit(self._random_start).lower(position, example),
            "constrain": jax.jit(jax.vmap(self._constrained, in_axes=(0, None))).lower(
                np.zeros((CONSTRAIN_BLOCK, size)), example
            ),
        }
        if size <= HESSIAN_LIMIT:
            self.probes = self.split.probes()
            second = partial(hessian_products, jax.grad(self._energy), self._expected)
            programs["products"] = jax.jit(second).lower(self.probes, position, example)
        self.run = compiled(programs)
        self.state_structure = jax.tree.structure(state)
        self.compile_seconds = time.perf_counter() - started

    # -- the model in the sampler's coordinates ----------------------------------------------

    def arguments(self, data: xr.Dataset) -> Arguments:
        """Return counts and coordinates of data of this design."""
        return {
            "counts": counts_of(data, "auto"),
            "coordinates": self._coordinates(data),
        }

    def _coordinates(self, data: xr.Dataset) -> dict[str, Any]:
        if self._model.numpyro is not None:  # written by hand: its sites may be anything
            return {}
        return coordinates(self._model, data, self.variables, self._priors)

    def _reparametrised(self, arguments: Arguments) -> Callable[..., None]:
        config = {name: Recentred(c) for name, c in arguments["coordinates"].items()}
        return handlers.reparam(lambda: self._base(arguments["counts"]), config=config)

    def _potential(self, arguments: Arguments) -> Callable[[Any], Any]:
        return lambda position: self._energy(
            self.split.flat(position, arguments["geometry"]), arguments
        )

    def _energy(self, flat: Any, arguments: Arguments) -> Any:
        return potential_energy(self._reparametrised(arguments), (), {}, self.split.sites(flat))

    def _expected(self, flat: Any, arguments: Arguments) -> Arguments:
        """Return the arguments with the successes that are expected at these parameters."""
        model, counts = self._reparametrised(arguments), arguments["counts"]
        latent = constrain_fn(model, (), {}, self.split.sites(flat))
        sites = handlers.trace(handlers.substitute(model, latent)).get_trace()
        observed = sites.get("successes", {"fn": None})["fn"]
        if not isinstance(observed, BinomialLogOdds):
            return arguments
        successes = counts["attempts"] * jax.nn.sigmoid(observed.log_odds)
        return {**arguments, "counts": {**counts, "successes": successes}}

    def _constrained(self, flat: Any, arguments: Arguments) -> Any:
        model = self._reparametrised(arguments)
        return constrain_fn(model, (), {}, self.split.sites(flat), return_deterministic=True)

    def _kept(self, state: Any, arguments: Arguments) -> dict[str, Any]:
        return {
            "flat": self.split.flat(state.z, arguments["geometry"]),
            "n_steps": state.num_steps,
            "diverging": state.diverging,
            "energy": state.energy,
            "acceptance_rate": state.accept_prob,
            "step_size": state.adapt_state.step_size,
            "lp": -state.potential_energy,
        }

    def _free_shapes(self, arguments: Arguments) -> dict[str, tuple[int, ...]]:
        def free(key: Any) -> Any:
            seeded = handlers.seed(self._reparametrised(arguments), key)
            sites = handlers.trace(seeded).get_trace()
            latent = {
                name: site["value"]
                for name, site in sites.items()
                if site["type"] == "sample" and not site["is_observed"]
            }
            return unconstrain_fn(self._reparametrised(arguments), (), {}, latent)

        return {n: x.shape for n, x in jax.eval_shape(free, jax.random.PRNGKey(0)).items()}

    # -- running ------------------------------------------------------------------------------

    def _random_start(self, chance: Any, arguments: Arguments) -> Any:
        names = (*self.split.top, *self.split.bottom)
        return self.split.joined(random_start(self._reparametrised(arguments), names, chance))

    def _settled(self, position: np.ndarray, arguments: Arguments) -> np.ndarray:
        """Move what lies along an axis of the data to where it fits the hyperparameters best.

        Factors of others (discriminations) stay: with few data for each agent, the joint optimum
        makes one task a step that orders all agents, which is far from where the mass lies.
        """
        key = jax.random.PRNGKey(0)

        def energy(at: np.ndarray) -> tuple[float, np.ndarray]:
            state = self.run["begin"](key, at, arguments)
            return float(state.potential_energy), np.asarray(state.z_grad)

        return settled(energy, position, self._along_axes)

    def start(self, seed: np.random.SeedSequence, arguments: Arguments) -> Chain:
        """Return a chain at a random start of finite density.

        Raises
        ------
        ModelError
            No such start was found.
        """
        rng = np.random.default_rng(seed)
        centre = arguments["geometry"]["centre"]
        with jax.enable_x64(True):
            for _ in range(START_TRIES):
                key = jax.random.PRNGKey(int(rng.integers(2**31)))
                if np.all(np.isfinite(centre)):  # a pilot run told where the mass lies
                    position = centre + START_SPREAD * rng.normal(size=centre.shape)
                else:
                    flat = np.asarray(self.run["start"](rng.uniform(size=centre.size), arguments))
                    position = self.split.position(flat, arguments["geometry"])
                    position = self._settled(position, arguments)
                state = self.run["begin"](key, position, arguments)
                if all(np.all(np.isfinite(x)) for x in (state.potential_energy, state.z_grad)):
                    return Chain(state)
        raise ModelError(
            f"the density of model {self._model.label} is not finite at {START_TRIES} random "
            "starts",
            where="the start of a chain",
            expected="a finite density wherever the priors put their mass",
            remedy=f"run `measurebayes verify {self._model.path}`",
        )

    def advance(self, chain: Chain, count: int, arguments: Arguments) -> Records:
        """Move a chain on by at most BLOCK draws; warm-up draws are returned but not kept."""
        left = self.tune - chain.done
        count = min(count, BLOCK, left) if left > 0 else min(count, BLOCK)
        with jax.enable_x64(True):
            state, buffers = self.run["advance"](chain.state, np.int64(count), arguments)
        records = Records.cut(buffers, count)
        chain.state = state
        if left > 0:
            chain.warmup_steps += int(records.n_steps.sum())
        else:
            chain.records.append(records)
        chain.done += count
        return records

    def begun(self, position: np.ndarray, key: int, arguments: Arguments) -> Chain:
        """Return a chain at a position of the sampler."""
        with jax.enable_x64(True):
            return Chain(self.run["begin"](jax.random.PRNGKey(key), position, arguments))

    def hessian(self, point: np.ndarray, arguments: Arguments) -> np.ndarray:
        """Return the expected second derivative of the energy (all, all) at parameters."""
        with jax.enable_x64(True):
            products = self.run["products"](self.probes, point, arguments)
            return self.split.assembled(np.asarray(products))

    def constrain(self, flat: np.ndarray, arguments: Arguments) -> dict[str, np.ndarray]:
        """Return the named variables (draw, ...) of unconstrained draws (draw, all)."""
        pieces = []
        with jax.enable_x64(True):
            for start in range(0, len(flat), CONSTRAIN_BLOCK):
                piece = flat[start : start + CONSTRAIN_BLOCK]
                short = CONSTRAIN_BLOCK - len(piece)
                padded = np.concatenate([piece, np.repeat(piece[-1:], short, axis=0)])
                named = self.run["constrain"](padded, arguments)
                pieces.append({k: np.asarray(v)[: len(piece)] for k, v in named.items()})
        return {name: np.concatenate([p[name] for p in pieces]) for name in pieces[0]}


def engine_for(
    model: ModelFile, data: xr.Dataset, priors: Mapping[str, float], tune: int
) -> tuple[Engine, bool]:
    """Return an engine for the design of `data`, and whether it was there already."""
    before = _engine.cache_info().hits
    key = _Key(model, data, dict(priors), tune, fingerprint(compiled_in(model, data)))
    with TRACING:
        engine = _engine(key)
    return engine, _engine.cache_info().hits > before


@dataclass(frozen=True, eq=False)
class _Key:
    """What the compiled program depends on, for the cache; the rest rides along."""

    model: ModelFile
    data: xr.Dataset
    priors: dict[str, float]
    tune: int
    design: str

    def _identity(self) -> tuple:
        priors = tuple(sorted(self.priors.items()))
        options = tuple(sorted(self.model.options.items()))
        return (self.model.sha256, options, self.design, priors, self.tune)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Key) and self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash(self._identity())


@lru_cache(maxsize=4)
def _engine(key: _Key) -> Engine:
    return Engine(key.model, key.data, key.priors, key.tune)
