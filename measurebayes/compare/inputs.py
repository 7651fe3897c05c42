"""What comparisons are given: fits, models and data, refused in words where they are none."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from measurebayes.data.schema import validate
from measurebayes.errors import InputError, shown
from measurebayes.inference.results import check_fit
from measurebayes.program.registry import ModelFile, get_model

#: Attempts that are predicted one by one take some hundred bytes each.
MOST_ATTEMPTS = 5_000_000
LARGEST_CELL = 10**9  # NumPy draws hypergeometric numbers out of fewer


def named_fits(fits: Any) -> dict[str, xr.DataTree]:
    """Return fits by name as a dict.

    Raises
    ------
    InputError
        There is no fit, or something is no fit.
    """
    # a fit is a mapping of its groups
    mapping = isinstance(fits, Mapping) and not isinstance(fits, xr.DataTree | xr.Dataset)
    if not mapping or not fits:
        raise InputError(
            "no fits to compare" if mapping else f"a {type(fits).__name__}",
            where="fits",
            expected="a mapping from names to fits",
            remedy='measurebayes.compare({"rasch": fit1, "two_pl": fit2})',
        )
    for name, fit in fits.items():
        try:
            check_fit(fit)
        except InputError as error:
            where = f"fits[{shown(name)}]"
            raise InputError(error.found, where, error.expected, error.remedy) from None
    return dict(fits)


def check_units(runs: xr.Dataset, unit: str, where: str) -> None:
    """Refuse data with a single unit to leave out, or too many to take one by one.

    The spread over units tells how sure a comparison is, and one unit has none.

    Parameters
    ----------
    runs
        The data.
    unit
        ``"cell"``, ``"attempt"``, ``"task"``, ``"family"`` or ``"agent"``.
    where
        What compares.

    Raises
    ------
    InputError
    """
    number = _count(runs, unit)
    if number < 2:
        raise InputError(
            f"{number} {unit} with attempts to leave out",
            where=where,
            expected="at least two: how sure a comparison is follows from differences between them",
            remedy="leave out another unit" + (", such as tasks" if unit == "family" else ""),
        )
    if unit == "attempt":
        check_number_of_attempts(number, where)


def _count(runs: xr.Dataset, unit: str) -> int:
    if unit == "attempt":
        return int(runs["attempts"].values.sum())
    if unit == "cell":
        return int(np.count_nonzero(runs["attempts"].values))
    at = runs["agent_index" if unit == "agent" else "task_index"].values
    return np.unique(runs["family_index"].values[at] if unit == "family" else at).size


def check_number_of_attempts(number: int, where: str) -> None:
    """Refuse more attempts than can be taken one by one.

    Raises
    ------
    InputError
    """
    if number > MOST_ATTEMPTS:
        raise InputError(
            f"{number} attempts",
            where=where,
            expected=f"at most {MOST_ATTEMPTS} to take one by one, for want of memory",
            remedy="leave out cells instead: all attempts of an agent at a task",
        )


def check_halves(runs: xr.Dataset) -> None:
    """Refuse cells that can't be dealt to two halves at random.

    Raises
    ------
    InputError
    """
    most = int(runs["attempts"].values.max(initial=0))
    if most >= LARGEST_CELL:
        raise InputError(
            f"a cell of {most} attempts",
            where="crossval",
            expected=f"fewer than {LARGEST_CELL} in a cell, to deal them to two halves",
            remedy='folds="cell"',
        )


def check_runs(runs: Any, where: str) -> None:
    """Refuse what is no data set.

    Raises
    ------
    InputError
    """
    if not isinstance(runs, xr.Dataset):
        a_fit = isinstance(runs, xr.DataTree) and "data" in runs.children
        raise InputError(
            "a fit" if a_fit else f"a {type(runs).__name__}",
            where=f"the data of {where}",
            expected="a data set, such as mb.load returns",
            remedy='fit["data"].to_dataset() is that of a fit'
            if a_fit
            else 'runs = mb.load("metr-th1.1")',
        )
    validate(runs)


def named_models(models: Any) -> dict[str, ModelFile]:
    """Return models by name; one alone may be given as it is.

    Raises
    ------
    InputError
        There is no model, one is given twice, or something else is given.
    ModelError
        There is no such model or option.
    """
    if isinstance(models, str | Path | ModelFile):
        models = [models]
    if isinstance(models, xr.DataTree | xr.Dataset) or not hasattr(models, "__iter__"):
        raise _no_models(f"a {type(models).__name__}")
    pairs = (
        [(str(name), model) for name, model in models.items()]
        if isinstance(models, Mapping)
        else [
            (model.label if isinstance(model, ModelFile) else str(model), model) for model in models
        ]
    )
    if not pairs:
        raise _no_models("no models")
    for _, model in pairs:
        if not isinstance(model, str | Path | ModelFile):
            raise _no_models(f"a {type(model).__name__} among them")
    files = [(name, get_model(model)) for name, model in pairs]
    seen = [
        name if isinstance(models, Mapping) else (file.path, file.label) for name, file in files
    ]
    for place, one in enumerate(seen):
        if one in seen[:place]:
            raise _no_models(f"{shown(files[place][0])} twice")
    return dict(files)


def _no_models(found: str) -> InputError:
    return InputError(
        found,
        where="models",
        expected="names of models, each once, or a mapping to them",
        remedy='models=["rasch", "two_pl"]',
    )


def check_folds(k: Any, folds: str, seed: Any) -> None:
    """Refuse a number of folds, or of random splits, or a seed that is none.

    Raises
    ------
    InputError
    """
    whole = hasattr(k, "__index__") and not isinstance(k, bool)
    if k is not None and (not whole or k < (1 if folds == "half-attempts" else 2)):
        raise InputError(
            f"k={shown(k)}",
            where="crossval",
            expected="a whole number: at least 2 folds, or 1 split into halves",
            remedy="leave k out to get its default",
        )
    whole = hasattr(seed, "__index__") and not isinstance(seed, bool)
    if not whole or seed < 0:
        raise InputError(
            f"seed={shown(seed)}",
            where="crossval",
            expected="a whole number, 0 or more",
            remedy="leave seed out to get 0",
        )
