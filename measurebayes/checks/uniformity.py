"""Are ranks uniform on 0..L? Tests for simulation-based calibration.

References
----------
.. [1] Säilynoja, Bürkner, Vehtari (2022). Graphical test for discrete uniformity and its
   applications in goodness-of-fit evaluation and multiple sample comparison. Statistics and
   Computing 32. doi:10.1007/s11222-022-10090-6
.. [2] Holm (1979). A simple sequentially rejective multiple test procedure. Scandinavian Journal
   of Statistics 6(2).
.. [3] Hotelling (1931). The generalization of Student's ratio. Annals of Mathematical Statistics
   2(3). doi:10.1214/aoms/1177732979
"""

from functools import lru_cache

import numpy as np
from scipy import stats

SIMULATIONS = 100_000


def rank_of(truth: float, draws: np.ndarray, rng: np.random.Generator) -> int:
    """Count the draws below the truth, ties broken at random: 0 to len(draws).

    Parameters
    ----------
    truth : float
    draws : np.ndarray
        Shape (draw,).
    rng : np.random.Generator
        Only used where draws equal the truth.
    """
    below, equal = int(np.sum(draws < truth)), int(np.sum(draws == truth))
    return below + (int(rng.integers(equal + 1)) if equal else 0)


@lru_cache(maxsize=8)
def _pointwise_p(replications: int, largest: int) -> np.ndarray:
    """Two-sided binomial p value of each count of ranks <= i, shape (largest, replications + 1)."""
    chance = np.arange(1, largest + 1)[:, None] / (largest + 1)
    counts = np.arange(replications + 1)
    lower = stats.binom.cdf(counts, replications, chance)
    upper = stats.binom.sf(counts - 1, replications, chance)
    return 2 * np.minimum(lower, upper)


@lru_cache(maxsize=8)
def _null(replications: int, largest: int) -> np.ndarray:
    """Smallest pointwise p values of uniform ranks, sorted, shape (SIMULATIONS,)."""
    rng = np.random.default_rng(0)
    table = _pointwise_p(replications, largest)
    rows = np.arange(largest)
    result = []
    for _ in range(0, SIMULATIONS, 5_000):
        even = np.full(largest + 1, 1 / (largest + 1))
        counts = rng.multinomial(replications, even, size=5_000)
        result.append(table[rows, counts.cumsum(axis=1)[:, :-1]].min(axis=1))
    return np.sort(np.concatenate(result))


def ecdf_p(ranks: np.ndarray, largest: int) -> float:
    """P value of uniformity from the simultaneous envelope of the empirical distribution [1]_.

    The statistic is the smallest two-sided binomial p value over all points of the empirical
    distribution; its null distribution is simulated, so the p value is that of the widest
    simultaneous envelope that the ranks just leave.

    Parameters
    ----------
    ranks : np.ndarray
        Shape (replication,), whole numbers 0 to `largest`.
    largest : int
        Number of draws each rank was taken among.

    Returns
    -------
    float
        At least 1 / (SIMULATIONS + 1).
    """
    counts = np.bincount(ranks, minlength=largest + 1).cumsum()[:-1]
    statistic = _pointwise_p(len(ranks), largest)[np.arange(largest), counts].min()
    null = _null(len(ranks), largest)
    # equal values count as being as extreme; rounding must not separate them
    as_extreme = np.searchsorted(null, statistic * (1 + 1e-9), side="right")
    return float((as_extreme + 1) / (len(null) + 1))


def bins_for(replications: int, largest: int, most: int = 20) -> int:
    """Largest number of equal bins of the ranks 0..largest with at least 5 expected in each."""
    fitting = [b for b in range(1, most + 1) if (largest + 1) % b == 0 and replications >= 5 * b]
    return max(fitting, default=1)


def chi_square_p(ranks: np.ndarray, largest: int) -> float:
    """P value of Pearson's chi-square over equal bins; NaN where fewer than two bins fit.

    Parameters
    ----------
    ranks : np.ndarray
        Shape (replication,).
    largest : int
    """
    bins = bins_for(len(ranks), largest)
    if bins < 2:
        return float("nan")
    counts = np.bincount(ranks * bins // (largest + 1), minlength=bins)
    return float(stats.chisquare(counts).pvalue)


def pooled_p(ranks: np.ndarray, largest: int) -> float:
    """P value of uniformity of exchangeable elements taken together.

    The elements of one replication depend on each other, so their ranks can't be pooled as if
    independent. Each replication gives a histogram over its elements; that the mean of
    these histograms is flat is tested by Hotelling's T^2 over replications [3]_.

    Parameters
    ----------
    ranks : np.ndarray
        Shape (replication, element).
    largest : int

    Returns
    -------
    float
        NaN where there are too few replications.
    """
    replications, elements = ranks.shape
    bins = bins_for(replications, largest, most=10)
    if bins < 2 or replications < 5 * bins:
        return float("nan")
    binned = ranks * bins // (largest + 1)
    counts = (binned[:, :, None] == np.arange(bins)).sum(axis=1)[:, :-1]  # the last is the rest
    off = counts.mean(axis=0) - elements / bins
    covariance = np.cov(counts, rowvar=False).reshape(bins - 1, bins - 1)
    try:
        t_squared = replications * off @ np.linalg.solve(covariance, off)
    except np.linalg.LinAlgError:  # a bin that never varies: ranks far from uniform
        return 0.0
    free = bins - 1
    f = t_squared * (replications - free) / (free * (replications - 1))
    return float(stats.f.sf(f, free, replications - free))


def holm(p: np.ndarray) -> np.ndarray:
    """Holm's adjusted p values: the smallest level at which each test is rejected [2]_.

    Valid whatever the dependence between the tests. NaN stay NaN and are not counted.

    Parameters
    ----------
    p : np.ndarray
        Shape (test,).
    """
    adjusted = np.full(len(p), np.nan)
    known = np.flatnonzero(~np.isnan(p))
    order = known[np.argsort(p[known])]
    factors = np.arange(len(order), 0, -1)
    adjusted[order] = np.minimum(np.maximum.accumulate(p[order] * factors), 1)
    return adjusted
