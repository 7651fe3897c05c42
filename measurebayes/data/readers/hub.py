"""Long tables of a benchmark hub: one row a score, with its run, benchmark, model and item."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from measurebayes.data import scores, values
from measurebayes.data.problems import problem
from measurebayes.data.readers.base import (
    COLUMNS,
    DELIMITER,
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
from measurebayes.data.runs import RUN_OPTIONS, Run, dataset_of_runs
from measurebayes.data.schema import STATUSES
from measurebayes.data.source import Source
from measurebayes.data.statuses import status_code
from measurebayes.data.tables import Batch, check_unique_names, read_batches
from measurebayes.data.values import MISSING, Encoded, Labels
from measurebayes.errors import InputError, did_you_mean, listed, shown

TABLE = (
    Column("run", "yes", "identifies the run that the row belongs to"),
    Column("task", "yes", "the benchmark (suite); becomes `source` of its tasks"),
    Column("model", "yes", "label of the model; the same in all rows of a run"),
    Column("item_id", "yes", "the item of the benchmark; the task is `BENCHMARK/ITEM`"),
    Column("value", "yes", "the score: C, I, P, N, right or wrong in words, 0, 1 or a number"),
    Column("epoch", "no", "number of the attempt at the item within the run; 1 where left out"),
    Column("scorer", "no", "who or what gave the score"),
    Column("filter", "no", "what picked the answer out of the response"),
    Column("status", "no", "what became of the record; blank: scored where it has a score"),
    Column("target", "no", "the right answer; `value` is then the answer that was given"),
    Column("created", "no", "time of the run, ISO, for runs='latest'"),
)  # fmt: skip
OPTIONS = (
    *RUN_OPTIONS,
    Option("settings", None, "more columns that set agents apart, such as reasoning_effort: names"),
    COLUMNS,
    Option("ignore", None, 'columns to leave unread: names, or "*" for all that are not known'),
    DELIMITER,
)
_KNOWN = [column.name for column in TABLE]
_REQUIRED = [column.name for column in TABLE if column.required == "yes"]
_SCORED, _NOT_ATTEMPTED = STATUSES.index("scored"), STATUSES.index("not_attempted")
_TEXT = ("run", "task", "model", "item_id")


def recognises(source: Source) -> bool:
    """Tell whether the header has the required columns, by their exact names."""
    return source.kind in ("csv", "parquet", "frame") and set(_REQUIRED) <= set(source.names)


def read(source: Source, options: Mapping[str, Any]) -> xr.Dataset:
    """Read a hub's table; see TABLE and OPTIONS."""
    check_table(source)
    check_unique_names(source)
    names = mapped_names(source, _KNOWN, options["columns"])
    settings = name_list(options["settings"], source.names)
    _check_columns(source, names, settings, options)
    names |= {f"setting {name}": name for name in settings}
    if family := _family(source, options["family"]):
        names[f"metadata.{family}"] = family
    rows = _Rows(truth(options["strip"], "strip"))
    # a column may be named twice, as a setting and as one of the table
    for batch in read_batches(source, list(dict.fromkeys(names.values())), delimiter_of(options)):
        rows.add({name: batch[column] for name, column in names.items()})
    return dataset_of_runs(rows.runs(source.name), options, source.name)


def _check_columns(
    source: Source, names: Mapping[str, str], settings: list[str], options: Mapping[str, Any]
) -> None:
    header = f"{source.name}, header"
    if lacking := [name for name in _REQUIRED if name not in names]:
        raise InputError(
            f"the table has no column {listed(lacking)}",
            where=header,
            expected=f"columns {', '.join(_REQUIRED)}; the file has: {listed(source.names, 12)}",
            remedy=did_you_mean(lacking[0], source.names)
            or f"name them: columns={{{lacking[0]!r}: 'ITS NAME'}}",
            code="T201",
        )
    if unknown := [name for name in settings if name not in source.names]:
        raise InputError(
            f"the table has no column {listed(unknown)}",
            where=f"{header}, option settings",
            expected=f"columns of the file: {listed(source.names, 12)}",
            remedy=did_you_mean(unknown[0], source.names),
        )
    used = {*names.values(), *settings, _family(source, options["family"])}
    unread = [name for name in source.names if name not in used]
    ignored = name_list(options["ignore"], source.names)
    use = "settings={names!r} where they set agents apart"
    check_unread(header, unread, _KNOWN, names, ignored, use)


def _family(source: Source, option: Any) -> str:
    """Name of the column with the families, "" where it isn't asked for."""
    name = str(option or "").removeprefix("column:")
    if name and name not in source.names:
        raise InputError(
            f"the table has no column {shown(name)}",
            where=f"{source.name}, option family",
            expected=f"a column of the file: {listed(source.names, 12)}",
            remedy=did_you_mean(name, source.names),
        )
    return name


