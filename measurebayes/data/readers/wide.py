"""Wide tables: a row an agent (or a person), a column a task, entries 0 and 1, blanks holes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr

from measurebayes.data import values
from measurebayes.data.build import CellCounts, build_dataset
from measurebayes.data.problems import problem
from measurebayes.data.readers.base import (
    DELIMITER,
    STRIP,
    Column,
    Option,
    Reader,
    check_table,
    delimiter_of,
    name_list,
    truth,
)
from measurebayes.data.source import Source
from measurebayes.data.tables import Batch, check_unique_names, read_batches
from measurebayes.data.values import MISSING, BadValueError, Encoded, Labels, is_blank, outcome
from measurebayes.errors import InputError, did_you_mean, listed, shown

TABLE = (
    Column(
        "first column",
        "no",
        "label of the agent, if it is named `id` or `agent` or holds anything but 0, 1 and blanks; "
        "otherwise it is a task, and agents are numbered 1, 2, ...",
    ),
    Column(
        "every other column", "yes", "a task: 0 failure, 1 success, blank (or NA) not administered"
    ),
)
OPTIONS = (
    Option("agent", None, "name of the column with the agents' labels, instead of the rule above"),
    Option("ignore", None, "columns that are not tasks, to leave unread: names"),
    STRIP,
    DELIMITER,
)
_LABEL_NAMES = ("id", "agent")


def recognises(source: Source) -> bool:
    """Tell whether all but the first column of the first rows are 0, 1 or blank."""
    if source.kind not in ("csv", "frame") or not source.head or len(source.names) < 2:
        return False
    entries = [entry for row in source.head for entry in row[1:]]
    return any(not is_blank(entry) for entry in entries) and all(map(_is_outcome, entries))


def _is_outcome(entry: Any) -> bool:
    try:
        outcome(entry)
    except BadValueError:
        return False
    return True


def read(source: Source, options: Mapping[str, Any]) -> xr.Dataset:
    """Read a wide table; see TABLE and OPTIONS."""
    check_table(source)
    check_unique_names(source)
    columns = _columns(source, options)
    label_column = options["agent"] or (columns[0] if columns[0] in _LABEL_NAMES else None)
    batches = list(read_batches(source, columns, delimiter_of(options)))
    if not batches:
        raise InputError(
            "the table has a header but no row",
            where=source.name,
            expected="at least one agent",
            remedy="check that whatever wrote the file has finished",
        )
    if label_column is None and not all(_outcomes_only(batch[columns[0]]) for batch in batches):
        label_column = columns[0]
    return _dataset(source, columns, label_column, batches, truth(options["strip"], "strip"))


def _columns(source: Source, options: Mapping[str, Any]) -> list[str]:
    ignored = name_list(options["ignore"], source.names)
    asked = [*ignored, *([options["agent"]] if options["agent"] else [])]
    for name in asked:
        if name not in source.names:
            raise InputError(
                f"the table has no column {shown(name)}",
                where=f"{source.name}, header",
                expected=f"one of its columns: {listed(source.names, 12)}",
                remedy=did_you_mean(name, source.names),
            )
    columns = [name for name in source.names if name not in ignored]
    if len(columns) < 1 or columns == [options["agent"]]:
        raise InputError(
            "the table has no task",
            where=f"{source.name}, header",
            expected="at least one column of 0 and 1",
            remedy="ignore fewer columns",
        )
    return columns


def _outcomes_only(column: Encoded) -> bool:
    return all(map(_is_outcome, column.values))


def _dataset(
    source: Source, columns: list[str], label_column: str | None, batches: list[Batch], strip: bool
) -> xr.Dataset:
    tasks = [name for name in columns if name != label_column]
    if not tasks:
        raise InputError(
            "the table has labels of agents but no task",
            where=f"{source.name}, header",
            expected="at least one column of 0 and 1",
            remedy="for a long table, name its columns: columns={'agent': ..., 'task': ...}",
        )
    agents, cells = Labels(lambda value: values.label(value, strip)), CellCounts()
    rows = holes = 0
    for batch in batches:
        size = batch[columns[0]].indices.size
        index = np.arange(rows, rows + size, dtype=np.int64)
        if label_column is not None:
            index = _check_new(agents, batch[label_column], index)
        # (row, task); one byte holds an outcome
        result = np.stack([values.parse(batch[name], outcome, np.int8) for name in tasks], axis=1)
        row, task = np.nonzero(result != MISSING)
        cells.add(index[row], task, result[row, task].astype(np.int64), np.ones_like(task))
        holes += result.size - row.size
        rows += size
    numbered = [str(number) for number in range(1, rows + 1)]
    labels = [_task_label(source, name, strip) for name in tasks]
    if len(set(labels)) < len(labels):
        raise InputError(
            "task names differ only in leading or trailing blanks", where=f"{source.name}, header"
        )
    return build_dataset(
        agents.names if label_column is not None else numbered,
        labels,
        cells.table(),
        attrs={
            "name": source.name,
            "status_counts": {
                "scored": rows * len(tasks) - holes,
                **({"not_administered": holes} if holes else {}),
            },
            "dropped": {},
        },
    )


def _check_new(agents: Labels, column: Encoded, index: np.ndarray) -> np.ndarray:
    """Add the labels of a batch, (row,); each must be new, because a row is an agent."""
    codes = agents.encode(column)
    again = np.flatnonzero(codes != index)
    seen = set(range(int(index[0]) if index.size else 0))  # agents of earlier rows
    if again.size:
        for row, code in enumerate(codes.tolist()):
            if code in seen:
                error = InputError(
                    f"the agent {shown(agents.names[code])} has more than one row",
                    where=column.place(row),
                    expected="one row for each agent",
                    remedy="rename one of them; repeated attempts belong in a long table; if the "
                    "column holds no labels, agent='NAME' names the one that does",
                    code="I406",
                )
                problem(error, [row], column.place)
            seen.add(code)
    return codes


def _task_label(source: Source, name: str, strip: bool) -> str:
    try:
        return values.label(name, strip)
    except BadValueError as error:
        raise InputError(
            f"the column name {shown(name)} {error.problem}",
            where=f"{source.name}, header",
            expected=error.expected,
            remedy="give every column a name",
        ) from None


READER = Reader(
    name="wide",
    title="Wide table (CSV, Parquet or DataFrame): one row an agent, one column a task, 0 and 1",
    columns=TABLE,
    options=OPTIONS,
    recognises=recognises,
    read=read,
)
