"""Evaluation: the program at given values of its variables, for many draws at once, in NumPy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr
from scipy.special import expit, gammaln

from measurebayes.backends.simulate import SimulateProgram
from measurebayes.program.labelled import Labelled, labelled, union_of_dims
from measurebayes.program.program import Program
from measurebayes.program.registry import ModelFile, get_model

Values = Mapping[str, xr.DataArray]


class EvaluateProgram(Program):
    """Takes latent variables as given and keeps the log odds of every cell.

    Axes of the values that the data don't have (chain, draw, grid, ...) stay in front of all
    results: arithmetic broadcasts by name.
    """

    functions = SimulateProgram.functions

    def __init__(self, data: xr.Dataset, values: Values) -> None:
        super().__init__(data, "long")
        self.values = values
        self.deterministics: dict[str, Labelled] = {}
        self.log_odds: Labelled | None = None

    def stored_labels(self, name: str) -> np.ndarray | None:
        """Return the labels that the values have."""
        found = (v.coords[name].values for v in self.values.values() if name in v.coords)
        return next(found, None)

    def note(self, name: str, family: str, parameters: tuple, dims: tuple[str, ...]) -> None:
        """Keep the axes of the parameters that are not the variable's own, for `sample`."""
        self.batch = self.batch_dims(parameters, dims)

    def sample(self, name: str, family: str, parameters: tuple[Any, ...], dims: tuple) -> Labelled:
        """Return the given value."""
        if name not in self.values:
            raise LookupError(f"the values lack the variable {name!r}")
        value = labelled(self.values[name])
        return Labelled(value.value, value.dims, name)

    def keep(self, name: str, x: Labelled) -> None:
        """Keep a deterministic variable."""
        self.deterministics[name] = x

    def observe_successes(self, log_odds: Any, weights: Any = None) -> None:
        """Keep the log odds; weights, which say how the fit was made, don't change them."""
        self.log_odds = labelled(log_odds)

    def observe_times(self, kind: str, location: Any, scale: Any) -> None:
        """Pass over records of human time."""

    def observe(self, name: str, family: str, parameters: tuple[Any, ...], observed: Any) -> None:
        """Pass over other observations: cells are what is evaluated."""


def cell_logits(
    model: str | ModelFile,
    data: xr.Dataset,
    values: Values,
    priors: Mapping[str, float] | None = None,
) -> xr.DataArray:
    """Return the log odds of success of every observed cell.

    Parameters
    ----------
    model
        Name of a model, or path of a model file.
    data
        Dataset of the schema.
    values
        For every latent variable its value(s): its own dims and any batch dims (chain, draw, ...).
    priors
        Numbers that replace those of the file's PRIORS, where the text uses them in its log odds.

    Returns
    -------
    xarray.DataArray
        Dims (*batch, cell), in logits.
    """
    model = get_model(model)
    program = EvaluateProgram(data, values)
    model.run(program, data, model.with_priors(priors))
    eta = program.log_odds
    if eta is None:
        raise ValueError(f"model {model.name} observes no successes")
    if "cell" not in eta.dims:  # the same log odds everywhere
        eta = eta + Labelled(np.zeros(program.cells.shape), ("cell",))
    batch = tuple(d for d in union_of_dims(eta.dims) if d != "cell")
    coords = {d: values[n].coords[d] for d in batch for n in values if d in values[n].coords}
    array = xr.DataArray(eta.value, dims=eta.dims, coords=coords)
    return array.transpose(*batch, "cell")


def log_likelihood(model: str | ModelFile, data: xr.Dataset, values: Values) -> xr.DataArray:
    """Return the log density of every cell's successes, binomial coefficient included.

    Returns
    -------
    xarray.DataArray
        Dims (*batch, cell), natural logarithms.
    """
    eta = cell_logits(model, data, values)
    return eta.copy(data=binomial_density(eta.values, data))


def binomial_density(eta: np.ndarray, data: xr.Dataset) -> np.ndarray:
    """Log density of every cell's successes at log odds (..., cell), coefficient included."""
    attempts, successes = data["attempts"].values, data["successes"].values
    # In place, in float64: this array is the largest one in a comparison.
    result = eta * successes
    result -= attempts * np.logaddexp(0.0, eta)
    result += binomial_coefficient(data)
    return result


def binomial_coefficient(data: xr.Dataset) -> np.ndarray:
    """Log number of orders that every cell's attempts may come in (cell,)."""
    attempts, successes = data["attempts"].values, data["successes"].values
    ways = gammaln(attempts + 1.0) - gammaln(successes + 1.0) - gammaln(attempts - successes + 1.0)
    return np.asarray(ways)


def replicate(
    model: str | ModelFile, data: xr.Dataset, values: Values, rng: np.random.Generator
) -> xr.DataArray:
    """Draw successes of the same attempts anew.

    Returns
    -------
    xarray.DataArray
        Whole numbers, dims (*batch, cell).
    """
    eta = cell_logits(model, data, values)
    return eta.copy(data=rng.binomial(data["attempts"].values, expit(eta.values)))
