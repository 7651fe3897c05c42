"""The engine "pathfinder": normal densities along quasi-Newton paths to the mode.

Each of several paths starts elsewhere; on each, the normal density with the lowest divergence from
the posterior is drawn from, and draws are weighted by importance [1]_. BlackJAX does the work, in
the coordinates of the package's sampler.

References
----------
.. [1] Zhang, L., Carpenter, B., Gelman, A., & Vehtari, A. (2022). Pathfinder: parallel quasi-Newton
   variational inference. Journal of Machine Learning Research 23(306).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

import jax
import numpy as np
import xarray as xr

from measurebayes.errors import InputError
from measurebayes.inference.approximate import K_LIMIT, Approximation, labelled_result
from measurebayes.inference.blocks import Blocks
from measurebayes.inference.outside import resampled, smoothed
from measurebayes.inference.progress import working
from measurebayes.inference.starts import settled
from measurebayes.program.registry import ModelFile

PATHS = 4
STEPS = 100  # of a path, at most
DRAWS_OF_BOUND = 10  # that judge each density of a path
HISTORY = 10  # steps that a density is made from
SPREAD = 1.0  # of the starts around the best place given the scales


def draw(
    model: ModelFile,
    runs: xr.Dataset,
    numbers: Mapping[str, float],
    settings: Mapping[str, Any],
    progress: bool,
) -> tuple[xr.Dataset, xr.Dataset, dict[str, Any]]:
    """Draw from the approximation; see `measurebayes.inference.fitting.APPROXIMATE`.

    Returns
    -------
    tuple
        Posterior (chain, draw, ...), sample statistics (chain, draw), attributes of the fit.

    Raises
    ------
    InputError
        BlackJAX is not installed.
    """
    blackjax = _blackjax()
    begun = time.perf_counter()
    rng = np.random.default_rng(settings["seed"])
    number = settings["chains"] * settings["draws"]
    with working(f"{model.label}: paths to the mode", progress), jax.enable_x64(True):
        blocks = Blocks(model, runs, numbers, inside=False)
        nothing = np.zeros((0, 0))

        def log_density(flat: Any) -> Any:
            return blocks.terms(flat, nothing, blocks.arguments)[0]

        slope = jax.jit(jax.value_and_grad(lambda flat: -log_density(flat)))

        def energy(at: np.ndarray) -> tuple[float, np.ndarray]:
            value, gradient = slope(at)
            return float(value), np.asarray(gradient)

        best = settled(energy, blocks.middle(model, runs, numbers), blocks.moving())
        compiled_at = time.perf_counter()
        flat, log_joint, log_own = _followed(blackjax, log_density, best, number, rng)
        ratios = np.where(np.isfinite(log_joint - log_own), log_joint - log_own, -1e10)
        log_weights, k = smoothed(ratios)
        trusted = k < K_LIMIT
        kept = resampled(log_weights, number, rng) if trusted else _all_alike(ratios, number, rng)
        named_of = jax.jit(
            lambda several: jax.lax.map(
                lambda at: blocks.named(at, nothing, blocks.arguments), several
            )
        )
        named = {name: np.asarray(x) for name, x in named_of(flat[kept]).items()}
    ended = time.perf_counter()
    found = Approximation(
        k,
        _sentence(trusted, log_weights),
        f"Pathfinder (BlackJAX), {PATHS} paths",
        round(compiled_at - begun, 3),
        round(ended - compiled_at, 3),
        PATHS * STEPS * DRAWS_OF_BOUND,
    )
    return labelled_result(model, runs, named, log_joint[kept], settings, found)


def _followed(
    blackjax: ModuleType,
    log_density: Callable[[Any], Any],
    best: np.ndarray,
    number: int,
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return draws of all paths (draw, parameter), their log densities and those of their paths."""
    pathfinder = blackjax.vi.pathfinder
    each = max(-(-number // PATHS), DRAWS_OF_BOUND)

    def path(key: Any, start: Any) -> Any:
        follow, take = jax.random.split(key)
        state, _ = pathfinder.approximate(
            follow, log_density, start, DRAWS_OF_BOUND, maxiter=STEPS, maxcor=HISTORY
        )
        draws, log_own = pathfinder.sample(take, state, each)
        return draws, jax.lax.map(log_density, draws), log_own

    along = jax.jit(path)
    starts = best + SPREAD * rng.normal(size=(PATHS, len(best)))
    keys = [jax.random.PRNGKey(int(rng.integers(2**31))) for _ in range(PATHS)]
    found = [along(key, start) for key, start in zip(keys, starts, strict=True)]
    flat, log_joint, log_own = (
        np.concatenate([np.asarray(one[i]) for one in found]) for i in range(3)
    )
    return flat, log_joint, log_own


def _all_alike(ratios: np.ndarray, number: int, rng: np.random.Generator) -> np.ndarray:
    """Return positions of draws, each that could be computed as often as any other."""
    usable = np.flatnonzero(ratios > -1e9)
    usable = usable if len(usable) else np.arange(len(ratios))
    return rng.permutation(np.resize(rng.permutation(usable), number))


def _sentence(trusted: bool, log_weights: np.ndarray) -> str:
    what = "Importance weights of draws of all parameters together"
    if trusted:
        worth = np.exp(-np.logaddexp.reduce(2.0 * log_weights))
        return (
            f"{what}; draws were taken by weight and are worth {worth:.0f} independent ones. It "
            "says nothing of a second mode elsewhere."
        )
    return (
        f"{what}; the weights can't be trusted, and draws are those of the normal densities as "
        "they were: means may be off by standard deviations, which are often too small."
    )


def _blackjax() -> ModuleType:
    try:
        import blackjax
        import blackjax.vi.pathfinder
    except ImportError as error:
        raise InputError(
            "the package blackjax is not installed",
            where='method "pathfinder"',
            expected="blackjax, which follows the paths",
            remedy="pip install 'measurebayes[pathfinder]'",
        ) from error
    return blackjax
