"""Numbers that compare observed with replicated successes, given the model's probabilities.

Every function takes arrays whose first axis runs over posterior draws; none knows about fits.

References
----------
.. [1] Gelman, Meng, Stern (1996). Posterior predictive assessment of model fitness via realized
   discrepancies. Statistica Sinica 6.
.. [2] Freeman, Tukey (1950). Transformations related to the angular and the square root. Annals of
   Mathematical Statistics 21(4). doi:10.1214/aoms/1177729756
.. [3] Yen (1984). Effects of local item dependence on the fit and equating performance of the
   three-parameter logistic model. Applied Psychological Measurement 8(2).
   doi:10.1177/014662168400800201
.. [4] Kish (1965). Survey Sampling. Wiley.
"""

import numpy as np
import scipy.sparse

# Q3 of two tasks is computed over the agents that tried both, when there are at least this many,
LEAST_COMMON_AGENTS = 10
# and of tasks with at least this many agents that succeeded and that failed: two tasks that only
# one agent solved have a residual correlation of nearly 1 whatever the model.
LEAST_EACH_OUTCOME = 3


def group_sums(per_cell: np.ndarray, group: np.ndarray, groups: int) -> np.ndarray:
    """Sum over the cells of each group.

    Parameters
    ----------
    per_cell : np.ndarray
        Shape (draw, cell) or (cell,).
    group : np.ndarray
        Shape (cell,): the group of each cell, -1 for none.
    groups : int
        Number of groups.

    Returns
    -------
    np.ndarray
        Shape (draw, group) or (group,).
    """
    used = np.flatnonzero(group >= 0)
    shape = (groups, len(group))
    membership = scipy.sparse.csr_array((np.ones(len(used)), (group[used], used)), shape=shape)
    return (membership @ per_cell.T).T


def freeman_tukey(successes: np.ndarray, expected: np.ndarray, attempts: np.ndarray) -> np.ndarray:
    """Distance of observed from expected counts, of successes and failures, over all groups.

    4 sum (sqrt(observed) - sqrt(expected))^2 is close to Pearson's chi-square but stays bounded
    where an expected count is near zero, as it is for a task that nobody solves [2]_.

    Parameters
    ----------
    successes : np.ndarray
        Shape (..., group).
    expected : np.ndarray
        Expected successes, shape (..., group).
    attempts : np.ndarray
        Shape (group,).

    Returns
    -------
    np.ndarray
        Shape (...).
    """
    solved = np.sqrt(successes) - np.sqrt(expected)
    # rounding may leave an expected count a little above the attempts
    failed = np.sqrt(attempts - successes) - np.sqrt(np.maximum(attempts - expected, 0))
    return 4 * (solved**2 + failed**2).sum(axis=-1)


def mixed_share(successes: np.ndarray, attempts: np.ndarray) -> np.ndarray:
    """Share of cells that are neither always nor never solved, of those tried at least twice.

    Parameters
    ----------
    successes : np.ndarray
        Shape (..., cell).
    attempts : np.ndarray
        Shape (cell,); at least one entry is 2 or more.

    Returns
    -------
    np.ndarray
        Shape (...), from 0 to 1.
    """
    tried = attempts >= 2
    some = successes[..., tried]
    return ((some > 0) & (some < attempts[tried])).mean(axis=-1)


def design_effect(residual: np.ndarray, group: np.ndarray) -> np.ndarray:
    """Sum of squared group sums of residuals, over the sum of squared residuals.

    It expects 1 where residuals are independent within groups, and n where every group holds n
    equal ones [4]_.

    Parameters
    ----------
    residual : np.ndarray
        Successes less expected ones, shape (..., cell).
    group : np.ndarray
        Shape (cell,): the group, an agent with a family, of each cell.

    Returns
    -------
    np.ndarray
        Shape (...).
    """
    together = group_sums(residual, group, int(group.max()) + 1)
    return (together**2).sum(axis=-1) / np.maximum((residual**2).sum(axis=-1), 1e-300)


def above(observed: np.ndarray, replicated: np.ndarray) -> np.ndarray:
    """Share of draws, along the first axis, whose replicate exceeds the data; ties count half."""
    share: np.ndarray = np.mean(
        (replicated > observed) + 0.5 * (replicated == observed), axis=0, dtype=float
    )
    return share


