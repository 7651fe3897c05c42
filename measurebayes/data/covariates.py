"""What a table says about agents or tasks: one row a label, a column a property."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from measurebayes.data import schema, values
from measurebayes.data.provenance import sha256
from measurebayes.data.source import Source, file_source, frame_source
from measurebayes.data.tables import read_batches
from measurebayes.data.values import BadValueError, Encoded, is_blank
from measurebayes.errors import InputError, listed, near, shown

Table = str | os.PathLike[str] | pd.DataFrame

# Properties that the schema knows, by what they belong to.
KNOWN = {
    "task": ("family", "source", "human_minutes", "minutes_kind"),
    "agent": ("release_date",),
}
_PARSERS = {"human_minutes": values.minutes, "release_date": values.date}
# Names of the schema that a covariate of another meaning must not take.
_TAKEN = {*schema.LABELS, *schema.VARIABLES, *schema.TIMING, *schema.POINTERS, "cell", "timing"}


@dataclass(frozen=True)
class Covariates:
    """Properties of agents or of tasks.

    Parameters
    ----------
    name : str
        What messages call the table.
    key : str
        "agent" or "task".
    labels : list of str
        The labels, each once.
    columns : mapping
        Name -> (label,) float64, str or datetime64[ns]; NaN, "" and NaT for unknown.
    sha256 : str
        Of the file; "" for a DataFrame.
    """

    name: str
    key: str
    labels: list[str]
    columns: Mapping[str, np.ndarray]
    sha256: str


def read_covariates(table: Table, key: str, needed: Sequence[str] = ()) -> Covariates:
    """Read a table of agents or tasks.

    Parameters
    ----------
    table : path or pandas.DataFrame
        CSV, Parquet or a DataFrame with a column `key` and one column a property.
    key : str
        "agent" or "task".
    needed : sequence of str
        Columns that must be there, the only ones that are read; all columns where empty.

    Returns
    -------
    Covariates

    Raises
    ------
    InputError
        Where the file can't be read, a column is missing, a value can't be used, or a label
        stands twice.
    """
    source = _source(table, key)
    _check_names(source, key, needed)
    names = list(needed) or [name for name in source.names if name != key]
    parts = list(read_batches(source, [key, *names]))
    if not parts:
        raise InputError(
            "the table has a header but no row", where=source.name, expected=f"a row for each {key}"
        )
    labels = [label for part in parts for label in values.parse(part[key], values.label, object)]
    if twice := [label for label, n in pd.Series(labels).value_counts().items() if n > 1]:
        raise InputError(
            f"the table has several rows for {len(twice)} {key}s: {listed(twice)}",
            where=f"{source.name}, column {key!r}",
            expected=f"one row for each {key}",
            remedy="remove the copies",
        )
    columns = {name: _column([part[name] for part in parts], name) for name in names}
    return Covariates(
        source.name, key, labels, columns, sha256([source.path]) if source.path else ""
    )


def _source(table: Table, key: str) -> Source:
    if isinstance(table, pd.DataFrame):
        source = frame_source(table)
    elif isinstance(table, str | os.PathLike):
        source = file_source(Path(table))
    else:
        raise InputError(
            f"the table of {key}s is a {type(table).__name__}",
            where=f"argument {key}s",
            expected=f"a path (CSV, Parquet) or a pandas.DataFrame with a column {key!r}",
        )
    if source.kind not in ("csv", "parquet", "frame"):
        raise InputError(
            f"the file is {source.kind}",
            where=source.name,
            expected=f"a table: CSV or Parquet, with a column {key!r}",
            remedy="export it as CSV in UTF-8",
        )
    return source


def _check_names(source: Source, key: str, needed: Sequence[str]) -> None:
    header = f"{source.name}, header"
    for name in (key, *needed):
        if name not in source.names:
            other = " or ".join(map(shown, near(name, source.names))) or "a column"
            raise InputError(
                f"the table has no column {name!r}",
                where=header,
                expected=f"a column {name!r}; the table has: {listed(source.names, 12)}",
                remedy=f"rename {other} to {name!r}",
                code="T201",
            )
    if len(source.names) < 2:
        raise InputError(
            f"the table has the column {key!r} only",
            where=header,
            expected="a column for each property",
        )
    for name in source.names:
        others = {n for names in KNOWN.values() for n in names} - set(KNOWN[key])
        bad = schema.name_problem(name)
        if name != key and (bad or name in others | (_TAKEN - set(KNOWN[key]))):
            raise InputError(
                f"the column {shown(name)} "
                + (bad or f"has a name that the data keep for something else than {key}s"),
                where=header,
                expected=f"{', '.join(KNOWN[key])}, or names of your own",
                remedy="remove it: it is made of the families"
                if name == "task_weight"
                else "rename or remove it",
            )


def _column(parts: Sequence[Encoded], name: str) -> np.ndarray:
    """Values of a column: as the schema has them, or else numbers where all are, or else text."""
    known = name in KNOWN["task"] or name in KNOWN["agent"]
    if known:
        parser = _PARSERS.get(name, values.optional_label)
    else:
        distinct = [value for part in parts for value in part.values]
        parser = _number if all(map(_is_number, distinct)) else _text
    found = [value for part in parts for value in values.parse(part, parser, object)]
    if name == "release_date":
        return np.asarray(found, dtype="datetime64[ns]")
    return np.asarray(found, dtype=np.float64 if parser in (_number, values.minutes) else str)


def _number(value: Any) -> float:
    if is_blank(value):
        return float("nan")
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        raise BadValueError("is not a number", "a number, or a blank for unknown") from None
    if not np.isfinite(number) or (isinstance(value, str) and "_" in value):
        raise BadValueError("is not a finite number", "a number, or a blank for unknown")
    return number


def _is_number(value: Any) -> bool:
    try:
        _number(value)
    except BadValueError:
        return False
    return True


def _text(value: Any) -> str:
    return "" if is_blank(value) else values.label(str(value), strip=True)
