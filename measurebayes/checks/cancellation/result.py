"""What the check found, as one named structure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

LEVEL = 0.05  # of the sentences: p at most this, or at least 1 less this
AXIOMS = {
    "single": "single cancellation (independence)",
    "double": "double cancellation",
    "triple": "triple cancellation",
}


@dataclass(frozen=True)
class Cancellation:
    """Observed and expected violations of a cancellation axiom.

    Attributes
    ----------
    axiom : str
        ``"single"``, ``"double"`` or ``"triple"``.
    observed : dict
        cases, violations, rate (violations per case). With random cuts: means over the cuts.
    expected : dict
        Of each explanation by name: kind, title, rate (mean over replicates), low and high (central
        95 % of replicates), p (share of data sets, the observed one included, whose rate is at
        least the observed one), replicates; with random cuts also share_above: the share of cuts
        in which the data exceed 95 % of the replicates.
    bands : pd.DataFrame
        Columns band, tasks, attempts; with random cuts of the first cut.
    rates : xr.DataArray
        Success rates (agent, band), NaN where there are too few attempts; with random cuts of the
        first cut.
    by_agent, by_band : pd.DataFrame
        Cases and violations that an agent or a band takes part in, their rate, and the rate
        expected under each explanation. Empty with random cuts; by_agent also in very large tables.
    by_bands : pd.DataFrame
        The same for each ordered choice of bands of the axiom (double: triples x, y, z).
    violations : pd.DataFrame
        The largest violations of double cancellation; see
        `measurebayes.checks.cancellation.violations.largest`. Empty for other axioms.
    replicated : dict of str to np.ndarray
        Rates of the replicates of each explanation, shape (replicate,).
    by : str
        What the tasks were put into bands by.
    min_attempts : int
    left_out : dict
        Counts of what the table does not hold: tasks, entries with too few attempts.
    cuts : pd.DataFrame
        With random cuts, one row a cut: the observed rate, and for each explanation the mean and
        the 95 % quantile of its replicates.
    """

    axiom: str
    observed: dict[str, Any]
    expected: dict[str, dict[str, Any]]
    bands: pd.DataFrame
    rates: xr.DataArray
    by_agent: pd.DataFrame
    by_band: pd.DataFrame
    by_bands: pd.DataFrame
    violations: pd.DataFrame
    replicated: dict[str, np.ndarray] = field(repr=False)
    by: str
    min_attempts: int
    left_out: dict[str, int]
    cuts: pd.DataFrame

    @property
    def table(self) -> pd.DataFrame:
        """One row for the data and one for each explanation: kind, rate, low, high, p."""
        rows = [{"name": "observed", "kind": "data", "rate": self.observed["rate"]}]
        rows += [{"name": name, **values} for name, values in self.expected.items()]
        columns = ["name", "kind", "rate", "low", "high", "p"]
        if len(self.cuts):
            columns.append("share_above")
        return pd.DataFrame(rows).reindex(columns=columns).set_index("name")

    def to_dict(self) -> dict[str, Any]:
        """Everything but single replicates, for JSON."""
        return {
            "axiom": self.axiom,
            "by": self.by,
            "min_attempts": self.min_attempts,
            "left_out": self.left_out,
            "observed": self.observed,
            "expected": self.expected,
            "text": self.text(),
            "bands": self.bands,
            "by_agent": self.by_agent,
            "by_band": self.by_band,
            "by_bands": self.by_bands,
            "violations": self.violations,
            "cuts": self.cuts,
        }

    def text(self) -> str:
        """Say in sentences what was found."""
        name = AXIOMS[self.axiom]
        if not np.isfinite(self.observed["rate"]):
            return f"No case of {name} can be judged: too few agents or bands have enough attempts."
        lines = [f"{_violated(self)} of {name}."]
        for explanation, values in self.expected.items():
            lines.append(
                f"{explanation} ({values['kind']}) expects {_per_cent(values['rate'])} "
                f"({_per_cent(values['low'])} to {_per_cent(values['high'])}): "
                f"{_verdict(values, self.observed['rate'])}."
            )
        return " ".join(lines)

    def __str__(self) -> str:
        """Return the table and the sentences."""
        return f"{self.table.to_string()}\n{self.text()}"


def _violated(found: Cancellation) -> str:
    observed = found.observed
    if len(found.cuts):
        return (
            f"On average over {len(found.cuts)} random cuts {_per_cent(observed['rate'])} of cases "
            "are violations"
        )
    return (
        f"{observed['violations']:,} of {observed['cases']:,} cases "
        f"({_per_cent(observed['rate'])}) are violations"
    )


def _per_cent(value: float) -> str:
    return f"{100 * value:.2f} %"


def p_text(p: float, replicates: int) -> str:
    """Write a p value: ``p = 0.037``, or ``p ≤ 0.001`` where no replicate reaches the data."""
    if np.isnan(p):
        return "p unknown"
    if p <= 1 / (1 + replicates):
        return f"p \u2264 {_shortest(p)}"
    return f"p = {p:.3f}" if p >= 0.0005 else "p < 0.001"


def _shortest(p: float) -> str:
    return f"{p:.3f}" if p >= 0.0005 else f"{p:.1g}"


def verdict(values: Mapping[str, Any], observed: float) -> str:
    """Say whether an observed rate is ``more``, ``fewer`` or ``within`` what is likely.

    Parameters
    ----------
    values
        Of an explanation, an entry of `Cancellation.expected`.
    observed
        Rate of violations in the data.
    """
    if values["p"] <= LEVEL:
        return "more"
    few = values["p"] >= 1 - LEVEL and observed < values["low"]
    return "fewer" if few else "within"


VERDICTS = {
    "more": "more violations than it makes likely",
    "fewer": "fewer violations than it makes likely",
    "within": "within what it makes likely",
}


def _verdict(values: Mapping[str, Any], observed: float) -> str:
    return f"{VERDICTS[verdict(values, observed)]} ({p_text(values['p'], values['replicates'])})"
