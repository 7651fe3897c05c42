"""Tables as batches of encoded columns: CSV and Parquet through pyarrow, DataFrames by pandas."""

from __future__ import annotations

import codecs
import contextlib
import gzip
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from measurebayes.data.lines import line_of_row, opened, refuse_not_utf8
from measurebayes.data.problems import is_noting, problem
from measurebayes.data.source import Source
from measurebayes.data.values import Encoded, encode_values, with_missing
from measurebayes.errors import InputError, listed, shown

_BLOCK_BYTES = 8 << 20
_BATCH_ROWS = 1 << 18

Batch = dict[str, Encoded]


def read_batches(source: Source, names: list[str], delimiter: str = ",") -> Iterator[Batch]:
    """Yield the named columns of a table, a batch of rows at a time.

    Parameters
    ----------
    source : Source
        A CSV file, a Parquet file or a DataFrame.
    names : list of str
        Columns to read; all must exist.
    delimiter : str
        What stands between the columns of a CSV file.

    Yields
    ------
    dict
        Column name -> Encoded. Batches without rows are left out.

    Raises
    ------
    InputError
        Where the file is not such a table, with the line.
    """
    check_unique_names(source)
    if source.kind == "frame":
        yield from _frame_batches(source, names)
    elif source.kind == "parquet":
        yield from _parquet_batches(source, names)
    else:
        yield from _csv_batches(source, names, delimiter)


def check_unique_names(source: Source) -> None:
    """Raise InputError where two columns have the same name."""
    names = source.names
    if len(set(names)) < len(names):
        twice = sorted({name for name in names if names.count(name) > 1})
        raise InputError(
            f"columns have the same name: {listed(twice)}",
            where=f"{source.name}, header",
            expected="each column name once",
            remedy="rename or remove one of them",
            code="T203",
        )


def _frame_batches(source: Source, names: list[str]) -> Iterator[Batch]:
    frame = source.frame
    if frame is None or not len(frame):
        return
    frame = frame.set_axis(source.names, axis="columns")
    yield {
        name: encode_values(frame[name], lambda row, n=name: f"DataFrame, row {row}, column {n!r}")  # type: ignore[misc]
        for name in names
    }


def _csv_batches(source: Source, names: list[str], delimiter: str) -> Iterator[Batch]:
    arrow = _arrow()
    import pyarrow.csv

    # All columns are read as text: numbers are parsed here, so that a message can quote them.
    text = arrow.dictionary(arrow.int32(), arrow.string())
    start = 0
    broken = _BrokenRows(source)

    def place(row: int, name: str) -> str:
        return f"{source.name}, line {broken.line(row)}, column {name!r}"

    with _arrow_errors(source), _arrow_stream(source) as stream:
        reader = pyarrow.csv.open_csv(
            stream,
            read_options=pyarrow.csv.ReadOptions(use_threads=False, block_size=_BLOCK_BYTES),
            parse_options=pyarrow.csv.ParseOptions(
                delimiter=delimiter,
                # else a block that ends inside a quoted text is cut there, and read wrongly
                newlines_in_values=True,
                invalid_row_handler=broken.keep if is_noting() else None,
            ),
            convert_options=pyarrow.csv.ConvertOptions(
                column_types=dict.fromkeys(names, text),
                include_columns=names,
                strings_can_be_null=False,
            ),
        )
        for batch in reader:
            broken.note()
            if batch.num_rows:
                yield _encode_batch(batch, names, start, place)
            start += batch.num_rows
        broken.note()


