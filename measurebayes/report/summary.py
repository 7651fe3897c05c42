"""What a page says of a fit: intervals, counts, and which fits there are."""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import xarray as xr

from measurebayes.errors import InputError, did_you_mean, shown

if TYPE_CHECKING:
    from measurebayes.program.registry import ModelFile

QUANTILES = {"low95": 0.025, "low50": 0.25, "median": 0.5, "high50": 0.75, "high95": 0.975}
GROUPS = ("posterior", "data")


def place_of(data: xr.Dataset, kind: str, name: str) -> int:
    """Position of an agent or a task (`kind`) in the data of a fit.

    Raises
    ------
    InputError
        It isn't in the data.
    """
    known = data[kind].values
    found = np.flatnonzero(known == str(name))
    if not len(found):
        raise InputError(
            f"no {kind} {shown(name)}",
            where=f"{kind}s",
            expected=f"names of {kind}s in the data of the fit",
            remedy=did_you_mean(str(name), known) or f'fit["data"]["{kind}"] lists them',
        )
    return int(found[0])


def named_fits(fits: Any) -> dict[str, xr.DataTree]:
    """Return the fits by name.

    Parameters
    ----------
    fits : DataTree, sequence of DataTree, or mapping of names to DataTree
        A list is named by the fits' models; the second fit of one model gets the suffix -2.

    Returns
    -------
    dict of str to DataTree

    Raises
    ------
    InputError
        There is no fit, or something else than a fit was given.
    """
    if isinstance(fits, xr.DataTree):
        named = {_model_name(fits): fits}
    elif isinstance(fits, Mapping):
        named = {str(name): fit for name, fit in fits.items()}
    elif isinstance(fits, Sequence) and not isinstance(fits, str):
        named = {}
        for fit in fits:
            named[_free_name(_model_name(fit), named)] = fit
    else:
        raise _not_a_fit(fits, "fits")
    if not named:
        raise InputError("no fit", where="fits", expected="one fit or more", remedy=_FIT_HINT)
    for name, fit in named.items():
        if not _is_fit(fit):
            raise _not_a_fit(fit, f"fits[{name!r}]")
    return named


_FIT_HINT = 'make one with mb.fit("two_pl", runs, seed=1), or open one with mb.open("fit.nc")'


def _is_fit(fit: Any) -> bool:
    return isinstance(fit, xr.DataTree) and all(group in fit.children for group in GROUPS)


def _not_a_fit(found: Any, where: str) -> InputError:
    what = type(found).__name__
    if isinstance(found, xr.DataTree):
        what = f"a DataTree with the groups {', '.join(found.children) or 'none'}"
    return InputError(
        f"{what} is not a fit",
        where=where,
        expected="a DataTree with the groups " + " and ".join(GROUPS),
        remedy=_FIT_HINT,
    )


def _model_name(fit: Any) -> str:
    if not _is_fit(fit):
        raise _not_a_fit(fit, "fits")
    return model_words(fit).label


def _free_name(name: str, taken: Mapping[str, Any]) -> str:
    if name not in taken:
        return name
    number = next(n for n in range(2, len(taken) + 3) if f"{name}-{n}" not in taken)
    return f"{name}-{number}"


def model_words(fit: xr.DataTree) -> ModelFile:
    """Return what the model file of a fit says: name, options, title, references, text.

    The words are read from the text that the fit carries; the text is not run. To evaluate the
    model, `measurebayes.inference.results.model_of` is the function.
    """
    from measurebayes.program.options import declared_in
    from measurebayes.program.registry import ModelFile

    source = str(fit.attrs.get("model_source", ""))
    try:
        docstring = ast.get_docstring(ast.parse(source)) or ""
    except (SyntaxError, ValueError):  # ValueError: a null byte in the text
        docstring = ""
    name = str(fit.attrs.get("model", "model"))
    offered, options = declared_in(source), json_attribute(fit.attrs, "options")
    return ModelFile(
        name, "", source, docstring, {}, function=_not_run, offered=offered, options=options
    )


def _not_run(*_: Any) -> None:
    raise RuntimeError("words of a model can't be evaluated")


def posterior_of(fit: xr.DataTree) -> xr.Dataset:
    """Return the posterior draws: variables (chain, draw, ...)."""
    return fit["posterior"].to_dataset()


