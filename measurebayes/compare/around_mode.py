"""Integrals over all numbers of a unit at once, by nodes around their mode."""

from __future__ import annotations

import numpy as np
import xarray as xr
from scipy.special import logsumexp

from measurebayes.backends.evaluate import binomial_coefficient
from measurebayes.compare.laplace import SMALL, STEPS, Curvature, LogOdds, Mode, by_unit, find_mode
from measurebayes.compare.nodes import Nodes, bent, split
from measurebayes.compare.places import Places
from measurebayes.program.records_first import LOG_TWO_PI

LOOK = (
    1.0,
    2.0,
    3.0,
)  # where the fall of a density is looked at, in widths that its curvature tells
WIDTHS = (0.8, 4.0)  # limits of what is made of that
WIDER = 1.1  # than it falls along the axes, since it is wider between them
#: Below and above the mode, along the columns of each root, by kind of units.
Widths = list[tuple[np.ndarray, ...]]


class AroundMode:
    """Integrals over all numbers of a unit at once."""

    def __init__(
        self,
        runs: xr.Dataset,
        where: Places,
        curve: Curvature,
        rule: Nodes,
        small: float = SMALL,
        steps: int = STEPS,
    ) -> None:
        self.runs, self.where, self.curve, self.rule = runs, where, curve, rule
        self.small, self.steps = small, steps
        self.attempts, self.successes = runs["attempts"].values, runs["successes"].values
        self.coefficient = binomial_coefficient(runs)
        self.starts = starts(where.unit_of_cell)

    def mode(self, log_odds: LogOdds, z: np.ndarray) -> Mode:
        """Find mode and curvature from z (sample, number)."""
        return find_mode(log_odds, self.where, self.runs, self.curve, z, self.small, self.steps)

    def laplace(self, mode: Mode) -> np.ndarray:
        """Return what the log integrals (sample, unit) would be if the densities were normal."""
        found = mode.value.copy()
        for kind, entries in self.curve.kinds:
            found[:, kind.units] -= 0.5 * np.linalg.slogdet(mode.curvature[:, entries])[1]
        return found

    def around(
        self, log_odds: LogOdds, mode: Mode, number: np.ndarray, widths: Widths | None = None
    ) -> np.ndarray:
        """Integrate by nodes around the mode, for numbered draws.

        Returns
        -------
        numpy.ndarray
            Log integrals, and their squared relative errors (2, sample, unit): of random points
            what the spread of their weights tells, of grids none.
        """
        z = np.repeat(mode.z[:, None], len(self.rule), axis=1)
        log_weight = np.empty((len(number), len(self.rule), self.where.units))
        roots = [root_of(mode.curvature[:, entries]) for _, entries in self.curve.kinds]
        if widths is None:
            widths = [] if self.rule.bend else self.widths(log_odds, mode)
        for i, ((kind, _), (root, log_det)) in enumerate(zip(self.curve.kinds, roots, strict=True)):
            t, weight = self.rule.of(number, kind.at.shape[1])
            t = t[:, None]  # (sample, unit, node, number)
            away, density = bent(t, self.rule.bend) if self.rule.bend else split(t, *widths[i])
            z[:, :, kind.at] += (away @ np.swapaxes(root, -1, -2)).transpose(0, 2, 1, 3)
            log_weight[:, :, kind.units] = (
                weight[:, None] - density + log_det[..., None]
            ).transpose(0, 2, 1) - 0.5 * np.sum(z[:, :, kind.at] ** 2 + LOG_TWO_PI, axis=-1)
        terms = self._by_unit(log_odds(z)) + log_weight
        total = logsumexp(terms, axis=1)
        if self.rule.bend:
            return np.stack([total, np.zeros_like(total)])
        share = np.exp(terms - total[:, None])
        return np.stack([total, np.sum(share**2, axis=1) - 1.0 / len(self.rule)])

    def _by_unit(self, eta: np.ndarray) -> np.ndarray:
        return np.add.reduceat(self._density(eta), self.starts, axis=-1)

    def widths(self, log_odds: LogOdds, mode: Mode) -> Widths:
        """Widths below and above the mode along the columns of each root (sample, unit, 1, number).

        A normal density that falls by as much at LOOK has them.
        """
        roots = [root_of(mode.curvature[:, entries]) for _, entries in self.curve.kinds]
        most = max(root.shape[-1] for root, _ in roots)
        steps = np.array([-x for x in LOOK] + list(LOOK))
        z = np.repeat(mode.z[:, None], most * len(steps) + 1, axis=1)
        for (kind, _), (root, _) in zip(self.curve.kinds, roots, strict=True):
            width = root.shape[-1]
            away = steps[:, None, None, None] * root[:, None]  # (sample, step, unit, number, axis)
            there = away.transpose(0, 1, 4, 2, 3).reshape(len(z), -1, *kind.at.shape)
            place = 1 + (np.arange(len(steps))[:, None] * most + np.arange(width)).ravel()
            z[:, place[:, None, None], kind.at] += there
        terms = self._by_unit(log_odds(z))
        terms -= 0.5 * by_unit(z**2, self.where.unit_of, self.where.units)
        fall = terms[:, :1] - terms[:, 1:]
        fall = fall.reshape(len(z), 2, len(LOOK), most, -1).transpose(0, 1, 2, 4, 3)
        width = np.array(LOOK)[:, None, None] / np.sqrt(2.0 * np.clip(fall, 1e-3, None))
        width = WIDER * np.clip(width.max(axis=2), *WIDTHS)  # (sample, side, unit, axis)
        return [
            tuple(width[:, side, kind.units, None, : kind.at.shape[1]] for side in (0, 1))
            for kind, _ in self.curve.kinds
        ]

    def _density(self, eta: np.ndarray) -> np.ndarray:
        """Log density of the cells; the logarithms are good to 1e-16, not to its last digit."""
        softplus = np.abs(eta)
        np.exp(np.negative(softplus, out=softplus), out=softplus)
        softplus += 1.0
        np.log(softplus, out=softplus)
        softplus += np.maximum(eta, 0.0)
        softplus *= -self.attempts
        softplus += eta * self.successes
        softplus += self.coefficient
        return softplus


def root_of(precision: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Roots R of covariances, R R' = 1 / precision (..., n, n), and log det R."""
    lower = np.linalg.cholesky(precision)
    eye = np.broadcast_to(np.eye(precision.shape[-1]), precision.shape)
    root = np.swapaxes(np.linalg.solve(lower, eye), -1, -2)
    return root, np.log(np.diagonal(root, axis1=-2, axis2=-1)).sum(axis=-1)


def starts(label: np.ndarray) -> np.ndarray:
    """Return where stretches of equal labels begin, labels being sorted."""
    return np.flatnonzero(np.concatenate([[True], label[1:] != label[:-1]]))
