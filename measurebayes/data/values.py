"""Turn the values of a file's columns into counts, times, dates and labels, or say why not.

A column comes as `Encoded`: its distinct values and, for each row, the position of its value. So
Python looks at each distinct value once and NumPy at the rows, however many there are.
"""

from __future__ import annotations

import contextlib
import datetime
import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from measurebayes.data.problems import STAND_IN, is_noting, problem
from measurebayes.data.schema import MAX_COUNT, label_problem
from measurebayes.errors import InputError, shown

MISSING = -1  # stands for a blank count or outcome; no valid one is negative
_BLANKS = {"", "na", "nan", "n/a", "null", "none", "<na>"}
_INTEGER = re.compile(r"[+-]?[0-9]+(\.0*)?")
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_MAX_DIGITS = 40
_MOST_NOTED = 200  # bad values of a column, in a batch, that the linter tells apart
_DATES = (datetime.date(1678, 1, 1), datetime.date(2262, 1, 1))  # what datetime64[ns] can hold


_CORRECT = "correct the file, or leave the record out"


class BadValueError(Exception):
    """A single value is unusable; `parse` adds where it stands.

    Parameters
    ----------
    problem : str
        What is wrong with it, to be read after the value.
    expected : str
        What was expected in its place.
    code : str
        Code of the problem in docs/lint.md.
    remedy : str
        What to do.
    """

    def __init__(
        self, problem: str, expected: str, code: str = "V302", remedy: str = _CORRECT
    ) -> None:
        super().__init__(problem)
        self.problem = problem
        self.expected = expected
        self.code = code
        self.remedy = remedy


@dataclass(frozen=True)
class Encoded:
    """A column as distinct values and their positions.

    Parameters
    ----------
    values : sequence
        Distinct values, in order of first appearance.
    indices : numpy.ndarray
        (row,) position in `values` of each row.
    place : callable
        Gives the words for the place of a row: file, line and column.
    """

    values: Sequence[Any]
    indices: np.ndarray
    place: Callable[[int], str]

    def __len__(self) -> int:
        return len(self.indices)

    def first_row(self, value_position: int) -> int:
        """First row that has the value at `value_position`."""
        return int(np.argmax(self.indices == value_position))


def parse(column: Encoded, parser: Callable[[Any], Any], dtype: Any) -> np.ndarray:
    """Turn every value of a column into `dtype`.

    Parameters
    ----------
    column : Encoded
        The column.
    parser : callable
        Turns one value, or raises BadValueError.
    dtype : numpy dtype

    Returns
    -------
    numpy.ndarray
        (row,) parsed values.

    Raises
    ------
    InputError
        Naming the first bad value and its place.
    """
    return np.asarray(parse_distinct(column, parser), dtype=dtype)[column.indices]


def parse_distinct(column: Encoded, parser: Callable[[Any], Any]) -> list[Any]:
    """Turn the distinct values of a column; see `parse`."""
    parsed = []
    bad: list[tuple[int, BadValueError]] = []
    for position, value in enumerate(column.values):
        try:
            parsed.append(parser(value))
        except BadValueError as error:
            if not is_noting():
                row = column.first_row(position)
                raise _bad_value(value, error, column.place(row)) from None
            bad.append((position, error))
            parsed.append(_stand_in(parser, error.code))
    if bad:
        _note_bad(column, bad)
    return parsed


def _bad_value(value: Any, error: BadValueError, where: str) -> InputError:
    return InputError(
        f"the value {shown(value)} {error.problem}",
        where=where,
        expected=error.expected,
        remedy=error.remedy,
        code=error.code,
    )


def _note_bad(column: Encoded, bad: Sequence[tuple[int, BadValueError]]) -> None:
    """Give the linter each bad value with its rows; very many are one problem together."""
    order = np.argsort(column.indices, kind="stable")
    ends = np.cumsum(np.bincount(column.indices, minlength=len(column.values)))
    rows = [order[(ends[at - 1] if at else 0) : ends[at]] for at, _ in bad]
    for (position, error), of_value in zip(bad[:_MOST_NOTED], rows, strict=False):
        where = column.place(int(of_value[0]))
        problem(_bad_value(column.values[position], error, where), of_value, column.place)
    if others := rows[_MOST_NOTED:]:
        position, error = bad[_MOST_NOTED]
        more = _bad_value(column.values[position], error, column.place(int(others[0][0])))
        more.found = f"{len(others)} other values can't be used, such as {more.found}"
        problem(more, np.sort(np.concatenate(others)), column.place)


def _stand_in(parser: Callable[[Any], Any], code: str) -> Any:
    """Give what stands for a value that can't be used, so that the linter can go on.

    Outcomes and counts become 0: a blank would be a problem of its own.
    """
    for instead in ("0", None) if code in ("V302", "V304") else (None,):
        with contextlib.suppress(BadValueError):
            return parser(instead)
    return parser(STAND_IN)


def is_blank(value: Any) -> bool:
    """Tell whether a value stands for nothing: None, NaN, or blank text and its usual spellings."""
    if isinstance(value, str):
        return value.strip().casefold() in _BLANKS
    return pd.api.types.is_scalar(value) and bool(pd.isna(value))


