"""Results of a study that are done, in a file: what is done is not done again.

One line of JSON a result, added as they come. This process writes it, wherever tasks run: workers
on other machines need no common disk.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

import measurebayes as mb
from measurebayes.data.provenance import fingerprint
from measurebayes.errors import InputError

LONGEST = 2**28  # bytes of a line: a result of 5 million cells
_KEY = re.compile(r"[0-9a-f]{64}")
_BEGIN = b'{"key": "'


class Finished:
    """Results of a study, by task.

    Parameters
    ----------
    study
        What the results depend on beside their tasks: name of the study and code of its models.
    path
        The file; it is made when there is a result. None: nothing is kept.

    Raises
    ------
    InputError
        The file can't be written, or holds anything but results; it then stays as it is. A last
        line that was cut off, as when the disk was full, is taken away.
    """

    def __init__(self, study: Any = None, path: str | Path | None = None) -> None:
        self.study = _digest([mb.__version__, study])
        self.path = None if path is None else check_results(path)
        self._data: dict[int, str] = {}
        self._known: dict[str, Any] = {}
        if self.path is not None and self.path.exists():
            with self.path.open("rb") as file:
                self._known = dict(found for found in map(_result, file) if found is not None)

    def known(self, tasks: Sequence[Any]) -> Iterator[tuple[int, Any]]:
        """Yield the places of tasks that are done, and their results."""
        if self._known:
            for place, task in enumerate(tasks):
                key = self._key(task)
                if key in self._known:
                    yield place, self._known[key]

    def add(self, task: Any, result: Any) -> None:
        """Add the result of a task."""
        if self.path is not None:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"key": self._key(task), "result": _plain(result)}) + "\n")

    def kept(self, done: list[tuple[Any, Any]]) -> Path:
        """Return the file, after writing tasks and results to a temporary one if there is none."""
        if self.path is None:
            number, name = tempfile.mkstemp(prefix="measurebayes-", suffix=".part")
            os.close(number)
            self.path = Path(name)
            for task, result in done:
                self.add(task, result)
        return self.path

    def _key(self, task: Any) -> str:
        return hashlib.sha256(f"{self.study} {self._digest_of(task)}".encode()).hexdigest()

    def _digest_of(self, task: Any) -> str:
        """Digest of a task; what its fields share with other tasks' is read once.

        A budget of memory changes no result.
        """
        if not hasattr(task, "_fields"):
            return _digest(task)
        counting = [x for name, x in zip(task._fields, task, strict=True) if name != "budget"]
        for field in counting:
            if id(field) not in self._data:
                self._data[id(field)] = _digest(field)
        return " ".join(self._data[id(field)] for field in counting)


def _digest(value: Any) -> str:
    """Digest of a value by what it holds, the same in every process."""
    if isinstance(value, xr.Dataset):
        text = fingerprint(value)
    elif isinstance(value, np.ndarray):
        text = f"{value.dtype.str}{value.shape}{hashlib.sha256(value.tobytes()).hexdigest()}"
    elif isinstance(value, Mapping):
        text = "".join(f"{name}:{_digest(value[name])}," for name in sorted(value))
    elif isinstance(value, list | tuple):
        text = "".join(map(_digest, value))
    elif is_dataclass(value):
        text = "".join(_digest(getattr(value, field.name)) for field in fields(value))
    else:
        text = repr(value)
    return hashlib.sha256(f"{type(value).__name__} {text}".encode()).hexdigest()


def _plain(value: Any) -> Any:
    """Return a result as JSON has it; arrays keep their type."""
    if isinstance(value, np.ndarray):
        return {"dtype": value.dtype.str, "values": value.tolist()}
    if isinstance(value, Mapping):
        return {"mapping": {name: _plain(x) for name, x in value.items()}}
    if isinstance(value, list | tuple):
        return [_plain(x) for x in value]
    return value.item() if isinstance(value, np.generic) else value


def _restored(plain: Any) -> Any:
    """Return what `_plain` was given; lists and named tuples come back as tuples."""
    if isinstance(plain, dict) and "dtype" in plain:
        dtype = np.dtype(plain["dtype"])
        if dtype.kind not in "biufU":
            raise ValueError("no array of numbers or text")
        return np.array(plain["values"], dtype)
    if isinstance(plain, dict):
        return {name: _restored(x) for name, x in plain["mapping"].items()}
    return tuple(_restored(x) for x in plain) if isinstance(plain, list) else plain


def check_results(path: str | Path) -> Path:
    """Refuse a file that holds anything but results, or can't, before anything is computed.

    Raises
    ------
    InputError
        There is no such folder, the path is no file that can be read and written, or a line is no
        result.
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
    return path


def _check_place(path: Path) -> None:
    if not path.parent.is_dir():
        raise _refused(f"there is no folder {str(path.parent)!r}")
    if path.exists() and not path.is_file():
        raise _refused(f"{str(path)!r} is {'a folder' if path.is_dir() else 'no plain file'}")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise _refused(f"{str(path)!r} can't be written")


def _checked(path: Path) -> int:
    """Return the bytes of a file up to the end of its last whole result."""
    size, number = 0, 0
    with path.open("rb") as file:
        while line := file.readline(LONGEST):
            number += 1
            if line.endswith(b"\n") and _result(line) is not None:
                size += len(line)
                continue
            if not line.endswith(b"\n") and not file.read(1) and _cut_off(line):
                break
            raise _refused(f"line {number} of {str(path)!r} is no result of a study")
    return size


def _cut_off(line: bytes) -> bool:
    """Tell whether a line without an end is the begin of a result, whole ones included."""
    if _result(line) is not None:
        return True
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return line.startswith(_BEGIN) or _BEGIN.startswith(line)
    return False  # somebody else's


def _result(line: bytes) -> tuple[str, Any] | None:
    try:
        found = json.loads(line)
        if not isinstance(found, dict) or set(found) != {"key", "result"}:
            return None
        if not isinstance(found["key"], str) or not _KEY.fullmatch(found["key"]):
            return None
        return found["key"], _restored(found["result"])
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None


def _refused(found: str) -> InputError:
    return InputError(
        found,
        where="the checkpoint",
        expected="a new file in a folder that is there, or one that holds only results that a "
        "study kept, a line each",
        remedy="name another file; nothing was changed in this one",
    )
