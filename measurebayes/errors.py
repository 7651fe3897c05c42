"""The errors that measurebayes raises on purpose, each with a place and a remedy.

Every message answers four questions in this order: what was found, where, what was expected, and
what to type next. A command prints the message after ``error:`` and ends with status 2.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from numbers import Real

MAX_VALUE_CHARACTERS = 60
MAX_LISTED = 5


class MeasureBayesError(Exception):
    """Base of all errors that measurebayes raises on purpose.

    Parameters
    ----------
    found : str
        What was found, as one sentence without a final stop.
    where : str, optional
        File, line, column, variable or argument that it was found in.
    expected : str, optional
        What was expected there.
    remedy : str, optional
        What to do or type next.
    code : str, optional
        Code of the problem in docs/lint.md, for the linter.
    """

    def __init__(
        self,
        found: str,
        where: str | None = None,
        expected: str | None = None,
        remedy: str | None = None,
        code: str = "",
    ) -> None:
        super().__init__(found)
        self.found = found
        self.where = where
        self.expected = expected
        self.remedy = remedy
        self.code = code

    def __str__(self) -> str:
        parts = [("where", self.where), ("expected", self.expected), ("remedy", self.remedy)]
        lines = [f"  {label + ':':<10}{text}" for label, text in parts if text]
        # names from files may hold half a character (a lone surrogate), which nothing can print
        return "\n".join([self.found, *lines]).encode("utf-8", "backslashreplace").decode()

    def __reduce__(self) -> tuple[type, tuple[str, str | None, str | None, str | None, str]]:
        # Executors pass errors between processes; the default would lose all but `found`.
        return type(self), (self.found, self.where, self.expected, self.remedy, self.code)


class InputError(MeasureBayesError, ValueError):
    """Data, an argument or a command line that can't be used as it is."""


class ModelError(MeasureBayesError):
    """A model file that breaks the rules of a model file."""


class CheckpointError(MeasureBayesError):
    """A checkpoint that can't be resumed."""


class ExecutorError(MeasureBayesError):
    """An executor whose processes were lost before all work was done."""


def shown(value: object) -> str:
    """Show a value from a user's file: quoted, escaped and cut to a bounded length."""
    return cut(repr(value) if isinstance(value, str) else str(value))


def cut(text: str) -> str:
    """Cut a text in its middle: labels of one suite often differ at their ends alone."""
    if len(text) <= MAX_VALUE_CHARACTERS:
        return text
    end = (MAX_VALUE_CHARACTERS - 3) // 2
    return f"{text[: MAX_VALUE_CHARACTERS - 3 - end]}...{text[-end:]}"


def listed(values: Iterable[object], limit: int = MAX_LISTED) -> str:
    """List values, cut after `limit` with the number of those left out."""
    items = list(values)
    text = ", ".join(shown(item) for item in items[:limit])
    left_out = len(items) - limit
    return f"{text} and {left_out} more" if left_out > 0 else text


def near(name: str, known: Iterable[str], limit: int = 3, cutoff: float = 0.6) -> list[str]:
    """Names in `known` that `name` may have been meant to be, nearest first."""
    # The length cut keeps the quadratic comparison away from absurdly long names.
    candidates = {str(item).casefold(): str(item) for item in known if len(str(item)) <= 200}
    found = difflib.get_close_matches(name[:200].casefold(), candidates, n=limit, cutoff=cutoff)
    return [candidates[item] for item in found]


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Make the words ``did you mean 'x'?``, or an empty string where nothing is near."""
    matches = near(name, known)
    return f"did you mean {' or '.join(shown(match) for match in matches)}?" if matches else ""


def check_level(level: object, where: str, remedy: str = "level=0.95") -> None:
    """Refuse a probability of an interval that is none.

    Raises
    ------
    InputError
    """
    number = isinstance(level, Real) and not isinstance(level, bool)
    if not number or not 0.0 < level < 1.0:  # type: ignore[operator]
        raise InputError(
            f"level={shown(level)}", where=where, expected="a number between 0 and 1", remedy=remedy
        )


def check_choice(name: str, word: object, choices: Iterable[str], where: str) -> None:
    """Refuse a word that is none of the choices.

    Raises
    ------
    InputError
    """
    known = tuple(choices)
    if word not in known:
        raise InputError(
            f"{name}={shown(word)}",
            where=where,
            expected=" or ".join(known),
            remedy=did_you_mean(str(word), known) or f"{name}={known[0]!r}",
        )
