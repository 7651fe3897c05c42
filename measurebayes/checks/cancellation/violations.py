"""How large violations of double cancellation are, and how probably they are more than noise."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pandas as pd
from scipy.special import betainc

LISTED = 1000  # violations in the table, the largest first
PAIRS_BYTES = 2**24  # of a table of pairs of agents by agents in between
LEAST_NODES, MOST_NODES = 1000, 8000


def largest(
    successes: np.ndarray,
    attempts: np.ndarray,
    rates: np.ndarray,
    agents: np.ndarray,
    bands: list[str],
    most: int = LISTED,
) -> pd.DataFrame:
    """List the largest violations of double cancellation.

    The size of a violation is the smallest of the three differences that make it: how far all
    rates would have to move for it to go. Its probability is that of all three order relations
    between the true success rates, each with an independent uniform prior and a binomial
    likelihood: without any assumption about how rates hang together.

    Parameters
    ----------
    successes, attempts : np.ndarray
        Shape (agent, band).
    rates : np.ndarray
        Shape (agent, band); NaN where missing.
    agents, bands
        Labels.
    most : int
        Rows at most.

    Returns
    -------
    pd.DataFrame
        Columns agent_a, agent_b, agent_c, band_x, band_y, band_z; the six rates ay, bx (ay >= bx),
        bz, cy (bz >= cy), az, cx (az < cx); size (difference of rates), probability.
    """
    found = _largest(rates, most)
    a, b, c, x, y, z = found.T
    place = {"ay": (a, y), "bx": (b, x), "bz": (b, z), "cy": (c, y), "az": (a, z), "cx": (c, x)}
    bands_of = np.asarray(bands, dtype=object)
    table = pd.DataFrame(
        {f"agent_{n}": agents[i] for n, i in (("a", a), ("b", b), ("c", c))}
        | {f"band_{n}": bands_of[i] for n, i in (("x", x), ("y", y), ("z", z))}
        | {name: rates[at] for name, at in place.items()}
    )
    size, chance = np.full(len(table), np.inf), np.ones(len(table))
    for upper, lower in (("ay", "bx"), ("bz", "cy"), ("cx", "az")):
        size = np.minimum(size, rates[place[upper]] - rates[place[lower]])
        one, other = (np.ravel_multi_index(place[n], rates.shape) for n in (upper, lower))
        chance *= probability_at_least(successes.ravel(), attempts.ravel(), one, other)
    table["size"], table["probability"] = size, chance
    order = ["size", "probability"]
    return table.sort_values(order, ascending=False, kind="stable", ignore_index=True)


def _largest(rates: np.ndarray, most: int) -> np.ndarray:
    """Indices (a, b, c, x, y, z) of the violations of greatest size, shape (violation, 6)."""
    kept, sizes = np.zeros((0, 6), dtype=int), np.zeros(0)
    different = ~np.eye(len(rates), dtype=bool)
    least = 0.0  # smallest size that still gets a place
    for x, y, z in permutations(range(rates.shape[1]), 3):
        one = np.where(different, rates[:, None, y] - rates[None, :, x], np.nan)  # a, b
        two = np.where(different, rates[:, None, z] - rates[None, :, y], np.nan)  # b, c
        three = np.where(different, rates[None, :, x] - rates[:, None, z], np.nan)  # a, c
        first, second, last = one >= least, two >= least, (three >= least) & (three > 0)
        pairs = (first.astype(np.float32) @ second.astype(np.float32) > 0) & last
        if not pairs.any():
            continue
        every_a, every_c = np.nonzero(pairs)
        step = max(1, PAIRS_BYTES // len(rates))
        for start in range(0, len(every_a), step):
            a, c = every_a[start : start + step], every_c[start : start + step]
            which, b = np.nonzero(first[a] & second[:, c].T)
            a, c = a[which], c[which]
            size = np.minimum(np.minimum(one[a, b], two[b, c]), three[a, c])
            bands = np.broadcast_to([x, y, z], (len(a), 3))
            kept = np.concatenate([kept, np.column_stack([a, b, c, bands])])
            sizes = np.concatenate([sizes, size])
            if len(sizes) > most:
                best = np.argsort(-sizes, kind="stable")[:most]
                kept, sizes = kept[best], sizes[best]
                least = float(sizes[-1])
    return kept


def probability_at_least(
    successes: np.ndarray, attempts: np.ndarray, one: np.ndarray, other: np.ndarray
) -> np.ndarray:
    """Posterior probability that one success rate is at least another.

    Parameters
    ----------
    successes, attempts : np.ndarray
        Counts of the entries of a table, shape (entry,).
    one, other : np.ndarray
        Indices of entries, shape (pair,).

    Returns
    -------
    np.ndarray
        Shape (pair,): P(rate of `one` >= rate of `other`), independent uniform priors.
    """
    used, index = np.unique(np.concatenate([one, other]), return_inverse=True)
    k, n = successes[used, None], attempts[used, None]
    # The arcsine scale gives all rates about the same precision, so that one grid suits them all.
    nodes = int(np.clip(20 * np.sqrt(n.max(initial=1)), LEAST_NODES, MOST_NODES))
    below = betainc(k + 1.0, n - k + 1.0, np.sin(np.linspace(0, np.pi / 2, nodes + 1)) ** 2)
    mass, middle = np.diff(below, axis=1), (below[:, 1:] + below[:, :-1]) / 2
    return np.einsum("pg,pg->p", mass[index[: len(one)]], middle[index[len(one) :]])
