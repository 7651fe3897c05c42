"""What `measurebayes.conjoint_table` takes: a table of counts, 3 x 3 out of it, other arguments."""

from __future__ import annotations

from itertools import combinations
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.optimize import isotonic_regression

from measurebayes.classical.additive import fit_additive
from measurebayes.classical.counts import RIDGE_SD, Counts
from measurebayes.errors import MAX_LISTED, InputError, did_you_mean, shown

# Kinds of NumPy's types that turn into numbers without a word, or with a warning
NO_NUMBERS = {
    "b": "true or false", "c": "complex numbers", "m": "durations", "M": "dates", "U": "text",
    "S": "text", "V": "records",
}  # fmt: skip
MOST_TRIALS = 10**9  # of a cell; beyond, proportions near 0 or 1 are lost to rounding


class Table(NamedTuple):
    """A complete table of counts.

    Attributes
    ----------
    trials, successes : np.ndarray
        Whole numbers, shape (row, column); at least 3 rows and columns and one trial a cell.
    rows, columns : list
        Labels: those of the data frame, otherwise 0, 1, 2, ...
    """

    trials: np.ndarray
    successes: np.ndarray
    rows: list[Any]
    columns: list[Any]

    @property
    def observed(self) -> np.ndarray:
        """Proportion of successes, shape (row, column)."""
        return np.asarray(self.successes / self.trials)

    def effects(self) -> tuple[np.ndarray, np.ndarray]:
        """Effects of rows and columns, logits, in the additive logistic model fitted to the table.

        By maximum likelihood, with a ridge too weak to notice but where a row or column always
        or never succeeded.
        """
        rows, columns = self.trials.shape
        row, column = (index.ravel() for index in np.indices((rows, columns)))
        n, s = (v.ravel().astype(float) for v in (self.trials, self.successes))
        ability, difficulty = fit_additive(Counts(row, column, n, s, rows, columns), RIDGE_SD)
        return ability, -difficulty

    def ordered_effects(self) -> tuple[np.ndarray, np.ndarray]:
        """`effects`, made increasing by isotonic regression with the trials as weights."""
        weights = self.trials.sum(axis=1), self.trials.sum(axis=0)
        by_row, by_column = (
            isotonic_regression(effect, weights=weight).x
            for effect, weight in zip(self.effects(), weights, strict=True)
        )
        return by_row, by_column

    def by_margins(self) -> Table:
        """Sort rows and columns by their effects, lowest first; ties stay as they are.

        Where all cells of a row have the same number of trials, this is the order of the margins.
        """
        # rounded, because effects that tie do so up to the precision of the fit only
        down, across = (np.argsort(x.round(5), kind="stable") for x in self.effects())
        at = np.ix_(down, across)
        rows, columns = [self.rows[i] for i in down], [self.columns[i] for i in across]
        return Table(self.trials[at], self.successes[at], rows, columns)


def read(trials: Any, successes: Any) -> Table:
    """Check two tables of counts and take them over.

    Parameters
    ----------
    trials, successes : array_like or pd.DataFrame
        Shape (row, column).

    Returns
    -------
    Table

    Raises
    ------
    InputError
        The shapes or labels differ, there are fewer than 3 rows or columns, an entry is missing,
        negative or not whole, a cell has no trials or more successes than trials.
    """
    counts = {"trials": _counts(trials, "trials"), "successes": _counts(successes, "successes")}
    n, s = counts["trials"], counts["successes"]
    if n.shape != s.shape:
        raise InputError(
            f"trials has shape {n.shape}, successes {s.shape}",
            where="trials and successes",
            expected="two tables of the same shape",
            remedy="pass the trials and the successes of the same rows and columns",
        )
    if min(n.shape) < 3:
        raise InputError(
            f"the table has {n.shape[0]} rows and {n.shape[1]} columns",
            where="trials and successes",
            expected="at least 3 rows and 3 columns: double cancellation compares 3 with 3",
            remedy="pass a larger table",
        )
    rows, columns = _labels(trials, successes, n.shape)
    _refuse(
        n == 0,
        (rows, columns),
        "without trials",
        "trials",
        "at least one trial in every cell",
        "leave rows or columns with empty cells out, or use measurebayes.cancellation, "
        "which takes tables with holes",
    )
    _refuse(
        s > n,
        (rows, columns),
        "with more successes than trials",
        "successes",
        "at most as many successes as trials",
        "check that trials come first and successes second, both as counts",
    )
    return Table(n, s, rows, columns)


