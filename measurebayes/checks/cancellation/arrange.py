"""What the check and its power both begin with: tested arguments, tasks in bands, replicates."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import perm
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from measurebayes.checks.bands import Bands
from measurebayes.checks.cancellation.counting import BANDS_OF
from measurebayes.checks.cancellation.references import Reference
from measurebayes.checks.cancellation.result import AXIOMS
from measurebayes.checks.cancellation.table import Layout
from measurebayes.checks.cancellation.tasks import Values, divisions, task_values, with_value
from measurebayes.data.selection import subset as part_of
from measurebayes.errors import InputError, did_you_mean, shown

EQUAL = ("tasks", "attempts")
PARTS = ("agent", "task", "family", "source")
MOST_REPLICATES = 1_000_000
MOST_CHOICES = 20_000  # of bands; each costs a step of every replicate


class Arranged(NamedTuple):
    """Data with their tasks in bands.

    Attributes
    ----------
    runs : xr.Dataset
        The part of the data that is checked: all tasks with a value.
    values : Values
        What its tasks are put into bands by.
    divided : list of Bands
        One division of the tasks into bands, or as many as there are random cuts.
    without_value : int
        Number of tasks that were left out for want of a value.
    """

    runs: xr.Dataset
    values: Values
    divided: list[Bands]
    without_value: int


def arranged(
    runs: xr.Dataset,
    axiom: str,
    bands: int | Sequence[float],
    by: str | xr.DataArray,
    subset: Mapping[str, Any] | None,
    equal: str,
    cuts: int = 0,
    seed: int = 0,
) -> Arranged:
    """Put the tasks into bands.

    Parameters
    ----------
    runs, axiom, bands, by, subset, equal, cuts, seed
        As for `cancellation`.

    Raises
    ------
    InputError
        The bands can't be made, or there are too few of them, or of agents, for the axiom.
    """
    whole = part(runs, subset)
    some, values = with_value(whole, task_values(whole, by))
    if isinstance(bands, int | np.integer) and values.numeric:
        _not_too_many(int(bands), axiom, values)  # before any are made
    divided = divisions(some, values, bands, equal, cuts, seed)
    filled = [len(np.unique(d.of_task[d.of_task >= 0])) for d in divided]
    _enough(min(filled), "bands", axiom, values.name)
    _not_too_many(max(len(division) for division in divided), axiom, values)
    _enough(some.sizes["agent"], "agents", axiom, str(some.attrs.get("name", "the data")))
    return Arranged(some, values, divided, whole.sizes["task"] - some.sizes["task"])


def part(runs: xr.Dataset, subset: Any) -> xr.Dataset:
    """Take a part of the data: what `measurebayes.subset` does with the entries of a mapping.

    Raises
    ------
    InputError
        `subset` is no mapping from names that data can be divided by.
    """
    if not subset:
        return runs
    if not isinstance(subset, Mapping) or not set(subset) <= set(PARTS):
        raise InputError(
            f"subset={shown(subset)}",
            where="the arguments",
            expected="a mapping with the keys " + ", ".join(PARTS),
            remedy="subset={'source': 'HCAST'}",
        )
    return part_of(runs, **subset)


def replicated(
    reference: Reference,
    layouts: list[Layout],
    number: int,
    moved: Callable[[str, float], None] = lambda name, done: None,
) -> list[np.ndarray]:
    """Rates of replicates of an explanation.

    Parameters
    ----------
    reference
        The explanation.
    layouts
        Tables that the replicates are laid out in.
    number
        Of replicates.
    moved
        Called with the explanation's name and a number of replicates when these are done.

    Returns
    -------
    list of np.ndarray
        Shape (agent, band, replicate) for each layout.
    """
    blocks = []
    for successes in reference.replicates(number):
        blocks.append([layout.rates(successes) for layout in layouts])
        moved(reference.name, len(successes))
    return [np.concatenate(parts, axis=2) for parts in zip(*blocks, strict=True)]


def check_choices(function: str, **chosen: tuple[Any, Sequence[str]]) -> None:
    """Test arguments that are one of several words: name=(word, choices).

    Raises
    ------
    InputError
        A word is none of its choices.
    """
    for name, (word, choices) in chosen.items():
        if word not in choices:
            raise InputError(
                f"{name} {shown(word)}",
                where=f"the arguments of {function}",
                expected="one of " + ", ".join(choices),
                remedy=did_you_mean(str(word), choices) or f"{name}={choices[0]!r}",
            )


def check_numbers(function: str, **numbers: tuple[Any, int] | tuple[Any, int, int]) -> None:
    """Test arguments that are whole numbers: name=(number, smallest, largest allowed).

    Raises
    ------
    InputError
        A number is not whole, too small or too large.
    """
    for name, (value, least, *most) in numbers.items():
        whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
        if not whole or value < least or (most and value > most[0]):
            raise InputError(
                f"{name}={shown(value)}",
                where=f"the arguments of {function}",
                expected=f"a whole number of at least {least:,}"
                + (f" and at most {most[0]:,}" if most else ""),
                remedy=f"{name}={max(least, 20)}",
            )


def _not_too_many(bands: int, axiom: str, values: Values) -> None:
    needed = BANDS_OF[axiom]
    most = max(n for n in range(needed, 150) if perm(n, needed) <= MOST_CHOICES)
    if bands > most:
        raise InputError(
            f"{bands} bands, with {perm(bands, needed):,} ordered choices of {needed}",
            where=values.name,
            expected=f"at most {most} bands for {AXIOMS[axiom]}",
            remedy="bands=8" if values.numeric else "by='minutes', or fewer labels",
        )


def _enough(number: int, what: str, axiom: str, source: str) -> None:
    needed = BANDS_OF[axiom]
    if number < needed:
        raise InputError(
            f"{number} {what.removesuffix('s') if number == 1 else what}",
            where=source,
            expected=f"at least {needed} for {AXIOMS[axiom]}",
            remedy="data of more agents"
            if what == "agents"
            else f"bands={needed + 1}, or by= with a variable that has more different values",
        )
