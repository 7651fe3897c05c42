"""Resampling of evaluations: families, tasks of a family, attempts of a cell, with replacement."""

from __future__ import annotations

import numpy as np

from measurebayes.classical.batch import AgentCells, fit_lines


def resampled_lines(cells: AgentCells, replicates: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Fit each agent's line to resampled data.

    A family that is drawn twice counts twice, and its tasks are drawn anew each time. All agents
    share the families and tasks of a resample, so that differences between agents are right.
    Weights of cells stay those of the data.

    Parameters
    ----------
    cells
        The data.
    replicates
        Number of resamples.
    seed
        Of the random numbers.

    Returns
    -------
    tuple of numpy.ndarray
        Intercepts and slopes (replicate, agent), as `fit_lines` has them.
    """
    rng = np.random.default_rng(seed)
    times = task_times(cells, replicates, rng)
    share = cells.successes / cells.attempts
    unit = cells.weight / cells.attempts  # of one attempt
    lines = []
    for block in cells.blocks(replicates):
        weight = times[block][:, cells.task] * cells.attempts
        solved = rng.binomial(weight, share)
        lines.append(fit_lines(cells, cells.x, unit * weight, unit * solved))
    intercepts, slopes = zip(*lines, strict=True)
    return np.concatenate(intercepts), np.concatenate(slopes)


def task_times(cells: AgentCells, replicates: int, rng: np.random.Generator) -> np.ndarray:
    """How many times each task is drawn, (replicate, task), int64; tasks that nobody tried: 0."""
    tasks, first = np.unique(cells.task, return_index=True)
    families, place = np.unique(cells.family[first], return_inverse=True)
    drawn = rng.multinomial(families.size, np.full(families.size, 1.0 / families.size), replicates)
    times = np.zeros((replicates, int(tasks.max()) + 1), dtype=np.int64)
    for number in range(families.size):
        own = tasks[place == number]
        # a family drawn m times: m times as many tasks as it has are drawn out of it
        chance = np.full(own.size, 1.0 / own.size)
        times[:, own] = rng.multinomial(drawn[:, number] * own.size, chance)
    return times
