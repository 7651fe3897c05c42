"""What is known of how long tasks take a person: timed attempts, recorded times, estimates.

A record of human time is of one of four kinds.

========= ========================================================================================
kind      one record for each
========= ========================================================================================
timed     successful timed attempt of a person
recorded  task whose human minutes are a mean of timed attempts that the data don't hold themselves
estimated task whose human minutes somebody estimated (`minutes_kind` "estimate"), or whose timed
          attempts ran in a fixed window (`minutes_kind` "window"), which is no time to completion
failed    timed attempt of a person that failed: success would have taken longer
========= ========================================================================================

A timed attempt that repeats the estimate of its task to the digit is that estimate, written twice:
some published tables hold such rows. Attempts in a fixed window are never timed attempts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import xarray as xr

from measurebayes.data.schema import BASELINES, ESTIMATE, WINDOW

KINDS = ("timed", "recorded", "estimated", "failed")
SAME = 0.02  # share of a time


@dataclass(frozen=True)
class Records:
    """Records of human time of one kind.

    Attributes
    ----------
    task
        Position of the task of each (record,).
    log2_minutes
        Observed log2 minutes (record,).
    number
        Timed attempts that each averages geometrically (record,), 1 where unknown.
    """

    task: np.ndarray
    log2_minutes: np.ndarray
    number: np.ndarray

    @property
    def size(self) -> int:
        """Number of records."""
        return len(self.task)


def human_times(data: xr.Dataset) -> dict[str, Records]:
    """Return the records of human time in a dataset by kind.

    Parameters
    ----------
    data
        Dataset of the schema.
    """
    minutes = data["human_minutes"].values
    kind = data["minutes_kind"].values
    usable, failed = _attempts(data, minutes, kind)
    guessed = np.isin(kind, (ESTIMATE, WINDOW))
    has_times = np.zeros(minutes.size, dtype=bool)
    has_times[usable.task] = True
    known = np.isfinite(minutes)
    number = np.ones(minutes.size)
    if BASELINES in data and data[BASELINES].dims == ("task",):
        given = data[BASELINES].values.astype(float)
        number = np.where(given >= 1, given, 1.0)
    recorded, estimated = known & ~guessed & ~has_times, known & guessed
    return {
        "timed": usable,
        "recorded": _of_tasks(recorded, minutes, number),
        "estimated": _of_tasks(estimated, minutes, np.ones(minutes.size)),
        "failed": failed,
    }


def _of_tasks(chosen: np.ndarray, minutes: np.ndarray, number: np.ndarray) -> Records:
    task = np.flatnonzero(chosen)
    return Records(task, np.log2(minutes[task]), number[task])


def _attempts(data: xr.Dataset, minutes: np.ndarray, kind: np.ndarray) -> tuple[Records, Records]:
    """Return timed attempts that succeeded and that failed."""
    both = []
    for rows in _rows(data, minutes, kind)[:2]:
        task = data["timing_task_index"].values[rows] if rows.size else rows
        taken = data["timing_minutes"].values[rows] if rows.size else np.empty(0)
        both.append(Records(task, np.log2(taken), np.ones(rows.size)))
    return both[0], both[1]


def _rows(data: xr.Dataset, minutes: np.ndarray, kind: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return the rows of timed attempts that succeeded, that failed, that repeat an estimate."""
    if "timing_minutes" not in data:
        return (np.empty(0, dtype=int),) * 3
    task, taken = data["timing_task_index"].values, data["timing_minutes"].values
    repeats = (kind[task] == ESTIMATE) & np.isclose(taken, minutes[task], rtol=1e-6)
    usable = (kind[task] != WINDOW) & ~repeats
    solved = data["timing_success"].values == 1
    return tuple(np.flatnonzero(x) for x in (usable & solved, usable & ~solved, repeats))


def piled_up(data: xr.Dataset) -> list[str]:
    """Return tasks whose timed attempts end at one time, as in a window of fixed length.

    At least three of a task's attempts, and half of them, took the same time within a share of
    `SAME`.

    Parameters
    ----------
    data
        Dataset of the schema.
    """
    records = human_times(data)
    task = np.concatenate([records[kind].task for kind in ("timed", "failed")])
    log2_minutes = np.concatenate([records[kind].log2_minutes for kind in ("timed", "failed")])
    found = []
    for one in np.unique(task):
        taken = log2_minutes[task == one]
        alike = np.abs(taken[:, None] - taken) <= np.log2(1.0 + SAME)
        if alike.sum(axis=0).max() >= max(3, taken.size / 2):
            found.append(str(data["task"].values[one]))
    return found


def with_times(data: xr.Dataset, drawn: Mapping[str, np.ndarray]) -> xr.Dataset:
    """Return the data with other values in its records of human time.

    Parameters
    ----------
    data
        Dataset of the schema.
    drawn
        Kind -> log2 minutes (record,), in the order of `human_times`; failed attempts stay.
    """
    new, records = data.copy(), human_times(data)
    minutes = data["human_minutes"].values.copy()
    for kind in ("recorded", "estimated"):
        if kind in drawn:
            minutes[records[kind].task] = 2.0 ** drawn[kind]
    new["human_minutes"] = ("task", minutes)
    if "timing_minutes" in data:
        timed, _, repeats = _rows(data, data["human_minutes"].values, data["minutes_kind"].values)
        taken = data["timing_minutes"].values.copy()
        taken[repeats] = minutes[data["timing_task_index"].values[repeats]]
        if "timed" in drawn:
            taken[timed] = 2.0 ** drawn["timed"]
        new["timing_minutes"] = ("timing", taken)
    return new
