"""The engine "laplace": parameters by task or agent integrated out, the others around their mode.

Nested approximations explore the few parameters that all hangs on, and treat the many inside as
normal given these [1]_. Inside this one integrates numerically (`blocks`), since with few attempts
a task the mode of its parameters is far from their mean. What is left has a near-normal density;
its draws are weighted by importance (`outside`), and the weights' Pareto k says whether that will
do. It doesn't see what integrals and draws inside miss: long tails of single tasks.

References
----------
.. [1] Rue, H., Martino, S., & Chopin, N. (2009). Approximate Bayesian inference for latent Gaussian
   models by using integrated nested Laplace approximations. Journal of the Royal Statistical
   Society B, 71, 319-392. doi:10.1111/j.1467-9868.2008.00700.x
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from measurebayes.inference.approximate import K_LIMIT, Approximation, labelled_result
from measurebayes.inference.blocks import Blocks
from measurebayes.inference.compiling import compiled
from measurebayes.inference.inside import Inside
from measurebayes.inference.nodes import nodes_of
from measurebayes.inference.outside import Explored, Proposal, explore, mode_of, resampled
from measurebayes.inference.progress import working
from measurebayes.inference.starts import settled
from measurebayes.program.registry import ModelFile

POINTS = 2000  # outer draws that are weighted, at most
TRIES = 16  # draws of a block, of which one is taken
CHUNK = 100
HEAVY = 20  # parameters outside that may all have heavy tails; more have them in scales only
CHECKED = 20  # outer draws whose integrals are done again with more nodes


def draw(
    model: ModelFile,
    runs: xr.Dataset,
    numbers: Mapping[str, float],
    settings: Mapping[str, Any],
    progress: bool,
) -> tuple[xr.Dataset, xr.Dataset, dict[str, Any]]:
    """Draw from the nested approximation; see `measurebayes.inference.fitting.APPROXIMATE`.

    Returns
    -------
    tuple
        Posterior (chain, draw, ...), sample statistics (chain, draw), attributes of the fit.
    """
    begun = time.perf_counter()
    with working(f"{model.label}: compiling", progress), jax.enable_x64(True):
        nested = Nested(model, runs, numbers)
    compiled_at = time.perf_counter()
    rng = np.random.default_rng(settings["seed"])
    number = settings["chains"] * settings["draws"]
    with working(f"{model.label}: mode, weights and draws", progress), jax.enable_x64(True):
        explored, around = nested.explored(rng, min(number, POINTS))
        trusted = explored.pareto_k < K_LIMIT
        if trusted:
            outer = explored.draws[resampled(explored.log_weights, number, rng)]
        else:
            outer, _ = around.draw(rng, number)
        named, log_joint = nested.drawn(outer, rng)
        error = nested.integral_error(explored.draws[:CHECKED])
    found = Approximation(
        explored.pareto_k,
        _sentence(nested.blocks, explored, trusted, error),
        f"nested Laplace: {nested.blocks.size} parameters around their mode, "
        f"{nested.blocks.length * nested.blocks.width} integrated out",
        round(compiled_at - begun, 3),
        round(time.perf_counter() - compiled_at, 3),
        nested.gradients,
    )
    return labelled_result(model, runs, named, log_joint, settings, found)


def _sentence(blocks: Blocks, explored: Explored, trusted: bool, error: float) -> str:
    inside = (
        f"{blocks.width} a {blocks.axis} integrated out numerically (error of a log density "
        f"{error:.2g})"
        if blocks.axis
        else "nothing integrated out"
    )
    what = f"Importance weights of the {blocks.size} parameters outside, {inside}"
    if trusted:
        return (
            f"{what}; draws were taken by weight and are worth {explored.effective:.0f} "
            "independent ones. The figure judges what is outside: it does not see long tails that "
            "integrals and draws inside miss, nor a second mode elsewhere."
        )
    return (
        f"{what}; the weights can't be trusted, and draws are those of the normal density at the "
        "mode: means may be off by a good part of a standard deviation, tails by more."
    )


class Nested:
    """Compiled programs of a model's blocks on one design."""

    def __init__(self, model: ModelFile, runs: xr.Dataset, numbers: Mapping[str, float]) -> None:
        self.blocks = blocks = Blocks(model, runs, numbers)
        self.inside = inside = Inside(blocks)
        self.arguments, self.nodes = blocks.arguments, nodes_of(blocks.width)
        self.gradients = 0
        self.modes = np.zeros((blocks.length, blocks.width))
        self.start = blocks.middle(model, runs, numbers)
        self._highest = -np.inf
        self._moving = blocks.moving()

        def marginal(outer: Any, modes: Any, nodes: Any, arguments: Any) -> Any:
            return inside.marginal(outer, modes, nodes, arguments)

        slope = jax.value_and_grad(marginal, has_aux=True)

        def joint(flat: Any, arguments: Any) -> Any:
            outer, inner = flat[: blocks.size], flat[blocks.size :]
            outside, inside = blocks.terms(outer, inner.reshape(self.modes.shape), arguments)
            return -outside - jnp.sum(inside)

        def many(outer: Any, modes: Any, nodes: Any, arguments: Any) -> Any:
            return jax.lax.map(lambda o: marginal(o, modes, nodes, arguments)[0], outer)

        def drawn(keys: Any, outer: Any, modes: Any, arguments: Any) -> Any:
            def one(key: Any, at: Any) -> Any:
                inner, log_joint = inside.drawn(key, at, modes, TRIES, arguments)
                return blocks.named(at, inner, arguments), log_joint

            return jax.lax.map(lambda both: one(*both), (keys, outer))

        rows = np.zeros((CHUNK, blocks.size))
        keys = np.zeros((CHUNK, 2), dtype=np.uint32)
        given = (self.modes, self.nodes, self.arguments)
        self.run = compiled(
            {
                "joint": jax.jit(jax.value_and_grad(joint)).lower(
                    self._moving * 0.0, self.arguments
                ),
                "slope": jax.jit(slope).lower(self.start, *given),
                "many": jax.jit(many).lower(rows, *given),
                "drawn": jax.jit(drawn).lower(keys, rows, self.modes, self.arguments),
            }
        )

    def explored(self, rng: np.random.Generator, number: int) -> tuple[Explored, Proposal]:
        """Return weighted draws of the outer parameters, and the normal density at the mode."""
        mode, second = mode_of(self._slope, self._settled())
        few = self.blocks.size <= HEAVY
        heavy = self.blocks.size if few else self.blocks.scalars
        return explore(self._density, mode, second, heavy, number, rng)

    def _settled(self) -> np.ndarray:
        """Return where the search for the mode begins: where all but scales fits them best."""

        def energy(at: np.ndarray) -> tuple[float, np.ndarray]:
            value, gradient = self.run["joint"](at, self.arguments)
            return float(value), np.asarray(gradient)

        flat = settled(energy, np.concatenate([self.start, self.modes.ravel()]), self._moving)
        self.modes = flat[len(self.start) :].reshape(self.modes.shape)
        return flat[: len(self.start)]

    def _slope_and_modes(self, at: np.ndarray) -> tuple[tuple[float, np.ndarray], np.ndarray]:
        (value, modes), gradient = self.run["slope"](at, self.modes, self.nodes, self.arguments)
        self.gradients += 1
        return (float(value), np.asarray(gradient)), np.asarray(modes)

    def _slope(self, at: np.ndarray) -> tuple[float, np.ndarray]:
        found, modes = self._slope_and_modes(at)
        if found[0] > self._highest:  # where the search is: blocks are best looked for from there
            self._highest, self.modes = found[0], modes
        return found

    def _density(self, draws: np.ndarray) -> np.ndarray:
        pieces = []
        for start in range(0, len(draws), CHUNK):
            piece = draws[start : start + CHUNK]
            padded = np.concatenate([piece, np.repeat(piece[-1:], CHUNK - len(piece), axis=0)])
            found = self.run["many"](padded, self.modes, self.nodes, self.arguments)
            pieces.append(np.asarray(found)[: len(piece)])
        self.gradients += len(draws)
        return np.concatenate(pieces)

    def drawn(
        self, outer: np.ndarray, rng: np.random.Generator
    ) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """Return all variables (draw, ...) given outer parameters (draw, size), and log joint."""
        pieces, log_joint = [], []
        for start in range(0, len(outer), CHUNK):
            piece = outer[start : start + CHUNK]
            padded = np.concatenate([piece, np.repeat(piece[-1:], CHUNK - len(piece), axis=0)])
            keys = rng.integers(2**32, size=(CHUNK, 2), dtype=np.uint32)
            named, joint = self.run["drawn"](keys, padded, self.modes, self.arguments)
            pieces.append({n: np.asarray(x)[: len(piece)] for n, x in named.items()})
            log_joint.append(np.asarray(joint)[: len(piece)])
        whole = {n: np.concatenate([p[n] for p in pieces]) for n in pieces[0]}
        return whole, np.concatenate(log_joint)

    def integral_error(self, outer: np.ndarray) -> float:
        """Return the standard deviation over draws of what more nodes change in a log density."""
        if self.blocks.axis is None:
            return 0.0
        finer = nodes_of(self.blocks.width, finer=True)
        arguments, modes = self.arguments, self.modes
        again = jax.jit(lambda o: self.inside.marginal(o, modes, finer, arguments)[0])
        changes = np.array([float(again(at)) for at in outer]) - self._density(outer)
        return float(np.std(changes))
