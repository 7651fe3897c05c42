"""Order-restricted Bayesian test of a complete table of trials and successes, 3 x 3 at a time.

If ability and difficulty combine additively, the probabilities of success of any three rows and
three columns satisfy single and double cancellation. The test takes random 3 x 3 tables out of the
table, finds the posterior of each one's nine probabilities under a uniform prior restricted to
these axioms, and flags the cells whose observed proportion lies outside of the central interval
[1]_, [2]_. Cells are flagged when the axioms hold, too. How many to expect then is found from
tables simulated, with the same trials, from the additive logistic model fitted to the table, its
effects increasing in the order that is tested.

References
----------
.. [1] Karabatsos (2001). The Rasch model, additive conjoint measurement, and new models of
   probabilistic measurement theory. Journal of Applied Measurement 2(4).
.. [2] Domingue (2014). Evaluating the equal-interval hypothesis with test score scales.
   Psychometrika 79(1). doi:10.1007/s11336-013-9342-4
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.special import expit

from measurebayes.checks.conjoint_tables import (
    Chosen,
    Table,
    check_judged,
    check_numbers,
    check_options,
    choose,
    judged_cells,
    read,
)
from measurebayes.checks.order_restricted import Restricted, below_observed, restricted
from measurebayes.checks.studies import Track, stages

AXIOMS = ("single", "double")
ORDERS = ("given", "margins")
EXTREMES = ("skip", "keep")
# A replicate is judged by fewer tables and shorter chains than the data. That widens the reference
# distribution a little, so that p is a little too large rather than too small.
REPLICATE_TABLES = 100
# random numbers of the choice of tables, of their posteriors, of the reference distribution
_CHOICE, _POSTERIOR, _REFERENCE = range(20_500, 20_503)


class MixingWarning(UserWarning):
    """Chains of some 3 x 3 tables have not mixed."""


@dataclass(frozen=True, eq=False, repr=False)
class ConjointTable(Mapping[str, Any]):
    """Result of `conjoint_table`; its attributes are its items as well: ``result["flagged"]``.

    Attributes
    ----------
    flagged : float
        Share of flagged judgements of a cell over the 3 x 3 tables it was in, mean over cells.
    flagged_weighted : float
        The same, cells weighted by their trials.
    expected : float
        `flagged` to expect when the additive logistic model fitted to the table holds: mean of the
        replicates. NaN without replicates.
    expected_low, expected_high : float
        Central interval of the replicates, with probability `level`.
    p : float
        Probability of at least as many flags under that model, (1 + k) / (1 + replicates).
    cells : pd.DataFrame
        One row a cell, in the order of rows and columns that was tested. Columns row, column
        (labels), trials, successes, observed (proportion), times (3 x 3 tables it was judged in),
        flagged (share of these), mean, low, high (of its restricted posterior, averaged over these;
        NaN where times is 0).
    tables : int
        3 x 3 tables used.
    eligible : int
        3 x 3 tables they were chosen from.
    unmixed : int
        Tables used of which the sampler has not mixed.
    replicates : np.ndarray
        `flagged` of each replicate, shape (replicate,); NaN where none of its 3 x 3 tables could be
        judged.
    axioms, order, extremes : str
    level : float
    seed : int
    """

    flagged: float
    flagged_weighted: float
    expected: float
    expected_low: float
    expected_high: float
    p: float
    cells: pd.DataFrame
    tables: int
    eligible: int
    unmixed: int
    replicates: np.ndarray
    axioms: str
    order: str
    extremes: str
    level: float
    seed: int

    def __getitem__(self, key: str) -> Any:
        if key not in self.__dataclass_fields__:
            raise KeyError(key)
        return getattr(self, key)

    def __iter__(self) -> Iterator[str]:
        return (field.name for field in fields(self))

    def __len__(self) -> int:
        return len(fields(self))

    def __repr__(self) -> str:
        """What was found, in a few lines."""
        chance = f"{self.expected:.3f} ({self.expected_low:.3f} to {self.expected_high:.3f})"
        if np.isnan(self.expected):
            asked = len(self.replicates) > 0
            chance = "not known: no replicate " + ("could be judged" if asked else "was asked for")
        lines = [
            f"cells flagged     {self.flagged:.3f}",
            f"expected          {chance}",
            f"p                 {self.p:.3g}, of {len(self.replicates)} replicates",
            f"3 x 3 tables      {self.tables:,} of {self.eligible:,}, {self.unmixed} not mixed",
            f'tested            axioms="{self.axioms}", order="{self.order}", '
            f'extremes="{self.extremes}"',
        ]
        return "\n".join(lines)

    def summary(self) -> dict[str, Any]:
        """Numbers and choices for JSON: everything but `cells` and `replicates`."""
        left_out = ("cells", "replicates")
        return {key: value for key, value in self.items() if key not in left_out}


class _Test(NamedTuple):
    """What is asked of a table, so that replicates are asked the same."""

    tables: int
    axioms: str
    order: str
    extremes: str
    level: float

    def ordered(self, table: Table) -> Table:
        return table.by_margins() if self.order == "margins" else table

    def choose(self, table: Table, number: int, rng: np.random.Generator) -> Chosen:
        """Choose 3 x 3 tables; none where no cell can be judged."""
        judged = judged_cells(table.trials, table.successes)
        usable = np.full_like(judged, judged.any()) if self.extremes == "keep" else judged
        return choose(usable, number, rng)

    def flag_shares(
        self, table: Table, chosen: Chosen, below: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """How often each cell was judged, and the share of flags among these (NaN for never)."""
        tail = (1 - self.level) / 2
        judged = judged_cells(chosen.of(table.trials), chosen.of(table.successes))
        flags = judged & ((below <= tail) | (below >= 1 - tail))
        times = chosen.onto(judged.astype(float), table.trials.shape)
        return times, _divide(chosen.onto(flags.astype(float), times.shape), times)


def conjoint_table(
    trials: Any,
    successes: Any,
    seed: int = 1,
    tables: int = 500,
    axioms: str = "double",
    order: str = "given",
    extremes: str = "skip",
    level: float = 0.95,
    replicates: int = 100,
    chains: int = 4,
    draws: int = 500,
    progress: bool = True,
) -> ConjointTable:
    """Test a complete table of counts for the cancellation axioms, 3 x 3 at a time.

    Parameters
    ----------
    trials, successes : array_like or pd.DataFrame
        Counts, shape (row, column): at least 3 by 3, at least one trial in every cell.
    seed : int
        The same seed gives the same result.
    tables : int
        How many 3 x 3 tables to test, chosen at random, each at most once. All of them, if fewer.
    axioms : {"double", "single"}
        Single cancellation: success rises along rows and columns. Double includes single.
    order : {"given", "margins"}
        The order in which success should rise: as the table stands (least able first, hardest
        first), or by the row and column effects of the fitted additive model, which is the order of
        the margins when all cells of a row have the same trials. Replicates are sorted likewise.
    extremes : {"skip", "keep"}
        An observed proportion of 0 or 1 is outside of every interval, whatever holds. "skip" uses
        only 3 x 3 tables without such cells; "keep" uses all, where such a cell informs about
        its neighbours but is not judged itself.
    level : float
        Probability of the central interval that an unflagged proportion lies in.
    replicates : int
        Tables simulated for the reference distribution; 0 for none.
    chains, draws : int
        Chains of each 3 x 3 table, and draws of each chain. Tables that have not mixed are sampled
        again for longer.
    progress : bool
        Show a progress bar on standard error.

    Returns
    -------
    ConjointTable

    Raises
    ------
    InputError
        The table is not complete or not of counts, an argument can't be used, or no 3 x 3 table
        can be judged.

    Warns
    -----
    MixingWarning
        The chains of some 3 x 3 tables have not mixed, even after longer runs.
    """
    check_options(axioms=(axioms, AXIOMS), order=(order, ORDERS), extremes=(extremes, EXTREMES))
    check_numbers(seed, tables, level, replicates, chains, draws)
    test = _Test(tables, axioms, order, extremes, float(level))
    table = test.ordered(read(trials, successes))
    chosen = test.choose(table, tables, np.random.default_rng([seed, _CHOICE]))
    n, s = chosen.of(table.trials), chosen.of(table.successes)
    check_judged(table, n, s, extremes)
    with stages(progress, "3 x 3 tables", "Replicates") as (of_tables, of_replicates):
        rng = np.random.default_rng([seed, _POSTERIOR])
        posterior = restricted(n, s, rng, axioms == "double", level, chains, draws, track=of_tables)
        rng = np.random.default_rng([seed, _REFERENCE])
        simulated = _replicates(table, rng, replicates, test, of_replicates)
    unmixed = int((~posterior.mixed).sum())
    if unmixed:
        warnings.warn(
            f"the chains of {unmixed} of {len(n)} 3 x 3 tables have not mixed: their flags are "
            f"less certain; pass draws={4 * draws}",
            MixingWarning,
            stacklevel=2,
        )
    cells = _cells(table, chosen, posterior, test)
    known = cells[cells["times"] > 0]
    flagged = float(known["flagged"].mean())
    return ConjointTable(
        flagged=flagged,
        flagged_weighted=float(np.average(known["flagged"], weights=known["trials"])),
        **_compare(flagged, simulated, level),
        cells=cells,
        tables=len(n),
        eligible=chosen.eligible,
        unmixed=unmixed,
        replicates=simulated,
        axioms=axioms,
        order=order,
        extremes=extremes,
        level=float(level),
        seed=int(seed),
    )


def _cells(table: Table, chosen: Chosen, posterior: Restricted, test: _Test) -> pd.DataFrame:
    """`ConjointTable.cells`."""
    times, share = test.flag_shares(table, chosen, posterior.below)
    rows, columns = np.indices(table.trials.shape)
    judged = judged_cells(chosen.of(table.trials), chosen.of(table.successes))
    values = {
        "row": [table.rows[i] for i in rows.ravel()],
        "column": [table.columns[j] for j in columns.ravel()],
        "trials": table.trials.ravel(),
        "successes": table.successes.ravel(),
        "observed": table.observed.ravel(),
        "times": times.astype(int).ravel(),
        "flagged": share.ravel(),
    }
    for name in ("mean", "low", "high"):
        total = chosen.onto(getattr(posterior, name) * judged, times.shape)
        values[name] = _divide(total, times).ravel()
    return pd.DataFrame(values)


def _compare(flagged: float, simulated: np.ndarray, level: float) -> dict[str, float]:
    """Mean and interval of the replicates, and the p value of the data among them."""
    known = simulated[~np.isnan(simulated)]
    if not known.size:
        return dict.fromkeys(("expected", "expected_low", "expected_high", "p"), float("nan"))
    low, high = np.quantile(known, [(1 - level) / 2, (1 + level) / 2])
    return {
        "expected": float(known.mean()),
        "expected_low": float(low),
        "expected_high": float(high),
        "p": float((1 + np.sum(known >= flagged)) / (1 + known.size)),
    }


def _divide(total: np.ndarray, times: np.ndarray) -> np.ndarray:
    return np.divide(total, times, out=np.full(total.shape, np.nan), where=times > 0)


def _replicates(
    table: Table, rng: np.random.Generator, number: int, test: _Test, track: Track
) -> np.ndarray:
    """`flagged` of tables simulated from the additive model, shape (number,)."""
    # in the order that is tested: an order that the data contradict is not part of the reference
    by_row, by_column = table.ordered_effects()
    chance = expit(by_row[:, None] + by_column)
    drawn = [table._replace(successes=rng.binomial(table.trials, chance)) for _ in range(number)]
    simulated = [test.ordered(replicate) for replicate in drawn]
    most = min(test.tables, REPLICATE_TABLES)
    chosen = [test.choose(replicate, most, rng) for replicate in simulated]
    pairs = list(zip(simulated, chosen, strict=True))
    if not any(choice.eligible for choice in chosen):
        return np.full(number, np.nan)
    n = np.concatenate([choice.of(replicate.trials) for replicate, choice in pairs])
    s = np.concatenate([choice.of(replicate.successes) for replicate, choice in pairs])
    below = below_observed(n, s, rng, test.axioms == "double", track=track)
    ends = np.cumsum([len(choice.rows) for choice in chosen])
    results = np.full(number, np.nan)
    for i, part in enumerate(np.split(below, ends[:-1])):
        times, share = test.flag_shares(*pairs[i], part)
        if times.any():
            results[i] = share[times > 0].mean()
    return results
