"""PyMC interpreter: the program as random variables of a PyMC model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import xarray as xr

from measurebayes.backends.survival import survival_log_odds
from measurebayes.data.schema import check_is_dataset
from measurebayes.program.program import Program
from measurebayes.program.registry import ModelFile, get_model


class PyMCProgram(Program):
    """Runs a model text inside a PyMC model context."""

    functions = {
        "exp": pt.exp,
        "log": pt.log,
        "logistic": pt.sigmoid,
        "softplus": pt.softplus,
        "survival_log_odds": survival_log_odds(pt),
        "sum": pt.sum,
    }

    def axis(self, name: str, labels: Any) -> xr.DataArray:
        """Tell PyMC the axis too."""
        found = super().axis(name, labels)
        pm.modelcontext(None).add_coord(name, found.values.tolist())
        return found

    def sample(self, name: str, family: str, parameters: tuple[Any, ...], dims: tuple) -> Any:
        """Declare a random variable."""
        arguments = [_float64(p) for p in parameters]
        if family == "zero_sum_normal":
            (scale,) = arguments
            # PyMC wants no axis on the scale of a zero-sum vector.
            scale = scale.flatten()[0] if scale.ndim and len(dims) == 1 else scale
            return pm.ZeroSumNormal(name, sigma=scale, dims=dims)
        make, keywords = _DISTRIBUTIONS[family]
        return make(name, **dict(zip(keywords, arguments, strict=True)), dims=dims or None)

    def keep(self, name: str, x: Any) -> None:
        """Declare a deterministic variable."""
        pm.Deterministic(name, x.value, dims=x.dims or None)

    def observe(self, name: str, family: str, parameters: tuple[Any, ...], observed: Any) -> None:
        """Declare an observed variable."""
        if family != "binomial":
            location, scale = (_float64(p) for p in parameters)
            known = np.asarray(observed, dtype=float)
            if family == "normal_above":
                pm.CustomDist(name, location, scale, logp=_log_exceeds, observed=known)
            else:
                pm.Normal(name, mu=location, sigma=scale, observed=known)
            return
        attempts = self.cells.place(self.data["attempts"].values)
        successes = self.cells.place(self.data["successes"].values)
        eta = pt.broadcast_to(parameters[0], self.cells.shape)
        if len(parameters) > 1:
            weight = _float64(np.asarray(parameters[1]))
            given = {"logp": _weighted_binomial, "observed": successes, "dims": self.cells.dims}
            pm.CustomDist(name, eta, attempts, weight, **given)
        else:
            pm.Binomial(name, n=attempts, logit_p=eta, observed=successes, dims=self.cells.dims)


def _log_exceeds(bound: Any, location: Any, scale: Any) -> Any:
    z = (location - bound) / scale / np.sqrt(2.0)
    # The scaled complement keeps the tail; each branch stays finite where the other is taken.
    tail = pt.log(pt.erfcx(pt.maximum(-z, 0.0)) / 2.0) - z**2
    return pt.switch(z < -1.0, tail, pt.log1p(-pt.erfc(pt.maximum(z, -1.0)) / 2.0))


def _weighted_binomial(successes: Any, eta: Any, attempts: Any, weight: Any) -> Any:
    return weight * pm.logp(pm.Binomial.dist(n=attempts, logit_p=eta), successes)


# PyTensor keeps a Python float as float32, which is off by 2e-8 a term: numbers become float64.
def _float64(parameter: Any) -> Any:
    if isinstance(parameter, int | float | np.ndarray):
        return pt.constant(np.asarray(parameter, dtype=np.float64))
    return parameter


_DISTRIBUTIONS: dict[str, tuple[Any, tuple[str, ...]]] = {
    "normal": (pm.Normal, ("mu", "sigma")),
    "half_normal": (pm.HalfNormal, ("sigma",)),
    "log_normal": (pm.LogNormal, ("mu", "sigma")),
    "exponential": (pm.Exponential, ("scale",)),
    "beta": (pm.Beta, ("alpha", "beta")),
}


def pymc_model(
    model: str | ModelFile,
    data: xr.Dataset,
    priors: Mapping[str, float] | None = None,
    layout: str = "long",
    **options: Any,
) -> pm.Model:
    """Return a PyMC model of the data, for use with any PyMC function.

    Parameters
    ----------
    model
        Name of a model, or path of a model file.
    data
        Dataset of the schema (dims cell, agent, task, family).
    priors
        Numbers that replace those of the file's PRIORS.
    layout
        ``"long"``, ``"dense"`` or ``"auto"``.
    **options
        Options of the model.

    Returns
    -------
    pymc.Model
        Its variables have the names and dims of the model text, and ``successes``.
    """
    check_is_dataset(data)
    model = get_model(model, **options)
    numbers = model.with_priors(priors)
    names = ("agent", "task", "family")
    coords = {name: data[name].values.tolist() for name in names}
    with pm.Model(coords={**coords, "cell": np.arange(data.sizes["cell"])}) as built:
        if model.pymc is not None:
            model.run_by_hand(model.pymc, data, numbers)
        else:
            model.run(PyMCProgram(data, layout), data, numbers)
    return built
