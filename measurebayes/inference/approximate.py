"""What engines that approximate have in common: their draws as a fit, and what they are worth."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from measurebayes.backends.simulate import prior_draw
from measurebayes.inference.results import labelled_draws
from measurebayes.program.registry import ModelFile

K_LIMIT = 0.7  # Pareto k of importance weights below which weighted means can be trusted


class Approximation(NamedTuple):
    """How draws were made and what they are worth.

    Attributes
    ----------
    pareto_k
        Shape of the tail of the importance weights; not finite where they say nothing.
    text
        What that figure means, and what it does not.
    sampler
        Name of the engine.
    compile_seconds, sampling_seconds
        Wall time.
    gradients
        Evaluations of the density with or without its gradient.
    """

    pareto_k: float
    text: str
    sampler: str
    compile_seconds: float
    sampling_seconds: float
    gradients: int


def labelled_result(
    model: ModelFile,
    runs: xr.Dataset,
    named: Mapping[str, np.ndarray],
    log_joint: np.ndarray,
    settings: Mapping[str, Any],
    found: Approximation,
) -> tuple[xr.Dataset, xr.Dataset, dict[str, Any]]:
    """Return independent draws as the parts of a fit.

    Parameters
    ----------
    model, runs
        What was fitted.
    named
        Draws (draw, ...) by variable; others than those of the model text are left out.
    log_joint
        Log joint density of each (draw,).
    settings
        Of the fit: chains and draws say into how many parts draws are laid.
    found
        How they were made.

    Returns
    -------
    tuple
        Posterior (chain, draw, ...), sample statistics (chain, draw), attributes of the fit.
    """
    shape = (settings["chains"], settings["draws"])
    like = prior_draw(model, runs, np.random.default_rng(0))
    ordered = {n: named[n] for n in like if n in named and n != "successes"}
    laid = {n: np.asarray(x).reshape(*shape, *np.shape(x)[1:]) for n, x in ordered.items()}
    k = float(found.pareto_k)
    quality = {"pareto_k": round(k, 4) if np.isfinite(k) else None, "text": found.text}
    attrs = {
        "sampler": found.sampler,
        "compile_seconds": found.compile_seconds,
        "sampling_seconds": found.sampling_seconds,
        "gradients": found.gradients,
        "layout": "auto",
        "approximation": json.dumps(quality),
    }
    stats = labelled_draws({"lp": log_joint.reshape(shape)}, {}, runs)
    return labelled_draws(laid, like, runs), stats, attrs
