"""What commands print: results on stdout, progress and messages on stderr."""

from __future__ import annotations

import contextlib
import json
import math
import sys
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd

_LONG = 100  # columns of a line that names and values share
Rows = list[dict[str, Any]]


def say(message: str) -> None:
    """Print a message on stderr; where that can't be written to, the exit status must do."""
    with contextlib.suppress(OSError):
        click.echo(printable(message, keep="\n"), err=True)


def save_csv(table: pd.DataFrame, path: Path, index: bool = False) -> None:
    """Write a table, whole or not at all, and say so on stderr."""
    from measurebayes.data.store import write_csv

    write_csv(table, path, index)
    say(f"wrote {path}")


def print_json(value: Any) -> None:
    """Print strict JSON on stdout: NaN and infinities become null."""
    text = json.dumps(jsonable(value), indent=2, ensure_ascii=False, allow_nan=False)
    # names of files may hold half a character; its escape is the same in JSON
    click.echo(text.encode("utf-8", "backslashreplace").decode())


def jsonable(value: Any) -> Any:
    """Turn NumPy and pandas values, tables and mappings into what JSON can hold."""
    if hasattr(value, "to_dict") and hasattr(value, "columns"):
        return [jsonable(row) for row in records(value)]
    if isinstance(value, Mapping):
        return {str(key): jsonable(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set):
        return [jsonable(item) for item in value]
    if hasattr(value, "tolist"):  # NumPy scalars and arrays
        return jsonable(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, bool | int | str):
        return value
    return str(value)


def records(frame: pd.DataFrame) -> Rows:
    """Return the rows of a table, its named index as a first column."""
    if frame.index.name is not None or frame.index.nlevels > 1:
        frame = frame.reset_index()
    return [{str(k): v for k, v in row.items()} for row in frame.to_dict("records")]


def print_table(rows: Rows | pd.DataFrame, title: str = "") -> None:
    """Print a table on stdout: drawn on a terminal, plain aligned columns in a pipe."""
    if not isinstance(rows, list):
        rows = records(rows)
    columns = list(rows[0]) if rows else []
    cells = [[cell_text(row.get(column)) for column in columns] for row in rows]
    right = [all(_is_number(row.get(column)) for row in rows) for column in columns]
    if sys.stdout.isatty():
        _draw(columns, cells, right, title)
    else:
        _align(columns, cells, right, title)


def print_pairs(pairs: Mapping[str, Any], title: str = "") -> None:
    """Print names and values, one pair a line."""
    if title:
        click.echo(printable(title))
    width = max((len(name) for name in pairs), default=0)
    for name, value in pairs.items():
        text = cell_text(value)
        if isinstance(value, Mapping) and len(text) > _LONG:  # an item a line
            text = f"\n{'':<{width}}  ".join(_items(value))
        click.echo(f"{printable(name):<{width}}  {text}")


def cell_text(value: Any) -> str:
    """Return a value as a person reads it: four figures, yes and no, a dash for nothing."""
    if hasattr(value, "item") and getattr(value, "ndim", 1) == 0:
        value = value.item()
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        if math.isnan(value):
            return "-"
        return f"{value:.1f}" if 1000 <= abs(value) < math.inf else f"{value:.4g}"
    if isinstance(value, Mapping):
        return ", ".join(_items(value)) or "-"
    if isinstance(value, list | tuple):
        return ", ".join(cell_text(item) for item in value) or "-"
    return printable(str(value))


def _items(value: Mapping[str, Any]) -> list[str]:
    """NAME=VALUE of each item; a name that holds a comma or = is quoted."""
    names = [repr(key) if {",", "="} & set(key) else printable(key) for key in map(str, value)]
    return [f"{name}={cell_text(item)}" for name, item in zip(names, value.values(), strict=True)]


def printable(text: str, keep: str = "") -> str:
    """Escape control characters: a label in a data file must not steer the terminal."""
    return "".join(
        c if c.isprintable() or c in keep else c.encode("unicode_escape").decode("ascii")
        for c in text
    )


def _is_number(value: Any) -> bool:
    if hasattr(value, "item") and getattr(value, "ndim", 1) == 0:
        value = value.item()
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def _align(columns: list[str], cells: list[list[str]], right: list[bool], title: str) -> None:
    if title:
        click.echo(printable(title))
    lines = [columns, *cells]
    widths = [max(len(line[i]) for line in lines) for i in range(len(columns))]
    for line in lines:
        click.echo(_line(line, widths, right))


def _line(line: Iterable[str], widths: list[int], right: list[bool]) -> str:
    padded = (
        text.rjust(width) if to_right else text.ljust(width)
        for text, width, to_right in zip(line, widths, right, strict=True)
    )
    return "  ".join(padded).rstrip()


def _draw(columns: list[str], cells: list[list[str]], right: list[bool], title: str) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=Text(printable(title)) if title else None, box=box.SIMPLE_HEAD)
    for column, to_right in zip(columns, right, strict=True):
        table.add_column(Text(column), justify="right" if to_right else "left", overflow="fold")
    for line in cells:
        table.add_row(*(Text(text) for text in line))
    Console().print(table)
