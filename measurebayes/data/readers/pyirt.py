"""py-irt files: JSON lines, one object an agent with its responses by task."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr

from measurebayes.data import values
from measurebayes.data.build import CellCounts, build_dataset
from measurebayes.data.lines import json_lines
from measurebayes.data.problems import going_on, problem
from measurebayes.data.readers.base import STRIP, Column, Reader, truth
from measurebayes.data.schema import STATUSES
from measurebayes.data.source import Source
from measurebayes.data.statuses import POLICY, SCORED, StatusCounts
from measurebayes.data.values import MISSING, Labels, encode_values
from measurebayes.errors import InputError, did_you_mean, listed, shown

TABLE = (
    Column("subject_id", "yes", "label of the agent"),
    Column("responses", "yes", "object: task -> 0, 1, true or false; null for not administered"),
)
OPTIONS = (POLICY, STRIP)

_NOT_ADMINISTERED = STATUSES.index("not_administered")


def recognises(source: Source) -> bool:
    """Tell whether the first line has the two keys."""
    return source.kind == "jsonl" and {"subject_id", "responses"} <= set(source.names)


def read(source: Source, options: Mapping[str, Any]) -> xr.Dataset:
    """Read a py-irt file; see TABLE and OPTIONS."""
    if source.kind != "jsonl":
        raise InputError(
            f"the file is {source.kind}",
            where=source.name,
            expected='JSON lines: {"subject_id": "...", "responses": {"task": 1, ...}}',
            remedy="choose another reader",
        )
    strip = truth(options["strip"], "strip")
    agents = Labels(lambda value: values.label(value, strip))
    tasks = Labels(lambda value: values.label(value, strip))
    cells = CellCounts()
    statuses = StatusCounts(options["policy"])
    known_names: list[str] = []
    task = np.empty(0, dtype=np.int64)
    for number, record in json_lines(source):
        where = f"{source.name}, line {number}"
        responses: dict[str, Any] = {}
        with going_on():
            responses = _responses(record, where)
        if not responses:
            continue
        known = len(agents.names)
        place = encode_values([record["subject_id"]], lambda _, w=where: f"{w}, key 'subject_id'")  # type: ignore[misc]
        agent = int(agents.encode(place)[0])
        if agent < known:
            problem(
                InputError(
                    f"the agent {shown(agents.names[agent])} stands on more than one line",
                    where=where,
                    expected="one line for each agent",
                    remedy="rename one of them, or join their responses; repeated attempts belong "
                    "in a long table",
                    code="I406",
                )
            )
        names = list(responses)
        if names != known_names:  # lines mostly hold the same tasks in the same order
            known_names, task = names, _task_index(names, where, tasks)
        result = _outcomes(responses, where)
        status = np.where(result == MISSING, _NOT_ADMINISTERED, SCORED)
        result = statuses.add(np.full(result.size, agent), task, status, result)
        done = result != MISSING
        size = int(done.sum())
        cells.add(np.full(size, agent), task[done], result[done], np.ones(size, np.int64))
    unscored = statuses.table(agents.names, source.name)
    return build_dataset(
        agents.names,
        tasks.names,
        cells.table(),
        attrs={"name": source.name, **statuses.attributes(unscored)},
        unscored=unscored,
    )


def _responses(record: dict[str, Any], where: str) -> dict[str, Any]:
    for key in ("subject_id", "responses"):
        if key not in record:
            raise InputError(
                f"the object has no key {key!r}",
                where=where,
                expected=f"keys subject_id and responses; it has {listed(record)}",
                remedy=did_you_mean(key, record) or "repair or remove this line",
                code="T201",
            )
    responses = record["responses"]
    if not isinstance(responses, dict):
        raise InputError(
            f"the responses are a {type(responses).__name__}",
            where=f"{where}, key 'responses'",
            expected='an object: {"task": 0 or 1, ...}',
            remedy="repair or remove this line",
            code="V302",
        )
    return responses


def _task_index(names: list[str], where: str, tasks: Labels) -> np.ndarray:
    column = encode_values(names, lambda row: f"{where}, response to {shown(names[row])}")
    task = tasks.encode(column)
    if np.unique(task).size < task.size:
        raise InputError(
            "task names differ only in leading or trailing blanks",
            where=where,
            expected="each task once on a line",
            remedy="rename or remove one of them",
        )
    return task


def _outcomes(responses: dict[str, Any], where: str) -> np.ndarray:
    answers = list(responses.values())
    if set(map(type, answers)) <= {int, bool} and set(answers) <= {0, 1}:
        return np.array(answers, dtype=np.int64)  # almost every line: fast
    names = list(responses)
    column = encode_values(answers, lambda row: f"{where}, response to {shown(names[row])}")
    return values.parse(column, values.outcome, np.int64)


READER = Reader(
    name="pyirt",
    title="py-irt file: JSON lines with subject_id and responses",
    columns=TABLE,
    options=OPTIONS,
    recognises=recognises,
    read=read,
)
