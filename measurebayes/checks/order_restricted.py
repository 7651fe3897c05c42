"""Posterior of the success probabilities of 3 x 3 tables, restricted to cancellation axioms.

Write p[i, j] for the probability of success in row i and column j, rows and columns in increasing
order. With a uniform prior on the nine probabilities that satisfy the axioms, the posterior is
the product of nine Beta densities, cut to the set where the axioms hold [1]_, [2]_.

Single cancellation: p increases along rows and columns.

Double cancellation: for any rows a, b, c and columns x, y, z, p[a, y] >= p[b, x] and
p[b, z] >= p[c, y] imply p[a, z] >= p[c, x]. Write ``d1 = p[a, y] - p[b, x]``,
``d2 = p[b, z] - p[c, y]`` and ``d3 = p[c, x] - p[a, z]``. The six orders in which the same three
pairs can be named say together (ties apart) that d1, d2 and d3 don't all have the same sign. So a
3 x 3 table has six conditions, one for each way to take three cells (a, x), (b, y), (c, z) out of
it, one in each row and column. Given single cancellation, only one of them says anything new.
Rows are taken as a, b, c = 1, 2, 3:

* (x, y, z) = (1, 2, 3): ``p12 - p21, p23 - p32, p31 - p13`` compare cells of which neither is
  above the other in the order of rows and columns. All signs are possible: this is the condition.
* (2, 1, 3): ``p11 - p22 < 0`` always, so the condition is that p23 < p31 and p32 < p13 don't
  hold together. They can't: p31 <= p32 < p13 <= p23 contradicts p23 < p31.
* (1, 3, 2): ``p22 - p33 < 0`` always; p13 < p21 and p31 < p12 can't hold together, as
  p12 <= p13 < p21 <= p31.
* (2, 3, 1) and (3, 1, 2): ``p21 - p33 < 0`` and ``p32 - p11 > 0``; ``p12 - p33 < 0`` and
  ``p23 - p11 > 0``. Different signs always.
* (3, 2, 1): ``p12 - p23 < 0`` and ``p33 - p11 > 0``. Different signs always.

Each cell given the other eight therefore has a Beta density on one interval: the neighbours
bound it and, when the other two differences have the same sign, so does the partner of its pair.

The sampler visits the cells in turn and draws each by slice sampling, which leaves this truncated
Beta invariant without error of approximation [3]_. The slice {x: log f(x) > level} lies within
``mode +- sqrt((log f(mode) - level) / (2 n))`` for n trials (Pinsker's inequality), and from there
the interval shrinks towards the present value until a point lies in the slice. Where the data
contradict the order, cells are pressed together and one alone can hardly move. So a random run
of neighbours in the order of the nine values is shifted as a whole after each sweep, by a slice
step too. Such shifts keep the order of the nine values, on which alone the axioms depend. And where
the data contradict double cancellation, the posterior has a peak for each of the three
differences that may have the odd sign. A Metropolis step that lets two differences trade places
leads from one peak to another. Tables and chains advance together as columns of arrays (9, column).

References
----------
.. [1] Karabatsos (2001). The Rasch model, additive conjoint measurement, and new models of
   probabilistic measurement theory. Journal of Applied Measurement 2(4).
.. [2] Domingue (2014). Evaluating the equal-interval hypothesis with test score scales.
   Psychometrika 79(1). doi:10.1007/s11336-013-9342-4
.. [3] Neal (2003). Slice sampling. Annals of Statistics 31(3). doi:10.1214/aos/1056562461
"""

from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.special import xlog1py, xlogy

from measurebayes.checks.mixing import mixing
from measurebayes.checks.studies import Track, untracked

CELLS = 9  # cell 3 i + j is row i, column j
# (k, l) stands for the difference p[k] - p[l]; the three never have all the same sign
PAIRS = ((1, 3), (5, 7), (6, 2))
# Orders of the nine cells in which increasing values satisfy both axioms. Chains start from
# different ones, so that R-hat notices chains that can't change their order.
STARTS = np.array([
    [0, 1, 2, 3, 4, 5, 6, 7, 8],
    [0, 3, 6, 1, 4, 7, 2, 5, 8],
    [0, 3, 1, 6, 4, 2, 7, 5, 8],
    [0, 1, 3, 2, 4, 6, 5, 7, 8],
])  # fmt: skip
RHAT_LIMIT = 1.05  # the runs are short, and R-hat of a short run is noisy
ESS_LEAST = 100.0
LONGER = 4  # times as many sweeps for the tables that have not mixed,
RETRIES = 2  # at most so often
SHRINKS = 200  # by then an interval is narrower than the spacing of floating point numbers
DRAWS_AT_ONCE = 6_000_000  # numbers kept at a time, 48 MB


