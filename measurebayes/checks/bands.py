"""Puts tasks into bands, by human minutes or any other number or label that tasks have."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

TRIES = 1000  # of a random division, before its bands may be as small as they come


class Bands(NamedTuple):
    """Which band each task is in.

    Attributes
    ----------
    of_task : np.ndarray
        Whole numbers, shape (task,): 0 for the band of lowest values, -1 for tasks in no band.
    labels : list of str
        Of each band, e.g. ``4 to 15 min``.
    """

    of_task: np.ndarray
    labels: list[str]

    def __len__(self) -> int:
        """Number of bands."""
        return len(self.labels)


def with_equal_tasks(values: np.ndarray, number: int, unit: str = "") -> Bands:
    """Divide tasks into bands of about equal numbers of tasks.

    The edges are quantiles of the values; a task on an edge belongs to the upper band.

    Parameters
    ----------
    values : np.ndarray
        Shape (task,); a task without a finite value is in no band.
    number : int
        Number of bands; fewer come out where many tasks have the same value.
    unit : str
        What the values are measured in, for the labels.
    """
    known = np.isfinite(values)
    if not known.any():
        return Bands(np.full(len(values), -1), [])
    edges = np.unique(np.quantile(values[known], np.linspace(0, 1, number + 1)))
    return between(values, edges, unit)


def with_equal_attempts(
    values: np.ndarray, attempts: np.ndarray, number: int, unit: str = ""
) -> Bands:
    """Divide tasks into bands of about equal numbers of attempts; tasks of one value stay together.

    Parameters
    ----------
    values, number, unit
        As for `with_equal_tasks`.
    attempts : np.ndarray
        Shape (task,).
    """
    known = np.isfinite(values)
    distinct, place = np.unique(values[known], return_inverse=True)
    if not len(distinct):
        return Bands(np.full(len(values), -1), [])
    upto = np.cumsum(np.bincount(place, attempts[known]))
    cuts = [int(np.argmin(np.abs(upto - upto[-1] * k / number))) + 1 for k in range(1, number)]
    return _cut(values, distinct, np.array(cuts, dtype=int), unit)


def at_random(values: np.ndarray, number: int, rng: np.random.Generator, unit: str = "") -> Bands:
    """Divide tasks into bands at random places between their values.

    Each band has at least a quarter of an equal share of the tasks, where that can be had.

    Parameters
    ----------
    values, number, unit
        As for `with_equal_tasks`.
    rng : np.random.Generator
    """
    known = np.isfinite(values)
    distinct, counts = np.unique(values[known], return_counts=True)
    number = min(number, len(distinct))
    if number < 2:
        return _cut(values, distinct, np.zeros(0, dtype=int), unit)
    upto = np.concatenate([[0], np.cumsum(counts)])
    for _ in range(TRIES):
        cuts = np.sort(rng.choice(np.arange(1, len(distinct)), number - 1, replace=False))
        if np.diff(upto[[0, *cuts, len(distinct)]]).min() >= upto[-1] / (4 * number):
            break
    return _cut(values, distinct, cuts, unit)


def between(values: np.ndarray, edges: Sequence[float] | np.ndarray, unit: str = "") -> Bands:
    """Divide tasks at given edges; the last band holds its upper edge, the others don't.

    Parameters
    ----------
    values, unit
        As for `with_equal_tasks`. A task outside all edges is in no band.
    edges : sequence of float
        Increasing; one more than there are bands.
    """
    edges = np.asarray(edges, dtype=float)
    inside = np.isfinite(values) & (values >= edges[0]) & (values <= edges[-1])
    of_task = np.where(inside, np.searchsorted(edges[1:-1], values, side="right"), -1)
    names = [f"{a} to {b} {unit}".rstrip() for a, b in pairwise(_written(edges))]
    return Bands(of_task, names)


def by_label(labels: np.ndarray) -> Bands:
    """Put tasks with the same label into one band; tasks without a label are in no band.

    Parameters
    ----------
    labels : np.ndarray
        Text, shape (task,).
    """
    names = [str(name) for name in np.unique(labels) if name]
    place = {name: i for i, name in enumerate(names)}
    return Bands(np.array([place.get(str(label), -1) for label in labels], dtype=int), names)


def _cut(values: np.ndarray, distinct: np.ndarray, cuts: np.ndarray, unit: str) -> Bands:
    """Divide before the distinct values at the places `cuts`."""
    inner = np.unique(cuts[(cuts > 0) & (cuts < len(distinct))])
    return between(values, distinct[[0, *inner, len(distinct) - 1]], unit)


def _written(edges: np.ndarray) -> list[str]:
    """Write edges with two figures, or as many as it takes to tell them apart."""
    for figures in range(2, 18):
        texts = [_figures(float(edge), figures) for edge in edges]
        if len(set(texts)) == len(texts):
            break
    return texts


def _figures(value: float, figures: int) -> str:
    if value != 0 and not 1e-3 <= abs(value) < 1e7:
        return f"{value:.{figures}g}"
    whole = len(str(int(abs(value))))
    return np.format_float_positional(value, max(figures, whole), fractional=False, trim="-")
