"""Long tables: one row a pair of agent and task (k of n), or one row an attempt."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from measurebayes.data import scores, values
from measurebayes.data.build import Attribute, CellCounts, build_dataset
from measurebayes.data.problems import problem
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
    meant,
    name_list,
    truth,
)
from measurebayes.data.runs import THRESHOLD
from measurebayes.data.schema import STATUSES
from measurebayes.data.source import Source
from measurebayes.data.statuses import POLICY, SCORED, StatusCounts, status_code
from measurebayes.data.tables import Batch, check_unique_names, read_batches
from measurebayes.data.values import MISSING, BadValueError, Labels
from measurebayes.errors import InputError, listed, shown

TABLE = (
    Column("agent", "yes", "label of the agent: a model, a person, a system"),
    Column("task", "yes", "label of the task: an item, a question, a problem"),
    Column("successes", "if there is no `success`", "attempts of this row that succeeded, k of n"),
    Column("attempts", "if there is no `success`", "attempts of this row; 0 where it was not run"),
    Column(
        "success",
        "if there is no `successes`",
        "outcome of one attempt: 0, 1, true or false, correct or incorrect, pass or fail; other "
        "numbers need `threshold`",
    ),
    Column(
        "status",
        "no",
        "what became of the attempt of this row, in a table with `success`; blank: scored where "
        "there is an outcome, else not attempted",
    ),
    Column("family", "no", "family that the task belongs to; the same in all rows of a task"),
    Column("source", "no", "suite that the task comes from"),
    Column("human_minutes", "no", "time that a person takes for the task, minutes"),
    Column("minutes_kind", "no", "how that time is known: baseline, estimate, ..."),
    Column("release_date", "no", "day of the agent's release, such as 2025-02-24"),
)
OPTIONS = (
    COLUMNS,
    Option("ignore", None, 'columns to leave unread: names, or "*" for all that are not known'),
    POLICY,
    THRESHOLD,
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
_OUTCOMES = "0, 1, true or false, correct or incorrect, pass or fail"
_BY_THRESHOLD = "threshold=0.5 (or another number): a score of at least that is a success"
_NOT_ATTEMPTED = STATUSES.index("not_attempted")
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
        given = {name: meant(name, unread) for name in lacking}
        guesses = [f"{name} may be {shown(guess)}" for name, guess in given.items() if guess]
        mapping = ", ".join(f"{name!r}: {given[name] or 'ITS NAME'!r}" for name in lacking)
        either = "" if has_counts or has_outcome else " (or successes and attempts)"
        raise InputError(
            f"the table has no column {listed(lacking)}{either}",
            where=header,
            expected=f"columns {', '.join(wanted)}; the file has: {listed(source.names, 12)}",
            remedy="; ".join([*guesses, f"name them: columns={{{mapping}}}"]),
            code="T201",
        )
    if has_counts and has_outcome:
        raise InputError(
            f"the table has both 'success' and {listed(sorted(has_counts))}",
            where=header,
            expected="either success (one row an attempt) or successes and attempts (k of n)",
            remedy="remove one of them, or map another column to it with the option columns",
        )
    check_unread(header, unread, _KNOWN, names, name_list(ignore, source.names))


class _Records:
    """What has been read so far of one table."""

    def __init__(self, name: str, names: Mapping[str, str], options: Mapping[str, Any]) -> None:
        self.name = name
        self.names = names
        self.statuses = StatusCounts(options["policy"], scores_beside="status" in names)
        self.threshold = scores.threshold_of(options["threshold"])
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
        if "status" in names and "success" not in names:
            raise InputError(
                "the table has a status, but holds counts",
                where=name,
                expected="one row an attempt, with the column success",
                remedy="leave the status unread: ignore='status'",
            )

    def add(self, batch: Batch) -> None:
        agent, task = self.agents.encode(batch["agent"]), self.tasks.encode(batch["task"])
        for name, attribute in self.attributes.items():
            parser = self._parser(name)
            distinct = values.parse_distinct(batch[name], parser)
            owner = agent if name == "release_date" else task
            attribute.add(owner, batch[name].indices, distinct)
        successes, attempts = self._outcome(batch)
        status = self._status(batch, successes)
        counted = self.statuses.add(agent, task, status, successes, _place(batch), attempts)
        kept = counted != MISSING
        self._refuse_uncounted(kept & (successes == MISSING))
        self.cells.add(agent[kept], task[kept], counted[kept], attempts[kept])
        self.rows += len(agent)

    def _status(self, batch: Batch, successes: np.ndarray) -> np.ndarray:
        told = np.where(successes == MISSING, _NOT_ATTEMPTED, SCORED)
        if "status" not in batch:
            return told
        given = values.parse(batch["status"], status_code, np.int64)
        empty = (given == SCORED) & (successes == MISSING)
        if empty.any():
            raise InputError(
                "the record is scored, but its outcome is blank",
                where=batch["success"].place(int(np.argmax(empty))),
                expected="an outcome, or another status",
                remedy=f"correct the row; statuses: {', '.join(STATUSES)}",
            )
        return np.where(given == MISSING, told, given)

    def _refuse_uncounted(self, failed: np.ndarray) -> None:
        """Refuse blank counts as failures: nobody knows how many attempts they stand for."""
        if "success" not in self.names and failed.any():
            raise InputError(
                f"{int(failed.sum())} blank counts are to be failures, but it isn't known of how "
                "many attempts",
                where=self.name,
                expected="policy='missing' for a table of k of n",
                remedy="policy='missing', or fill in the counts",
            )

    def _parser(self, name: str) -> Any:
        parsers = {"human_minutes": values.minutes, "release_date": values.date}
        return parsers.get(name, self.optional_label)

    def _outcome(self, batch: Batch) -> tuple[np.ndarray, np.ndarray]:
        """Successes and attempts of each row; successes are MISSING where one of them is blank."""
        if "success" in batch:
            successes = values.parse(batch["success"], self._one, np.int64)
            return successes, np.ones_like(successes)
        successes = values.parse(batch["successes"], values.count, np.int64)
        attempts = values.parse(batch["attempts"], values.count, np.int64)
        blank = (successes == MISSING) | (attempts == MISSING)
        too_many = np.flatnonzero(~blank & (successes > attempts))
        if too_many.size:
            _refuse_too_many(batch["successes"], successes, attempts, too_many)
            successes = np.minimum(successes, attempts)
        return np.where(blank, MISSING, successes), attempts

    def _one(self, value: Any) -> int:
        """Outcome of one attempt; letters are no marks here, as they may be answers."""
        if values.is_blank(value):
            return MISSING
        score = math.nan if scores.is_letter(value) else scores.number(value)
        if self.threshold is not None and not scores.is_mark(value):
            score = float(score >= self.threshold) if score == score else score  # NaN stays
        if score in (0.0, 1.0):
            return int(score)
        if 0 < score < 1:
            raise BadValueError("is neither success nor failure", _OUTCOMES, "V304", _BY_THRESHOLD)
        raise BadValueError("is not the outcome of an attempt", _OUTCOMES)

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
        unscored = self.statuses.table(agents, self.name)
        return build_dataset(
            agents,
            tasks,
            table,
            attrs={"name": self.name, **self.statuses.attributes(unscored)},
            unscored=unscored,
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


def _place(batch: Batch) -> Callable[[int], str]:
    """Words for the place of a row's outcome, or of what is blank in it."""

    def place(row: int) -> str:
        if "status" in batch:
            return batch["status"].place(row)
        if "success" in batch:
            return batch["success"].place(row)
        column = batch["attempts"]
        blank = values.is_blank(column.values[column.indices[row]])
        return (column if blank else batch["successes"]).place(row)

    return place


