"""What a file is, told from its content: kind, names of columns, first rows; and safe reading."""

from __future__ import annotations

import contextlib
import csv
import difflib
import io
import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from measurebayes.data.files import (
    SUFFIXES,
    LogFile,
    check_utf8_path,
    in_archive,
    in_folder,
    is_pattern,
    matching,
    no_file,
    single,
)
from measurebayes.data.lines import BOM, json_lines, opened, refuse_not_utf8
from measurebayes.errors import MAX_LISTED, InputError, listed

_HEAD_BYTES = 1 << 20
_HEAD_ROWS = 20
_GZIP = b"\x1f\x8b"
_ZIP = (b"PK\x03\x04", b"PK\x05\x06")
_NETCDF = (b"\x89HDF\r\n\x1a\n", b"CDF\x01", b"CDF\x02", b"CDF\x05")
_KEYS_IN_ARRAY = {"instance_id", "stats"}  # HELM's per_instance_stats.json
_OF_TABLES = (".csv", ".csv.gz", ".tsv", ".parquet", ".nc")
_YAML = re.compile(rb"^agents:\s*$", re.MULTILINE)  # METR's results by task


@dataclass(frozen=True)
class Source:
    """Where records come from, before a reader is chosen.

    Parameters
    ----------
    name : str
        What messages call it.
    kind : str
        "csv", "jsonl", "parquet", "netcdf", "frame", "yaml", or "logs": JSON documents and
        archives, one or many.
    path : pathlib.Path, optional
        The file; None for a DataFrame.
    compressed : bool
        Whether the file is compressed by gzip.
    names : list of str
        Names of columns, or keys of the first JSON object.
    head : list of list
        First rows of a CSV file or a DataFrame, without the header.
    frame : pandas.DataFrame, optional
        The DataFrame.
    files : list of LogFile
        The files of logs, or the one JSON file.
    """

    name: str
    kind: str
    path: Path | None = None
    compressed: bool = False
    names: list[str] = field(default_factory=list)
    head: list[list[Any]] = field(default_factory=list)
    frame: pd.DataFrame | None = None
    files: list[LogFile] = field(default_factory=list)

    @property
    def file(self) -> Path:
        """The path of a source that is a file."""
        if self.path is None:
            raise InputError(
                "the records are a DataFrame",
                expected="a file for this reader",
                remedy="save them to a file, or load them with the reader 'long'",
            )
        return self.path


def frame_source(frame: pd.DataFrame) -> Source:
    """Source for a DataFrame; labels in its index, as pivot makes them, are columns."""
    frame = _with_index(frame)
    names = [str(name) for name in frame.columns]
    head = frame.head(_HEAD_ROWS).astype(object).to_numpy().tolist()
    return Source("DataFrame", "frame", names=names, head=head, frame=frame)


def _with_index(frame: pd.DataFrame) -> pd.DataFrame:
    """Make columns of an index that is named or holds text, so that nothing is lost."""
    index = frame.index
    names = [str(name) for name in index.names if name is not None]
    if names:
        unnamed = len(names) < index.nlevels
        again = {str(name) for name in frame.columns} & set(names)
        return frame if unnamed or again else frame.reset_index()
    if index.nlevels > 1 or index.inferred_type != "string":
        return frame
    # of a table with a column of labels, an index of text is but the names of rows
    known = {"agent", "id", "model", "task", "item"} & {str(name) for name in frame.columns}
    return frame if known else frame.rename_axis("agent").reset_index()


