"""What each reader is made of: a table of columns, a table of options, and two functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import xarray as xr

from measurebayes.data.options import (
    COLUMNS,
    DELIMITER,
    STRIP,
    Option,
    delimiter_of,
    name_list,
    name_pairs,
    truth,
)
from measurebayes.data.problems import problem
from measurebayes.data.source import Source
from measurebayes.errors import InputError, did_you_mean, listed, near, shown

__all__ = [
    "COLUMNS",
    "DELIMITER",
    "STRIP",
    "Column",
    "Option",
    "Reader",
    "check_table",
    "check_unread",
    "delimiter_of",
    "mapped_names",
    "meant",
    "name_list",
    "truth",
]


@dataclass(frozen=True)
class Column:
    """A column (or key) that a reader knows.

    Parameters
    ----------
    name : str
        Its exact name; no other spelling is guessed.
    required : str
        "yes", "no", or the condition under which it is.
    meaning : str
        What it holds, and in which unit.
    """

    name: str
    required: str
    meaning: str


@dataclass(frozen=True)
class Reader:
    """A format of records.

    Parameters
    ----------
    name : str
        For `measurebayes.load(..., reader=name)`.
    title : str
        One line that says what the format is.
    columns : tuple of Column
        All columns that it knows.
    options : tuple of Option
        All options that it knows.
    recognises : callable
        Tells from the start of a file whether it is of this format beyond doubt.
    read : callable
        Makes a Dataset from a Source and the complete options.
    """

    name: str
    title: str
    columns: tuple[Column, ...]
    options: tuple[Option, ...]
    recognises: Callable[[Source], bool]
    read: Callable[[Source, Mapping[str, Any]], xr.Dataset]

    def complete(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """All options with defaults filled in.

        Raises
        ------
        InputError
            Where an option is unknown or has a value that it may not have.
        """
        options = {option.name: option for option in self.options}
        for name, value in given.items():
            if name not in options:
                raise InputError(
                    f"the reader {self.name!r} has no option {shown(name)}",
                    where="reader options",
                    expected=f"one of: {', '.join(options) or 'none'}",
                    remedy=did_you_mean(name, options),
                )
            choices = options[name].choices
            if choices and value not in choices and value is not None:
                raise InputError(
                    f"the option {name} is {shown(value)}",
                    where=f"options of the reader {self.name!r}",
                    expected=f"one of {listed(choices)}",
                    remedy=did_you_mean(str(value), choices),
                )
        return {name: given.get(name, option.default) for name, option in options.items()}


# Other names that tables give to columns of a long one; they are suggested, never guessed.
_SYNONYMS = {
    "agent": ("model", "model_name", "model_id", "system", "subject", "subject_id", "llm"),
    "task": ("task_id", "task_name", "item", "item_id", "question", "question_id", "problem_id",
             "sample_id", "instance_id", "doc_id", "example_id"),
    "success": ("correct", "is_correct", "score", "passed", "solved", "resolved", "outcome",
                "score_binarized", "result"),
    "successes": ("n_correct", "num_correct", "passes", "solved"),
    "attempts": ("trials", "total", "runs", "n_attempts"),
}  # fmt: skip


def meant(name: str, columns: Sequence[str]) -> str:
    """Column of a file that may be meant by a name of a long table; "" where none is."""
    plain = {column.strip().casefold().replace(" ", "_"): column for column in columns}
    found = [plain[word] for word in (name, *_SYNONYMS.get(name, ())) if word in plain]
    return (found or near(name, columns, 1, 0.7) or [""])[0]


def check_table(source: Source) -> None:
    """Raise InputError where the source is no table."""
    if source.kind not in ("csv", "parquet", "frame"):
        raise InputError(
            f"the file is {source.kind}",
            where=source.name,
            expected="a table: CSV, Parquet or a DataFrame",
            remedy="choose another reader",
        )


def check_unread(
    header: str,
    unread: list[str],
    known: Sequence[str],
    names: Mapping[str, str],
    ignored: Any,
    use: str = "",
) -> None:
    """Raise InputError where columns are neither known to the reader nor to be ignored.

    A misspelt optional column would else be lost in silence.

    Parameters
    ----------
    header : str
        Place, for the message.
    unread : list of str
        Columns of the file that are not read.
    known : sequence of str
        Names that the reader knows.
    names : mapping
        What `mapped_names` gave.
    ignored : collection of str
        The option `ignore`; "*" lets all pass.
    use : str
        What else the reader can do with columns of other names; {names} stands for theirs.
    """
    unknown = [] if "*" in ignored else [name for name in unread if name not in ignored]
    if unknown:
        open_names = [name for name in known if name not in names]
        like = [(name, near(name, open_names, 1, 0.7)) for name in unknown]
        remedies = [f"{shown(name)} may be {shown(found[0])}" for name, found in like if found][:3]
        if len(unknown) == 1 and remedies:
            remedies = [did_you_mean(unknown[0], open_names)]
        ignoring = ",".join(unknown) if "" not in unknown else "*"  # an index that pandas wrote
        remedies += [f"leave them unread: ignore={ignoring!r}" + " (or '*')" * (ignoring != "*")]
        remedies += [use.format(names=",".join(unknown))] if use else []
        error = InputError(
            f"the table has unknown columns: {listed(unknown, 12)}",
            where=header,
            expected=f"columns among: {', '.join(known)}",
            remedy="; ".join(remedies),
            code="T202",
        )
        problem(error)


def mapped_names(source: Source, known: Sequence[str], mapping: Any) -> dict[str, str]:
    """Name in the file of each known column that the file has.

    Parameters
    ----------
    source : Source
        The table.
    known : sequence of str
        Names that the reader knows.
    mapping : mapping or str, optional
        The option `columns`.

    Returns
    -------
    dict
        Known name -> name in the file.

    Raises
    ------
    InputError
        Where the mapping names a column that the reader or the file doesn't have.
    """
    given = parsed_mapping(mapping)
    for name, column in given.items():
        if name not in known:
            raise InputError(
                f"the reader has no column {shown(name)}",
                where="option columns",
                expected=f"names among: {', '.join(known)}",
                remedy=did_you_mean(name, known)
                or "a name of the format stands before the column's",
            )
        if column not in source.names:
            raise InputError(
                f"the file has no column {shown(column)}",
                where=f"{source.name}, header",
                expected=f"the column that the option columns gives for {name!r}; the file has: "
                f"{listed(source.names, 12)}",
                remedy=did_you_mean(column, source.names),
            )
    taken = set(given.values())
    own = {name: name for name in known if name in source.names and name not in taken}
    return {**own, **given}


def parsed_mapping(value: Any) -> dict[str, str]:
    """Parse the option `columns`: a mapping, or text such as "agent=model,task=item"."""
    if value is None:
        return {}
    if isinstance(value, Mapping):
        return {str(name): str(column) for name, column in value.items()}
    return name_pairs(str(value), "columns", "name=column", "agent=model,task=item")
