"""Posterior prediction of success rates of new tasks by their length: effects drawn anew.

A model with an effect of each task reproduces the success rates of its own tasks whatever their
lengths: effects take up what length leaves open. What it says of a random task of some length
(marginal horizons, longer tasks to come) is tested by drawing the effects anew from their
population: success rates by band of human minutes are then those of other tasks of these lengths.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from measurebayes.backends.blocks import USUAL
from measurebayes.backends.evaluate import EvaluateProgram
from measurebayes.backends.simulate import DRAW
from measurebayes.checks.discrepancy import group_sums
from measurebayes.checks.predictive import P_LIMIT, chance, p_value, time_bands
from measurebayes.checks.replicates import REPLICATES, chosen_draws
from measurebayes.checks.rows import Check, not_judged
from measurebayes.program.labelled import Labelled, labelled

RENEWED = ("task_effect", "difficulty", "family_effect", "discrimination")
ROW = "predictive_length"


class NewTasks(EvaluateProgram):
    """Evaluates a text at draws of a posterior, effects of tasks and families drawn anew.

    Parameters
    ----------
    data, values
        As for `EvaluateProgram`.
    rng
        Source of chance.
    """

    def __init__(self, data: xr.Dataset, values: Any, rng: np.random.Generator) -> None:
        super().__init__(data, values)
        self.rng = rng

    def sample(self, name: str, family: str, parameters: tuple[Any, ...], dims: tuple) -> Labelled:
        """Return the given value, or a new one."""
        if name not in RENEWED or not {"task", "family"} & set(dims):
            return super().sample(name, family, parameters, dims)
        own = np.broadcast_shapes(*(np.shape(p) for p in parameters), self.size(dims))
        return Labelled(DRAW[family](self.rng, own, *parameters), (*self.batch, *dims), name)


def band_rates(fit: xr.DataTree, replicates: int = REPLICATES, budget: int = USUAL) -> xr.Dataset:
    """Success rates by band of human minutes, observed and of new tasks of the same lengths.

    Parameters
    ----------
    fit : xr.DataTree
        Fit of a model with effects of tasks around their length (``task_sd``).
    replicates : int
        Number of draws, one set of new tasks each; which follows from the fit's seed.
    budget : int
        Bytes that arrays of draws by cells may take; changes no result.

    Returns
    -------
    xr.Dataset
        ``observed`` (band) and ``replicated`` (replicate, band): share of attempts that succeed,
        all agents together. No band where human minutes are unknown or differ too little.
    """
    from scipy.special import expit

    from measurebayes.inference.results import model_of

    model, data = model_of(fit), fit["data"].to_dataset()
    band, labels = time_bands(data["human_minutes"].values)
    at = band[data["task_index"].values]
    attempts = data["attempts"].values
    tried = group_sums(attempts, at, len(labels))
    rates = []
    for values, rng in chosen_draws(fit, replicates, budget) if labels else ():
        program = NewTasks(data, values, rng)
        model.run(program, data, model.priors)
        found = labelled(program.log_odds)
        log_odds = xr.DataArray(found.value, dims=found.dims)
        chances = expit(log_odds.transpose("replicate", "cell").values)
        rates.append(group_sums(rng.binomial(attempts, chances), at, len(labels)) / tried)
    replicated = np.concatenate(rates) if rates else np.empty((0, 0))
    return xr.Dataset(
        {
            "observed": ("band", group_sums(data["successes"].values, at, len(labels)) / tried),
            "replicated": (("replicate", "band"), replicated),
        },
        {"band": np.asarray(labels, dtype=str)},
    )


def new_tasks(fit: xr.DataTree, budget: int = USUAL) -> list[Check]:
    """Row of the check, for fits with effects of tasks around their length; none for others.

    Parameters
    ----------
    fit : xr.DataTree
    budget : int
        See `band_rates`.

    Returns
    -------
    list of Check
        Name predictive_length; the value is the share of replicates whose farthest band is at least
        as far off as the observed one's, in standard deviations over replicates.
    """
    if "task_sd" not in fit["posterior"]:
        return []
    found = band_rates(fit, budget=budget)
    if not found.sizes["band"]:
        return [not_judged(ROW, "human minutes differ too little to make time bands.")]
    replicated, observed = found["replicated"].values, found["observed"].values
    mean, spread = replicated.mean(axis=0), np.maximum(replicated.std(axis=0), 1e-6)
    off = np.abs(observed - mean) / spread
    p = p_value(np.asarray(off.max()), (np.abs(replicated - mean) / spread).max(axis=1))
    worst = int(off.argmax())
    low, high = np.quantile(replicated[:, worst], [0.025, 0.975])
    text = (
        f"New tasks of the same lengths: farthest off is {found['band'].values[worst]}, where "
        f"{observed[worst]:.3f} of the attempts succeeded; the model expects {low:.3f} to "
        f"{high:.3f} (95 %; {chance(p)})."
    )
    if p <= P_LIMIT:
        text += (
            " Success doesn't fall with length as the model's curve does. Effects of tasks hide "
            "it, but marginal horizons and plans for longer tasks rest on that curve."
        )
    return [Check(ROW, p > P_LIMIT, p, text)]
