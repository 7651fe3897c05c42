"""What residuals have in common: Q3 of every pair of tasks, and residual dimensions.

References
----------
.. [1] Yen (1984). doi:10.1177/014662168400800201
.. [2] Horn (1965). A rationale and test for the number of factors in factor analysis. Psychometrika
   30(2). doi:10.1007/BF02289447
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from measurebayes.checks.dependence.design import Design
from measurebayes.checks.discrepancy import Q3

MOST_DIMENSIONS = 8


class TaskPairs:
    """Yen's Q3 of every pair of tasks that counts, for data and replicates [1]_.

    Which pairs count is said by `measurebayes.checks.discrepancy.Q3`.

    Parameters
    ----------
    design : Design
    family_of : np.ndarray
        Family of each task, shape (task,).
    """

    def __init__(self, design: Design, family_of: np.ndarray) -> None:
        self.design = design
        self.q3 = Q3(design.agent, design.task, design.attempts, design.agents, design.tasks)
        self.judged = self.q3.pairs(design.successes)
        kept, counts = self.judged
        rows, columns = np.nonzero(counts)
        self.first, self.second = kept[rows], kept[columns]
        same_family = family_of[:, None] == family_of
        self.same = same_family[self.first, self.second]
        self.within = same_family & self.q3.upper
        self.draws = 0
        self.probability = np.zeros(len(design.task))  # summed over draws
        # of every pair: sum of replicates' Q3, exceedances of the data's, replicates that count
        self.sums = np.zeros((3, len(self.first)))
        self.found: dict[str, list[tuple[float, float]]] = {"q3_largest": [], "q3_within": []}

    def add(self, probability: np.ndarray, replicated: np.ndarray) -> None:
        """Take a block of draws (draw, cell)."""
        if not len(self.first):
            return
        self.probability += probability.sum(axis=0)
        self.draws += len(probability)
        for chance, again in zip(probability, replicated, strict=True):
            data = self.q3.matrix(self.design.successes, chance, self.judged)
            other = self.q3.matrix(again, chance)
            self._count(data[self.first, self.second], other[self.first, self.second])
            self.found["q3_largest"].append((np.nanmax(data), _or_nan(np.nanmax, other)))
            values = (data[self.within], other[self.within])
            self.found["q3_within"].append(
                (_or_nan(np.nanmean, values[0]), _or_nan(np.nanmean, values[1]))
            )

    def _count(self, data: np.ndarray, other: np.ndarray) -> None:
        counts = np.isfinite(other)
        again = np.where(counts, other, 0.0)
        higher = counts * ((again > data) + 0.5 * (again == data))
        self.sums += np.stack([again, higher, counts])

    def measures(self) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """Largest Q3, and mean Q3 within families, of data and replicates at each draw."""
        names = ["q3_largest", "q3_within"] if self.same.any() else ["q3_largest"]
        if not len(self.first):
            return {}
        return {n: (np.array(self.found[n])[:, 0], np.array(self.found[n])[:, 1]) for n in names}

    def table(self, tasks: np.ndarray) -> pd.DataFrame:
        """Return one row a pair that counts, the largest Q3 first.

        Returns
        -------
        pd.DataFrame
            Columns task, other, same_family (bool), q3 (at the posterior mean probabilities),
            expected (mean of replicates), p (share of replicates at least as large as the data at
            the same draws; NaN where none counts).
        """
        again, higher, counts = self.sums
        known = np.where(counts > 0, counts, np.nan)
        table = pd.DataFrame(
            {
                "task": tasks[self.first].astype(object),
                "other": tasks[self.second].astype(object),
                "same_family": self.same,
                "q3": self._at_the_mean(),
                "expected": again / known,
                "p": higher / known,
            }
        )
        return table.sort_values("q3", ascending=False, ignore_index=True, kind="stable")

    def _at_the_mean(self) -> np.ndarray:
        """Q3 of every pair that counts at the posterior mean probabilities."""
        if not len(self.first):
            return np.empty(0)
        mean = self.probability / max(self.draws, 1)
        matrix = self.q3.matrix(self.design.successes, mean, self.judged)
        return matrix[self.first, self.second]

    def family_means(self, family_of: np.ndarray, families: int) -> np.ndarray:
        """Mean Q3 over the pairs of each family that count, shape (family,); NaN without any."""
        of_pair = family_of[self.first[self.same]]
        number = np.bincount(of_pair, minlength=families)
        total = np.bincount(of_pair, self._at_the_mean()[self.same], families)
        return np.divide(total, number, out=np.full(families, np.nan), where=number > 0)


def _or_nan(function: object, values: np.ndarray) -> float:
    """Reduce what is known of an array; NaN where nothing is."""
    known = np.isfinite(values)
    return float(function(values[known])) if known.any() else float("nan")  # type: ignore[operator]


class Dimensions:
    """Eigenvalues of the residual matrix, for data and replicates.

    The residual of a cell is its successes less the expected ones, over the square root of the
    attempts; 0 where nothing was tried. Its variance is that of one attempt, so that cells whose
    chance is near 0 or 1 weigh little. The share of dimension k is the k-th eigenvalue over the
    sum of the k-th and all smaller ones: what the direction takes of what those before it left.
    Agents and tasks that the model misses alone, without company, don't raise it as a second
    ability does. To compare with replicates is parallel analysis [2]_, given the model.

    Parameters
    ----------
    design : Design
    """

    def __init__(self, design: Design) -> None:
        self.design = design
        self.number = max(0, min(MOST_DIMENSIONS, min(design.agents, design.tasks) - 1))
        self.root = np.sqrt(design.attempts)
        self.parts: dict[str, list[np.ndarray]] = {"observed": [], "replicated": []}

    def add(self, probability: np.ndarray, replicated: np.ndarray) -> None:
        """Take a block of draws (draw, cell)."""
        if not self.number:
            return
        for chance, again in zip(probability, replicated, strict=True):
            expected = chance * self.design.attempts
            self.parts["observed"].append(self._shares(self.design.successes - expected))
            self.parts["replicated"].append(self._shares(again - expected))

    def shares(self) -> tuple[np.ndarray, np.ndarray]:
        """Observed and replicated shares (draw, dimension)."""
        if not self.number:
            return np.empty((0, 0)), np.empty((0, 0))
        return np.stack(self.parts["observed"]), np.stack(self.parts["replicated"])

    def _shares(self, residual: np.ndarray) -> np.ndarray:
        grid = np.zeros((self.design.agents, self.design.tasks))
        grid[self.design.agent, self.design.task] = residual / self.root
        if len(grid) > grid.shape[1]:
            grid = grid.T
        values = np.maximum(np.linalg.eigvalsh(grid @ grid.T)[::-1], 0.0)
        left = np.cumsum(values[::-1])[::-1]
        return (values / np.maximum(left, 1e-300))[: self.number]
