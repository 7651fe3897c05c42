"""What a model would estimate from the data, before anything runs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
import xarray as xr

from measurebayes.backends.simulate import variables
from measurebayes.data.schema import check_is_dataset
from measurebayes.program.registry import ModelFile, get_model


@dataclass(frozen=True, eq=False)
class Description:
    """A model as it applies to a data set.

    Attributes
    ----------
    model, title, equations
        From the model file; the name tells options that are not the default.
    priors
        The numbers in use.
    variables
        One row a latent variable: name, distribution, dims, size.
    parameters
        Number of free parameters: a zero-sum vector has one less than its length.
    cells, attempts
        Observations they are estimated from.
    options
        The options in use.
    """

    model: str
    title: str
    equations: str
    priors: dict[str, float]
    variables: pd.DataFrame
    parameters: int
    cells: int
    attempts: int
    options: dict[str, str | int] = field(default_factory=dict)

    def __str__(self) -> str:
        priors = "\n".join(f"    {name} = {value:g}" for name, value in self.priors.items())
        equations = "\n".join(f"    {line.strip()}" for line in self.equations.splitlines())
        options = "".join(f"    {name} = {value}\n" for name, value in self.options.items())
        options = f"options\n{options}\n" if options else ""
        table = self.variables.to_string(index=False).replace("\n", "\n    ")
        return (
            f"{self.model}: {self.title}\n\n{equations}\n\n{options}priors\n{priors}\n\n"
            f"variables\n    {table}\n\n{self.parameters} free parameters from "
            f"{self.attempts} attempts in {self.cells} cells"
        )

    __repr__ = __str__

    def as_dict(self) -> dict[str, object]:
        """Return all of it, for JSON."""
        return {**vars(self), "variables": self.variables.to_dict("records")}


def describe(
    model: str | Path | ModelFile,
    runs: xr.Dataset,
    priors: Mapping[str, float] | None = None,
    **options: Any,
) -> Description:
    """Say what a model would estimate from the data, before anything runs.

    Parameters
    ----------
    model
        Name of a model, or path of a model file.
    runs
        Dataset of the schema (dims cell, agent, task, family).
    priors
        Numbers that replace those of the file's PRIORS.
    **options
        Options of the model.

    Returns
    -------
    Description
        Prints as text; its parts are attributes.

    Raises
    ------
    ModelError
        The model can't be loaded, or has no such prior or option.
    """
    check_is_dataset(runs)
    model = get_model(model, **options)
    rows, free = [], 0
    for variable in variables(model, runs, priors):
        size = math.prod(variable.shape)
        together = variable.family == "zero_sum_normal"
        free += size - (math.prod(variable.shape[:-1]) if together else 0)
        rows.append(
            {
                "name": variable.name,
                "distribution": f"{variable.family}({', '.join(variable.parameters)})",
                "dims": " x ".join(variable.dims) or "-",
                "size": size,
            }
        )
    return Description(
        model.label,
        model.title,
        model.equations,
        model.with_priors(priors),
        pd.DataFrame(rows),
        free,
        runs.sizes["cell"],
        int(runs["attempts"].sum()),
        dict(model.options),
    )
