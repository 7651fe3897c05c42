"""What to say of records that fit no reader, or several."""

from __future__ import annotations

from collections.abc import Sequence

from measurebayes.data.readers import READERS, Reader
from measurebayes.data.readers.base import meant
from measurebayes.data.scores import number
from measurebayes.data.source import Source, file_source, tables_inside
from measurebayes.data.values import is_blank
from measurebayes.errors import InputError, listed

LOGS = ("inspect", "lm_eval", "helm", "every_eval_ever")
_FITTING = {"jsonl": ("metr", "pyirt", *LOGS), "logs": LOGS, "yaml": ("metr_yaml",)}
_LONG = {"agent": "model", "task": "item", "success": "score"}
_PROPERTIES = {
    "task": {"human_minutes", "minutes_kind", "family", "source"},
    "agent": {"release_date"},
}
_LOOKED_AT = 20  # files of a folder


def unrecognised(source: Source, found: Sequence[Reader]) -> InputError:
    """Make the error for a source that `found` readers recognise: none, or several."""
    if len(found) > 1:
        return _several(source, found)
    if source.kind in _FITTING:
        return _of_files(source)
    return _of_table(source)


def _several(source: Source, found: Sequence[Reader]) -> InputError:
    names = [reader.name for reader in found]
    each = " or ".join(f"reader={name!r}" for name in names)
    if len(source.files) > 1:
        return InputError(
            f"there are logs of several formats in it: {', '.join(names)}",
            where=source.name,
            expected="one format",
            remedy=f"{each} reads those of one format; measurebayes.concat puts several data sets "
            "together",
        )
    return InputError(
        f"the format can't be told from the content: it fits {' and '.join(names)}",
        where=f"{source.name}, names: {listed(source.names, 8)}",
        expected="; ".join(f"{reader.name}: {reader.title}" for reader in found),
        remedy=each,
    )


def _of_files(source: Source) -> InputError:
    names = _FITTING[source.kind]
    expected = "; ".join(READERS[name].title for name in names)
    if tables := _tables_among(source):
        return InputError(
            "there is no log of a known format in it",
            where=source.name,
            expected=expected,
            remedy=f"a table is read by its own name: {tables}",
        )
    keys = source.names or sorted(frozenset().union(*(file.keys for file in source.files[:20])))
    return InputError(
        "the format can't be told from the content: it fits no reader",
        where=f"{source.name}, keys: {listed(keys, 8)}",
        expected=expected,
        remedy=" or ".join(f"reader={name!r}" for name in names) + " says what is missing",
    )


def _tables_among(source: Source) -> str:
    """Words that name files of a folder that a reader of tables or of METR's runs would read."""
    if len(source.files) == 1 and source.path == source.files[0].path:
        return ""
    named = []
    for file in source.files[:_LOOKED_AT]:
        if file.path is None:
            continue
        try:
            one = file_source(file.path)
        except InputError:
            continue
        named += [f"{str(file.path)!r} ({r.name})" for r in READERS.values() if r.recognises(one)]
    return " or ".join(named) or (tables_inside(source.path) if source.path else "")


def _of_table(source: Source) -> InputError:
    columns = {name: meant(name, source.names) for name in _LONG}
    odd = _odd_entry(source)
    properties = _properties(source)
    delimiters = {";": ";", "\t": "tab", "|": "|"}
    others = [d for d in delimiters if len(source.names) == 1 and d in source.names[0]]
    if others:
        remedy = f"delimiter={delimiters[others[0]]!r}, if that stands between columns"
    elif sum(map(bool, columns.values())) > 1:
        pairs = ", ".join(f"{n!r}: {column or '...'!r}" for n, column in columns.items())
        remedy = f"name the columns: columns={{{pairs}}}"
    elif odd:
        remedy = "counts need a long table, with a row for each agent and task: agent, task, "
        remedy += "successes, attempts"
    elif properties:
        remedy = f"a table of properties is joined to records of attempts: {properties}s='FILE'"
    else:
        remedy = "name the columns of a long table: columns={'agent': ..., 'task': ..., "
        remedy += "'success': ...}; reader='wide' says which entry is wrong"
    return InputError(
        "the format can't be told from the content: it fits no reader",
        where=f"{source.name}, columns: {listed(source.names, 8)}",
        expected="a long table (columns agent, task and success, or successes and attempts), or a "
        f"wide one (a row an agent, a column a task, entries 0, 1 or blank{odd})",
        remedy=remedy,
    )


def _odd_entry(source: Source) -> str:
    """Words about the first entry of a table of numbers that is neither 0 nor 1."""
    entries = [
        (name, entry)
        for row in source.head
        for name, entry in list(zip(source.names, row, strict=False))[1:]
        if not is_blank(entry)
    ]
    numbers = [number(entry) for _, entry in entries]
    if len(source.names) < 3 or any(value != value for value in numbers):  # NaN: text
        return ""
    odd = [pair for pair, value in zip(entries, numbers, strict=True) if value not in (0, 1)]
    return f"; the column {odd[0][0]!r} holds {odd[0][1]!r}" if odd else ""


def _properties(source: Source) -> str:
    """Whose properties a table without outcomes holds: task, agent or "" for none."""
    return next((kind for kind, own in _PROPERTIES.items() if own & set(source.names)), "")
