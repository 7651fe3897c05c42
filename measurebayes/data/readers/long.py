"""Long tables: one row a pair of agent and task (k of n), or one row an attempt."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from measurebayes.data import values
from measurebayes.data.build import Attribute, CellCounts, build_dataset
from measurebayes.data.readers.base import (
    COLUMNS,
    DELIMITER,
    STRIP,
    Column,
    Option,
    Reader,
    check_table,
    check_unread,
    delimiter_of,
    mapped_names,
    name_list,
    truth,
)
from measurebayes.data.source import Source
from measurebayes.data.tables import Batch, check_unique_names, read_batches
from measurebayes.data.values import MISSING, Labels
from measurebayes.errors import InputError, listed, near, shown

TABLE = (
    Column("agent", "yes", "label of the agent: a model, a person, a system"),
    Column("task", "yes", "label of the task: an item, a question, a problem"),
    Column("successes", "if there is no `success`", "attempts of this row that succeeded, k of n"),
    Column("attempts", "if there is no `success`", "attempts of this row; 0 where it was not run"),
    Column("success", "if there is no `successes`", "outcome of one attempt: 0, 1, true or false"),
    Column("family", "no", "family that the task belongs to; the same in all rows of a task"),
    Column("source", "no", "suite that the task comes from"),
    Column("human_minutes", "no", "time that a person takes for the task, minutes"),
    Column("minutes_kind", "no", "how that time is known: baseline, estimate, ..."),
    Column("release_date", "no", "day of the agent's release, such as 2025-02-24"),
)
OPTIONS = (
    COLUMNS,
    Option("ignore", None, 'columns to leave unread: names, or "*" for all that are not known'),
    Option(
        "missing",
        "error",
        "what a blank outcome or count is: an error, a record to drop (its number is kept in "
        "`dropped`), or a failure (only with the column success)",
        ("error", "drop", "failure"),
    ),
    Option(
        "duplicates",
        "error",
        "what several rows of one agent and task are in a table of k of n: an error, or counts to "
        "add up",
        ("error", "sum"),
    ),
    STRIP,
    DELIMITER,
)
_KNOWN = [column.name for column in TABLE]
_TASK_TEXT = ("family", "source", "minutes_kind")


def recognises(source: Source) -> bool:
    """Tell whether the header has agent, task and an outcome, by their exact names."""
    names = set(source.names)
    outcome = "success" in names or {"successes", "attempts"} <= names
    return source.kind != "jsonl" and {"agent", "task"} <= names and outcome


def read(source: Source, options: Mapping[str, Any]) -> xr.Dataset:
    """Read a long table; see TABLE and OPTIONS."""
    check_table(source)
    check_unique_names(source)
    names = mapped_names(source, _KNOWN, options["columns"])
    _check_columns(source, names, options["ignore"])
    records = _Records(source.name, names, options)
    for batch in read_batches(source, list(names.values()), delimiter_of(options)):
        records.add({name: batch[column] for name, column in names.items()})
    return records.dataset()


def _check_columns(source: Source, names: Mapping[str, str], ignore: Any) -> None:
    header = f"{source.name}, header"
    unread = [name for name in source.names if name not in names.values()]
    has_counts, has_outcome = {"successes", "attempts"} & set(names), "success" in names
    wanted = ["agent", "task"]
    wanted += ["successes", "attempts"] if has_counts and not has_outcome else ["success"]
    lacking = [name for name in wanted if name not in names]
    if lacking:
        guesses = [f"{name} may be {shown(g)}" for name in lacking for g in near(name, unread, 1)]
        mapping = ", ".join(f"{name!r}: 'ITS NAME'" for name in lacking)
        either = "" if has_counts or has_outcome else " (or successes and attempts)"
        raise InputError(
            f"the table has no column {listed(lacking)}{either}",
            where=header,
            expected=f"columns {', '.join(wanted)}; the file has: {listed(source.names, 12)}",
            remedy="; ".join([*guesses, f"name them: columns={{{mapping}}}"]),
        )
    if has_counts and has_outcome:
        raise InputError(
            f"the table has both 'success' and {listed(sorted(has_counts))}",
            where=header,
            expected="either success (one row an attempt) or successes and attempts (k of n)",
            remedy="remove one of them, or map another column to it with the option columns",
        )
    check_unread(header, unread, _KNOWN, names, name_list(ignore))


class _Records:
    """What has been read so far of one table."""

    def __init__(self, name: str, names: Mapping[str, str], options: Mapping[str, Any]) -> None:
        self.name = name
        self.names = names
        self.missing = options["missing"]
        self.add_up = options["duplicates"] == "sum"
        strip = truth(options["strip"], "strip")
        self.label = lambda value: values.label(value, strip)
        self.optional_label = lambda value: values.optional_label(value, strip)
        self.agents, self.tasks = Labels(self.label), Labels(self.label)
        self.cells = CellCounts()
        of_table = [
            name for name in (*_TASK_TEXT, "human_minutes", "release_date") if name in names
        ]
        self.attributes = {name: Attribute(name) for name in of_table}
        self.rows = 0
        self.dropped: dict[str, int] = {}
        if self.missing == "failure" and "success" not in names:
            raise InputError(
                "the option missing is 'failure', but the table holds counts",
                where=name,
                expected="missing='error' or missing='drop' for a table of k of n",
                remedy="missing='drop'",
            )

    def add(self, batch: Batch) -> None:
        agent, task = self.agents.encode(batch["agent"]), self.tasks.encode(batch["task"])
        for name, attribute in self.attributes.items():
            parser = self._parser(name)
            distinct = values.parse_distinct(batch[name], parser)
            owner = agent if name == "release_date" else task
            attribute.add(owner, batch[name].indices, distinct)
        successes, attempts = self._outcome(batch)
        kept = successes != MISSING
        self.cells.add(agent[kept], task[kept], successes[kept], attempts[kept])
        self.rows += len(agent)

    def _parser(self, name: str) -> Any:
        parsers = {"human_minutes": values.minutes, "release_date": values.date}
        return parsers.get(name, self.optional_label)

    def _outcome(self, batch: Batch) -> tuple[np.ndarray, np.ndarray]:
        """Successes and attempts of each row; successes are MISSING where the row is dropped."""
        if "success" in batch:
            successes = values.parse(batch["success"], values.outcome, np.int64)
            blank = self._blank(successes, batch["success"])
            successes = np.where(blank & (self.missing == "failure"), 0, successes)
            return successes, np.ones_like(successes)
        successes = values.parse(batch["successes"], values.count, np.int64)
        attempts = values.parse(batch["attempts"], values.count, np.int64)
        blank = self._blank(successes, batch["successes"])
        blank |= self._blank(attempts, batch["attempts"])
        too_many = np.flatnonzero(~blank & (successes > attempts))
        if too_many.size:
            row = int(too_many[0])
            raise InputError(
                f"{successes[row]} successes of {attempts[row]} attempts",
                where=batch["successes"].place(row),
                expected="at most as many successes as attempts",
                remedy="correct the row; attempts counts successes and failures together",
            )
        return np.where(blank, MISSING, successes), attempts

    def _blank(self, numbers: np.ndarray, column: values.Encoded) -> np.ndarray:
        blank = numbers == MISSING
        found = int(blank.sum())
        if found and self.missing == "error":
            raise InputError(
                "the value is blank",
                where=column.place(int(np.argmax(blank))),
                expected="an outcome; an attempt that was not made or not scored is no failure",
                remedy="leave the row out, or say what blanks are: missing='drop'"
                + (" or missing='failure'" if "success" in self.names else ""),
            )
        if found:
            reason = "blank, counted as failure" if self.missing == "failure" else "blank, dropped"
            self.dropped[reason] = self.dropped.get(reason, 0) + found
        return blank

    def dataset(self) -> xr.Dataset:
        if not self.rows:
            raise InputError(
                "the table has a header but no row",
                where=self.name,
                expected="at least one record",
                remedy="check that whatever wrote the file has finished",
            )
        agents, tasks = self.agents.names, self.tasks.names
        table = self.cells.table()
        if "success" not in self.names and not self.add_up:
            _check_duplicates(self.name, table, agents, tasks)
        unsure = {"blank, counted as failure": self.dropped.pop("blank, counted as failure", 0)}
        return build_dataset(
            agents,
            tasks,
            table,
            attrs={
                "name": self.name,
                "status_counts": {
                    "records": self.rows,
                    **{k: n for k, n in unsure.items() if n},
                    **self.dropped,
                },
                "dropped": self.dropped,
            },
            families=self._resolved("family", tasks),
            sources=self._resolved("source", tasks),
            minutes_kinds=self._resolved("minutes_kind", tasks),
            human_minutes=self._resolved("human_minutes", tasks),
            release_dates=self._resolved("release_date", agents),
        )

    def _resolved(self, name: str, owners: list[str]) -> list[Any] | None:
        if name not in self.attributes:
            return None
        unknown, default = {
            "human_minutes": (np.isnan, np.nan),
            "release_date": (np.isnat, np.datetime64("NaT", "ns")),
        }.get(name, (lambda text: text == "", ""))
        return self.attributes[name].resolve(owners, unknown, default, self.name)


def _check_duplicates(where: str, table: pd.DataFrame, agents: list[str], tasks: list[str]) -> None:
    twice = table[table["rows"] > 1]
    if len(twice):
        pairs = [
            f"{agents[agent]} at {tasks[task]} ({rows} rows)"
            for agent, task, rows in twice[["agent_index", "task_index", "rows"]].to_numpy()[:5]
        ]
        more = f" and {len(twice) - 5} more" if len(twice) > 5 else ""
        raise InputError(
            f"{len(twice)} pairs of agent and task have several rows: "
            f"{', '.join(map(shown, pairs))}{more}",
            where=where,
            expected="one row of successes and attempts for each agent and task",
            remedy="remove copies; where the rows are different attempts, add them up: "
            "duplicates='sum'",
        )


READER = Reader(
    name="long",
    title="Long table (CSV, Parquet or DataFrame): k successes of n attempts a row, or one row an "
    "attempt",
    columns=TABLE,
    options=OPTIONS,
    recognises=recognises,
    read=read,
)