class _BrokenRows:
    """Rows of a CSV file with too many or too few values; the linter notes and passes them over."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._rows: list[int] = []
        self._messages: list[tuple[int, str]] = []

    def keep(self, row: Any) -> str:
        """Take one such row from Arrow, in a thread of its own."""
        number = row.number - 2  # Arrow counts rows from 1, the header among them
        self._rows.append(number)
        wanted, found = row.expected_columns, row.actual_columns
        self._messages.append((number, f"Expected {wanted} columns, got {found}: {row.text}"))
        return "skip"

    def note(self) -> None:
        """Note the problems of the rows that were taken."""
        messages, self._messages = self._messages, []
        for number, message in messages:
            line = line_of_row(self._source.file, self._source.compressed, number)
            problem(_broken_csv(message, f"{self._source.name}, line {line}"))

    def line(self, row: int) -> int:
        """Line of a row that was not passed over."""
        for number in sorted(self._rows):
            row += number <= row
        return line_of_row(self._source.file, self._source.compressed, row)


def _parquet_batches(source: Source, names: list[str]) -> Iterator[Batch]:
    start = 0

    def place(row: int, name: str) -> str:
        return f"{source.name}, row {row + 1}, column {name!r}"

    with _arrow_errors(source), parquet_file(source.file) as file:
        for batch in file.iter_batches(batch_size=_BATCH_ROWS, columns=names):
            if batch.num_rows:
                yield _encode_batch(batch, names, start, place)
            start += batch.num_rows


def _encode_batch(
    batch: Any, names: list[str], start: int, place: Callable[[int, str], str]
) -> Batch:
    encoded = {}
    for name in names:
        where: Callable[[int], str] = lambda row, n=name: place(start + row, n)  # type: ignore[misc] # noqa: E731
        encoded[name] = _encode_array(batch.column(name), where)
    return encoded


def _encode_array(array: Any, place: Callable[[int], str]) -> Encoded:
    arrow = _arrow()
    if not arrow.types.is_dictionary(array.type):
        try:
            array = array.dictionary_encode()
        except (arrow.ArrowNotImplementedError, arrow.ArrowInvalid):
            raise InputError(
                f"the column is of type {array.type}",
                where=place(0),
                expected="text, numbers, truth values or dates",
                remedy="store one plain value a row",
                code="V302",
            ) from None
    indices = array.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    values = array.dictionary.to_pylist()
    # A category column keeps its own order and may list values that no row has.
    used = pd.unique(indices)  # in order of first appearance
    used = used[used >= 0]
    new = np.full(len(values) + 1, -1, dtype=np.int64)  # the last place catches -1
    new[used] = np.arange(used.size)
    return with_missing([values[index] for index in used], new[indices], place)


def _arrow() -> Any:
    import pyarrow  # here, because it takes a fifth of a second to import

    return pyarrow


def _arrow_stream(source: Source) -> Any:
    if is_noting() and not _is_utf8(source):  # noted already; it goes on with replaced characters
        return _arrow().PythonFile(_replaced_characters(source), mode="r")
    compression = "gzip" if source.compressed else None
    return _arrow().input_stream(str(source.file), compression=compression)


def _is_utf8(source: Source) -> bool:
    decoder = codecs.getincrementaldecoder("utf-8")()
    with opened(source.file, source.compressed) as file:
        try:
            while block := file.read(_BLOCK_BYTES):
                decoder.decode(block)
            decoder.decode(b"", final=True)
        except UnicodeDecodeError:
            refuse_not_utf8(source.file, source.compressed)
            return False
    return True


def _replaced_characters(source: Source) -> Any:
    opener = gzip.open if source.compressed else open
    file: Any = opener(source.file, "rb")
    return codecs.EncodedFile(file, "utf-8", "utf-8", errors="replace")


@contextlib.contextmanager
def parquet_file(path: Path) -> Iterator[Any]:
    """Open a Parquet file; nothing in it is ever unpickled."""
    _arrow()
    import pyarrow.parquet

    with _arrow_errors(Source(str(path), "parquet", path)):
        file = pyarrow.parquet.ParquetFile(path, page_checksum_verification=True)
        try:
            yield file
        finally:
            file.close()


@contextlib.contextmanager
def _arrow_errors(source: Source) -> Iterator[None]:
    """Turn what Arrow reports about a file into InputError."""
    arrow = _arrow()
    try:
        yield
    except InputError:
        raise
    except (arrow.ArrowException, OSError, UnicodeDecodeError, OverflowError, MemoryError) as error:
        raise _explained(source, str(error)) from None


def _explained(source: Source, message: str) -> InputError:
    if source.kind == "parquet":
        return InputError(
            f"the file can't be read as Parquet: {message[:160]}",
            where=source.name,
            expected="a whole Parquet file with plain columns",
            remedy="write it anew, or export the records as CSV",
            code="F105",
        )
    where = source.name
    if "UTF" in message.upper() or "codec" in message:
        refuse_not_utf8(source.file, source.compressed)
    if found := re.search(r"Row #(\d+): ", message):
        # Arrow counts rows from 1, the header among them
        line = line_of_row(source.file, source.compressed, int(found[1]) - 2)
        where += f", line {line}"
        message = message[found.end() :]
    if "straddling" in message:
        return InputError(
            f"a row is longer than {_BLOCK_BYTES >> 20} MiB",
            where=where,
            expected="shorter rows; text with commas or line ends in quotes, each of them closed",
            remedy="close the quote that was left open, or leave long texts out of the table",
            code="F105",
        )
    return _broken_csv(message, where)


def _broken_csv(message: str, where: str) -> InputError:
    return InputError(
        f"the file is not a whole CSV table: {shown(message.split(chr(10))[0][:120])}",
        where=where,
        expected="as many values in each line as names in the header; text with commas in quotes",
        remedy="correct the line (a cut last line: the program writing the file stopped)",
        code="F105",
    )
