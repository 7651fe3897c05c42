"""Which tasks and which agents a model misses: infit and outfit against replicated data.

References
----------
.. [1] Wright, Masters (1982). Rating Scale Analysis. MESA Press.
.. [2] Sinharay, Johnson, Stern (2006). Posterior predictive assessment of item response theory
   models. Applied Psychological Measurement 30(4). doi:10.1177/0146621605285517
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import xarray as xr

from measurebayes.backends.blocks import in_bytes
from measurebayes.checks.dependence.design import Design, Part, replay
from measurebayes.checks.discrepancy import above, group_sums
from measurebayes.checks.replicates import REPLICATES, check_replicates

FLAG = 0.01  # in either tail
NOISY, REGULAR = "noisier than the model", "more regular than the model"
_LEAST = 1e-12  # variance of a cell, where its chance rounds to 0 or 1


class Fitness:
    """Infit and outfit of every task or agent, for data and replicates.

    Outfit is the mean over cells of the squared residual over its variance; infit weighs each cell
    by that variance, so that a surprise at a chance near 0 or 1 counts little [1]_. Both expect 1.

    Parameters
    ----------
    design : Design
    kind : {"task", "agent"}
    """

    def __init__(self, design: Design, kind: str) -> None:
        self.design = design
        self.place, self.size = getattr(design, kind), getattr(design, f"{kind}s")
        self.cells = np.bincount(self.place, minlength=self.size)
        self.parts: dict[str, list[np.ndarray]] = {"observed": [], "replicated": []}

    def add(self, probability: np.ndarray, replicated: np.ndarray) -> None:
        """Take a block of draws (draw, cell)."""
        expected = probability * self.design.attempts
        variance = np.maximum(expected * (1.0 - probability), _LEAST)
        total = group_sums(variance, self.place, self.size)
        for name, successes in (("observed", self.design.successes), ("replicated", replicated)):
            squares = (successes - expected) ** 2
            infit = group_sums(squares, self.place, self.size) / np.maximum(total, _LEAST)
            outfit = group_sums(squares / variance, self.place, self.size)
            self.parts[name].append(np.stack([infit, outfit / np.maximum(self.cells, 1)]))

    def table(self) -> pd.DataFrame:
        """Summarise: medians over draws, what replicates have, and p, of infit and outfit."""
        observed, replicated = (np.concatenate(self.parts[n], axis=1) for n in self.parts)
        columns: dict[str, np.ndarray] = {}
        for name, data, again in zip(("infit", "outfit"), observed, replicated, strict=True):
            columns[name] = np.median(data, axis=0)
            low, high = np.quantile(again, [0.025, 0.975], axis=0)
            columns |= {f"{name}_low": low, f"{name}_high": high}
            columns[f"{name}_p"] = above(data, again)
        return pd.DataFrame(columns)


def task_fit(
    fit: xr.DataTree, replicates: int = REPLICATES, memory: int | str | None = None
) -> pd.DataFrame:
    """Infit and outfit of every task, and how probable such values are under the model.

    Parameters
    ----------
    fit
        Fit of any model.
    replicates, memory
        As for `local_dependence`.

    Returns
    -------
    pandas.DataFrame
        One row a task with attempts, the noisiest first: task, cells, attempts, rate, infit
        (median over posterior draws), infit_low, infit_high (central 95 % of replicates), infit_p
        (share of replicates at least as large [2]_), the same for outfit, and note: "noisier than
        the model" where infit_p or outfit_p is at most 0.01, "more regular than the model" where
        infit_p is at least 0.99, else "". By chance at most 3 in 100 tasks get a note.

    Raises
    ------
    InputError
        `fit` is no fit, its model is not here, there are no attempts, or `replicates` is no whole
        number of 1 or more, or `memory` no size.
    """
    return fitness_tables(fit, ("task",), replicates, memory)["task"]


def agent_fit(
    fit: xr.DataTree, replicates: int = REPLICATES, memory: int | str | None = None
) -> pd.DataFrame:
    """Infit and outfit of every agent; as `task_fit`, with a column agent.

    A noisy agent solves what it should fail and fails what it should solve: it may know some tasks
    (contamination), be another kind of agent, or have a setting that broke part of its attempts.
    """
    return fitness_tables(fit, ("agent",), replicates, memory)["agent"]


def fitness_tables(
    fit: xr.DataTree, kinds: tuple[str, ...], replicates: int, memory: int | str | None = None
) -> dict[str, pd.DataFrame]:
    """Return the tables of tasks and agents from one pass over replicates."""
    from measurebayes.inference.results import model_of

    model_of(fit)
    check_replicates(replicates)
    budget = in_bytes(memory)
    data = fit["data"].to_dataset()
    design = Design.of(data)
    parts = {kind: Fitness(design, kind) for kind in kinds}
    shown: list[Part] = list(parts.values())
    replay(fit, replicates, shown, budget)
    return {kind: _labelled(data, part, kind) for kind, part in parts.items()}


def _labelled(data: xr.Dataset, part: Fitness, kind: str) -> pd.DataFrame:
    attempts, successes = (
        np.bincount(part.place, data[name].values, part.size) for name in ("attempts", "successes")
    )
    table = part.table()
    note = np.select(
        [
            (table["infit_p"] <= FLAG) | (table["outfit_p"] <= FLAG),
            table["infit_p"] >= 1 - FLAG,
        ],
        [NOISY, REGULAR],
        "",
    )
    table.insert(0, kind, data[kind].values.astype(object))
    table.insert(1, "cells", part.cells)
    table.insert(2, "attempts", attempts.astype(np.int64))
    table.insert(3, "rate", successes / np.where(attempts > 0, attempts, np.nan))
    table["note"] = note.astype(object)
    table = table[part.cells > 0]
    return table.sort_values(
        ["infit_p", "infit"], ascending=[True, False], ignore_index=True, kind="stable"
    )