def data_of(fit: xr.DataTree) -> xr.Dataset:
    """Return the data that the fit was made from."""
    return fit["data"].to_dataset()


def json_attribute(attributes: Mapping[Any, Any], name: str) -> dict[str, Any]:
    """Return an attribute that holds a JSON object; an empty one where it is absent."""
    value = json.loads(str(attributes.get(name) or "{}"))
    return value if isinstance(value, dict) else {}


def has_each(fit: xr.DataTree, variable: str, dim: str) -> bool:
    """Whether a model has a variable of each agent or task, and of nothing else."""
    posterior = posterior_of(fit)
    return variable in posterior and set(posterior[variable].dims) == {"chain", "draw", dim}


def interval_table(fit: xr.DataTree, variable: str, dim: str) -> pd.DataFrame:
    """Summarise a variable (chain, draw, `dim`) of a posterior.

    Returns
    -------
    DataFrame
        One row an entry of `dim`, in the order of the data: name, mean, sd and the quantiles
        low95, low50, median, high50, high95, all in the unit of the variable.

    Raises
    ------
    InputError
        The model has no such variable.
    """
    posterior = posterior_of(fit)
    if not has_each(fit, variable, dim):
        raise InputError(
            f"no variable {variable} of each {dim}",
            where=f"the posterior of model {fit.attrs.get('model', '')}",
            expected="one of " + ", ".join(map(str, posterior.data_vars)),
            remedy="plot another variable, or fit a model that has it, such as rasch or two_pl",
        )
    draws = posterior[variable].transpose(dim, "chain", "draw").values
    return draws_table(draws.reshape(len(draws), -1), _labels(fit, dim))


def _labels(fit: xr.DataTree, dim: str) -> np.ndarray:
    return data_of(fit)[dim].values.astype(str)


def draws_table(draws: np.ndarray, names: Sequence[str] | np.ndarray) -> pd.DataFrame:
    """Summarise draws (row, draw): name, mean, sd and quantiles of every row."""
    # float32 posteriors would otherwise be averaged in float32.
    draws = np.asarray(draws, dtype=float)
    table = pd.DataFrame({"name": list(names), "mean": draws.mean(1), "sd": draws.std(1, ddof=1)})
    quantiles = np.quantile(draws, list(QUANTILES.values()), axis=1)
    return table.assign(**dict(zip(QUANTILES, quantiles, strict=True)))


def counts_table(data: xr.Dataset, dim: str) -> pd.DataFrame:
    """Count cells, attempts and successes of every agent or task, in the order of the data.

    Returns
    -------
    DataFrame
        Columns cells, attempts, successes (int), rate (NaN where nothing was attempted) and state:
        ``"always solved"``, ``"never solved"``, ``"not attempted"`` or ``""``.
    """
    index = data[f"{dim}_index"].values
    size = data.sizes[dim]
    cells = np.bincount(index, minlength=size)
    # Sums of integers below 2**53 are exact in the float64 that bincount uses for weights.
    attempts, successes = (
        np.bincount(index, data[name].values, minlength=size).astype(np.int64)
        for name in ("attempts", "successes")
    )
    rate = np.divide(successes, attempts, out=np.full(size, np.nan), where=attempts > 0)
    state = np.select(
        [attempts == 0, successes == attempts, successes == 0],
        ["not attempted", "always solved", "never solved"],
        "",
    )
    return pd.DataFrame(
        {"cells": cells, "attempts": attempts, "successes": successes, "rate": rate, "state": state}
    )


def thinned(fit: xr.DataTree, most: int) -> xr.Dataset:
    """Return about `most` draws of the posterior, evenly spread over every chain."""
    posterior = posterior_of(fit)
    chains, draws = posterior.sizes["chain"], posterior.sizes["draw"]
    keep = min(draws, max(1, most // chains))
    return posterior.isel(draw=np.unique(np.linspace(0, draws - 1, keep).astype(int)))


def first_ranks(fit: xr.DataTree) -> np.ndarray:
    """Return each agent's posterior probability of the highest ability, (agent,)."""
    ability = posterior_of(fit)["ability"].transpose("agent", "chain", "draw").values
    best = ability.reshape(len(ability), -1).argmax(0)
    return np.bincount(best, minlength=len(ability)) / len(best)
