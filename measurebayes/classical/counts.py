"""What the point estimates read from the data, and what they return."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import xarray as xr

from measurebayes.data.schema import check_is_dataset
from measurebayes.data.summary import check_attempts
from measurebayes.errors import InputError, listed

# Standard deviation of the ridge on levels and slopes (logits, or logits per doubling). It moves
# what the data inform by less than a thousandth of a standard error, and keeps finite the
# parameters of agents and tasks that always or never succeed.
RIDGE_SD = 100.0


@dataclass(frozen=True)
class PointEstimate:
    """A model fitted by (penalised) maximum likelihood.

    Parameters
    ----------
    name
        As given to `estimate`.
    title
        What the model is, for tables.
    log_odds
        Log odds of success in every cell (cell,), finite float64.
    log_likelihood
        Of the attempts as Bernoulli trials: no binomial coefficient, no penalty.
    parameters
        Arrays along agents or tasks, in the order of the data, and numbers.
    """

    name: str
    title: str
    log_odds: np.ndarray
    log_likelihood: float
    parameters: dict[str, np.ndarray | float]


@dataclass(frozen=True)
class Counts:
    """The cells as plain arrays.

    Parameters
    ----------
    who, what
        Position of each cell's agent and task (cell,), int64.
    attempts, successes
        Counts (cell,), float64.
    agents, tasks
        How many there are, those without attempts included.
    """

    who: np.ndarray
    what: np.ndarray
    attempts: np.ndarray
    successes: np.ndarray
    agents: int
    tasks: int

    @classmethod
    def of(cls, runs: xr.Dataset) -> Counts:
        """Take the counts out of a dataset.

        Raises
        ------
        InputError
            There are no cells.
        """
        check_is_dataset(runs)
        check_attempts(runs)
        return cls(
            runs["agent_index"].values,
            runs["task_index"].values,
            runs["attempts"].values.astype(float),
            runs["successes"].values.astype(float),
            runs.sizes["agent"],
            runs.sizes["task"],
        )

    def by_agent(self, values: np.ndarray) -> np.ndarray:
        """Sum over the cells of each agent (agent,)."""
        return np.bincount(self.who, values, self.agents)

    def by_task(self, values: np.ndarray) -> np.ndarray:
        """Sum over the cells of each task (task,)."""
        return np.bincount(self.what, values, self.tasks)

    def grid(self, values: np.ndarray) -> np.ndarray:
        """Lay the cells out as a table of agents by tasks, 0 where there is no cell."""
        table = np.zeros((self.agents, self.tasks))
        table[self.who, self.what] = values
        return table


def log2_minutes(runs: xr.Dataset) -> np.ndarray:
    """Return log2 of the human minutes of every cell's task (cell,).

    Raises
    ------
    InputError
        A task with attempts has no human minutes.
    """
    what = runs["task_index"].values
    minutes = runs["human_minutes"].values
    unknown = np.isnan(minutes)
    if unknown.any() and unknown[what].any():
        tasks = runs["task"].values[np.unique(what[unknown[what]])].tolist()
        raise InputError(
            f"{len(tasks)} tasks with attempts have no human minutes: {listed(tasks)}",
            where="variable 'human_minutes'",
            expected="minutes for every task with attempts: success is a function of them here",
            remedy="leave these tasks out: measurebayes.subset(runs, "
            "task=runs.task.values[runs.human_minutes.notnull()])",
        )
    return np.log2(minutes)[what]