class _Rows:
    """All rows as whole numbers; a row takes some 30 bytes."""

    def __init__(self, strip: bool) -> None:
        self._strip = strip
        self._labels: dict[str, Labels] = {}
        self._scores: dict[str, dict[Any, int]] = {}
        self._parts: list[pd.DataFrame] = []

    def add(self, batch: Batch) -> None:
        part = {}
        for name, column in batch.items():
            if name == "epoch":
                part[name] = values.parse(column, values.count, np.int64)
                blank = np.flatnonzero(part[name] == MISSING)
                if blank.size:
                    error = InputError(
                        "the epoch is blank",
                        where=column.place(int(blank[0])),
                        expected="a whole number in each row",
                        remedy="fill it in, or leave the column unread: ignore='epoch'",
                        code="V302",
                    )
                    problem(error, blank, column.place)
            elif name == "status":
                part[name] = values.parse(column, status_code, np.int64)
            elif name in ("value", "target"):
                known = self._scores.setdefault(name, {})
                part[name] = values.parse(column, lambda v, k=known: _position(v, k), np.int64)  # type: ignore[misc]
            else:
                labels = self._labels.setdefault(name, Labels(self._parser(name)))
                part[name] = labels.encode(column)
        self._parts.append(pd.DataFrame(part).astype("int32"))

    def _parser(self, name: str) -> Any:
        if name in _TEXT:
            return lambda value: values.label(value, self._strip)
        return lambda value: values.optional_label(value, self._strip)

    def runs(self, where: str) -> Iterator[Run]:
        """Yield the runs, each with its rows."""
        if not self._parts:
            raise InputError(
                "the table has a header but no row",
                where=where,
                expected="at least one record",
                remedy="check that whatever wrote the file has finished",
            )
        table = pd.concat(self._parts, ignore_index=True)
        self._parts = []
        names = {
            name: np.array(labels.names, dtype=object) for name, labels in self._labels.items()
        }
        names |= {name: _objects_of(list(known)) for name, known in self._scores.items()}
        own = ["model", "created", *(name for name in names if name.startswith("setting "))]
        for _, rows in table.groupby(["run", "task"], sort=False):
            run, suite = int(rows["run"].iloc[0]), str(names["task"][int(rows["task"].iloc[0])])
            settings = {}
            for name in [name for name in own if name in names]:
                settings[name.removeprefix("setting ")] = _common(rows, name, names, run, where)
            yield Run(
                place=f"{where}, run {names['run'][run]}",
                identity=str(names["run"][run]),
                created=settings.pop("created", ""),
                settings=settings,
                suite=suite,
                records=_records(rows, names, suite, where),
            )


def _common(
    rows: pd.DataFrame, name: str, names: Mapping[str, np.ndarray], run: int, where: str
) -> str:
    codes = np.unique(rows[name].to_numpy())
    if codes.size > 1:
        problem(
            InputError(
                f"the rows of one run have several values of {name.removeprefix('setting ')!r}: "
                f"{listed(names[name][codes])}",
                where=f"{where}, run {shown(names['run'][run])}",
                expected="one for each run and benchmark",
                remedy="give each run a name of its own in the column run",
                code="V305",
            )
        )
    return str(names[name][codes[0]])


def _position(value: Any, known: dict[Any, int]) -> int:
    return known.setdefault(None if values.is_blank(value) else value, len(known))


def _records(
    rows: pd.DataFrame, names: Mapping[str, Any], suite: str, where: str
) -> dict[str, Any]:
    """Columns of measurebayes.data.runs.Run for the rows of one run."""
    at = {name: rows[name].to_numpy() for name in rows}
    value: Any = Encoded(names["value"], at["value"], _nowhere)
    if "target" in rows:
        targets = names["target"][at["target"]]
        if any(target is None for target in targets):
            raise InputError(
                "the target is blank",
                where=f"{where}, column 'target'",
                expected="the right answer in each row",
                remedy="fill it in, or leave those rows out",
            )
        given_answers = names["value"][at["value"]]
        value = _objects_of(scores.by_key(given_answers.tolist(), targets.tolist()))
    silent = np.array([one is None for one in names["value"]], dtype=bool)[at["value"]]
    status = np.where(silent, _NOT_ATTEMPTED, _SCORED)
    if "status" in rows:
        given = at["status"]
        status = np.where(given == MISSING, status, given)
    used, item = np.unique(at["item_id"], return_inverse=True)
    columns = {
        "task": Encoded([f"{suite}/{names['item_id'][one]}" for one in used], item, _nowhere),
        "value": value,
        "status": Encoded(STATUSES, status, _nowhere),
    }
    extra = ["scorer", "filter", *(name for name in names if name.startswith("metadata."))]
    columns |= {name: Encoded(names[name], at[name], _nowhere) for name in extra if name in at}
    return columns | ({"epoch": at["epoch"]} if "epoch" in rows else {})


def _nowhere(row: int) -> str:
    """Give no place: values were parsed before."""
    return ""


def _objects_of(items: list[Any]) -> np.ndarray:
    result = np.empty(len(items), dtype=object)
    result[:] = items
    return result


READER = Reader(
    name="hub",
    title="Long table of a benchmark hub (CSV, Parquet or DataFrame): one row a score, with run, "
    "benchmark, model, item, epoch and scorer",
    columns=TABLE,
    options=OPTIONS,
    recognises=recognises,
    read=read,
)
