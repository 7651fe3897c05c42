"""From scores as logs write them to success and failure; nothing is rounded in silence."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from measurebayes.data.values import MISSING, is_blank
from measurebayes.errors import InputError, shown

# Inspect's letters are exact: a small letter is an answer, not a mark. Partial credit is a half.
_LETTERS = {"C": 1.0, "I": 0.0, "P": 0.5, "N": 0.0}
_WORDS = {
    "correct": True, "incorrect": False, "true": True, "false": False,
    "pass": True, "passed": True, "fail": False, "failed": False,
}  # fmt: skip
_MAX_TEXT = 60


def no_answer(value: Any) -> bool:
    """Tell whether a score says that no answer was given (Inspect's N)."""
    return isinstance(value, str) and value.strip() == "N"


def number(value: Any) -> float:
    """Give a score as a number; NaN where it can't be read as one."""
    if isinstance(value, bool | np.bool_):
        return float(value)
    if isinstance(value, str):
        text = value.strip()
        if text in _LETTERS:
            return _LETTERS[text]
        if text.casefold() in _WORDS:
            return float(_WORDS[text.casefold()])
        if len(text) > _MAX_TEXT or "_" in text or not text.isascii():
            return math.nan
        value = text
    elif not isinstance(value, int | float | np.number):
        return math.nan
    try:
        result = float(value)
    except (ValueError, OverflowError):
        return math.nan
    return result if math.isfinite(result) else math.nan


def is_mark(value: Any) -> bool:
    """Tell whether a score is right or wrong by itself, so that a threshold doesn't apply."""
    if isinstance(value, str):
        text = value.strip()
        return text in ("C", "I", "N") or text.casefold() in _WORDS
    return isinstance(value, bool | np.bool_)


def threshold_of(value: Any) -> float | None:
    """Parse the option `threshold`."""
    if is_blank(value):
        return None
    found = math.nan if isinstance(value, bool) else number(value)
    if math.isnan(found) or is_mark(value):
        raise InputError(
            f"the option threshold is {shown(value)}",
            where="reader options",
            expected="a number: a score of at least that is a success",
            remedy="threshold=0.5",
        )
    return found


def outcomes(
    values: Sequence[Any], records: np.ndarray, threshold: float | None, where: str
) -> np.ndarray:
    """Success or failure for each of the distinct scores.

    Parameters
    ----------
    values : sequence
        Distinct scores: C, I, P, N, words for right and wrong, truth values, numbers or text.
    records : numpy.ndarray
        (value,) number of records that have the score; those with none are not judged.
    threshold : float, optional
        A number of at least this is a success; None lets pass 0 and 1 alone.
    where : str
        For messages.

    Returns
    -------
    numpy.ndarray
        (value,) 1, 0, or MISSING where no record has the score.

    Raises
    ------
    InputError
        Where scores can't be read, or are neither 0 nor 1 and no threshold says what they are.
    """
    result = np.full(len(values), MISSING, dtype=np.int64)
    unreadable, between = [], []
    for at in np.flatnonzero(records).tolist():
        score = number(values[at])
        if math.isnan(score):
            unreadable.append(at)
        elif threshold is not None and not is_mark(values[at]):
            result[at] = score >= threshold
        elif score in (0.0, 1.0):
            result[at] = int(score)
        else:
            between.append(at)
    if unreadable:
        raise unreadable_scores(values, records, unreadable, where)
    if between:
        raise InputError(
            f"{int(records[between].sum())} of {int(records.sum())} scores are neither 0 nor 1: "
            f"{_examples(values, records, between)}",
            where=where,
            expected="success or failure of each attempt; partial credit is never rounded",
            remedy="threshold=0.5 (or another number): a score of at least that is a success"
            + (" ('P', partial credit, is 0.5)" if "P" in {values[at] for at in between} else ""),
        )
    return result


def mean_by_cell(pair: np.ndarray, score: np.ndarray, outcome: np.ndarray) -> np.ndarray:
    """Mean score of every cell, so that what a threshold judged is not lost.

    Parameters
    ----------
    pair : numpy.ndarray
        (record,) number of the cell, in the order of cells.
    score : numpy.ndarray
        (record,) score, NaN where there is none: then the outcome stands for it.
    outcome : numpy.ndarray
        (record,) 1, 0, or MISSING where the record doesn't count.
    """
    counted = outcome != MISSING
    known = np.where(np.isnan(score), outcome, score)[counted]
    _, cell = np.unique(pair[counted], return_inverse=True)
    return np.asarray(np.bincount(cell, known) / np.bincount(cell))


def is_letter(value: Any) -> bool:
    """Tell whether a score is one of Inspect's letters, which elsewhere are answers."""
    return isinstance(value, str) and value.strip() in _LETTERS


def unreadable_scores(
    values: Sequence[Any], records: np.ndarray, bad: list[int], where: str
) -> InputError:
    """Make the error about the scores at the positions `bad`; arguments as of `outcomes`."""
    letters = all(isinstance(values[at], str) and len(values[at].strip()) == 1 for at in bad)
    return InputError(
        f"{int(records[bad].sum())} of {int(records.sum())} scores can't be read: "
        f"{_examples(values, records, bad)}",
        where=where,
        expected="C and I, correct and incorrect, true and false, 0 and 1, or a finite number",
        remedy="letters of answers need the right ones beside them (a column `target`, or the "
        "option key)"
        if letters
        else "write 0 and 1, or numbers, in place of the words; or choose another scorer or column",
    )


def _examples(values: Sequence[Any], records: np.ndarray, chosen: list[int]) -> str:
    chosen = sorted(chosen, key=lambda at: -records[at])
    text = ", ".join(f"{shown(values[at])} ({records[at]} times)" for at in chosen[:5])
    return text + (f" and {len(chosen) - 5} other values" if len(chosen) > 5 else "")


def by_key(answers: Sequence[Any], targets: Sequence[Any]) -> list[str | None]:
    """Score answers against the right ones: "C" or "I", None where no answer was given.

    Letters and words are compared without regard to case and outer blanks; a target may list
    several right answers.
    """
    return [_against(answer, target) for answer, target in zip(answers, targets, strict=True)]


def _against(answer: Any, target: Any) -> str | None:
    if is_blank(answer):
        return None
    right = target if isinstance(target, list | tuple) else [target]
    return "C" if _plain(answer) in {_plain(one) for one in right} else "I"


def _plain(value: Any) -> str:
    return str(value).strip().casefold()
