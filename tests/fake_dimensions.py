"""Fits of models with dimensions or families, made without a sampler: a draw from the priors, with
noise around it, and data from it. The layout is that of a real fit.
"""

from __future__ import annotations

import json

import numpy as np
import xarray as xr
from fake_fit import fit_attrs, sample_stats
from scipy.special import expit

from measurebayes.backends.evaluate import cell_logits
from measurebayes.backends.simulate import prior_draw
from measurebayes.inference.rotation import align
from measurebayes.program.registry import get_model

POSITIVE = ("_sd", "_scale", "_spread", "discrimination", "family_loading")


def fit_around_truth(label, data, given=None, chains=2, draws=60, seed=1, noise=0.15):
    """Return a fit of `label` to attempts drawn from its priors, with `given` values fixed."""
    rng = np.random.default_rng(seed)
    model = get_model(label)
    truth = prior_draw(model, data, rng)
    truth.pop("successes")
    for name, value in (given or {}).items():
        truth[name] = truth[name] * 0.0 + value
    chance = expit(cell_logits(model, data, truth).values)
    solved = rng.binomial(data["attempts"].values, chance)
    data = data.assign(successes=("cell", solved.astype(np.int64)))
    posterior = around(truth, data, chains, draws, rng, noise)
    if model.rotated and "loadings=allowed" not in label:
        posterior = align(posterior, model.rotated)
    attrs = fit_attrs("rasch", model.source, data, chains, draws, seed)
    attrs |= {"model": model.name, "priors": json.dumps(dict(model.priors))}
    attrs |= {"options": json.dumps(dict(model.options))}
    groups = {
        "/": xr.Dataset(attrs=attrs),
        "posterior": posterior,
        "sample_stats": sample_stats(chains, draws, rng, True),
        "observed_data": xr.Dataset({"successes": ("cell", solved)}),
        "data": data,
    }
    return xr.DataTree.from_dict(groups)


def around(truth, data, chains, draws, rng, noise):
    """Return draws (chain, draw, ...) around true values: relative noise on positive ones."""
    found = {}
    for name, value in truth.items():
        shape = (chains, draws, *value.shape)
        if name.endswith(POSITIVE):
            values = value.values * np.exp(rng.normal(0, noise, shape))
        else:
            values = value.values + rng.normal(0, noise, shape)
        found[name] = (("chain", "draw", *value.dims), values)
    posterior = xr.Dataset(found, {"chain": range(chains), "draw": range(draws)})
    if "free_loading" in posterior:
        posterior["loading"] = posterior["free_loading"] * data["allowed_loading"].drop_vars(
            "task", errors="ignore"
        )
    if "dimension" in posterior.dims:
        posterior = posterior.assign_coords(dimension=range(posterior.sizes["dimension"]))
    for dim in ("agent", "task", "family"):
        if dim in posterior.dims:
            posterior = posterior.assign_coords({dim: data[dim].values})
    return posterior
