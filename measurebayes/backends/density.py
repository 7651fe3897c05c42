"""SciPy witness: the density of every variable, written plainly and apart from the other backends.

It shares nothing with them but the model text, so that an error in one of them shows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr
from scipy import stats
from scipy.special import gammaln, log_expit

from measurebayes.backends.simulate import SimulateProgram
from measurebayes.program.labelled import Labelled, labelled
from measurebayes.program.program import Program
from measurebayes.program.registry import ModelFile, get_model


class DensityProgram(Program):
    """Sums the log density of every variable at given values."""

    functions = SimulateProgram.functions

    def __init__(self, data: xr.Dataset, layout: str, values: Mapping[str, xr.DataArray]) -> None:
        super().__init__(data, layout)
        self.values = values
        self.terms: dict[str, float] = {}

    def stored_labels(self, name: str) -> np.ndarray | None:
        """Return the labels that the values have."""
        found = (v.coords[name].values for v in self.values.values() if name in v.coords)
        return next(found, None)

    def sample(self, name: str, family: str, parameters: tuple[Any, ...], dims: tuple) -> Labelled:
        """Add the log density of a latent variable at its given value."""
        value = labelled(self.values[name].transpose(*dims))
        self.terms[name] = float(np.sum(_LOG_DENSITY[family](value.value, *parameters)))
        return Labelled(value.value, dims, name)

    def observe(self, name: str, family: str, parameters: tuple[Any, ...], observed: Any) -> None:
        """Add the log density of an observed variable."""
        if family == "binomial":
            n = self.cells.place(self.data["attempts"].values)
            k = self.cells.place(self.data["successes"].values)
            coefficient = gammaln(n + 1.0) - gammaln(k + 1.0) - gammaln(n - k + 1.0)
            eta, *weights = parameters
            terms = coefficient + k * log_expit(eta) + (n - k) * log_expit(-eta)
            terms = terms * weights[0] if weights else terms
        elif family == "normal_above":
            terms = stats.norm.logsf(observed, *parameters)
        else:
            terms = stats.norm.logpdf(observed, *parameters)
        self.terms[name] = float(np.sum(terms))


def _zero_sum(value: np.ndarray, scale: Any) -> np.ndarray:
    # n independent normals less one dimension: that of their mean, whose density at 0 is removed.
    scale = np.broadcast_to(scale, (*np.shape(value)[:-1], 1))
    of_means = 0.5 * np.log(2 * np.pi * scale**2)
    return np.concatenate([stats.norm.logpdf(value, 0.0, scale), of_means], axis=-1)


_LOG_DENSITY: dict[str, Any] = {
    "normal": lambda x, mean, sd: stats.norm.logpdf(x, mean, sd),
    "zero_sum_normal": _zero_sum,
    "half_normal": lambda x, scale: stats.halfnorm.logpdf(x, scale=scale),
    "log_normal": lambda x, mean, sd: stats.norm.logpdf(np.log(x), mean, sd) - np.log(x),
    "exponential": lambda x, scale: stats.expon.logpdf(x, scale=scale),
    "beta": lambda x, a, b: stats.beta.logpdf(x, a, b),
}


def log_densities(
    model: str | ModelFile,
    data: xr.Dataset,
    values: Mapping[str, xr.DataArray],
    priors: Mapping[str, float] | None = None,
    layout: str = "long",
) -> dict[str, float]:
    """Return the log density of every variable of a model, summed over its elements.

    Parameters
    ----------
    model, data, priors, layout
        As for the other interpreters.
    values
        One value of every latent variable, in its own dims, on its natural scale.

    Returns
    -------
    dict of str to float
        By variable; observed ones too.
    """
    model = get_model(model)
    program = DensityProgram(data, layout, values)
    model.run(program, data, model.with_priors(priors))
    return program.terms
