"""Tells whether a fit that was read from a file is whole, and what it says it is.

A fit may come from anywhere: all that later steps rely on is checked once, when it is opened.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr

from measurebayes.data import validate
from measurebayes.data.provenance import fingerprint
from measurebayes.errors import InputError

TEXTS = (
    "model", "model_source", "model_sha256", "priors", "backend", "method", "sampler", "created",
    "versions", "data_fingerprint", "data_name", "layout", "measurebayes_version",
)  # fmt: skip
NUMBERS = (
    "seed", "chains", "draws", "tune", "sampling_seconds", "compile_seconds", "gradients",
)  # fmt: skip
GROUPS = ("posterior", "sample_stats", "observed_data", "data")
LONGEST_TEXT = 1_000_000


def trusted(fit: xr.DataTree, where: str) -> xr.DataTree:
    """Return the fit if it has all parts of a fit, and they fit together.

    Raises
    ------
    InputError
        A part is missing, of another kind, or belongs to other data.
    """
    try:
        problem = (
            _attributes(fit.attrs) or _groups(fit) or _draws(fit) or _labels(fit) or _pointwise(fit)
        )
    except RecursionError:
        problem = "an attribute is nested too deeply"
    if problem:
        raise InputError(
            problem,
            where=where,
            expected="a fit as measurebayes wrote it",
            remedy="fit again: measurebayes fit two_pl DATA -o fit.nc",
        )
    return fit


def _attributes(attrs: Mapping[Any, Any]) -> str:
    for name in TEXTS:
        if not isinstance(attrs.get(name), str) or len(attrs[name]) > LONGEST_TEXT:
            return f"the attribute {name!r} is missing, too long or no text"
    for name in NUMBERS:
        if not isinstance(attrs.get(name), int | float | np.number):
            return f"the attribute {name!r} is missing or no number"
    tables: dict[str, Any] = {"priors": (int, float), "versions": str, "options": (int, str)}
    for name, kind in tables.items():
        try:
            # Models that offer no options came first: their fits may lack the attribute.
            content = json.loads(attrs.get(name, "{}") if name == "options" else attrs[name])
        except (ValueError, TypeError):
            return f"the attribute {name!r} is not JSON"
        if not isinstance(content, dict) or not all(isinstance(v, kind) for v in content.values()):
            return f"the attribute {name!r} is not a table of values by name"
        if name == "priors" and not all(0 < v < math.inf for v in content.values()):
            return "a prior is not a positive number"
    return _approximation(attrs)


def _approximation(attrs: Mapping[Any, Any]) -> str:
    """Look at what an engine that approximates says of its draws, and that it says it."""
    if "approximation" not in attrs:
        sampled = attrs["method"] == "nuts" or attrs["backend"] == "pymc"
        return "" if sampled else "the attribute 'approximation' is missing"
    try:
        found = json.loads(attrs["approximation"])
        k, text = found["pareto_k"], found["text"]
    except (ValueError, TypeError, KeyError):
        return "the attribute 'approximation' is not a figure with its text"
    number = k is None or (isinstance(k, int | float) and not isinstance(k, bool))
    if not number or not isinstance(text, str) or len(text) > LONGEST_TEXT:
        return "the attribute 'approximation' is not a figure with its text"
    return ""


def _groups(fit: xr.DataTree) -> str:
    missing = [name for name in GROUPS if name not in fit.children]
    if missing:
        return f"the group {missing[0]!r} is missing"
    data = fit["data"].to_dataset()
    validate(data)
    for name in ("status_counts", "dropped"):
        try:
            json.loads(str(data.attrs.get(name, "{}")))
        except ValueError:
            return f"the attribute {name!r} of the data is not JSON"
    if fit.attrs["data_fingerprint"] != fingerprint(data):
        return "the data are not those that the fit was made with"
    observed = fit["observed_data"].to_dataset().get("successes")
    if observed is None or not np.array_equal(observed.values, data["successes"].values):
        return "the observed successes are not those of the data"
    return ""


def _draws(fit: xr.DataTree) -> str:
    posterior = fit["posterior"].to_dataset()
    if not posterior.data_vars:
        return "the posterior holds no variable"
    for name, variable in posterior.data_vars.items():
        if tuple(variable.dims[:2]) != ("chain", "draw") or variable.dtype.kind != "f":
            return f"the posterior's {name!r} is not an array of numbers by chain and draw"
        if variable.size == 0 or not np.all(np.isfinite(variable.values)):
            return f"the posterior's {name!r} is empty or not finite"
    shape = (posterior.sizes["chain"], posterior.sizes["draw"])
    for name, variable in fit["sample_stats"].to_dataset().data_vars.items():
        if variable.shape != shape:
            return f"the sample statistic {name!r} has not one value a draw"
    return ""


def _labels(fit: xr.DataTree) -> str:
    posterior, data = fit["posterior"].to_dataset(), fit["data"].to_dataset()
    for dim in ("agent", "task", "family"):
        if dim in posterior.dims and (
            dim not in posterior.coords or not np.array_equal(posterior[dim], data[dim])
        ):
            return f"the {dim} labels of the posterior are not those of the data"
    for own in set(posterior.dims) - {"chain", "draw", "agent", "task", "family"}:
        labels = posterior[own].to_index()
        if own not in posterior.coords or labels.hasnans or not labels.is_unique:
            return f"the axis {str(own)[:40]!r} of the posterior has no labels of its own"
    return ""


def _pointwise(fit: xr.DataTree) -> str:
    if "log_likelihood" not in fit.children:
        return ""
    posterior, data = fit["posterior"].to_dataset(), fit["data"].to_dataset()
    terms = fit["log_likelihood"].to_dataset().get("successes")
    shape = (posterior.sizes["chain"], posterior.sizes["draw"], data.sizes["cell"])
    if terms is None or terms.shape != shape or terms.dtype.kind != "f":
        return "the log likelihood has not one number for every draw and cell"
    return "" if np.all(np.isfinite(terms.values)) else "the log likelihood is not finite"
