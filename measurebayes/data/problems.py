"""Problems in data: raised where a reader meets them, or noted one after another by the linter.

Readers call `problem` where they could go on after a problem. Loading stops at the first one;
inside `noting` all are kept, and the reader goes on, so that loading and linting never disagree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

import numpy as np

from measurebayes.errors import InputError

MAX_PLACES = 100  # places that are named of one problem in many rows
STAND_IN = "(unusable)"  # stands for a label that can't be used, while problems are noted


@dataclass(frozen=True)
class Problem:
    """One problem, wherever it occurs.

    Parameters
    ----------
    error : InputError
        What loading would have raised.
    places : tuple of str
        Where it occurs, the first MAX_PLACES.
    count : int
        Rows, lines or labels in which it occurs.
    """

    error: InputError
    places: tuple[str, ...]
    count: int


_noted: ContextVar[list[Problem] | None] = ContextVar("noted", default=None)


@contextmanager
def noting() -> Iterator[list[Problem]]:
    """Keep problems instead of raising them; gives the list that they come into."""
    problems: list[Problem] = []
    token = _noted.set(problems)
    try:
        yield problems
    finally:
        _noted.reset(token)


def is_noting() -> bool:
    """Tell whether problems are kept."""
    return _noted.get() is not None


def problem(
    error: InputError,
    rows: np.ndarray | Sequence[int] = (),
    place: Callable[[int], str] | None = None,
) -> None:
    """Raise an error, or keep it where problems are noted.

    Parameters
    ----------
    error : InputError
        Its `code` stands in docs/lint.md.
    rows : sequence of int
        All rows with the problem; none where `where` of the error says it all.
    place : callable, optional
        Words for the place of a row.
    """
    problems = _noted.get()
    if problems is None:
        raise error
    places = [place(int(row)) for row in rows[:MAX_PLACES]] if place else []
    if not places and error.where:
        places = [error.where]
    problems.append(Problem(error, tuple(places), max(1, len(rows))))


@contextmanager
def going_on() -> Iterator[None]:
    """Where problems are noted, an InputError ends this block only, and is kept."""
    try:
        yield
    except InputError as error:
        problem(error)
