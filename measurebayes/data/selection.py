"""Take a part of a dataset by agents, tasks, families or sources."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import xarray as xr

from measurebayes.data.build import task_weights
from measurebayes.data.connect import with_note
from measurebayes.data.schema import POINTERS, validate
from measurebayes.data.statuses import counted_attributes
from measurebayes.errors import InputError, did_you_mean, listed, shown


def subset(
    runs: xr.Dataset,
    agent: str | Sequence[str] | None = None,
    task: str | Sequence[str] | None = None,
    family: str | Sequence[str] | None = None,
    source: str | Sequence[str] | None = None,
) -> xr.Dataset:
    """Take the cells of some agents and tasks; several conditions must all hold.

    Parameters
    ----------
    runs : xarray.Dataset
        Data in the schema of measurebayes.data.schema.
    agent, task, family, source : str or sequence of str, optional
        Labels to keep; None keeps all. They keep the order that they have in `runs`.

    Returns
    -------
    xarray.Dataset
        Labels that no chosen cell, timed human attempt or unscored record uses are dropped, and
        `task_weight` is 1 / sqrt(number of tasks of the family that are left).

    Raises
    ------
    InputError
        Where a label is unknown (with near ones), or nothing is left.
    """
    validate(runs)
    agents = _chosen(runs["agent"].values, agent, "agent")
    family_of_task = runs["family"].values[runs["family_index"].values]
    tasks = (
        _chosen(runs["task"].values, task, "task")
        & _chosen(family_of_task, family, "family", runs["family"].values)
        & _chosen(runs["source"].values, source, "source")
    )
    cells = agents[runs["agent_index"].values] & tasks[runs["task_index"].values]
    if not cells.any():
        raise InputError(
            "no attempt is left",
            where="subset",
            expected="at least one attempt by a chosen agent at a chosen task",
            remedy="drop one of the conditions",
        )
    part = runs.isel(cell=cells)
    used_agents = _used(part, "agent_index", runs.sizes["agent"])
    used_tasks = _used(part, "task_index", runs.sizes["task"])
    if "timing_task_index" in runs:
        part = _rows(part, "timing", tasks[runs["timing_task_index"].values])
    if "unscored_task_index" in runs:
        kept = agents[runs["unscored_agent_index"].values]
        part = _rows(part, "unscored", kept & tasks[runs["unscored_task_index"].values])
    for name in ("timing_task_index", "unscored_task_index"):
        if name in part:
            used_tasks |= _used(part, name, runs.sizes["task"])
    if "unscored_agent_index" in part:
        used_agents |= _used(part, "unscored_agent_index", runs.sizes["agent"])
    part = _keep(part, "agent", used_agents)
    part = _keep(part, "task", used_tasks)
    part = _keep(part, "family", _used(part, "family_index", runs.sizes["family"]))
    part["task_weight"] = ("task", task_weights(part["family_index"].values))
    return with_note(validate(part.assign_attrs(counted_attributes(part))))


def _chosen(
    labels: np.ndarray,
    wanted: str | Sequence[str] | None,
    kind: str,
    known: np.ndarray | None = None,
) -> np.ndarray:
    if wanted is None:
        return np.ones(labels.size, dtype=bool)
    if not isinstance(wanted, Iterable):
        raise InputError(
            f"{shown(wanted)}",
            where=f"argument {kind!r}",
            expected="a label, or a list of labels",
            remedy=f"{kind}=[...]",
        )
    names = [wanted] if isinstance(wanted, str) else [str(name) for name in wanted]
    present = set((labels if known is None else known).tolist())
    if present <= {""}:
        raise InputError(
            f"the data name no {kind} of any task",
            where=f"argument {kind!r}",
            expected=f"data that say the {kind}",
            remedy="leave this condition out",
        )
    if unknown := [name for name in names if name not in present]:
        raise InputError(
            f"the data have no {kind} {listed(unknown)}",
            where=f"argument {kind!r}",
            expected=f"labels among the {len(present)} of the data, for example "
            f"{listed(sorted(present - {''})[:3])}",
            remedy=did_you_mean(unknown[0], present),
        )
    return np.isin(labels, names)


def _rows(part: xr.Dataset, dim: str, keep: np.ndarray) -> xr.Dataset:
    """Keep some rows of an optional dim; without any, the dim goes too."""
    if keep.any():
        return part.isel({dim: keep})
    return part.drop_vars([name for name in part.variables if dim in part[name].dims])


def _used(part: xr.Dataset, pointer: str, size: int) -> np.ndarray:
    used = np.zeros(size, dtype=bool)
    used[part[pointer].values] = True
    return used


def _keep(part: xr.Dataset, dim: str, keep: np.ndarray) -> xr.Dataset:
    """Drop the labels that are not kept, and renumber what points to them."""
    new_position = np.cumsum(keep) - 1
    part = part.isel({dim: keep})
    for name, target in POINTERS.items():
        if target == dim and name in part:
            part[name] = (part[name].dims, new_position[part[name].values].astype(np.int64))
    return part
