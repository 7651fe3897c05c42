"""What the check of local dependence found, as one named structure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pandas as pd

LIMIT = 0.005  # as for the posterior predictive checks of `measurebayes.check`
MEASURES = {
    "q3_largest": "largest Q3 of two tasks",
    "q3_within": "mean Q3 of tasks of one family",
    "unanimous": "groups all solved or all failed",
    "all_solved": "groups all solved",
    "all_failed": "groups all failed",
    "design_effect": "design effect of families",
    "first_dimension": "share of the first residual dimension",
}


@dataclass(frozen=True)
class LocalDependence:
    """Whether tasks go together more than a model says.

    Attributes
    ----------
    measures : pd.DataFrame
        Index measure: q3_largest, q3_within (mean Q3 over pairs of one family), unanimous,
        all_solved, all_failed (shares of groups of an agent with two tasks or more of a family),
        design_effect (of families, on residuals), first_dimension (share of the residual variance).
        Columns observed (median over posterior draws), expected, low, high (median and central 95 %
        of replicates), p (share of replicates at least as large). Measures that need families, or
        pairs of tasks that many agents tried, are absent where there are none.
    pairs : pd.DataFrame
        Pairs of tasks, the largest Q3 first: task, other, same_family, q3 (at the posterior mean
        probabilities, as point estimates have it), expected, p (at posterior draws).
    families : pd.DataFrame
        One row a family of which somebody tried two tasks or more: family, tasks, groups,
        unanimous (number of groups), unanimous_expected, unanimous_p, design_effect,
        design_effect_p, q3 (mean over its pairs, NaN where none counts). The least probable first.
    dimensions : pd.DataFrame
        Residual dimensions 1, 2, ...: dimension, observed, expected, low, high, p. Each is the
        share of the residual variance that those before it left.
    rates : pd.DataFrame
        Plain success rates; see `measurebayes.clustered_rates`.
    tasks : int
        Tasks with attempts.
    effective_tasks : float
        Tasks over the observed design effect on residuals, at most their number: how many
        independent tasks say as much about an agent.
    replicates : int
    """

    measures: pd.DataFrame
    pairs: pd.DataFrame
    families: pd.DataFrame
    dimensions: pd.DataFrame
    rates: pd.DataFrame
    tasks: int
    effective_tasks: float
    replicates: int

    @property
    def residual_dimensions(self) -> int:
        """How many dimensions in a row take more than 97.5 % of the replicates' do."""
        count = 0
        for above in self.dimensions["observed"] > self.dimensions["high"]:
            if not above:
                break
            count += 1
        return count

    def found(self) -> list[str]:
        """Measures that replicates reach in at most one of 200 cases."""
        return [str(name) for name, p in self.measures["p"].items() if p <= LIMIT]

    def beyond(self) -> list[str]:
        """Measures that nearly all replicates exceed: the model expects more than there is."""
        return [str(name) for name, p in self.measures["p"].items() if p >= 1.0 - LIMIT]

    def to_dict(self, most: int | None = None) -> dict[str, Any]:
        """Return everything as plain values and tables, with `most` pairs of tasks at most."""
        return {
            "measures": {name: dict(row) for name, row in self.measures.iterrows()},
            "tasks": self.tasks,
            "effective_tasks": self.effective_tasks,
            "residual_dimensions": self.residual_dimensions,
            "replicates": self.replicates,
            "text": self.text(),
            "pairs": self.pairs.head(len(self.pairs) if most is None else most),
            "families": self.families,
            "dimensions": self.dimensions,
            "rates": self.rates,
        }

    def text(self) -> str:
        """Say in sentences what was found."""
        found = self.found()
        if not self.measures["p"].notna().any():
            return (
                "Nothing can be measured here: no family has two tasks that an agent tried, no "
                "pair of tasks enough agents, or there is one agent or task."
            )
        beyond = [MEASURES[name] for name in self.beyond()]
        less = ""
        if beyond:
            less = (
                f" By {', '.join(beyond)} they go together less than it expects: what it gives to "
                "families, or a dimension, may be something else, such as single tasks that an "
                "agent can or can't do."
            )
        if not found:
            return (
                "Nothing measured here goes together more than the model expects "
                f"({len(self.measures)} measures, {self.replicates} replicates).{less}"
            )
        said = [
            f"Tasks go together more than the model expects, in {len(found)} of "
            f"{len(self.measures)} measures: {', '.join(MEASURES[name] for name in found)}."
        ]
        if "design_effect" in found:
            said.append(
                f"About an agent the {self.tasks} tasks say as much as "
                f"{self.effective_tasks:.0f} independent ones: read intervals as too narrow."
            )
        return " ".join(said) + less