def file_source(path: Path, delimiter: str = ",") -> Source:
    """Look at the start of a file and tell what it is.

    Raises
    ------
    InputError
        Where the path is missing, or the file is empty, binary or not UTF-8; where a folder, an
        archive or a pattern holds no logs.
    """
    name = str(path)
    if is_pattern(path):
        return _logs(path, matching(path))
    if path.is_dir():
        return _logs(path, in_folder(path))
    head = _read_head(path)
    compressed = head.startswith(_GZIP)
    if compressed:
        with opened(path, compressed=True) as file:
            head = file.read(_HEAD_BYTES)
    if not head.removeprefix(BOM).strip():
        raise InputError(
            "the file is empty",
            where=name,
            expected="records of attempts: a header and at least one row, or one JSON object",
            remedy="check that whatever wrote the file has finished",
            code="F102",
        )
    return _binary_source(path, head, compressed) or _text_source(path, head, compressed, delimiter)


def _binary_source(path: Path, head: bytes, compressed: bool) -> Source | None:
    name = str(path)
    kinds = {"netCDF": _NETCDF, "Parquet": (b"PAR1",), "zip": _ZIP}
    found = next((kind for kind, start in kinds.items() if head.startswith(start)), None)
    if found and compressed:
        raise _unreadable(name, f"compressed {found}")
    if found == "netCDF":
        return Source(name, "netcdf", path)
    if found == "Parquet":
        return Source(name, "parquet", path, names=_parquet_names(path))
    if found == "zip":
        return _archive_source(path)
    if b"\0" in head:
        raise _unreadable(name, "binary, or text in UTF-16")
    return None


def _text_source(path: Path, head: bytes, compressed: bool, delimiter: str) -> Source:
    name = str(path)
    text = head.removeprefix(BOM).lstrip()
    if text.startswith((b"[", b"{")):
        return _json_source(path, text, compressed)
    if not compressed and _YAML.search(text):
        return Source(name, "yaml", path, names=_yaml_names(text), files=[single(path)])
    names, rows = _csv_head(path, head, compressed, delimiter)
    return Source(name, "csv", path, compressed, names, rows)


def _json_source(path: Path, text: bytes, compressed: bool) -> Source:
    name, one = str(path), single(path)
    if text.startswith(b"{") and not _is_document(text):
        source = Source(name, "jsonl", path, compressed)
        _, first = next(json_lines(source), (0, {}))
        return Source(name, "jsonl", path, compressed, names=list(first), files=[one])
    if text.startswith(b"[") and not one.keys >= _KEYS_IN_ARRAY:
        raise InputError(
            "the file is one JSON array",
            where=name,
            expected="one JSON object a line (JSONL)",
            remedy="convert it: jq -c '.[]' FILE > FILE.jsonl",
            code="F107",
        )
    return Source(name, "logs", path, compressed, sorted(one.keys), files=[one])


def _is_document(text: bytes) -> bool:
    """Tell a JSON object that spans lines from JSON lines, by the first line."""
    line, _, rest = text.partition(b"\n")
    if not rest.strip():
        return False  # one line: both are the same
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        # a first line that is no object by itself; a broken line has other objects after it
        return not rest.lstrip().startswith(b"{")
    return False


def _yaml_names(text: bytes) -> list[str]:
    return [name.decode() for name in re.findall(rb"^([A-Za-z_]\w*):(?:\s|$)", text, re.MULTILINE)]


def _archive_source(path: Path) -> Source:
    """Make the source of a zip archive: one Inspect log, or an archive of logs."""
    from measurebayes.data.readers.inspect_files import is_inspect_archive

    outer = single(path)
    if is_inspect_archive(outer):
        return Source(str(path), "logs", path, files=[outer])
    return _logs(path, in_archive(outer))


def _logs(path: Path, files: list[LogFile]) -> Source:
    if not files:
        raise InputError(
            "there is no log in it",
            where=str(path),
            expected=f"files of logs: {', '.join(SUFFIXES)}",
            remedy=tables_inside(path) or f"name a file{_other_files(path)}",
            code="F102",
        )
    return Source(str(path), "logs", path, files=files)


def _unreadable(name: str, what: str) -> InputError:
    return InputError(
        f"the file is {what}",
        where=name,
        expected="CSV or JSON lines in UTF-8 (gzip allowed), Parquet, or netCDF written by "
        "measurebayes",
        remedy="export the records as CSV in UTF-8",
        code="F103",
    )


