"""Are the programs of a benchmark the same model: their log densities against the witness.

Points are draws from the priors of models/two_pl.py. The witness is the SciPy density of that text
(measurebayes/backends/density.py). What a program's density should differ by is known: the
Jacobian of what it writes as standard normal numbers, and, of the textbook programs, the free
level of the abilities, which is zero at these points.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

TOLERANCE = 1e-9  # relative; PyTensor rounds constants to float32, which is 1e-7 in all
Point = dict[str, np.ndarray]


def points(data: xr.Dataset, count: int = 3) -> list[Point]:
    """Return draws from the priors, with the standard normal numbers that programs write."""
    from measurebayes.backends.simulate import prior_draw

    found = []
    for seed in range(count):
        draw = prior_draw("two_pl", data, np.random.default_rng(seed))
        point = {name: np.asarray(x.values, dtype=float) for name, x in draw.items()}
        del point["successes"]
        point["raw_ability"] = point["ability"] / point["ability_sd"]
        point["raw_difficulty"] = (point["difficulty"] - point["difficulty_mean"]) / point[
            "difficulty_sd"
        ]
        point["raw_log_discrimination"] = (
            np.log(point["discrimination"]) / point["log_discrimination_sd"]
        )
        found.append(point)
    return found


def expected(data: xr.Dataset, point: Point, textbook: bool) -> float:
    """Return the log density that a program should have, from the SciPy witness of the model."""
    from measurebayes.backends.density import log_densities

    dims = {"ability": "agent", "difficulty": "task", "discrimination": "task"}
    values = {
        name: xr.DataArray(x, dims=dims.get(name, ()))
        for name, x in point.items()
        if not name.startswith("raw_")
    }
    agents, tasks = data.sizes["agent"], data.sizes["task"]
    total = sum(log_densities("two_pl", data, values).values())
    total += np.sum(np.log(point["discrimination"])) + tasks * np.log(
        point["log_discrimination_sd"]
    )
    if textbook:
        level = -np.log(point["ability_sd"]) - 0.5 * np.log(2 * np.pi)
        total += level + agents * np.log(point["ability_sd"])
        total += tasks * np.log(point["difficulty_sd"])
    return float(total)


def numpyro_density(model: Any, point: Point) -> float:
    """Return the log density of a NumPyro model at values of its sample statements."""
    import jax
    from numpyro import handlers

    with jax.enable_x64(True):
        sites = handlers.trace(handlers.substitute(model, data=point)).get_trace()
        sampled = [site for site in sites.values() if site["type"] == "sample"]
        return float(sum(np.sum(site["fn"].log_prob(site["value"])) for site in sampled))


def pymc_density(model: Any, point: Point) -> float:
    """Return the log density of a PyMC model at values of its free variables, no Jacobians."""
    import pytensor.tensor as pt
    from pytensor.compile.mode import Mode

    values = {}
    for variable in model.free_RVs:
        transform = model.rvs_to_transforms[variable]
        at = point[variable.name]
        if transform is not None:
            at = transform.forward(pt.as_tensor(at), *variable.owner.inputs).eval()
        values[model.rvs_to_values[variable].name] = at
    # All rewrites, which keep the tails right; the Python linker can't take large fused operations.
    mode = Mode(linker="py", optimizer="fast_run").excluding("fusion")
    inputs = [model.rvs_to_values[v] for v in model.free_RVs]
    density = model.compile_fn(model.logp(jacobian=False), inputs=inputs, point_fn=False, mode=mode)
    return float(density(*[values[v.name] for v in inputs]))


def largest_gap(found: list[float], wanted: list[float]) -> float:
    """Return the largest relative difference."""
    return float(np.max(np.abs(np.subtract(found, wanted)) / np.maximum(1.0, np.abs(wanted))))


def check(name: str, found: list[float], wanted: list[float]) -> None:
    """Refuse to measure a program that is another model."""
    gap = largest_gap(found, wanted)
    if not gap < TOLERANCE:
        raise SystemExit(f"{name} is another model: its log density is off by {gap:.1e} (relative)")
