"""Build the Dataset of the schema from columns of records, batch by batch.

Rows are added up by pair of agent and task with pandas' groupby; no Python loop sees a row. Memory
grows with the number of distinct pairs, not with the number of rows.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from measurebayes.data.problems import problem
from measurebayes.data.schema import EACH_TASK_ITS_OWN, storable, validate
from measurebayes.errors import InputError, listed, shown

_SHIFT = 32  # a pair of positions as one int64: first << 32 | second
_MASK = (1 << _SHIFT) - 1
_COMPACT_AT = 2_000_000  # rows kept before they are added up


def _pair(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    return (first << _SHIFT) | second


class CellCounts:
    """Successes and attempts by pair of agent and task, added up over batches of rows."""

    def __init__(self) -> None:
        self._parts: list[pd.DataFrame] = []
        self._pending = 0

    def add(
        self,
        agent_index: np.ndarray,
        task_index: np.ndarray,
        successes: np.ndarray,
        attempts: np.ndarray,
    ) -> None:
        """Add rows; four arrays of shape (row,), int64."""
        columns = {
            "pair": _pair(agent_index, task_index),
            "successes": successes,
            "attempts": attempts,
            "rows": np.ones(len(successes), dtype=np.int64),
        }
        self._parts.append(pd.DataFrame(columns))
        self._pending += len(successes)
        if self._pending > _COMPACT_AT:
            self._compact()

    def _compact(self) -> pd.DataFrame:
        table = pd.concat(self._parts, ignore_index=True)
        self._parts = [table.groupby("pair", as_index=False, sort=False).sum()]
        # The distinct pairs themselves may be many: wait for as many new rows again.
        self._pending = 0
        return self._parts[0]

    def table(self) -> pd.DataFrame:
        """Make one row a pair: agent_index, task_index, successes, attempts, rows; sorted."""
        self.add(*(np.empty(0, dtype=np.int64) for _ in range(4)))  # so that there is a part
        table = self._compact().sort_values("pair", ignore_index=True)
        return table.assign(
            agent_index=table["pair"] // (1 << _SHIFT), task_index=table["pair"] & _MASK
        )


class Attribute:
    """What the rows say about one property of an agent or a task (its family, its release).

    Parameters
    ----------
    name : str
        The property, for messages.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._values: dict[Any, int] = {}
        self._pairs: list[np.ndarray] = []
        self._pending = 0

    def add(self, owner_index: np.ndarray, value_index: np.ndarray, values: Sequence[Any]) -> None:
        """Add rows: `owner_index` (row,) and the position of each row's value in `values`."""
        own = np.array(
            [self._values.setdefault(value, len(self._values)) for value in values], dtype=np.int64
        )
        self._pairs.append(np.unique(_pair(owner_index, own[value_index])))
        self._pending += self._pairs[-1].size
        if self._pending > _COMPACT_AT:
            self._pairs, self._pending = [self._distinct()], 0

    def _distinct(self) -> np.ndarray:
        return np.unique(np.concatenate([np.empty(0, np.int64), *self._pairs]))

    def resolve(
        self, owners: Sequence[str], unknown: Callable[[Any], bool], default: Any, where: str
    ) -> list[Any]:
        """One value for each owner; rows that leave it open don't count.

        Raises
        ------
        InputError
            Naming the owners for which rows disagree.
        """
        values = list(self._values)
        result = [default] * len(owners)
        conflicts: dict[str, list[Any]] = {}
        for pair in self._distinct().tolist():
            owner, value = pair >> _SHIFT, values[pair & _MASK]
            if unknown(value):
                continue
            if not unknown(result[owner]) and result[owner] != value:
                conflicts.setdefault(owners[owner], [result[owner]]).append(value)
            result[owner] = value
        for name, found in conflicts.items():
            problem(
                InputError(
                    f"rows disagree about {self.name} for {len(conflicts)} of {len(owners)}: "
                    f"{shown(name)} has {listed(found)}",
                    where=f"{where}, column {self.name!r}",
                    expected="one value for each, the same in all its rows (or blank)",
                    remedy=f"give all rows of {shown(name)} the same value, or leave the column "
                    "out",
                    code="V305",
                )
            )
        return result


