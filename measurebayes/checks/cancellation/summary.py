"""From rates of the data and of replicates to the tables of the result."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from measurebayes.checks.cancellation.counting import BANDS_OF, Counts, count, count_by_agent
from measurebayes.checks.cancellation.references import Reference
from measurebayes.inference.elsewhere import results_of

# Replicates that the expected rates by agent come from, and the work above which the counts by
# agent, which cost a count of the whole table for each agent, are left out.
BY_AGENT_REPLICATES, BY_AGENT_WORK = 50, 2e9

Expected = Sequence[tuple[Reference, list[np.ndarray]]]
Moved = Callable[[str, float], None]


def of_one_division(
    axiom: str,
    observed: list[np.ndarray],
    expected: Expected,
    agents: np.ndarray,
    bands: list[str],
    moved: Moved,
    executor: Executor | None = None,
) -> dict[str, Any]:
    """Summarise tables of one division into bands.

    Parameters
    ----------
    axiom : str
    observed : list of np.ndarray
        One array (agent, band, 1).
    expected : sequence
        Pairs of a reference and a list of one array (agent, band, replicate).
    agents, bands
        Labels.
    moved
        Called with the name of a reference and a number of replicates that are counted.
    executor
        Not used: there is one table.

    Returns
    -------
    dict
        Attributes observed, expected, replicated, by_agent, by_band, by_bands, cuts of
        `Cancellation`.
    """
    data = count(observed[0], axiom)
    counted = {e.name: count(tables[0], axiom, partial(moved, e.name)) for e, tables in expected}
    cases, violations = int(data.cases.sum()), int(data.violations.sum())
    rates = {name: counts.rate for name, counts in counted.items()}
    rate = float(data.rate[0])
    return {
        "observed": {"cases": cases, "violations": violations, "rate": rate},
        "expected": {e.name: compared(e, rate, rates[e.name]) for e, _ in expected},
        "replicated": rates,
        "by_agent": _by_agent(axiom, observed[0], expected, agents),
        "by_band": _by_band(data, counted, bands),
        "by_bands": _by_bands(axiom, data, counted, bands),
        "cuts": pd.DataFrame(),
    }


def of_random_cuts(
    axiom: str,
    observed: list[np.ndarray],
    expected: Expected,
    agents: np.ndarray,
    bands: list[str],
    moved: Moved,
    executor: Executor | None = None,
) -> dict[str, Any]:
    """Summarise tables of many random divisions; as `of_one_division`, with one array a division.

    The statistic is the mean of the rate over the divisions. The divisions are counted in the
    executor, if there is one.
    """
    counts = [count(table, axiom) for table in observed]
    each = np.array([c.rate[0] for c in counts])
    cuts = pd.DataFrame({"observed": each})
    rates, judged = {}, {}
    for reference, tables in expected:
        again = np.empty((len(tables), tables[0].shape[-1]))  # (cut, replicate)
        for cut, rates_of_cut in _rates(tables, axiom, executor):
            again[cut] = rates_of_cut
            moved(reference.name, again.shape[1] / len(tables))
        cuts[reference.name] = _mean(again, axis=1)
        high = np.array([_quantile(rates_of_cut, 0.95) for rates_of_cut in again])
        cuts[f"{reference.name} 95 %"] = high
        rates[reference.name] = _mean(again, axis=0)
        share = float(np.mean(each > high))
        judged[reference.name] = {
            **compared(reference, float(_mean(each)), rates[reference.name]),
            "share_above": share,
        }
    return {
        "observed": {
            "cases": float(np.mean([c.cases.sum() for c in counts])),
            "violations": float(np.mean([c.violations.sum() for c in counts])),
            "rate": float(_mean(each)),
        },
        "expected": judged,
        "replicated": rates,
        "by_agent": pd.DataFrame(),
        "by_band": pd.DataFrame(),
        "by_bands": pd.DataFrame(),
        "cuts": cuts,
    }


def p_value(observed: float, replicated: np.ndarray) -> float:
    """Share of data sets, the observed one among them, whose rate is at least the observed one.

    A table without a case has no violation: its rate counts as 0.
    """
    if np.isnan(observed):
        return float("nan")
    return float((1 + np.sum(np.nan_to_num(replicated) >= observed)) / (1 + len(replicated)))


def compared(reference: Reference, observed: float, replicated: np.ndarray) -> dict[str, Any]:
    """Compare an observed rate with those of replicates (replicate,): `Cancellation.expected`."""
    return {
        "kind": reference.kind,
        "title": reference.title,
        "rate": float(_mean(replicated)),
        "low": _quantile(replicated, 0.025),
        "high": _quantile(replicated, 0.975),
        "p": p_value(observed, replicated),
        "replicates": len(replicated),
    }


class _Cut(NamedTuple):
    """What is counted at a time; picklable."""

    table: np.ndarray
    axiom: str


def _rate(cut: _Cut) -> np.ndarray:
    return count(cut.table, cut.axiom).rate


def _rates(
    tables: list[np.ndarray], axiom: str, executor: Executor | None
) -> Iterator[tuple[int, np.ndarray]]:
    """Yield the rates (replicate,) of each table with its number."""
    cuts = [_Cut(table, axiom) for table in tables]
    yield from (
        enumerate(map(_rate, cuts)) if executor is None else results_of(_rate, cuts, executor)
    )


def _mean(rates: np.ndarray, axis: int | None = None) -> np.ndarray:
    """Mean of the rates that there are; NaN where there is none."""
    there = np.isfinite(rates)
    return _ratio(np.where(there, rates, 0.0).sum(axis=axis), there.sum(axis=axis))


def _quantile(rates: np.ndarray, share: float) -> float:
    found = rates[np.isfinite(rates)]
    return float(np.quantile(found, share)) if len(found) else float("nan")


def _ratio(violations: np.ndarray, cases: np.ndarray) -> np.ndarray:
    return np.divide(violations, cases, where=cases > 0, out=np.full(np.shape(cases), np.nan))


def _by_agent(
    axiom: str, observed: np.ndarray, expected: Expected, agents: np.ndarray
) -> pd.DataFrame:
    choices = np.prod(np.arange(observed.shape[1], observed.shape[1] - BANDS_OF[axiom], -1))
    work = float(choices) * len(agents) ** 3
    if work > BY_AGENT_WORK:
        return pd.DataFrame()
    cases, violations = count_by_agent(observed, axiom)
    table = pd.DataFrame(
        {"agent": agents, "cases": cases[:, 0], "violations": violations[:, 0]}
    ).assign(rate=_ratio(violations[:, 0], cases[:, 0]))
    number = int(min(BY_AGENT_REPLICATES, BY_AGENT_WORK / work))
    for reference, tables in expected:
        again = count_by_agent(tables[0][:, :, :number], axiom)
        cases, violations = (c.sum(axis=1) for c in again)
        table[f"expected {reference.name}"] = _ratio(violations, cases)
    return table.sort_values("violations", ascending=False, kind="stable", ignore_index=True)


def _by_band(data: Counts, counted: dict[str, Counts], bands: list[str]) -> pd.DataFrame:
    takes_part = np.array([(data.bands == band).any(axis=1) for band in range(len(bands))])

    def sums(counts: Counts) -> tuple[np.ndarray, np.ndarray]:
        return takes_part @ counts.cases.sum(axis=1), takes_part @ counts.violations.sum(axis=1)

    cases, violations = sums(data)
    table = pd.DataFrame({"band": bands, "cases": cases, "violations": violations})
    table["rate"] = _ratio(violations, cases)
    for name, counts in counted.items():
        again = sums(counts)
        table[f"expected {name}"] = _ratio(again[1], again[0])
    return table


def _by_bands(
    axiom: str, data: Counts, counted: dict[str, Counts], bands: list[str]
) -> pd.DataFrame:
    labels = np.asarray(bands, dtype=object)
    letters = "wxyz"[-BANDS_OF[axiom] :] if axiom != "single" else "xy"
    table = pd.DataFrame(
        {f"band_{n}": labels[at] for n, at in zip(letters, data.bands.T, strict=True)}
    )
    cases, violations = data.cases[:, 0], data.violations[:, 0]
    table = table.assign(cases=cases, violations=violations, rate=_ratio(violations, cases))
    for name, counts in counted.items():
        again = counts.violations.sum(axis=1), counts.cases.sum(axis=1)
        table[f"expected {name}"] = _ratio(*again)
    return table.sort_values("violations", ascending=False, kind="stable", ignore_index=True)