def _other_than_numbers(values: Any) -> str:
    """Say what a table holds that is no number, though NumPy would make one of it."""
    parts = (values, *values) if isinstance(values, list | tuple) else (values,)
    if any(np.ma.is_masked(part) for part in parts):
        return "masked entries"
    held = values.dtypes if isinstance(values, pd.DataFrame) else [np.asarray(values).dtype]
    kinds = {getattr(dtype, "kind", "O") for dtype in held}
    if "O" in kinds:
        entries = np.asarray(values, dtype=object).ravel()
        kinds |= {np.asarray(entry).dtype.kind for entry in entries}
    return ", ".join(words for kind, words in NO_NUMBERS.items() if kind in kinds)


def _counts(values: Any, name: str) -> np.ndarray:
    try:
        if found := _other_than_numbers(values):
            raise TypeError(f"it holds {found}")
        numbers = np.asarray(values, dtype=float)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"{name} is not a table of numbers ({shown(str(error))})",
            where=name,
            expected="whole numbers by row and column",
            remedy="pass a two-dimensional array or data frame of counts, labels in its index, "
            "without rows and columns that have holes",
        ) from error
    if numbers.ndim != 2:
        raise InputError(
            f"{name} has {numbers.ndim} dimensions",
            where=name,
            expected="a table with rows and columns",
            remedy="pass a two-dimensional array or data frame of counts",
        )
    labels = list(range(numbers.shape[0])), list(range(numbers.shape[1]))
    _refuse(
        np.isnan(numbers),
        labels,
        "that are missing",
        name,
        "a complete table",
        "leave out rows or columns with holes, or use measurebayes.cancellation, which takes them",
    )
    _refuse(
        (numbers < 0) | (numbers > MOST_TRIALS) | (numbers != np.round(numbers)),
        labels,
        "that are not counts",
        name,
        f"whole numbers from 0 to {MOST_TRIALS:,}",
        "pass numbers of trials and of successes, not proportions",
    )
    return numbers.astype(np.int64)


def _refuse(
    bad: np.ndarray,
    labels: tuple[list[Any], list[Any]],
    what: str,
    where: str,
    expected: str,
    remedy: str,
) -> None:
    if not bad.any():
        return
    places = [f"({shown(labels[0][i])}, {shown(labels[1][j])})" for i, j in np.argwhere(bad)]
    more = f" and {len(places) - MAX_LISTED} more" if len(places) > MAX_LISTED else ""
    raise InputError(
        f"{len(places)} cells {what}: (row, column) {', '.join(places[:MAX_LISTED])}{more}",
        where=where,
        expected=expected,
        remedy=remedy,
    )


def _labels(trials: Any, successes: Any, shape: tuple[int, ...]) -> tuple[list[Any], list[Any]]:
    frames = [x for x in (trials, successes) if isinstance(x, pd.DataFrame)]
    if len(frames) == 2:
        for axis, kind in ((0, "row"), (1, "column")):
            if frames[0].axes[axis].tolist() != frames[1].axes[axis].tolist():
                raise InputError(
                    f"trials and successes have different {kind} labels",
                    where="trials and successes",
                    expected="the same labels in the same order",
                    remedy="successes = successes.reindex_like(trials)",
                )
    if frames:
        return frames[0].index.tolist(), frames[0].columns.tolist()
    return list(range(shape[0])), list(range(shape[1]))