class Restricted(NamedTuple):
    """Restricted posterior of the nine probabilities of each table; arrays (table, 9).

    Attributes
    ----------
    mean, low, high : np.ndarray
        Posterior mean and central interval.
    below : np.ndarray
        Posterior probability of being below the observed proportion.
    rhat, ess : np.ndarray
        Split R-hat and effective sample size of the draws; see `mixing`.
    """

    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray
    below: np.ndarray
    rhat: np.ndarray
    ess: np.ndarray

    @property
    def mixed(self) -> np.ndarray:
        """Whether the chains of each table have mixed (table,)."""
        return (self.rhat <= RHAT_LIMIT).all(axis=1) & (self.ess >= ESS_LEAST).all(axis=1)


class _State:
    """Chains of all tables, shape (9, table * chain), the chains of a table side by side."""

    def __init__(
        self,
        trials: np.ndarray,
        successes: np.ndarray,
        chains: int,
        rng: np.random.Generator,
    ) -> None:
        n, s = (np.repeat(v.T.astype(float), chains, axis=1) for v in (trials, successes))
        self.rng, self.n, self.s, self.f = rng, n, s, n - s
        self.mode = s / n
        self.peak = xlogy(s, self.mode) + xlog1py(self.f, -self.mode)
        drawn = np.sort(rng.beta(s + 1, self.f + 1), axis=0)
        self.x = np.empty_like(drawn)
        order = STARTS[np.arange(drawn.shape[1]) % chains % len(STARTS)].T
        np.put_along_axis(self.x, order, drawn, axis=0)
        self.log = self.density(slice(None), self.x)

    def density(self, at: Any, x: np.ndarray) -> np.ndarray:
        """Log of the unrestricted density of the entries `at`, up to a constant."""
        return self.s[at] * np.log(x) + self.f[at] * np.log1p(-x)


