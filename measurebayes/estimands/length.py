"""How much of what makes tasks hard is their length."""

from __future__ import annotations

import numpy as np
import xarray as xr

from measurebayes.errors import InputError
from measurebayes.inference.results import check_fit


def length_share(fit: xr.DataTree) -> xr.Dataset:
    """Share of the variance of difficulty that length explains, and what human time leaves open.

    The difficulty of a task is its length times the typical steepness, plus an effect of its own.
    Lengths are those of the tasks with attempts: as they are in the data, or as the model measured
    them where it takes them for latent.

    Parameters
    ----------
    fit
        Fit of horizon_task, horizon_eiv or horizon_trend, with effects of tasks.

    Returns
    -------
    xarray.Dataset
        Dims (chain, draw). ``share``: variance of steepness times log2 minutes over itself plus the
        variance of effects of tasks (and of families). ``factor``: 2^(effect_sd / steepness), by
        which human minutes of tasks vary that are equally difficult for agents (one standard
        deviation).

    Raises
    ------
    InputError
        The model has no effects of tasks beside their lengths.
    """
    check_fit(fit)
    posterior = fit["posterior"].to_dataset()
    if "task_sd" not in posterior or "steepness" not in posterior:
        raise InputError(
            f"model {fit.attrs.get('model')} has no effects of tasks beside their lengths",
            where="the posterior of the fit",
            expected="variables task_sd and steepness",
            remedy="fit horizon_task, horizon_eiv (tasks=effect) or horizon_trend",
        )
    steepness = typical_steepness(posterior)
    effects = posterior["task_sd"] ** 2
    if "family_sd" in posterior:
        effects = effects + posterior["family_sd"] ** 2
    lengths = (steepness**2 * _variance(fit, posterior)).transpose(*effects.dims)
    share = (lengths / (lengths + effects)).assign_attrs(units="proportion")
    factor: xr.DataArray = 2.0 ** (effects**0.5 / steepness)
    found = {"share": share, "factor": factor.assign_attrs(units="ratio of minutes")}
    return xr.Dataset(found)


def typical_steepness(posterior: xr.Dataset) -> xr.DataArray:
    """Return the median steepness of the population of agents, or the one that all have."""
    steepness = posterior["steepness"]
    if "agent" in steepness.dims:
        return np.exp(posterior["log_steepness_mean"])  # type: ignore[return-value]
    return steepness


def _variance(fit: xr.DataTree, posterior: xr.Dataset) -> xr.DataArray:
    """Variance of log2 minutes over the tasks with attempts (chain, draw), or one number."""
    data = fit["data"].to_dataset()
    attempted = np.unique(data["task_index"].values)
    if "log2_minutes" in posterior:
        return posterior["log2_minutes"].isel(task=attempted).var("task")
    minutes = data["human_minutes"].values[attempted]
    return xr.DataArray(np.log2(minutes[np.isfinite(minutes)]).var())
