"""Single attempts as what is left out, and attempts of every cell dealt into parts."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import xarray as xr

from measurebayes.backends.evaluate import cell_logits
from measurebayes.program.registry import ModelFile

_HALVES = 2_718  # keeps these random numbers apart from others made from the same seed
_PARTS = 2_719


def outcomes(runs: xr.Dataset) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Tell attempts apart by what is known of them: their cell, and whether they succeeded.

    Returns
    -------
    tuple
        Cell, success (0 or 1), and number of such attempts, (kind,) each; sorted by cell.
    """
    solved = runs["successes"].values
    number = np.stack([solved, runs["attempts"].values - solved], axis=1)
    cell, failed = np.nonzero(number)
    return cell, 1 - failed, number[cell, failed]


def outcome_blocks(
    model: ModelFile, runs: xr.Dataset, posterior: xr.Dataset, budget: int
) -> Iterator[np.ndarray]:
    """Log probability of every kind of attempt (kind, draw), some cells at a time."""
    draws = posterior.sizes["chain"] * posterior.sizes["draw"]
    step = max(1, budget // (8 * 6 * draws))  # about six arrays live at once
    cell, success, _ = outcomes(runs)
    for start in range(0, runs.sizes["cell"], step):
        some = slice(start, start + step)
        part = posterior.isel(cell=some, missing_dims="ignore")
        values = {str(name): part[name] for name in part.data_vars}
        logits = cell_logits(model, runs.isel(cell=some), values)
        eta = logits.transpose("cell", "chain", "draw").values.reshape(-1, draws)
        here = (cell >= start) & (cell < start + step)
        sign = np.where(success[here] == 1, 1.0, -1.0)
        yield -np.logaddexp(0.0, -sign[:, None] * eta[cell[here] - start])


def halves(runs: xr.Dataset, seed: int) -> tuple[xr.Dataset, xr.Dataset]:
    """Deal the attempts of every cell into two random halves; tasks and agents stay in both.

    Of an odd number of attempts one half or the other, at random, gets one more.

    Parameters
    ----------
    runs : xr.Dataset
    seed : int
    """
    number, solved = half(runs, seed)
    attempts, successes = runs["attempts"].values, runs["successes"].values
    return with_counts(runs, number, solved), with_counts(
        runs, attempts - number, successes - solved
    )


def half(runs: xr.Dataset, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return attempts and successes (cell,) of the first of `halves`."""
    rng = np.random.default_rng([seed, _HALVES])
    attempts, successes = runs["attempts"].values, runs["successes"].values
    number = (attempts + (rng.random(len(attempts)) < 0.5)) // 2
    return number, rng.hypergeometric(successes, attempts - successes, number)


def parts(runs: xr.Dataset, number: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Deal the attempts of every cell into parts of equal size, to one attempt.

    Returns
    -------
    tuple
        Attempts and successes of every part (part, cell).
    """
    rng = np.random.default_rng([seed, _PARTS])
    attempts, successes = runs["attempts"].values, runs["successes"].values
    cell = np.repeat(np.arange(len(attempts)), attempts)
    within = np.arange(len(cell)) - np.repeat(np.cumsum(attempts) - attempts, attempts)
    solved = within < successes[cell]
    shuffled = np.lexsort((rng.random(len(cell)), cell))
    part = (within + rng.integers(number, size=len(attempts))[cell]) % number
    tried, of_them = (np.zeros((number, len(attempts)), dtype=np.int64) for _ in range(2))
    np.add.at(tried, (part, cell), 1)
    np.add.at(of_them, (part, cell), solved[shuffled].astype(np.int64))
    return tried, of_them


def with_counts(runs: xr.Dataset, attempts: np.ndarray, successes: np.ndarray) -> xr.Dataset:
    """Return the data with other counts (cell,), without cells that have no attempts left."""
    some = runs.assign(attempts=("cell", attempts), successes=("cell", successes))
    return some.isel(cell=attempts > 0)
