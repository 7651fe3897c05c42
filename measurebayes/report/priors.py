"""The priors of a fit: their values, their meaning, and whether the model text used them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import xarray as xr

from measurebayes.errors import MeasureBayesError
from measurebayes.report.summary import data_of, json_attribute
from measurebayes.report.text import shown


class _Noted(Mapping[str, float]):
    """Numbers by name that notes which of them were read."""

    def __init__(self, values: Mapping[str, float]) -> None:
        self.values_of = values
        self.read: set[str] = set()

    def __getitem__(self, name: str) -> float:
        self.read.add(name)
        return self.values_of[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.values_of)

    def __len__(self) -> int:
        return len(self.values_of)


def used_priors(fit: xr.DataTree) -> set[str] | None:
    """Return which priors the model reads with the options of the fit.

    The model of this installation is run once, on draws from its priors; text that a fit carries
    never is. None where it can't be told: the model isn't at hand, or its text fails.
    """
    from measurebayes.backends.simulate import SimulateProgram
    from measurebayes.inference.results import model_of

    class Reading(SimulateProgram):
        def observe(self, name: str, family: str, parameters: tuple, observed: Any) -> None:
            """Pass over observations: draws from wide priors may allow none."""

    try:
        model = model_of(fit)
        noted = _Noted(model.priors)
        with np.errstate(all="ignore"):
            model.run(Reading(data_of(fit), np.random.default_rng(1)), data_of(fit), noted)
    except MeasureBayesError:
        return None
    return noted.read


def priors_context(fit: xr.DataTree, source: str) -> dict[str, Any]:
    """Return the priors of a fit for the page.

    Parameters
    ----------
    fit : DataTree
    source : str
        Text of the model file, whose comments say what the numbers are.

    Returns
    -------
    dict
        rows: name, value and meaning of each prior in use; unused: names of the others.
    """
    values = json_attribute(fit.attrs, "priors")
    used = used_priors(fit)
    meanings = _comments(source)
    rows = [
        {"name": name, "value": f"{value:g}", "meaning": meanings.get(name, "")}
        for name, value in values.items()
        if used is None or name in used
    ]
    kept = {row["name"] for row in rows}
    unused = [shown(name).replace("_", " ") for name in values if name not in kept]
    return {"rows": rows, "unused": ", ".join(unused)}


def _comments(source: str) -> dict[str, str]:
    """Return the comment behind each entry of PRIORS, by name."""
    lines: dict[str, str] = {}
    for line in source.splitlines():
        code, _, comment = line.partition("#")
        words = code.strip().split(":")
        if comment and len(words) == 2 and words[0][:1] in {'"', "'"}:
            lines.setdefault(words[0].strip("\"'"), comment.strip())
    return lines
