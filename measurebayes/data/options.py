"""Options of readers, and how text from a command line becomes their values."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from measurebayes.errors import InputError, shown


@dataclass(frozen=True)
class Option:
    """An option of a reader.

    Parameters
    ----------
    name : str
        Keyword of `measurebayes.load`.
    default : object
        Its value where it is not given.
    meaning : str
        What it does.
    choices : tuple of str
        The values that it may have; empty for any.
    """

    name: str
    default: Any
    meaning: str
    choices: tuple[str, ...] = ()


# Options that several readers share
COLUMNS = Option(
    "columns",
    None,
    "other names of columns in the file: a mapping from the names of this table to the file's, "
    'or text such as "agent=model,task=item"',
)
STRIP = Option("strip", False, "take leading and trailing blanks off labels (else they are errors)")
DELIMITER = Option("delimiter", ",", "what stands between the columns of a CSV file, one character")


def truth(value: Any, name: str) -> bool:
    """Parse a yes-or-no option, which a command line gives as text."""
    if isinstance(value, bool):
        return value
    text = str(value).casefold()
    if text in ("true", "yes", "1", "false", "no", "0"):
        return text in ("true", "yes", "1")
    raise InputError(
        f"the option {name} is {shown(value)}", where="reader options", expected="true or false"
    )


def name_list(value: Any, known: Container[str] = ()) -> list[str]:
    """Parse an option that lists names; a command line gives them with commas between.

    Names in `known` may hold commas themselves, as HELM's suites do.
    """
    if value is None:
        return []
    if isinstance(value, int) and not isinstance(value, bool):
        return [str(value)]  # a column of a DataFrame
    if not isinstance(value, str):
        if not isinstance(value, Iterable):
            raise InputError(
                f"an option that lists names is {shown(value)}",
                where="reader options",
                expected='a name, a list of names, or text such as "first,second"',
                remedy="put the name in quotes",
            )
        return [str(name) for name in value]
    parts, names = value.split(","), []
    while parts:
        for end in range(len(parts), 0, -1):
            name = ",".join(parts[:end]).strip()
            if end == 1 or name in known:
                break
        parts = parts[end:]
        names += [name] if name else []
    return names


def name_pairs(text: str, option: str, shape: str, example: str) -> dict[str, str]:
    """Parse text such as "agent=model,task=item"; a name that stands twice is an error."""
    pairs: dict[str, str] = {}
    for part in text.split(","):
        name, _, value = (one.strip() for one in part.partition("="))
        if not (name and value) or name in pairs:
            raise InputError(
                f"the option {option} is {shown(text)}"
                + (f", with {shown(name)} twice" if name in pairs else ""),
                where="reader options",
                expected=f"{shape} pairs with commas between, each name once",
                remedy=f"{option}={example!r}",
            )
        pairs[name] = value
    return pairs


def delimiter_of(options: Mapping[str, Any]) -> str:
    """Parse the option `delimiter`."""
    value = str(options["delimiter"])
    value = {"\\t": "\t", "tab": "\t"}.get(value, value)
    if len(value) != 1 or not value.isascii() or value in '"\r\n\0':
        raise InputError(
            f"the option delimiter is {shown(value)}",
            where="reader options",
            expected='one character, such as "," ";" or "\\t"',
        )
    return value