def sample(
    trials: np.ndarray,
    successes: np.ndarray,
    rng: np.random.Generator,
    double: bool = True,
    chains: int = 4,
    draws: int = 500,
    warmup: int = 200,
    thin: int = 1,
    track: Track = untracked,
) -> np.ndarray:
    """Draw from the restricted posterior of every table.

    Parameters
    ----------
    trials, successes : np.ndarray
        Shape (table, 9), rows one after another; at least one trial in each cell.
    rng : np.random.Generator
    double : bool
        Whether double cancellation is imposed besides single cancellation.
    chains, draws : int
        Chains of each table, and draws kept of each chain.
    warmup : int
        Sweeps before the first draw is kept.
    thin : int
        Sweeps for each draw kept.
    track
        Shows how far the sweeps are.

    Returns
    -------
    np.ndarray
        Shape (table, 9, chain, draw), between 0 and 1.
    """
    state = _State(trials, successes, chains, rng)
    kept = np.empty((draws, *state.x.shape))
    # log(0) can only come from a proposal on the very edge of the unit interval: it is refused
    with np.errstate(divide="ignore", invalid="ignore"):
        for sweep in track(range(warmup + draws * thin)):
            for cell in range(CELLS):
                _move_cell(state, cell, double)
            _shift_run(state)
            if double:
                _trade(state)
            if sweep >= warmup and (sweep - warmup) % thin == 0:
                kept[(sweep - warmup) // thin] = state.x
    return kept.reshape(draws, CELLS, len(trials), chains).transpose(2, 1, 3, 0)


def bounds(x: np.ndarray, cell: int, double: bool) -> tuple[np.ndarray, np.ndarray]:
    """Interval that the axioms leave to one cell, given the other eight.

    Parameters
    ----------
    x : np.ndarray
        Probabilities that satisfy the axioms, shape (9, table).
    cell : int
        0 to 8.
    double : bool

    Returns
    -------
    low, high : np.ndarray
        Shape (table,).
    """
    row, column = divmod(cell, 3)
    low, high = np.zeros(x.shape[1]), np.ones(x.shape[1])
    if row > 0:
        low = np.maximum(low, x[cell - 3])
    if column > 0:
        low = np.maximum(low, x[cell - 1])
    if row < 2:
        high = np.minimum(high, x[cell + 3])
    if column < 2:
        high = np.minimum(high, x[cell + 1])
    pair = next((pair for pair in PAIRS if cell in pair), None)
    if not double or pair is None:
        return low, high
    (a, b), (c, d) = (other for other in PAIRS if other != pair)
    first, second = x[a] > x[b], x[c] > x[d]
    partner = x[pair[1] if cell == pair[0] else pair[0]]
    # both others positive: p[pair[0]] <= p[pair[1]]; both negative: the opposite
    at_most = (first & second) if cell == pair[0] else (~first & ~second)
    at_least = (~first & ~second) if cell == pair[0] else (first & second)
    high = np.where(at_most, np.minimum(high, partner), high)
    low = np.where(at_least, np.maximum(low, partner), low)
    return low, high


def _move_cell(state: _State, cell: int, double: bool) -> None:
    """Draw one cell of every table given the other eight: a slice step, in place."""
    rng = state.rng
    low, high = bounds(state.x, cell, double)
    drop = rng.standard_exponential(low.shape)
    level = state.log[cell] - drop
    # rounding may leave a density a little above its peak
    drop += np.maximum(state.peak[cell] - state.log[cell], 0)
    reach = np.sqrt(drop / (2 * state.n[cell]))
    low = np.maximum(low, state.mode[cell] - reach)
    high = np.minimum(high, state.mode[cell] + reach)
    new = low + (high - low) * rng.random(low.shape)
    log = state.density(cell, new)
    out = np.flatnonzero(~(log >= level))
    proposed, now = new[out], state.x[cell, out]
    new[out], log[out] = now, state.log[cell, out]
    low, high, level = low[out], high[out], level[out]
    for _ in range(SHRINKS):
        if not out.size:
            break
        left = proposed < now
        low, high = np.where(left, proposed, low), np.where(left, high, proposed)
        proposed = low + (high - low) * rng.random(out.size)
        value = state.density((cell, out), proposed)
        inside = value >= level
        new[out[inside]], log[out[inside]] = proposed[inside], value[inside]
        rest = ~inside
        out, proposed, now = out[rest], proposed[rest], now[rest]
        low, high, level = low[rest], high[rest], level[rest]
    state.x[cell], state.log[cell] = new, log


def _shift_run(state: _State) -> None:
    """Shift a random run of the nine sorted values of every table: a slice step, in place."""
    rng, x = state.rng, state.x
    columns = np.arange(x.shape[1])
    order = np.argsort(x, axis=0)
    one = rng.integers(0, CELLS, len(columns))
    other = (one + rng.integers(1, CELLS, len(columns))) % CELLS
    first, last = np.minimum(one, other), np.maximum(one, other)
    rank = np.empty_like(order)
    np.put_along_axis(rank, order, np.arange(CELLS)[:, None], axis=0)
    moved = ((rank >= first) & (rank <= last)).astype(float)
    ordered = np.zeros((CELLS + 2, len(columns)))
    ordered[1:-1], ordered[-1] = np.take_along_axis(x, order, axis=0), 1
    low = ordered[first, columns] - ordered[first + 1, columns]
    high = ordered[last + 2, columns] - ordered[last + 1, columns]
    level = (moved * state.log).sum(axis=0) - rng.standard_exponential(len(columns))
    shift, out = np.zeros(len(columns)), columns
    for _ in range(SHRINKS):
        if not out.size:
            break
        proposed = low + (high - low) * rng.random(out.size)
        at = (slice(None), out)
        value = (moved[at] * state.density(at, x[at] + proposed * moved[at])).sum(axis=0)
        inside = value >= level[out]
        shift[out[inside]] = proposed[inside]
        low, high = np.where(proposed < 0, proposed, low), np.where(proposed < 0, high, proposed)
        out, low, high = out[~inside], low[~inside], high[~inside]
    state.x = x + shift * moved
    state.log = state.density(slice(None), state.x)


def _trade(state: _State) -> None:
    """Let two of the three differences of PAIRS trade places: a Metropolis step, in place.

    With the sums of both pairs kept, (d1, d2) -> (d2, d1) is its own inverse and keeps volume.
    The signs of the three stay the same in number, so only single cancellation must be checked.
    """
    (a, b), (c, d) = (PAIRS[k] for k in state.rng.permutation(3)[:2])
    x, cells = state.x, [a, b, c, d]
    half = (x[c] - x[d] - x[a] + x[b]) / 2
    new = x.copy()
    new[cells] += np.array([1, -1, -1, 1])[:, None] * half
    grid = new.reshape(3, 3, -1)
    allowed = (new[0] > 0) & (new[8] < 1)
    allowed &= (grid[1:] > grid[:-1]).all(axis=(0, 1))
    allowed &= (grid[:, 1:] > grid[:, :-1]).all(axis=(0, 1))
    at = np.ix_(cells, np.flatnonzero(allowed))
    value = state.density(at, new[at])
    gain = value.sum(axis=0) - state.log[at].sum(axis=0)
    taken = gain > -state.rng.standard_exponential(len(gain))
    kept = np.ix_(cells, np.flatnonzero(allowed)[taken])
    x[kept], state.log[kept] = new[kept], value[:, taken]


def restricted(
    trials: np.ndarray,
    successes: np.ndarray,
    rng: np.random.Generator,
    double: bool = True,
    level: float = 0.95,
    chains: int = 4,
    draws: int = 500,
    warmup: int = 200,
    retries: int = RETRIES,
    track: Track = untracked,
) -> Restricted:
    """Summarise the restricted posterior of every table.

    Parameters
    ----------
    trials, successes, rng, double, chains, draws, warmup, track
        As in `sample`.
    level : float
        Probability inside the central interval.
    retries : int
        How often the tables of which a cell has R-hat over `RHAT_LIMIT` or an effective sample size
        under `ESS_LEAST` are sampled again, with `LONGER` times as many sweeps each time.

    Returns
    -------
    Restricted
    """
    once = partial(_once, rng, double, level, chains, draws, track)
    found = once(warmup, 1, trials, successes)
    for retry in range(1, retries + 1):
        again = np.flatnonzero(~found.mixed)
        if not again.size:
            break
        thin = LONGER**retry
        better = once(warmup * thin, thin, trials[again], successes[again])
        for old, new in zip(found, better, strict=True):
            old[again] = new
    return found


def _once(
    rng: np.random.Generator,
    double: bool,
    level: float,
    chains: int,
    draws: int,
    track: Track,
    warmup: int,
    thin: int,
    trials: np.ndarray,
    successes: np.ndarray,
) -> Restricted:
    """`restricted` without a second try, a block of tables at a time."""
    step = max(1, DRAWS_AT_ONCE // (CELLS * chains * draws))
    tails = [(1 - level) / 2, (1 + level) / 2]
    blocks = []
    for start in range(0, len(trials), step):
        n, s = trials[start : start + step], successes[start : start + step]
        kept = np.ascontiguousarray(sample(n, s, rng, double, chains, draws, warmup, thin, track))
        rhat, ess = mixing(kept)
        flat = kept.reshape(len(n), CELLS, -1)
        below, mean = (flat < (s / n)[..., None]).mean(axis=-1), flat.mean(axis=-1)
        low, high = np.quantile(flat, tails, axis=-1, overwrite_input=True)
        blocks.append(Restricted(mean, low, high, below, rhat, ess))
    return Restricted(*(np.concatenate(parts) for parts in zip(*blocks, strict=True)))


def below_observed(
    trials: np.ndarray,
    successes: np.ndarray,
    rng: np.random.Generator,
    double: bool = True,
    draws: int = 240,
    warmup: int = 60,
    track: Track = untracked,
) -> np.ndarray:
    """Posterior probability of being below the observed proportion, from one short chain a table.

    Parameters
    ----------
    trials, successes, rng, double, draws, warmup, track
        As in `sample`.

    Returns
    -------
    np.ndarray
        Shape (table, 9).
    """
    step = max(1, DRAWS_AT_ONCE // (CELLS * draws))
    shares = [np.empty((0, CELLS))]
    for start in range(0, len(trials), step):
        n, s = trials[start : start + step], successes[start : start + step]
        kept = sample(n, s, rng, double, 1, draws, warmup, 1, track)
        shares.append((kept < (s / n)[..., None, None]).mean(axis=(2, 3)))
    return np.concatenate(shares)
