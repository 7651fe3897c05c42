"""METR's published results by task: YAML with successes and runs of each agent at each task.

Source of the format: METR, task_results_1_1.yaml behind https://metr.org/time-horizons/.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import xarray as xr

from measurebayes.data import values, yamltext
from measurebayes.data.build import Attribute, CellCounts, build_dataset
from measurebayes.data.options import STRIP, Option, truth
from measurebayes.data.readers.base import Column, Reader
from measurebayes.data.source import Source
from measurebayes.data.values import BadValueError, Labels, encode_values
from measurebayes.errors import InputError, did_you_mean, listed, shown

TABLE = (
    Column("agents", "yes", "label of the agent -> its results"),
    Column("agents: AGENT: release_date", "no", "day of the agent's release"),
    Column("agents: AGENT: tasks: task_id", "yes", "label of the task"),
    Column("agents: AGENT: tasks: n_successes", "yes", "successes, a whole number"),
    Column("agents: AGENT: tasks: n_runs", "yes", "attempts; 0 where it was not run"),
    Column("agents: AGENT: tasks: human_minutes", "no", "time of a person for the task, minutes"),
    Column("agents: AGENT: tasks: task_weight", "no", "left unread: it follows from the families"),
    Column("agents: AGENT: coefficient, intercept", "no", "left unread: METR's own fit"),
)
OPTIONS = (
    STRIP,
    Option("minutes_kind", "", "how human minutes are known, for all tasks: baseline, estimate"),
)
_KEYS = ("task_id", "n_successes", "n_runs", "human_minutes")
_REQUIRED = _KEYS[:3]


def recognises(source: Source) -> bool:
    """Tell whether there is YAML with `agents`."""
    return source.kind == "yaml" and "agents" in source.names


def read(source: Source, options: Mapping[str, Any]) -> xr.Dataset:
    """Read results by task; see TABLE and OPTIONS."""
    if source.kind != "yaml":
        raise InputError(
            f"the file is {source.kind}",
            where=source.name,
            expected="YAML with `agents`, as METR publishes it",
            remedy="choose another reader",
        )
    strip = truth(options["strip"], "strip")
    document = yamltext.parse(source.files[0].content(), source.name)
    agents = _mapping(mapping_of_document(document, source.name).get("agents"), "agents", source)
    rows = list(_rows(agents, source))
    places = [place for place, *_ in rows]
    columns = {
        key: encode_values(
            [row[at] for row in rows],
            lambda row, k=key: f"{places[row]}, key {k!r}",  # type: ignore[misc]
        )
        for at, key in enumerate(("agent", *_KEYS), start=1)
    }
    labels, tasks = (Labels(lambda value: values.label(value, strip)) for _ in range(2))
    agent, task = labels.encode(columns["agent"]), tasks.encode(columns["task_id"])
    _check_once(agent, task, places)
    successes, attempts = (values.parse(columns[key], _count, np.int64) for key in _KEYS[1:3])
    _check_counts(successes, attempts, places)
    cells = CellCounts()
    cells.add(agent, task, successes, attempts)
    minutes = Attribute("human_minutes")
    distinct = values.parse_distinct(columns["human_minutes"], values.minutes)
    minutes.add(task, columns["human_minutes"].indices, distinct)
    human = minutes.resolve(tasks.names, np.isnan, np.nan, source.name)
    kind = str(options["minutes_kind"] or "")
    return build_dataset(
        labels.names,
        tasks.names,
        cells.table(),
        attrs={
            "name": source.name,
            "status_counts": {"scored": int(attempts.sum())},
            "dropped": {},
        },
        human_minutes=human,
        minutes_kinds=["" if np.isnan(one) else kind for one in human],
        release_dates=_release_dates(agents, labels, source),
    )


def mapping_of_document(document: Any, name: str) -> Mapping[str, Any]:
    """Give the document, which must be a mapping."""
    if isinstance(document, Mapping):
        return document
    raise InputError("the YAML is no mapping", where=name, expected="a mapping with `agents`")


def _mapping(value: Any, what: str, source: Source) -> Mapping[str, Any]:
    if isinstance(value, Mapping) and value:
        return value
    raise InputError(
        f"{what} is {'empty' if not value else 'no mapping'}",
        where=source.name,
        expected="names of agents with their results below",
        remedy="check that the file is whole",
    )


def _rows(agents: Mapping[str, Any], source: Source) -> Iterator[tuple[Any, ...]]:
    """Yield place, agent and the values of _KEYS for each agent and task."""
    for agent, result in agents.items():
        tasks = result.get("tasks") if isinstance(result, Mapping) else None
        if not isinstance(tasks, list):
            raise InputError(
                f"the agent {shown(agent)} has no list of tasks",
                where=source.name,
                expected="tasks: a list with task_id, n_successes and n_runs",
                remedy="check that the file is whole",
            )
        for number, task in enumerate(tasks, start=1):
            place = f"{source.name}, agent {shown(agent)}, task {number}"
            if not isinstance(task, Mapping) or not set(_REQUIRED) <= set(task):
                keys = list(task) if isinstance(task, Mapping) else []
                lacking = [key for key in _REQUIRED if key not in keys]
                raise InputError(
                    f"the task has no key {listed(lacking)}",
                    where=place,
                    expected=f"keys {', '.join(_REQUIRED)}; it has {listed(keys)}",
                    remedy=did_you_mean(lacking[0], keys) or "check that the file is whole",
                )
            yield (place, agent, *(task.get(key) for key in _KEYS))


def _count(value: Any) -> int:
    found = values.count(value)
    if found == values.MISSING:
        raise BadValueError("is blank", "a whole number from 0")
    return found


def _check_once(agent: np.ndarray, task: np.ndarray, places: list[str]) -> None:
    seen: dict[tuple[int, int], int] = {}
    for row, pair in enumerate(zip(agent.tolist(), task.tolist(), strict=True)):
        if pair in seen:
            raise InputError(
                "a task stands twice for one agent",
                where=f"{places[seen[pair]]} and {places[row]}",
                expected="each task once for each agent",
                remedy="remove one of the two",
            )
        seen[pair] = row


def _check_counts(successes: np.ndarray, attempts: np.ndarray, places: list[str]) -> None:
    if (bad := np.flatnonzero(successes > attempts)).size:
        row = int(bad[0])
        raise InputError(
            f"{successes[row]} successes of {attempts[row]} runs",
            where=places[row],
            expected="at most as many successes as runs",
            remedy="correct the file",
        )


def _release_dates(
    agents: Mapping[str, Any], labels: Labels, source: Source
) -> list[np.datetime64]:
    names = list(agents)
    found = [agents[name].get("release_date") for name in names]
    column = encode_values(found, lambda row: f"{source.name}, agent {shown(names[row])}")
    dates = values.parse(column, values.date, "datetime64[ns]")
    by_label = {values.label(name, True): at for at, name in enumerate(names)}
    return [dates[by_label[name.strip()]] for name in labels.names]


READER = Reader(
    name="metr_yaml",
    title="METR's results by task: YAML with successes and runs of each agent at each task",
    columns=TABLE,
    options=OPTIONS,
    recognises=recognises,
    read=read,
)