def _refuse_too_many(
    column: values.Encoded, successes: np.ndarray, attempts: np.ndarray, rows: np.ndarray
) -> None:
    pairs = pd.DataFrame({"k": successes[rows], "n": attempts[rows], "row": rows})
    for (k, n), same in pairs.groupby(["k", "n"], sort=False)["row"]:
        error = InputError(
            f"{k} successes of {n} attempts",
            where=column.place(int(same.iloc[0])),
            expected="at most as many successes as attempts",
            remedy="correct the row; attempts counts successes and failures together",
            code="V303",
        )
        problem(error, same.to_numpy(), column.place)


def _check_duplicates(where: str, table: pd.DataFrame, agents: list[str], tasks: list[str]) -> None:
    twice = table[table["rows"] > 1]
    if not len(twice):
        return
    found = twice[["agent_index", "task_index", "rows"]].to_numpy()

    def pair(at: int) -> str:
        agent, task, rows = found[at]
        return f"{agents[agent]} at {tasks[task]} ({rows} rows)"

    more = f" and {len(found) - 5} more" if len(found) > 5 else ""
    error = InputError(
        f"{len(found)} pairs of agent and task have several rows: "
        f"{', '.join(shown(pair(at)) for at in range(min(5, len(found))))}{more}",
        where=where,
        expected="one row of successes and attempts for each agent and task",
        remedy="remove copies; where the rows are different attempts, add them up: "
        "duplicates='sum'",
        code="I405",
    )
    problem(error, range(len(found)), pair)


READER = Reader(
    name="long",
    title="Long table (CSV, Parquet or DataFrame): k successes of n attempts a row, or one row an "
    "attempt",
    columns=TABLE,
    options=OPTIONS,
    recognises=recognises,
    read=read,
)
