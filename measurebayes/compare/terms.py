"""The file of terms of refits that are done: one line of JSON each, added as they come."""

from __future__ import annotations

import json
import math
import os
import re
from pathlib import Path
from typing import NamedTuple

from measurebayes.errors import InputError

LONGEST = 1000  # bytes of a line; a term takes about 130
_KEY = re.compile(r"[0-9a-f]{64}")
_BEGIN = b'{"key": "'


class Term(NamedTuple):
    """What a fit without a unit has told.

    Attributes
    ----------
    key
        Says which fit, unit and settings, as a hash.
    elpd
        Log predictive density of the unit.
    converged
        Whether the fit has.
    """

    key: str
    elpd: float
    converged: bool


def check_terms(path: str | Path) -> None:
    """Refuse a file that is no file of terms, or can't become one, before anything is computed.

    A last line that was cut off, as when the disk was full, is taken away, so that the next term
    begins a line. A file with anything else stays as it is.

    Raises
    ------
    InputError
        There is no such folder, the path is no file that can be read and written, or a line is no
        term.
    """
    if not isinstance(path, str | Path) or not str(path) or "\0" in str(path):
        raise _refused(f"{path!r} is no path of a file")
    path = Path(path)
    try:
        _check_place(path)
        if path.exists():
            size = _checked(path)
            if size < path.stat().st_size:
                os.truncate(path, size)
    except OSError as error:
        raise _refused(f"{str(path)!r}: {error.strerror or error}") from error


def _check_place(path: Path) -> None:
    if not path.parent.is_dir():
        raise _refused(f"there is no folder {str(path.parent)!r}")
    if path.exists() and not path.is_file():
        raise _refused(f"{str(path)!r} is {'a folder' if path.is_dir() else 'no plain file'}")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise _refused(f"{str(path)!r} can't be written")


def _checked(path: Path) -> int:
    """Return the bytes of a file up to the end of its last whole term."""
    size, number = 0, 0
    with path.open("rb") as file:
        while line := file.readline(LONGEST):
            number += 1
            if line.endswith(b"\n") and _term(line) is not None:
                size += len(line)
                continue
            if not line.endswith(b"\n") and not file.read(1) and _cut_off(line):
                break
            raise _refused(f"line {number} of {str(path)!r} is no term of a refit")
    return size


def _cut_off(line: bytes) -> bool:
    """Tell whether a line without an end is the begin of a term, whole ones included."""
    if _term(line) is not None:
        return True
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return line.startswith(_BEGIN) or _BEGIN.startswith(line)
    return False  # somebody else's


def _term(line: bytes) -> Term | None:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict) or set(found) != set(Term._fields):
        return None
    key, elpd, converged = (found[name] for name in Term._fields)
    if not isinstance(key, str) or not _KEY.fullmatch(key) or not isinstance(converged, bool):
        return None
    if not isinstance(elpd, float) or not math.isfinite(elpd):
        return None
    return Term(key, elpd, converged)


def known_term(path: str | None, key: str) -> Term | None:
    """Look a term up in the file."""
    if path is None or not Path(path).exists():
        return None
    with Path(path).open("rb") as file:
        terms = (_term(line) for line in file)
        return next((term for term in terms if term is not None and term.key == key), None)


def add_term(path: str | None, term: Term) -> None:
    """Add a term to the file; one that is not finite is not worth keeping."""
    if path is None or not math.isfinite(term.elpd):
        return
    with Path(path).open("a", encoding="utf-8") as file:
        # one short write: lines of several processes don't mix
        file.write(json.dumps(term._asdict()) + "\n")


def _refused(found: str) -> InputError:
    return InputError(
        found,
        where="the checkpoint of refits",
        expected="a new file in a folder that is there, or one that holds only terms that compare "
        "kept, a line each, of finite elpd",
        remedy="name another file; nothing was changed in this one",
    )