def count(value: Any) -> int:
    """Parse a number of attempts or successes; a blank gives MISSING."""
    expected = f"a whole number from 0 to {MAX_COUNT}"
    if is_blank(value):
        return MISSING
    if isinstance(value, bool):
        raise BadValueError("is a truth value", expected)
    if isinstance(value, str):
        text = value.strip()
        if len(text) > _MAX_DIGITS:
            raise BadValueError("is too long for a number", expected)
        if not _INTEGER.fullmatch(text):
            raise BadValueError("is not a whole number", expected)
        value = int(text.partition(".")[0])
    try:
        whole = int(value)
    except (TypeError, ValueError, OverflowError):
        raise BadValueError("is not a whole number", expected) from None
    if whole != value:
        raise BadValueError("is not a whole number", expected)
    if whole < 0:
        raise BadValueError("is negative", expected)
    if whole > MAX_COUNT:
        raise BadValueError("is too large for a count", expected)
    return whole


def outcome(value: Any) -> int:
    """Parse the outcome of one attempt: 0, 1, true or false; a blank gives MISSING."""
    if is_blank(value):
        return MISSING
    text = str(value).strip().casefold() if isinstance(value, str | bool | int | float) else ""
    known = {"0": 0, "1": 1, "0.0": 0, "1.0": 1, "false": 0, "true": 1}
    if text not in known:
        raise BadValueError("is not the outcome of an attempt", "0, 1, true or false")
    return known[text]


def minutes(value: Any) -> float:
    """Parse a time in minutes; a blank gives NaN."""
    expected = "a positive, finite number of minutes, or a blank for unknown"
    if is_blank(value):
        return math.nan
    if isinstance(value, str):
        text = value.strip()
        if len(text) > _MAX_DIGITS or not _NUMBER.fullmatch(text):
            raise BadValueError("is not a number", expected, "V306")
        value = text
    elif isinstance(value, bool):
        raise BadValueError("is a truth value", expected, "V306")
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        raise BadValueError("is not a usable number", expected, "V306") from None
    if not math.isfinite(number) or number <= 0:
        raise BadValueError("is not positive and finite", expected, "V306")
    return number


def date(value: Any) -> np.datetime64:
    """Parse a date; a blank gives NaT, a time of day is dropped."""
    expected = "an ISO date such as 2025-02-24, or a blank for unknown"
    if is_blank(value):
        return np.datetime64("NaT", "ns")
    if isinstance(value, str):
        try:
            value = datetime.datetime.fromisoformat(value.strip())
        except ValueError:
            raise BadValueError("is not a date", expected, "V307") from None
    if isinstance(value, datetime.datetime):
        value = value.date()
    if not isinstance(value, datetime.date):
        raise BadValueError("is not a date", expected, "V307")
    if not _DATES[0] <= value <= _DATES[1]:
        raise BadValueError("is out of range for a date", expected, "V307")
    return np.datetime64(value.isoformat(), "ns")


def label(value: Any, strip: bool = False) -> str:
    """Parse a label of an agent, task or family."""
    expected = "a label: text without leading or trailing blanks (or a whole number)"
    if value is None or (isinstance(value, float) and math.isnan(value)):
        raise BadValueError("is blank", expected, "V301")
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str):
        raise BadValueError(f"is of type {type(value).__name__}", expected, "V301")
    text = value.strip() if strip else value
    if problem := label_problem(text):
        hint = "" if strip or "blanks" not in problem else "; strip=True takes the blanks off"
        raise BadValueError(problem, expected + hint, "V301")
    return text


def optional_label(value: Any, strip: bool = False) -> str:
    """Parse a family, source or kind; a blank gives "" for unknown."""
    return "" if is_blank(value) else label(value, strip)


class Labels:
    """Positions of labels in order of first appearance, over many batches of rows.

    Parameters
    ----------
    parser : callable
        Turns a value into a label, or raises BadValueError.
    """

    def __init__(self, parser: Callable[[Any], str] = label) -> None:
        self._parser = parser
        self._of_value: dict[Any, int] = {}
        self._of_label: dict[str, int] = {}

    @property
    def names(self) -> list[str]:
        """The labels, in order of first appearance."""
        return list(self._of_label)

    def encode(self, column: Encoded) -> np.ndarray:
        """Positions of the labels of a column, (row,) int64; new ones are added."""
        return parse(column, self._position, np.int64)

    def _position(self, value: Any) -> int:
        known = self._of_value.get(value)
        if known is None:
            text = self._parser(value)
            known = self._of_label.setdefault(text, len(self._of_label))
            self._of_value[value] = known
        return known


def encode_values(values: Iterable[Any], place: Callable[[int], str]) -> Encoded:
    """Encode Python values or a pandas column.

    Raises
    ------
    InputError
        Where a value is a list, a mapping or another thing that is not a single value.
    """
    if not isinstance(values, pd.Series):
        values = pd.Series(list(values), dtype=object)
    try:
        codes, distinct = pd.factorize(values)
    except TypeError:
        rows = (row for row, value in enumerate(values) if not _hashable(value))
        row = next(rows, 0)
        raise InputError(
            f"the value {shown(values.iloc[row])} is not a single value",
            where=place(row),
            expected="text, a number, a truth value or nothing",
        ) from None
    plain = [v.item() if isinstance(v, np.generic) else v for v in distinct.tolist()]
    return with_missing(plain, np.asarray(codes, dtype=np.int64), place)


def with_missing(values: list[Any], indices: np.ndarray, place: Callable[[int], str]) -> Encoded:
    """Make an encoded column where the index -1 stands for nothing."""
    missing = indices < 0
    if missing.any():
        indices = np.where(missing, len(values), indices)
        values = [*values, None]
    return Encoded(values, indices, place)


def _hashable(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True
