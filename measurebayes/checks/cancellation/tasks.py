"""What tasks are put into bands by, and how."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr

from measurebayes.checks import bands as banding
from measurebayes.checks.bands import Bands
from measurebayes.data.schema import POINTERS
from measurebayes.data.selection import subset
from measurebayes.errors import InputError, did_you_mean, listed, shown


class Values(NamedTuple):
    """A number or a label for each task.

    Attributes
    ----------
    name : str
        What it is.
    unit : str
        What numbers are measured in; empty for none.
    of_task : np.ndarray
        Shape (task,): float64 with NaN for unknown, or str with "" for unknown.
    """

    name: str
    unit: str
    of_task: np.ndarray

    @property
    def numeric(self) -> bool:
        """Whether they are numbers, which are divided into bands, and not labels."""
        return self.of_task.dtype.kind == "f"

    @property
    def known(self) -> np.ndarray:
        """Which tasks have a value (task,)."""
        return np.isfinite(self.of_task) if self.numeric else self.of_task != ""


def task_values(runs: xr.Dataset, by: str | xr.DataArray | Sequence[float]) -> Values:
    """Return what tasks are put into bands by.

    Parameters
    ----------
    runs : xr.Dataset
    by
        As for `cancellation`.

    Raises
    ------
    InputError
        There is no such variable, or it is not one value a task.
    """
    if not isinstance(by, str):
        name = str(getattr(by, "name", None) or "the given values")
        return Values(name, "", _one_a_task(_in_order(by, runs), runs, "by"))
    if by == "minutes":
        return Values("human minutes", "min", runs["human_minutes"].values.astype(float))
    if by == "difficulty":
        from measurebayes.classical import estimate

        difficulty = estimate("rasch_ml", runs).parameters["difficulty"]
        return Values("difficulty", "logits", np.asarray(difficulty))
    if by == "family":
        return Values("family", "", runs["family"].values[runs["family_index"].values])
    columns = [str(name) for name in runs.data_vars if runs[name].dims == ("task",)]
    columns = [name for name in columns if name not in POINTERS and _says_something(runs[name])]
    if by not in columns:
        choices = ["minutes", "difficulty", "family", *columns]
        raise InputError(
            f"the tasks have no variable {shown(by)}",
            where="by",
            expected="one of " + ", ".join(choices),
            remedy=did_you_mean(by, choices) or "add it: runs.assign(name=('task', values))",
        )
    return Values(by, "", _one_a_task(runs[by].values, runs, f"variable {by!r}"))


def _in_order(by: Any, runs: xr.Dataset) -> np.ndarray:
    """Return given values in the order of the tasks: by their labels where they have any.

    Raises
    ------
    InputError
        They are of another dimension, or their labels are not those of the tasks.
    """
    if isinstance(by, pd.Series):
        labelled = pd.api.types.is_string_dtype(by.index)
        by = xr.DataArray(by.to_numpy(), {"task": by.index} if labelled else None, "task")
    if not isinstance(by, xr.DataArray):
        return np.asarray(by)
    if by.dims != ("task",):
        raise InputError(
            f"values along {', '.join(map(str, by.dims)) or 'nothing'}",
            where="by",
            expected="values along task",
            remedy="xr.DataArray(values, dims='task')",
        )
    if "task" not in by.coords:
        return by.values
    labels = np.asarray(by["task"].values, dtype=str)
    missing = sorted(set(runs["task"].values.tolist()) - set(labels.tolist()))
    if missing or len(set(labels.tolist())) < len(labels):
        raise InputError(
            f"no value for the tasks {listed(missing)}" if missing else "a task with two values",
            where="by",
            expected="one value for each task of the data",
            remedy="label the values by runs['task'], or give them in its order without labels",
        )
    place = {label: i for i, label in enumerate(labels.tolist())}
    return by.values[[place[task] for task in runs["task"].values.tolist()]]


def _says_something(column: xr.DataArray) -> bool:
    """Whether any task has a value there."""
    if column.dtype.kind == "f":
        return bool(np.isfinite(column).any())
    return column.dtype.kind != "U" or bool((column != "").any())


def _one_a_task(values: np.ndarray, runs: xr.Dataset, where: str) -> np.ndarray:
    if values.shape != (runs.sizes["task"],) or values.dtype.kind not in "biufUO":
        raise InputError(
            f"values of shape {values.shape} and type {values.dtype}",
            where=where,
            expected=f"one number or label for each of {runs.sizes['task']} tasks",
            remedy="an array in the order of runs['task']",
        )
    if values.dtype.kind in "bUO":
        return np.array(["" if value is None else str(value) for value in values], dtype=str)
    return values.astype(float)


def with_value(runs: xr.Dataset, values: Values) -> tuple[xr.Dataset, Values]:
    """Take the tasks that have a value, and their values.

    Raises
    ------
    InputError
        No task has one.
    """
    known = values.known
    if known.all():
        return runs, values
    if not known.any():
        raise InputError(
            f"no task has {values.name}",
            where=str(runs.attrs.get("name", "the data")),
            expected="tasks with a value to put them into bands by",
            remedy="by='difficulty' puts them into bands by how often they were solved",
        )
    part = subset(runs, task=runs["task"].values[known].tolist())
    kept = np.isin(runs["task"].values, part["task"].values)
    return part, values._replace(of_task=values.of_task[kept])


def divisions(
    runs: xr.Dataset,
    values: Values,
    bands: int | Sequence[float],
    equal: str = "tasks",
    cuts: int = 0,
    seed: int = 0,
) -> list[Bands]:
    """Divide the tasks into bands: once, or at random as often as `cuts` says.

    Parameters
    ----------
    runs, values
        Data and values of its tasks.
    bands, equal, cuts, seed
        As for `cancellation`.

    Raises
    ------
    InputError
        The bands can't be made from these values.
    """
    if cuts and not (values.numeric and isinstance(bands, int | np.integer)):
        raise InputError(
            f"random cuts of {'given edges' if values.numeric else 'labels'}",
            where="cuts",
            expected="a number of bands, and a number of each task to divide by",
            remedy="bands=6, or cuts=0",
        )
    if not values.numeric:
        return [banding.by_label(values.of_task)]
    if not isinstance(bands, int | np.integer):
        return [banding.between(values.of_task, _edges(bands), values.unit)]
    if isinstance(bands, bool) or bands < 2:
        raise InputError(f"{bands} bands", where="bands", expected="2 or more", remedy="bands=6")
    if cuts:
        rng = np.random.default_rng([seed, cuts])
        return [banding.at_random(values.of_task, bands, rng, values.unit) for _ in range(cuts)]
    if equal == "attempts":
        attempts = np.bincount(
            runs["task_index"].values, runs["attempts"].values, runs.sizes["task"]
        )
        return [banding.with_equal_attempts(values.of_task, attempts, bands, values.unit)]
    return [banding.with_equal_tasks(values.of_task, bands, values.unit)]


def _edges(bands: Sequence[float]) -> np.ndarray:
    try:
        edges = np.asarray(bands, dtype=float)
    except (TypeError, ValueError):
        edges = np.zeros(0)
    if edges.ndim != 1 or len(edges) < 3 or not np.all(np.diff(edges) > 0):
        raise InputError(
            f"edges {shown(str(np.ravel(bands).tolist()) if np.size(bands) else 'none')}",
            where="bands",
            expected="a number of bands, or three or more increasing edges",
            remedy="bands=[0.1, 4, 15, 60, 480]",
        )
    return edges