def _read_head(path: Path) -> bytes:
    check_utf8_path(path)
    try:
        if path.exists() and not path.is_file():
            raise no_file(path)
        with path.open("rb") as file:
            return file.read(_HEAD_BYTES)
    except FileNotFoundError:
        raise InputError(
            "there is no such file",
            where=str(path),
            expected="a path to a file of records or a folder of logs, or the name of a bundled "
            "data set",
            remedy=near_paths(path),
            code="F101",
        ) from None
    except (OSError, ValueError) as error:  # ValueError: a NUL character in the path
        if isinstance(error, InputError):
            raise
        what = error.strerror if isinstance(error, OSError) else None
        raise InputError(
            f"the file can't be opened: {what or error}",
            where=repr(str(path)),
            expected="a file that you may read",
            remedy="check its name, and its rights and those of its folders: ls -l",
            code="F101",
        ) from None


def near_paths(path: Path) -> str:
    """Words naming bundled data sets and files beside `path` with a similar name."""
    from measurebayes.data.catalogue import bundled_names

    beside: dict[str, str] = {name: name for name in bundled_names()}
    with contextlib.suppress(OSError):
        beside |= {other.name: str(path.parent / other.name) for other in path.parent.iterdir()}
    near = difflib.get_close_matches(path.name, beside, n=3, cutoff=0.6)
    if near:
        return f"did you mean {' or '.join(repr(beside[name]) for name in near)}?"
    return f"bundled data sets: {listed(bundled_names())}; or give the path of a file"


def _other_files(folder: Path) -> str:
    with contextlib.suppress(OSError):
        if inside := sorted(item.name for item in folder.iterdir() if item.is_file()):
            return f"; these are no logs by their names: {listed(inside)}"
    return ""


def tables_inside(folder: Path) -> str:
    """Words that name the tables and saved data in a folder; "" where there are none."""
    inside: list[Path] = []
    with contextlib.suppress(OSError):
        inside = sorted(item for item in folder.iterdir() if item.name.endswith(_OF_TABLES))
    named = " or ".join(repr(str(item)) for item in inside[:MAX_LISTED])
    more = f" or one of {len(inside) - MAX_LISTED} more" if len(inside) > MAX_LISTED else ""
    return f"a table is read by its own name: {named}{more}" if inside else ""


def _csv_head(
    path: Path, head: bytes, compressed: bool, delimiter: str
) -> tuple[list[str], list[list[str]]]:
    whole = len(head) < _HEAD_BYTES
    if not whole:  # the last line may be cut, unless it is the first row
        ends = max(head.rfind(b"\n"), head.rfind(b"\r")) + 1
        head = head[:ends] if head.count(b"\n", 0, ends) > 1 else head
    try:
        text = head.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if whole or error.end < len(head):  # else a character is cut
            refuse_not_utf8(path, compressed)
        text = head.decode("utf-8-sig", "replace")
    longest = csv.field_size_limit(2 * _HEAD_BYTES)  # texts of models are longer than csv allows
    try:
        lines = io.StringIO(text, newline=None)
        reader = csv.reader((line for line in lines if line.strip("\n")), delimiter=delimiter)
        rows = [row for row, _ in zip(reader, range(_HEAD_ROWS + 1), strict=False)]
    except csv.Error as error:
        raise InputError(f"the file is not CSV: {error}", where=str(path)) from None
    finally:
        csv.field_size_limit(longest)
    if len(rows) < 2:
        raise InputError(
            "the file has one line: a header without rows" if rows else "the file has no header",
            where=str(path),
            expected="a header and at least one row",
            remedy="check that whatever wrote the file has finished",
            code="F102",
        )
    return rows[0], rows[1:]


def _parquet_names(path: Path) -> list[str]:
    from measurebayes.data.tables import parquet_file

    with parquet_file(path) as file:
        return list(file.schema_arrow.names)
