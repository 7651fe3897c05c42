"""The same model text drawn by PyMC with its own sampler."""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr

from measurebayes.inference.results import labelled_draws
from measurebayes.program.registry import ModelFile

# Names of sample statistics: PyMC's and nutpie's to those of a fit.
_NAMES = {
    "diverging": ("diverging",),
    "n_steps": ("n_steps",),
    "tree_depth": ("tree_depth", "depth"),
    "acceptance_rate": ("acceptance_rate", "mean_tree_accept"),
    "step_size": ("step_size",),
    "energy": ("energy",),
    "lp": ("lp", "logp"),
}


def draw_with_pymc(
    model: ModelFile,
    runs: xr.Dataset,
    numbers: Mapping[str, float],
    settings: Mapping[str, Any],
    progress: bool,
) -> tuple[xr.Dataset, xr.Dataset, dict[str, Any]]:
    """Return posterior, sample statistics and attributes.

    Raises
    ------
    InputError
        PyMC is not installed.
    """
    if importlib.util.find_spec("pymc") is None:
        from measurebayes.errors import InputError

        raise InputError(
            "PyMC is not installed",
            where="backend 'pymc'",
            expected="the package pymc",
            remedy="pip install 'measurebayes[pymc]'",
        )
    import pymc as pm

    from measurebayes.backends.pymc import pymc_model

    nutpie = importlib.util.find_spec("nutpie") is not None
    started = time.perf_counter()
    with pymc_model(model, runs, numbers):
        tree = pm.sample(
            draws=settings["draws"],
            tune=settings["tune"],
            chains=settings["chains"],
            random_seed=settings["seed"],
            nuts_sampler="nutpie" if nutpie else "pymc",
            # PyMC's own sampler forks, which can deadlock once JAX has run; nutpie uses threads.
            cores=None if nutpie else 1,
            progressbar=progress,
            compute_convergence_checks=False,
        )
    seconds = time.perf_counter() - started
    stats = _statistics(tree["sample_stats"].to_dataset())
    posterior = tree["posterior"].to_dataset()
    sampling = float(tree["posterior"].attrs.get("sampling_time", seconds))
    attrs = {
        "sampler": "PyMC's default, " + ("nutpie" if nutpie else "NUTS of PyMC"),
        "compile_seconds": round(max(0.0, seconds - sampling), 3),
        "sampling_seconds": round(sampling, 3),
        "gradients": int(stats["n_steps"].sum()),
        "layout": "long",
    }
    return _plain(posterior, runs), stats, attrs


def _statistics(found: xr.Dataset) -> xr.Dataset:
    chosen = {}
    for name, candidates in _NAMES.items():
        present = [c for c in candidates if c in found]
        if present:
            chosen[name] = found[present[0]]
    stats = xr.Dataset({n: (("chain", "draw"), v.values) for n, v in chosen.items()})
    return stats.assign_coords(
        chain=np.arange(stats.sizes["chain"]), draw=np.arange(stats.sizes["draw"])
    )


def _plain(posterior: xr.Dataset, runs: xr.Dataset) -> xr.Dataset:
    """Keep values and dims, with labels and dtypes as in every other fit."""
    arrays = {str(n): v.values for n, v in posterior.items()}
    like = {str(n): v.isel(chain=0, draw=0, drop=True) for n, v in posterior.items()}
    return labelled_draws(arrays, like, runs)
