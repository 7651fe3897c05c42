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
        self.tried = self._grid(np.ones(len(agent)), (agents, tasks))
        self.common = self.tried.T @ self.tried
        self.full = bool(self.tried.all())
        self.upper = np.triu(self.common >= LEAST_COMMON_AGENTS, k=1)

    def matrix(self, successes: np.ndarray, probability: np.ndarray) -> np.ndarray:
        """Residual correlation of every pair of tasks that counts.

        Parameters
        ----------
        successes, probability : np.ndarray
            Shape (cell,).

        Returns
        -------
        np.ndarray
            Shape (task, task): filled above the diagonal, NaN elsewhere and where a pair doesn't
            count.
        """
        keep, part = self._informative(successes, probability)
        result = np.full(self.common.shape, np.nan)
        result[np.ix_(keep, keep)] = part
        return result

    def largest(self, successes: np.ndarray, probability: np.ndarray) -> float:
        """Largest residual correlation over the pairs that count; -1 where no pair counts."""
        _, part = self._informative(successes, probability)
        return float(np.nanmax(part, initial=-1.0))

    def _informative(
        self, successes: np.ndarray, probability: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Tasks that can count, and the correlations of their pairs (NaN where they don't)."""
        solved = self._grid(successes > 0, self.tried.shape)
        failed = self._grid(successes < self.attempts, self.tried.shape)
        fewest = np.minimum(solved.sum(axis=0), failed.sum(axis=0))
        keep = np.flatnonzero(fewest >= LEAST_EACH_OUTCOME)
        residual = self._grid(successes / self.attempts - probability, self.tried.shape)[:, keep]
        counts = self.upper[np.ix_(keep, keep)]
        if self.full:
            return keep, np.where(counts, _correlation(residual), np.nan)
        tried = self.tried[:, keep]
        for outcome in (solved[:, keep], failed[:, keep]):
            enough = outcome.T @ tried >= LEAST_EACH_OUTCOME  # of row task, common with column task
            counts = counts & enough & enough.T
        return keep, np.where(counts, _pairwise_correlation(residual, tried), np.nan)

    def _grid(self, per_cell: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
        """Put a vector over cells into an (agent, task) array; 0 where nothing was tried."""
        grid = np.zeros(shape)
        grid[self.place] = per_cell
        return grid


def _correlation(residual: np.ndarray) -> np.ndarray:
    """Correlations of the columns of a full (agent, task) array."""
    centred = residual - residual.mean(axis=0)
    centred /= np.maximum(np.sqrt((centred**2).sum(axis=0)), 1e-150)
    return centred.T @ centred


def _pairwise_correlation(residual: np.ndarray, tried: np.ndarray) -> np.ndarray:
    """Correlations of columns, each pair over the rows in which both were tried (1, else 0)."""
    common = np.maximum(tried.T @ tried, 1)
    # centring on the task's own mean first keeps the subtractions below accurate
    residual = (residual - residual.sum(axis=0) / np.maximum(tried.sum(axis=0), 1)) * tried
    total = residual.T @ tried  # of row task, over agents common with column task
    variance = (residual**2).T @ tried - total**2 / common
    covariance = residual.T @ residual - total * total.T / common
    return covariance / np.sqrt(np.maximum(variance * variance.T, 1e-300))
