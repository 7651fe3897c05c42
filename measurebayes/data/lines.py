"""Lines of text files: whole JSON objects, and the line that a row of a table stands on."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import re
import zlib
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from measurebayes.data.problems import going_on, is_noting, problem
from measurebayes.errors import InputError, shown

if TYPE_CHECKING:
    from measurebayes.data.source import Source

BOM = b"\xef\xbb\xbf"
MAX_LINE = 256 << 20  # bytes of a line of JSON
_OPENING = re.compile(r'(?:^(?:\xef\xbb\xbf)?|[^\w\s"]|\t)"')
_CLOSING = re.compile(r'(?:""|[^"])*+"')


@contextlib.contextmanager
def opened(path: Path, compressed: bool) -> Iterator[IO[bytes]]:
    """Open a file for reading bytes, unpacked; what gzip and the disk report becomes InputError."""
    try:
        with gzip.open(path, "rb") if compressed else path.open("rb") as file:
            yield file  # type: ignore[misc]
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(
            f"the file can't be read to its end: {error}",
            where=str(path),
            expected="a whole gzip file" if compressed else "a readable file",
            remedy=f"check it: gzip --test {path.name}" if compressed else "copy it anew",
            code="F105",
        ) from None


def refuse_not_utf8(path: Path, compressed: bool) -> None:
    """Raise InputError naming the first line of a text file that is not UTF-8, if there is one.

    Where problems are noted, all such lines are.
    """
    bad: list[tuple[int, str]] = []
    with opened(path, compressed) as file:
        for number, line in enumerate(file, start=1):
            try:
                line.decode("utf-8")
            except UnicodeDecodeError as wrong:
                bad.append((number, line[wrong.start : wrong.start + 1].hex()))
                if not is_noting():
                    break
    if bad:
        error = InputError(
            f"the file is not UTF-8: byte 0x{bad[0][1]}",
            where=f"{path}, line {bad[0][0]}",
            expected="text in UTF-8",
            remedy="convert it: iconv -f latin1 -t utf-8 FILE > NEW",
            code="F104",
        )
        problem(error, range(len(bad)), lambda at: f"{path}, line {bad[at][0]}")


def line_of_row(path: Path, compressed: bool, row: int) -> int:
    """Line number (from 1) of a CSV file's row (from 0, the header not counted).

    Blank lines are no rows; lines end in any of the three usual ways, and quoted text may go over
    several.
    """
    if is_noting():  # many places of one file are asked for
        changed = path.stat()
        lines = _lines_of_rows(path, compressed, changed.st_mtime_ns, changed.st_size)
        return int(lines[min(row + 1, len(lines) - 1)])
    last = 0
    for last in _starts_of_rows(path, compressed):  # noqa: B007 - used after the loop
        row -= 1
        if row < -1:
            break
    return last


def _starts_of_rows(path: Path, compressed: bool) -> Iterator[int]:
    """Yield the line on which each row begins, that of the header first."""
    with (
        opened(path, compressed) as file,
        io.TextIOWrapper(file, encoding="latin-1", newline=None) as text,
    ):
        inside = False  # a quoted text that began on an earlier line
        for number, line in enumerate(text, start=1):
            if not inside and line != "\n":
                yield number
            if '"' in line:
                inside = _ends_inside_quotes(line, inside)


def _ends_inside_quotes(line: str, inside: bool) -> bool:
    """Tell whether a quoted text goes on behind this line; quotes begin one after a delimiter."""
    at = 0
    while True:
        found = _CLOSING.match(line, at) if inside else _OPENING.search(line, at)
        if found is None:
            return inside
        at, inside = found.end(), not inside


@lru_cache(maxsize=1)
def _lines_of_rows(path: Path, compressed: bool, changed: int, size: int) -> np.ndarray:
    """Line numbers of the header and of each row, (1 + row,)."""
    return np.fromiter(_starts_of_rows(path, compressed), dtype=np.int64)


def json_lines(source: Source) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield line number and object of each line of a JSONL file; blank lines are skipped.

    Raises
    ------
    InputError
        Where a line is not one JSON object, with its number.
    """
    with opened(source.file, source.compressed) as file:
        for number, line in enumerate(iter(lambda: file.readline(MAX_LINE), b""), start=1):
            if len(line) == MAX_LINE:
                raise InputError(
                    f"the line is longer than {MAX_LINE >> 20} MiB",
                    where=f"{source.name}, line {number}",
                    expected="one JSON object a line",
                    remedy="leave this file out: it is damaged, or made to fill memory",
                    code="F108",
                )
            if number == 1:
                line = line.removeprefix(BOM)
            if line.strip():
                record = None
                with going_on():
                    record = _json_object(line, f"{source.name}, line {number}")
                if record is not None:
                    yield number, record


def _json_object(line: bytes, where: str) -> dict[str, Any]:
    try:
        value = json.loads(line.decode("utf-8"), object_pairs_hook=_unique_keys)
    except UnicodeDecodeError:
        raise InputError(
            "the line is not UTF-8",
            where=where,
            expected="JSON in UTF-8",
            remedy="convert it: iconv -f latin1 -t utf-8 FILE > NEW",
            code="F104",
        ) from None
    except _DuplicateKeyError as error:
        raise InputError(
            f"the key {shown(error.args[0])} stands twice in one object",
            where=where,
            expected="each key once",
            remedy="remove one of the two",
            code="F106",
        ) from None
    # ValueError covers broken JSON and numbers of thousands of digits
    except (ValueError, RecursionError) as error:
        raise InputError(
            f"the line is not complete JSON: {str(error)[:100]}",
            where=where,
            expected="one JSON object a line",
            remedy="repair or remove this line (a cut last line: the program writing it stopped)",
            code="F105",
        ) from None
    if not isinstance(value, dict):
        raise InputError(
            f"the line is JSON, but a {type(value).__name__}",
            where=where,
            expected='a JSON object: {"key": value, ...}',
            remedy="repair or remove this line",
            code="F105",
        )
    return value


class _DuplicateKeyError(Exception):
    """A key stands twice in one JSON object."""


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) < len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise _DuplicateKeyError(key)
            seen.add(key)
    return result
