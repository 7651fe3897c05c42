"""A short run that chooses the coordinates of the chains: centring and linear map.

It has two stages. What the first learns is rough, since it may still be on its way to where the
mass lies, but with it the second gets there.
"""

from __future__ import annotations

import numpy as np
from threadpoolctl import threadpool_limits

from measurebayes.inference.centring import recentred
from measurebayes.inference.geometry import HESSIAN_LIMIT, curved_up
from measurebayes.inference.nuts import BLOCK, Arguments, Engine, Records

STAGES = (100, 400)  # draws, of which the second half is looked at
POINTS = 20  # at most; fewer where a second derivative, or its eigenvalues, take long
PRODUCTS = 10_000
EIGEN_OPERATIONS = 20_000_000_000  # parameters cubed, times points


def run_pilot(
    engine: Engine, seed: np.random.SeedSequence, arguments: Arguments
) -> tuple[Arguments, int]:
    """Choose centring and geometry for the chains.

    Parameters
    ----------
    engine
        Of the model and design.
    seed
        Of this run.
    arguments
        Counts and coordinates to begin with.

    Returns
    -------
    tuple
        The arguments to run the chains with, and the number of gradients it took.
    """
    current = {**arguments, "geometry": engine.split.plain()}
    if sum(engine.split.sizes) > HESSIAN_LIMIT:
        return current, 0
    with threadpool_limits(limits=1):  # several threads for small matrices wait for one another
        return _stages(engine, seed, current)


def _stages(
    engine: Engine, seed: np.random.SeedSequence, current: Arguments
) -> tuple[Arguments, int]:
    keys = np.random.default_rng(seed).integers(2**31, size=len(STAGES))
    chain, end, steps = engine.start(seed, current), np.empty(0), 0
    for stage, draws in enumerate(STAGES):
        if stage:
            chain = engine.begun(end, int(keys[stage]), current)
        blocks = [engine.advance(chain, BLOCK, current) for _ in range(draws // BLOCK)]
        drawn = Records.joined(blocks)
        steps += int(drawn.n_steps.sum())
        current, end = _learned(engine, drawn.flat[draws // 2 :], current)
    return current, steps


def _learned(
    engine: Engine, flat: np.ndarray, arguments: Arguments
) -> tuple[Arguments, np.ndarray]:
    """Choose centring and geometry from draws; and return the last one's position in them."""
    split, size = engine.split, flat.shape[1]
    cheap = min(PRODUCTS // len(engine.probes), EIGEN_OPERATIONS // size**3)
    number = int(np.clip(cheap, 4, POINTS))
    at = np.linspace(0, len(flat) - 1, number).astype(int)
    chosen, flat = _recentred(engine, flat, at, arguments)
    hessian = np.mean([curved_up(engine.hessian(flat[i], chosen)) for i in at], axis=0)
    geometry = split.geometry(hessian)
    if geometry is None:
        return {**chosen, "geometry": split.plain()}, flat[-1]
    geometry["centre"] = split.position(flat.mean(axis=0), geometry)
    return {**chosen, "geometry": geometry}, split.position(flat[-1], geometry)


def _recentred(
    engine: Engine, flat: np.ndarray, at: np.ndarray, arguments: Arguments
) -> tuple[Arguments, np.ndarray]:
    """Choose coordinates anew from draws, some looked at closely, and move the draws to them."""
    split, before = engine.split, arguments["coordinates"]
    named = engine.constrain(flat, arguments)
    sites = split.sites(flat)
    hyper = frozenset(sites) - {f"{name}_free" for name in before}
    given = [split.conditional_variances(engine.hessian(flat[i], arguments), hyper) for i in at]
    variances = {name: np.stack([v[f"{name}_free"] for v in given]) for name in before}
    # NumPyro names the whole zero-sum vector, `sites` its free elements: those are meant.
    chosen, moved = recentred(before, {**named, **sites}, variances, at)
    return {**arguments, "coordinates": chosen}, split.joined({**sites, **moved})
