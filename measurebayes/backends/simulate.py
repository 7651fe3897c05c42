"""Simulation: the program as NumPy draws, from the priors or given some variables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from scipy.special import expit

from measurebayes.backends.survival import survival_log_odds
from measurebayes.data.schema import check_is_dataset
from measurebayes.errors import ModelError
from measurebayes.program.data_verbs import RESERVED
from measurebayes.program.human_times import with_times
from measurebayes.program.labelled import Labelled, labelled
from measurebayes.program.program import Program
from measurebayes.program.registry import ModelFile, get_model

LONGEST_NAME = 80


def total_by(x: np.ndarray, at: np.ndarray, size: int) -> np.ndarray:
    """Sum the last axis (..., record) by positions `at` (record,) into (..., size)."""
    total = np.zeros((*np.shape(x)[:-1], size))
    np.add.at(total, (..., at), x)  # type: ignore[arg-type]
    return total


@dataclass(frozen=True)
class Variable:
    """A latent variable as the model text states it."""

    name: str
    family: str
    dims: tuple[str, ...]
    shape: tuple[int, ...]
    parameters: tuple[str, ...]


class SimulateProgram(Program):
    """Draws every variable in the order of the text; observed ones too."""

    functions = {
        "exp": np.exp,
        "log": np.log,
        "logistic": expit,
        "softplus": lambda x: np.logaddexp(0.0, x),
        "survival_log_odds": survival_log_odds(np),
        "sum": np.sum,
        "total_by": total_by,
    }

    def __init__(self, data: xr.Dataset, rng: np.random.Generator) -> None:
        super().__init__(data, "long")
        self.rng = rng
        self.variables: list[Variable] = []
        self.values: dict[str, Labelled] = {}
        self.drawn_times: dict[str, np.ndarray] = {}

    def note(self, name: str, family: str, parameters: tuple, dims: tuple[str, ...]) -> None:
        """Record the variable as stated."""
        self._new_name(name)
        shown = tuple(_shown(p) for p in parameters)
        self.variables.append(Variable(name, family, dims, self.size(dims), shown))

    def _new_name(self, name: str) -> None:
        if not isinstance(name, str) or not name.isidentifier() or len(name) > LONGEST_NAME:
            raise ValueError(
                f"{str(name)[:40]!r} can't be the name of a variable: use letters and _"
            )
        if name in RESERVED or name in self.axes:
            raise ValueError(f"{name!r} can't be the name of a variable: it names something else")
        if name in self.values:
            raise ValueError(f"two variables are called {name!r}")

    def sample(self, name: str, family: str, parameters: tuple[Any, ...], dims: tuple) -> Labelled:
        """Draw a latent variable."""
        shape = self.size(dims)
        value = Labelled(DRAW[family](self.rng, shape, *parameters), dims, name)
        self.values[name] = value
        return value

    def keep(self, name: str, x: Labelled) -> None:
        """Record a deterministic variable."""
        self._new_name(name)
        self.values[name] = x

    def observe(self, name: str, family: str, parameters: tuple[Any, ...], observed: Any) -> None:
        """Draw an observed variable."""
        if name in self.values:
            raise ValueError(f"{name!r} is observed twice")
        if family == "binomial":
            chance = np.broadcast_to(expit(parameters[0]), self.cells.shape)
            drawn = self.rng.binomial(self.data["attempts"].values, chance)
            self.values[name] = Labelled(drawn.astype(np.int64), ("cell",))
        elif family == "normal":
            drawn = self.rng.normal(*parameters, size=np.shape(observed))
            self.values[name] = Labelled(drawn, ("observation",) * np.ndim(observed))

    def observe_times(self, kind: str, location: Any, scale: Any) -> None:
        """Draw log2 minutes of every record of a kind; how long failed attempts ran is given."""
        super().observe_times(kind, location, scale)
        drawn = self.values.pop(f"{kind}_log2_minutes", None)
        if drawn is not None:
            self.drawn_times[kind] = np.asarray(drawn.value)


def _zero_sum(rng: np.random.Generator, shape: tuple[int, ...], scale: Any) -> np.ndarray:
    free = rng.normal(0.0, scale, size=shape)
    return free - free.mean(axis=-1, keepdims=True)


DRAW: dict[str, Any] = {
    "normal": lambda rng, shape, mean, sd: rng.normal(mean, sd, size=shape),
    "zero_sum_normal": _zero_sum,
    "half_normal": lambda rng, shape, scale: np.abs(rng.normal(0.0, scale, size=shape)),
    "log_normal": lambda rng, shape, mean, sd: np.exp(rng.normal(mean, sd, size=shape)),
    "exponential": lambda rng, shape, scale: rng.exponential(scale, size=shape),
    "beta": lambda rng, shape, a, b: rng.beta(a, b, size=shape),
}


def _shown(parameter: Any) -> str:
    x = labelled(parameter)
    if x.name:
        return x.name
    return f"{float(x.value):g}" if not x.dims and np.ndim(x.value) == 0 else "(expression)"


def prior_draw(
    model: str | ModelFile,
    data: xr.Dataset,
    rng: np.random.Generator,
    priors: Mapping[str, float] | None = None,
) -> dict[str, xr.DataArray]:
    """Draw all variables of a model once from their priors, and observations given them.

    Returns
    -------
    dict of str to xarray.DataArray
        Latent and deterministic variables with their own dims, and ``successes`` (cell) for the
        attempts that `data` has.
    """
    return _drawn_values(get_model(model), data, rng, priors)[0]


def prior_data(
    model: str | ModelFile,
    data: xr.Dataset,
    rng: np.random.Generator,
    priors: Mapping[str, float] | None = None,
) -> tuple[dict[str, xr.DataArray], xr.Dataset]:
    """Draw all variables of a model once from their priors, and data given them.

    Returns
    -------
    tuple
        Latent and deterministic variables with their own dims; and the data with all that the model
        observes drawn anew: successes, and human times where it has an error of them.
    """
    values, times = _drawn_values(get_model(model), data, rng, priors)
    new = with_times(data, times) if times else data.copy()
    new["successes"] = ("cell", values.pop("successes").values.astype(np.int64))
    return values, new


def _drawn_values(
    model: ModelFile,
    data: xr.Dataset,
    rng: np.random.Generator,
    priors: Mapping[str, float] | None,
) -> tuple[dict[str, xr.DataArray], dict[str, np.ndarray]]:
    program = SimulateProgram(data, rng)
    _drawn(model, program, data, priors)
    values = {
        name: xr.DataArray(np.asarray(x.value), dims=x.dims, coords=program.coordinates(x.dims))
        for name, x in program.values.items()
    }
    return values, program.drawn_times


def _drawn(
    model: ModelFile,
    program: SimulateProgram,
    data: xr.Dataset,
    priors: Mapping[str, float] | None,
) -> None:
    model.run(program, data, model.with_priors(priors))
    if "successes" not in program.values:
        raise ModelError(
            "the text never calls pp.observe_successes",
            where=model.path,
            expected="one call that gives the log odds of every cell",
            remedy="end the text with pp.observe_successes(pp.cell(...) - pp.cell(...))",
        )


def variables(
    model: str | ModelFile, data: xr.Dataset, priors: Mapping[str, float] | None = None
) -> list[Variable]:
    """List the latent variables of a model for the data, in the order of its text."""
    model = get_model(model)
    program = SimulateProgram(data, np.random.default_rng(0))
    _drawn(model, program, data, priors)
    return program.variables


def reads(
    model: ModelFile, data: xr.Dataset, priors: Mapping[str, float] | None = None
) -> set[str]:
    """Return which values of the data the text uses besides what it observes.

    "human_minutes", "cells": see the verbs of `Program`.
    """
    program = SimulateProgram(data, np.random.default_rng(0))
    _drawn(model, program, data, priors)
    return program.reads


def simulate(
    model: str | ModelFile,
    data: xr.Dataset,
    seed: int = 0,
    priors: Mapping[str, float] | None = None,
    **options: Any,
) -> xr.Dataset:
    """Return data drawn from the prior predictive distribution.

    Successes are drawn; and human times where the model has an error of them.

    Parameters
    ----------
    model
        Name of a model, or path of a model file.
    data
        The design: agents, tasks and attempts; its successes are replaced.
    seed
        Makes the draw reproducible.
    priors
        Numbers that replace those of the file's PRIORS.
    **options
        Options of the model.

    Returns
    -------
    xarray.Dataset
        Of the schema, with the true values of all variables as variables ``true_<name>``.
    """
    check_is_dataset(data)
    model = get_model(model, **options)
    drawn, new = prior_data(model, data, np.random.default_rng(seed), priors)
    new.attrs = {**data.attrs, "title": f"simulated from {model.label}, seed {seed}"}
    return new.assign({f"true_{name}": value for name, value in drawn.items()})