class Chosen(NamedTuple):
    """3 x 3 tables of a larger table.

    Attributes
    ----------
    rows, columns : np.ndarray
        Positions in the larger table, increasing, shape (table, 3) each.
    eligible : int
        How many tables these were chosen from.
    """

    rows: np.ndarray
    columns: np.ndarray
    eligible: int

    def of(self, values: np.ndarray) -> np.ndarray:
        """Entries of a table (row, column), shape (table, 9)."""
        return values[self.rows[:, :, None], self.columns[:, None, :]].reshape(-1, 9)

    def onto(self, values: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
        """Sum values of shape (table, 9) by the cell (row, column) they belong to."""
        at = self.rows[:, :, None] * shape[1] + self.columns[:, None, :]
        return np.bincount(at.ravel(), values.ravel(), shape[0] * shape[1]).reshape(shape)


def choose(usable: np.ndarray, number: int, rng: np.random.Generator) -> Chosen:
    """Choose 3 x 3 tables of usable cells at random, each with the same chance, none twice.

    Parameters
    ----------
    usable : np.ndarray
        Shape (row, column), bool.
    number : int
        How many; all, if there are fewer.
    rng : np.random.Generator

    Returns
    -------
    Chosen
    """
    if usable.shape[0] > usable.shape[1]:  # triples are listed along the shorter side
        turned = choose(usable.T, number, rng)
        return Chosen(turned.columns, turned.rows, turned.eligible)
    triples = np.array(list(combinations(range(len(usable)), 3)))
    blocks = np.array_split(triples, 1 + len(triples) // 10_000)
    common = np.concatenate([usable[block].all(axis=1).sum(axis=1) for block in blocks])
    each = common * (common - 1) * (common - 2) // 6
    ends = np.cumsum(each)
    eligible = int(ends[-1])
    if not eligible:
        none = np.empty((0, 3), dtype=int)
        return Chosen(none, none, 0)
    drawn = rng.choice(eligible, min(number, eligible), replace=False)
    which = np.searchsorted(ends, drawn, side="right")
    positions = _subset(drawn - ends[which] + each[which], usable.shape[1])
    # the usable entries of a triple first, in their order
    others = np.argsort(~usable[triples[which]].all(axis=1), axis=1, kind="stable")
    return Chosen(triples[which], np.take_along_axis(others, positions, axis=1), eligible)


def _subset(rank: np.ndarray, largest: int) -> np.ndarray:
    """Subset of three whole numbers of each rank, increasing, shape (rank, 3).

    Ranks run by the largest number, then by the second: (0, 1, 2) is 0, (0, 1, 3) is 1.
    """
    k = np.arange(largest)
    pairs, triples = k * (k - 1) // 2, k * (k - 1) * (k - 2) // 6
    high = np.searchsorted(triples, rank, side="right") - 1
    rank = rank - triples[high]
    middle = np.searchsorted(pairs, rank, side="right") - 1
    return np.stack([rank - pairs[middle], middle, high], axis=1)


def judged_cells(trials: np.ndarray, successes: np.ndarray) -> np.ndarray:
    """Whether the observed proportion is neither 0 nor 1."""
    return (successes > 0) & (successes < trials)


def check_options(**options: tuple[str, tuple[str, ...]]) -> None:
    """Test arguments that are one of several words: name=(word, choices)."""
    for name, (value, choices) in options.items():
        if not isinstance(value, str) or value not in choices:
            raise InputError(
                f"{name} is {shown(value)}",
                where=name,
                expected="one of " + ", ".join(f'"{choice}"' for choice in choices),
                remedy=did_you_mean(str(value), choices) or f'pass {name}="{choices[0]}"',
            )


def check_numbers(
    seed: Any, tables: Any, level: Any, replicates: Any, chains: Any, draws: Any
) -> None:
    """Test the numbers of `conjoint_table`."""
    if isinstance(level, bool) or not isinstance(level, float | Real) or not 0 < float(level) < 1:
        raise _no_number("level", level, "a number between 0 and 1", 0.95)
    least = {
        "seed": (seed, 0, "at least 0", 1),
        "tables": (tables, 1, "at least 1", 500),
        "replicates": (replicates, 0, "at least 0", 100),
        "chains": (chains, 2, "at least 2, to see whether they agree", 4),
        "draws": (draws, 100, "at least 100", 500),
    }
    for name, (value, smallest, expected, usual) in least.items():
        whole = isinstance(value, Integral) and not isinstance(value, bool)
        if not whole or value < smallest:
            raise _no_number(name, value, f"a whole number of {expected}", usual)


def _no_number(name: str, value: Any, expected: str, usual: float) -> InputError:
    return InputError(
        f"{name} is {shown(value)}", where=name, expected=expected, remedy=f"pass {name}={usual}"
    )


def check_judged(table: Table, n: np.ndarray, s: np.ndarray, extremes: str) -> None:
    """Refuse 3 x 3 tables, trials `n` and successes `s`, none of which has a cell to judge."""
    if judged_cells(n, s).any():
        return
    more = "merge rows or columns so that cells have more trials"
    if not judged_cells(table.trials, table.successes).any():
        what = "every cell of the table always or never succeeded"
    elif extremes == "skip":
        what = "every 3 x 3 table has a cell that always or never succeeded"
        more = f'pass extremes="keep", or {more}'
    else:
        what = f"in the {len(n)} 3 x 3 tables chosen every cell always or never succeeded"
        more = f"pass a larger number of tables, or {more}"
    raise InputError(
        what,
        where="successes",
        expected="proportions between 0 and 1 in 3 rows and 3 columns",
        remedy=more,
    )
