"""The table of success rates of agents by bands of tasks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import xarray as xr

from measurebayes.checks.bands import Bands
from measurebayes.checks.discrepancy import group_sums


@dataclass(frozen=True)
class Layout:
    """Where each cell of the data goes in a table of agents by bands.

    Attributes
    ----------
    group : np.ndarray
        Shape (cell,): agent * bands + band, -1 for cells whose task is in no band.
    attempts : np.ndarray
        Attempts in the table (agent, band).
    least : int
        A rate needs this many attempts; otherwise it is missing, in the data and in replicates.
    """

    group: np.ndarray
    attempts: np.ndarray
    least: int

    @classmethod
    def of(cls, runs: xr.Dataset, bands: Bands, least: int) -> Layout:
        """Lay out the cells of a dataset."""
        band = bands.of_task[runs["task_index"].values]
        group = np.where(band >= 0, runs["agent_index"].values * len(bands) + band, -1)
        shape = (runs.sizes["agent"], len(bands))
        attempts = group_sums(runs["attempts"].values, group, shape[0] * shape[1])
        return cls(group, attempts.reshape(shape).astype(np.int64), least)

    def successes(self, per_cell: np.ndarray) -> np.ndarray:
        """Successes in the table (agent, band, draw) from those of cells (draw, cell)."""
        sums = group_sums(per_cell, self.group, self.attempts.size)
        return np.moveaxis(sums.reshape(-1, *self.attempts.shape), 0, -1)

    def rates(self, per_cell: np.ndarray) -> np.ndarray:
        """Success rates (agent, band, draw) from successes of cells (draw, cell); NaN: missing."""
        enough = np.where(self.attempts >= self.least, self.attempts, np.nan)
        return self.successes(per_cell) / enough[:, :, None]