def build_dataset(
    agents: Sequence[str],
    tasks: Sequence[str],
    cells: pd.DataFrame,
    attrs: Mapping[str, Any],
    families: Sequence[str] | None = None,
    sources: Sequence[str] | None = None,
    human_minutes: Sequence[float] | None = None,
    minutes_kinds: Sequence[str] | None = None,
    release_dates: Sequence[np.datetime64] | None = None,
    timing: pd.DataFrame | None = None,
    unscored: pd.DataFrame | None = None,
) -> xr.Dataset:
    """Build a valid Dataset of the schema.

    Parameters
    ----------
    agents, tasks : sequence of str
        Labels, in the order that they shall have.
    cells : pandas.DataFrame
        One row a pair: agent_index, task_index, successes, attempts. Rows without attempts are
        left out.
    attrs : mapping
        Provenance; mappings are stored as JSON text.
    families : sequence of str, optional
        (task,) family of each task, "" where unknown; None where no family is known. A task
        without one is its own family.
    sources, human_minutes, minutes_kinds : sequence, optional
        (task,) suite, time of a person in minutes (NaN unknown), kind of that time.
    release_dates : sequence of numpy.datetime64, optional
        (agent,) day of release, NaT unknown.
    timing : pandas.DataFrame, optional
        Timed human attempts: task_index, minutes, success.
    unscored : pandas.DataFrame, optional
        Records that were not simply scored, as StatusCounts.table gives them: agent_index,
        task_index, status, records, counted_as; sorted by agent and task.

    Returns
    -------
    xarray.Dataset
        See measurebayes.data.schema.

    Raises
    ------
    InputError
        Where the result would break the schema.
    """
    cells = cells[cells["attempts"] > 0].sort_values(["agent_index", "task_index"])
    if not len(cells):
        raise InputError(
            "no record is an attempt by an agent at a task",
            where=str(attrs.get("name", "the data")),
            expected="at least one record with attempts",
            remedy="check the column with the outcome, and what policy= counts as missing",
        )
    # A family gets the attribute only where it is told, so that reports can say what is known.
    told = families is not None and any(families)
    family_names, family_index = family_positions(tasks, families if told else None)
    variables: dict[str, Any] = {
        name: ("cell", cells[name].to_numpy(dtype=np.int64))
        for name in ("agent_index", "task_index", "attempts", "successes")
    }
    variables |= {
        "family_index": ("task", family_index),
        "source": ("task", _text(sources, len(tasks))),
        "human_minutes": ("task", _numbers(human_minutes, len(tasks))),
        "minutes_kind": ("task", _text(minutes_kinds, len(tasks))),
        "task_weight": ("task", task_weights(family_index)),
        "release_date": ("agent", _dates(release_dates, len(agents))),
    }
    if timing is not None and len(timing):
        variables |= {
            "timing_task_index": ("timing", timing["task_index"].to_numpy(dtype=np.int64)),
            "timing_minutes": ("timing", timing["minutes"].to_numpy(dtype=np.float64)),
            "timing_success": ("timing", timing["success"].to_numpy(dtype=np.int64)),
        }
    if unscored is not None and len(unscored):
        variables |= {
            f"unscored_{name}": ("unscored", unscored[name].to_numpy(dtype=np.int64))
            for name in ("agent_index", "task_index", "records")
        }
        variables |= {
            f"unscored_{name}": ("unscored", _text(unscored[name].tolist(), len(unscored)))
            for name in ("status", "counted_as")
        }
    coords = {
        "agent": _text(agents, len(agents)),
        "task": _text(tasks, len(tasks)),
        "family": _text(family_names, len(family_names)),
    }
    stored = {k: json.dumps(v) if isinstance(v, Mapping) else v for k, v in attrs.items()}
    stored = {k: storable(v) if isinstance(v, str) else v for k, v in stored.items()}
    if not told:
        stored["families"] = EACH_TASK_ITS_OWN
    return validate(xr.Dataset(variables, coords=coords, attrs=stored))


def task_weights(family_index: np.ndarray) -> np.ndarray:
    """Weight of each task, 1 / sqrt(number of tasks in its family), (task,)."""
    sizes = np.bincount(family_index)
    return np.asarray(1.0 / np.sqrt(sizes[family_index]))


def family_positions(
    tasks: Sequence[str], families: Sequence[str] | None
) -> tuple[list[str], np.ndarray]:
    """Labels of the families and each task's position among them; a task without is its own."""
    if families is None:
        return list(tasks), np.arange(len(tasks), dtype=np.int64)
    given = set(families)
    lone = [task for task, family in zip(tasks, families, strict=True) if not family]
    if clash := [task for task in lone if task in given]:
        raise InputError(
            f"tasks without a family have the name of another task's family: {listed(clash)}",
            where="column 'family'",
            expected="a family for these tasks (a task without one is its own family)",
            remedy="fill in the blank families",
        )
    full = [family or task for task, family in zip(tasks, families, strict=True)]
    codes, names = pd.factorize(np.asarray(full, dtype=object))
    return list(names), np.asarray(codes, dtype=np.int64)


def _text(values: Sequence[str] | None, size: int) -> np.ndarray:
    # pandas' strings can't go into netCDF, so labels are plain NumPy text
    return np.asarray([""] * size if values is None else list(values), dtype=str)


def _numbers(values: Sequence[float] | None, size: int) -> np.ndarray:
    return np.full(size, np.nan) if values is None else np.asarray(values, dtype=np.float64)


def _dates(values: Sequence[np.datetime64] | None, size: int) -> np.ndarray:
    unknown = [np.datetime64("NaT", "ns")] * size
    return np.asarray(unknown if values is None else list(values), dtype="datetime64[ns]")
