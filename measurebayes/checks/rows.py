"""One row of the table of checks."""

from typing import NamedTuple

import pandas as pd


class Check(NamedTuple):
    """Result of one check.

    Attributes
    ----------
    name : str
        Name of the check, stable between versions.
    passed : bool
        True when nothing was found, or when the check could not be judged and ``text`` says so.
    value : float
        The number judged; NaN when the check could not be judged.
    text : str
        A sentence: what was found, the worst case by name, and what to do about it.
    """

    name: str
    passed: bool
    value: float
    text: str


def not_judged(name: str, why: str) -> Check:
    """Row of a check that doesn't apply: it passes, its value is NaN, its text says why."""
    return Check(name, True, float("nan"), f"Not judged: {why}")


def table(rows: list[Check]) -> pd.DataFrame:
    """DataFrame with columns name, passed (bool), value (float), text."""
    return pd.DataFrame(rows, columns=list(Check._fields)).astype(
        {"passed": bool, "value": float, "name": object, "text": object}
    )
