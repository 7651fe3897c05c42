"""Whether an agent's tasks of a family succeed and fail together more than the model says.

A group is one agent with one family. Under local independence the cells of a group are independent
given the model's probabilities.
"""

from __future__ import annotations

import numpy as np

from measurebayes.checks.dependence.design import Design
from measurebayes.checks.discrepancy import above, group_sums


class Unanimous:
    """Groups of two tasks or more that were all solved, or all failed, in every attempt.

    Parameters
    ----------
    design : Design
        With at least one such group.
    """

    def __init__(self, design: Design) -> None:
        self.design = design
        self.kept = design.group_tasks >= 2
        self.family = design.group_family[self.kept]
        self.tried = self._by_group(design.attempts)
        self.observed = self._shares(design.successes[None])
        self.family_observed = self._by_family(design.successes[None])[0]
        self.groups = np.bincount(self.family, minlength=design.families)
        self.replicated: list[np.ndarray] = []
        self.family_replicated: list[np.ndarray] = []

    def add(self, probability: np.ndarray, replicated: np.ndarray) -> None:
        """Count on a block of replicates (draw, cell)."""
        self.replicated.append(self._shares(replicated))
        self.family_replicated.append(self._by_family(replicated))

    def measures(self) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """Observed and replicated shares (draw,): unanimous, all_solved, all_failed."""
        again = np.concatenate(self.replicated)
        same = np.broadcast_to(self.observed, again.shape)
        solved, failed = (same[:, 0], again[:, 0]), (same[:, 1], again[:, 1])
        both = same.sum(axis=1), again.sum(axis=1)
        return {"unanimous": both, "all_solved": solved, "all_failed": failed}

    def by_family(self) -> dict[str, np.ndarray]:
        """Groups, unanimous ones, the number expected and p of each family, shape (family,)."""
        again = np.concatenate(self.family_replicated)
        return {
            "groups": self.groups,
            "unanimous": self.family_observed.astype(int),
            "unanimous_expected": again.mean(axis=0),
            "unanimous_p": above(self.family_observed, again),
        }

    def _by_group(self, per_cell: np.ndarray) -> np.ndarray:
        sums = group_sums(per_cell, self.design.group, len(self.kept))
        return sums[..., self.kept]

    def _kinds(self, successes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        solved = self._by_group(successes)
        return solved == self.tried, solved == 0

    def _shares(self, successes: np.ndarray) -> np.ndarray:
        """Shares of groups that are all solved, and all failed (draw, 2)."""
        return np.stack([kind.mean(axis=1) for kind in self._kinds(successes)], axis=1)

    def _by_family(self, successes: np.ndarray) -> np.ndarray:
        solved, failed = self._kinds(successes)
        return group_sums((solved | failed).astype(float), self.family, self.design.families)


class DesignEffect:
    """Variance of an agent's residual sum with families as clusters, over that of single tasks.

    With residuals e of cells (successes less expected), it is the sum over groups of (sum of e)^2
    over the sum over cells of e^2: 1 where tasks of a family are independent given the model, n
    where n tasks of every family repeat one another. It multiplies the variance of whatever is
    read off the sum of an agent's successes, such as the ability in a Rasch model, and divides the
    number of tasks to the effective one [1]_.

    Parameters
    ----------
    design : Design

    References
    ----------
    .. [1] Kish (1965). Survey Sampling. Wiley.
    """

    def __init__(self, design: Design) -> None:
        self.design = design
        self.parts: dict[str, list[np.ndarray]] = {"observed": [], "replicated": []}

    def add(self, probability: np.ndarray, replicated: np.ndarray) -> None:
        """Take a block of draws (draw, cell)."""
        expected = probability * self.design.attempts
        for name, successes in (
            ("observed", self.design.successes),
            ("replicated", replicated),
        ):
            self.parts[name].append(self._sums(successes - expected))

    def measures(self) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """Observed and replicated effect at each draw, over all agents and families."""
        observed, replicated = (s.sum(axis=2) for s in self._all())
        return {"design_effect": (observed[0] / observed[1], replicated[0] / replicated[1])}

    def by_family(self) -> dict[str, np.ndarray]:
        """Median effect and p of each family, shape (family,); NaN where nothing was tried."""
        tried = np.isin(np.arange(self.design.families), self.design.family)
        observed, replicated = (
            np.divide(s[0], s[1], out=np.full(s[0].shape, np.nan), where=tried & (s[1] > 0))
            for s in self._all()
        )
        result = {
            "design_effect": np.full(self.design.families, np.nan),
            "design_effect_p": np.full(self.design.families, np.nan),
        }
        result["design_effect"][tried] = np.median(observed[:, tried], axis=0)
        result["design_effect_p"][tried] = above(observed[:, tried], replicated[:, tried])
        return result

    def _all(self) -> tuple[np.ndarray, np.ndarray]:
        observed, replicated = (np.concatenate(self.parts[n], axis=1) for n in self.parts)
        return observed, replicated

    def _sums(self, residual: np.ndarray) -> np.ndarray:
        """Squared sums of groups, and sums of squares of cells, by family (2, draw, family)."""
        design = self.design
        together = group_sums(residual, design.group, len(design.group_tasks)) ** 2
        return np.stack(
            [
                group_sums(together, design.group_family, design.families),
                group_sums(residual**2, design.family, design.families),
            ]
        )
