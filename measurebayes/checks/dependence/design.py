"""Which cells belong together, and one pass over replicated data for all counts on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import xarray as xr

from measurebayes.backends.blocks import USUAL
from measurebayes.checks.discrepancy import above
from measurebayes.checks.replicates import posterior_replicates
from measurebayes.data.summary import check_attempts
from measurebayes.errors import InputError

SUMMARY = ["observed", "expected", "low", "high", "p"]


class Part(Protocol):
    """Something that is counted on data and replicates alike."""

    def add(self, probability: np.ndarray, replicated: np.ndarray) -> None:
        """Take a block of draws: probabilities and replicated successes, each (draw, cell)."""


@dataclass(frozen=True)
class Design:
    """Cells of a data set with the family of each.

    Attributes
    ----------
    agent, task, family : np.ndarray
        Position of each cell's agent, task and family, shape (cell,).
    attempts, successes : np.ndarray
        Shape (cell,).
    agents, tasks, families : int
    group : np.ndarray
        Position of the cell's group, an agent with a family, shape (cell,).
    group_agent, group_family, group_tasks : np.ndarray
        Agent, family and number of tried tasks of each group, shape (group,).
    family_tasks : np.ndarray
        How many tasks of each family were tried by anybody, shape (family,).
    """

    agent: np.ndarray
    task: np.ndarray
    family: np.ndarray
    attempts: np.ndarray
    successes: np.ndarray
    agents: int
    tasks: int
    families: int
    group: np.ndarray
    group_agent: np.ndarray
    group_family: np.ndarray
    group_tasks: np.ndarray
    family_tasks: np.ndarray

    @classmethod
    def of(cls, runs: xr.Dataset) -> Design:
        """Read the design off a dataset of the schema.

        Raises
        ------
        InputError
            There are no attempts.
        """
        check_attempts(runs)
        agent, task = runs["agent_index"].values, runs["task_index"].values
        family_of = runs["family_index"].values
        families = runs.sizes["family"]
        found, group = np.unique(agent * families + family_of[task], return_inverse=True)
        return cls(
            agent,
            task,
            family_of[task],
            runs["attempts"].values,
            runs["successes"].values,
            runs.sizes["agent"],
            runs.sizes["task"],
            families,
            group,
            found // families,
            found % families,
            np.bincount(group),
            np.bincount(family_of[np.unique(task)], minlength=families),
        )

    @property
    def shared(self) -> bool:
        """Whether any group has two tasks, so that families can matter."""
        return bool((self.group_tasks >= 2).any())


def data_of(source: Any) -> xr.Dataset:
    """Return the data of a fit, or a dataset of the schema as it is.

    Raises
    ------
    InputError
        `source` is neither.
    """
    if isinstance(source, xr.DataTree) and "data" in source.children:
        return source["data"].to_dataset()
    if isinstance(source, xr.Dataset) and "cell" in source.sizes:
        return source
    raise InputError(
        f"{type(source).__name__} is neither a fit nor data",
        where="the first argument",
        expected="what measurebayes.fit or measurebayes.load returned",
        remedy='runs = measurebayes.load("metr-th1.1")',
    )


def replay(fit: xr.DataTree, replicates: int, parts: Sequence[Part], budget: int = USUAL) -> None:
    """Draw replicated data once and show them to every part.

    Parameters
    ----------
    fit : xr.DataTree
    replicates : int
        At most the number of draws there are.
    parts : sequence of Part
    budget : int
        Bytes that arrays of draws by cells may take; changes no result.
    """
    draws = fit["posterior"].sizes["chain"] * fit["posterior"].sizes["draw"]
    for probability, replicated in posterior_replicates(fit, min(replicates, draws), budget):
        for part in parts:
            part.add(probability, replicated)


def summary(observed: np.ndarray, replicated: np.ndarray) -> dict[str, float]:
    """Summarise a realised discrepancy.

    Parameters
    ----------
    observed, replicated : np.ndarray
        Shape (draw,); NaN where a replicate had nothing to judge.

    Returns
    -------
    dict
        observed (median over draws), expected (median of replicates), low and high (their central
        95 %), p (share of draws whose replicate is at least the data's value, ties half).
    """
    known = np.isfinite(observed) & np.isfinite(replicated)
    if not known.any():
        return dict.fromkeys(SUMMARY, float("nan"))
    observed, replicated = observed[known], replicated[known]
    low, middle, high = np.quantile(replicated, [0.025, 0.5, 0.975])
    return {
        "observed": float(np.median(observed)),
        "expected": float(middle),
        "low": float(low),
        "high": float(high),
        "p": float(above(observed, replicated)),
    }