class Q3:
    """Yen's Q3: correlation over agents of two tasks' residuals [3]_.

    The residual of a cell is its success rate minus the model's probability. A pair of tasks counts
    when at least `LEAST_COMMON_AGENTS` agents tried both and, among those, each of the two was
    solved at least once, and failed at least once, by `LEAST_EACH_OUTCOME` agents or more. So
    the rule depends on the successes given, and replicates pass through it as the data do.

    Parameters
    ----------
    agent, task : np.ndarray
        Shape (cell,): index of each cell's agent and task.
    attempts : np.ndarray
        Shape (cell,).
    agents, tasks : int
        Numbers of agents and tasks.
    """

    def __init__(
        self, agent: np.ndarray, task: np.ndarray, attempts: np.ndarray, agents: int, tasks: int
    ) -> None:
        self.place = (agent, task)
        self.attempts = attempts
        self.tried = np.zeros((agents, tasks))
        self.tried[self.place] = 1
        self.common = self.tried.T @ self.tried
        self.full = bool(self.tried.all())
        self.upper = np.triu(self.common >= LEAST_COMMON_AGENTS, k=1)

    def matrix(
        self,
        successes: np.ndarray,
        probability: np.ndarray,
        pairs: tuple[np.ndarray, np.ndarray] | None = None,
    ) -> np.ndarray:
        """Residual correlation of every pair of tasks that counts.

        Parameters
        ----------
        successes, probability : np.ndarray
            Shape (cell,).
        pairs : tuple, optional
            What `pairs` gives for these successes, when it is known already.

        Returns
        -------
        np.ndarray
            Shape (task, task): filled above the diagonal, NaN elsewhere and where a pair doesn't
            count.
        """
        keep, counts = pairs or self.pairs(successes)
        result = np.full(self.common.shape, np.nan)
        part = self._correlations(successes, probability, keep)
        result[np.ix_(keep, keep)] = np.where(counts, part, np.nan)
        return result

    def largest(
        self,
        successes: np.ndarray,
        probability: np.ndarray,
        pairs: tuple[np.ndarray, np.ndarray] | None = None,
    ) -> float:
        """Largest residual correlation over the pairs that count; -1 where no pair counts.

        Parameters
        ----------
        successes, probability : np.ndarray
            Shape (cell,).
        pairs : tuple, optional
            What `pairs` gives for these successes, when it is known already.
        """
        keep, counts = pairs or self.pairs(successes)
        part = self._correlations(successes, probability, keep)
        return float(np.max(part, where=counts, initial=-1.0))

    def pairs(self, successes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Tasks (kept,) that can count, and which pairs of them do (kept, kept)."""
        # single precision counts exactly and is faster
        solved = self._grid(successes > 0, np.float32)
        failed = self._grid(successes < self.attempts, np.float32)
        fewest = np.minimum(solved.sum(axis=0), failed.sum(axis=0))
        keep = np.flatnonzero(fewest >= LEAST_EACH_OUTCOME)
        counts = self.upper[np.ix_(keep, keep)]
        if not self.full:
            tried = self.tried[:, keep].astype(np.float32)
            for outcome in (solved[:, keep], failed[:, keep]):
                enough = outcome.T @ tried >= LEAST_EACH_OUTCOME  # row task, common with column
                counts = counts & enough & enough.T
        return keep, counts

    def _correlations(
        self, successes: np.ndarray, probability: np.ndarray, keep: np.ndarray
    ) -> np.ndarray:
        residual = self._grid(successes / self.attempts - probability)[:, keep]
        if self.full:
            return _correlation(residual)
        return _pairwise_correlation(residual, self.tried[:, keep], self.common[np.ix_(keep, keep)])

    def _grid(self, per_cell: np.ndarray, dtype: type = np.float64) -> np.ndarray:
        """Put a vector over cells into an (agent, task) array; 0 where nothing was tried."""
        grid: np.ndarray = np.zeros(self.tried.shape, dtype)
        grid[self.place] = per_cell
        return grid


def _correlation(residual: np.ndarray) -> np.ndarray:
    """Correlations of the columns of a full (agent, task) array."""
    centred = residual - residual.mean(axis=0)
    centred /= np.maximum(np.sqrt((centred**2).sum(axis=0)), 1e-150)
    return centred.T @ centred


def _pairwise_correlation(
    residual: np.ndarray, tried: np.ndarray, common: np.ndarray
) -> np.ndarray:
    """Correlations of columns, each pair over the `common` rows in which both were tried."""
    common = np.maximum(common, 1)
    # centring on the task's own mean first keeps the subtractions below accurate
    residual = (residual - residual.sum(axis=0) / np.maximum(tried.sum(axis=0), 1)) * tried
    total = residual.T @ tried  # of row task, over agents common with column task
    squares = (residual**2).T @ tried
    variance = squares - total**2 / common
    covariance = residual.T @ residual - total * total.T / common
    # a variance that is rounding alone, of residuals that are equal, would make any correlation
    known = variance > 1e-12 * np.maximum(squares, 1e-12)
    scale = np.sqrt(np.where(known & known.T, variance * variance.T, np.inf))
    return np.clip(covariance / scale, -1.0, 1.0)
