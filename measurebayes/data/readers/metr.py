"""METR's runs.jsonl: one JSON object a run, by agents and by people.

Source of the format: METR/eval-analysis-public (MIT License), described in Kwa et al. (2025),
arXiv:2503.14499, https://doi.org/10.48550/arXiv.2503.14499.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from measurebayes.data import values
from measurebayes.data.build import Attribute, CellCounts, build_dataset
from measurebayes.data.lines import json_lines
from measurebayes.data.problems import going_on, problem
from measurebayes.data.readers.base import STRIP, Column, Option, Reader, truth
from measurebayes.data.schema import STATUSES
from measurebayes.data.source import Source
from measurebayes.data.statuses import POLICY, SCORED, StatusCounts
from measurebayes.data.values import MISSING, Encoded, Labels, encode_values
from measurebayes.errors import InputError, did_you_mean, listed

TABLE = (
    Column("task_id", "yes", "label of the task"),
    Column("alias", "yes", "label of the agent; `human` for timed human attempts"),
    Column("score_binarized", "yes", "outcome of the run: 0 or 1"),
    Column("run_id", "no", "identifies the run; a run that stands twice is an error"),
    Column("task_family", "no", "family of the task"),
    Column("task_source", "no", "suite of the task (HCAST, SWAA, RE-Bench)"),
    Column("human_minutes", "no", "time of a person for the task, minutes"),
    Column("human_source", "no", "how that time is known (baseline, estimate, qa, external_qa)"),
    Column(
        "fatal_error_from",
        "no",
        "what stopped a run: usageLimits is a limit, anything else an error; null: nothing did",
    ),
    Column("started_at", "for human rows", "start of the run, milliseconds"),
    Column("completed_at", "for human rows", "end of the run, milliseconds"),
)
OPTIONS = (
    POLICY,
    Option(
        "duplicates",
        "error",
        "what rows with the same run_id are: an error, or different runs to keep",
        ("error", "keep"),
    ),
    Option("human", "human", "alias of the rows that are timed human attempts"),
    STRIP,
)
_KEYS = [column.name for column in TABLE]
_REQUIRED = [column.name for column in TABLE if column.required == "yes"]
_MILLISECONDS = 60_000.0  # in a minute


def recognises(source: Source) -> bool:
    """Tell whether the first line has the required keys."""
    return source.kind == "jsonl" and set(_REQUIRED) <= set(source.names)


def read(source: Source, options: Mapping[str, Any]) -> xr.Dataset:
    """Read runs; see TABLE and OPTIONS."""
    if source.kind != "jsonl":
        raise InputError(
            f"the file is {source.kind}",
            where=source.name,
            expected="JSON lines, one run a line",
            remedy="choose another reader",
        )
    columns = _columns(source)
    if options["duplicates"] == "error":
        _check_run_ids(columns["run_id"])
    strip = truth(options["strip"], "strip")
    runs = _parsed(columns, strip)
    tasks = Labels(lambda value: values.label(value, strip))
    runs["task"] = tasks.encode(columns["task_id"])
    human = (runs["alias"] == options["human"]).to_numpy()
    machine = runs[~human]
    agent, agents = pd.factorize(machine["alias"].to_numpy(dtype=object))
    task, score = (machine[name].to_numpy(np.int64) for name in ("task", "score"))
    statuses = StatusCounts(options["policy"], scores_beside=True)
    status = machine["fatal_error_from"].map(_status).to_numpy(np.int64)
    outcome = statuses.add(agent, task, status, score)
    unscored = statuses.table(list(agents), source.name)
    kept = outcome != MISSING
    cells = CellCounts()
    cells.add(agent[kept], task[kept], outcome[kept], np.ones(int(kept.sum()), np.int64))
    timing, untimed = _timing(runs[human])
    attributes = statuses.attributes(unscored)
    if human.any():
        attributes["status_counts"]["human"] = int(human.sum())
    if untimed:
        attributes["dropped"]["human, without a usable time"] = untimed
    return build_dataset(
        list(agents),
        tasks.names,
        cells.table(),
        attrs={"name": source.name, **attributes},
        timing=timing,
        unscored=unscored,
        **_properties(columns, runs, tasks.names, source.name, strip),
    )


def _status(stopped_by: str) -> int:
    if not stopped_by:
        return SCORED
    return STATUSES.index("limit" if stopped_by == "usageLimits" else "errored")


def _columns(source: Source) -> dict[str, Encoded]:
    """Make columns of the keys of TABLE; the place of a row is its line."""
    lines: list[int] = []
    rows: list[list[Any]] = []
    for number, record in json_lines(source):
        if not record.keys() >= set(_REQUIRED):
            with going_on():
                _raise_lacking(record, f"{source.name}, line {number}")
            continue
        lines.append(number)
        rows.append([record.get(key) for key in _KEYS])
    if not rows:  # the linter passed all lines over
        raise InputError("no line holds a run", where=source.name, code="F102")
    columns = zip(*rows, strict=True)
    return {
        key: encode_values(
            list(column),
            lambda row, k=key: f"{source.name}, line {lines[row]}, key {k!r}",  # type: ignore[misc]
        )
        for key, column in zip(_KEYS, columns, strict=True)
    }


def _raise_lacking(record: Mapping[str, Any], where: str) -> None:
    lacking = [key for key in _REQUIRED if key not in record]
    raise InputError(
        f"the object has no key {listed(lacking)}",
        where=where,
        expected=f"keys {', '.join(_REQUIRED)}; it has {listed(record, 12)}",
        remedy=did_you_mean(lacking[0], record) or "repair or remove this line",
        code="T201",
    )


def _check_run_ids(runs: Encoded) -> None:
    number = np.bincount(runs.indices)
    twice = [v for v, n in zip(runs.values, number, strict=True) if n > 1 and v is not None]
    if twice:
        rows = np.flatnonzero(runs.indices == list(runs.values).index(twice[0]))
        error = InputError(
            f"{len(twice)} runs stand more than once: {listed(twice)}",
            where=f"{runs.place(int(rows[1]))}, as before in {runs.place(int(rows[0]))}",
            expected="each run once",
            remedy="remove the copies; if run_id doesn't tell runs apart: duplicates='keep'",
            code="I406",
        )
        values_at = {position for position, n in enumerate(number) if n > 1}
        problem(error, np.flatnonzero(np.isin(runs.indices, list(values_at))), runs.place)


def _parsed(columns: Mapping[str, Encoded], strip: bool) -> pd.DataFrame:
    text = {"alias": values.label, "fatal_error_from": values.optional_label}
    runs = {
        name: values.parse(columns[name], lambda v, p=parser: p(v, strip), object)  # type: ignore[misc]
        for name, parser in text.items()
    }
    runs["score"] = values.parse(columns["score_binarized"], values.outcome, np.int64)
    blank = np.flatnonzero(runs["score"] == MISSING)
    if blank.size:
        error = InputError(
            f"{blank.size} runs have no score",
            where=columns["score_binarized"].place(int(blank[0])),
            expected="0 or 1",
            remedy="leave these runs out of the file; a run without a score is no failure",
            code="V302",
        )
        problem(error, blank, columns["score_binarized"].place)
    for name in ("started_at", "completed_at"):
        runs[name] = values.parse(columns[name], _milliseconds, np.float64)
    return pd.DataFrame(runs)


def _milliseconds(value: Any) -> float:
    if values.is_blank(value):
        return float("nan")
    if isinstance(value, bool) or not isinstance(value, int | float) or abs(value) > 1e15:
        raise values.BadValueError("is not a time", "milliseconds since 1970, or null")
    return float(value)


def _timing(runs: pd.DataFrame) -> tuple[pd.DataFrame, int]:
    """Pick the timed human attempts, and count how many more had no usable time."""
    minutes = (runs["completed_at"] - runs["started_at"]) / _MILLISECONDS
    usable = minutes > 0
    table = pd.DataFrame({"task_index": runs["task"], "minutes": minutes, "success": runs["score"]})
    return table[usable], int((~usable).sum())


def _properties(
    columns: Mapping[str, Encoded], runs: pd.DataFrame, tasks: list[str], name: str, strip: bool
) -> dict[str, list[Any]]:
    """Properties of the tasks, as arguments of build_dataset."""
    text = {
        "families": "task_family",
        "sources": "task_source",
        "minutes_kinds": "human_source",
    }
    owner = runs["task"].to_numpy(dtype=np.int64)
    found: dict[str, list[Any]] = {}
    for argument, key in [*text.items(), ("human_minutes", "human_minutes")]:
        attribute = Attribute(key)
        if argument == "human_minutes":
            distinct = values.parse_distinct(columns[key], values.minutes)
            attribute.add(owner, columns[key].indices, distinct)
            found[argument] = attribute.resolve(tasks, np.isnan, np.nan, name)
        else:
            distinct = values.parse_distinct(
                columns[key], lambda value: values.optional_label(value, strip)
            )
            attribute.add(owner, columns[key].indices, distinct)
            found[argument] = attribute.resolve(tasks, lambda value: value == "", "", name)
    return found


READER = Reader(
    name="metr",
    title="METR's runs.jsonl: JSON lines, one run of an agent or a person",
    columns=TABLE,
    options=OPTIONS,
    recognises=recognises,
    read=read,
)
