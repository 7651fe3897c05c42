"""The two layouts of the observed cells: a list of cells, or an agent by task grid."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from measurebayes.program.labelled import Labelled

LAYOUTS = ("long", "dense")
# Above this share of observed cells the grid is faster, although it computes the holes too.
DENSE_FILL = 0.4


class Cells:
    """Where each observed cell finds its agent, task and family.

    Parameters
    ----------
    data
        Dataset of the schema.
    layout
        ``"long"``: one row a cell, axes ``("cell",)``. ``"dense"``: a grid with axes
        ``("agent", "task")`` and attempts = 0 where nothing was run. ``"auto"``: whichever is
        faster for the share of cells that are observed.
    """

    def __init__(self, data: xr.Dataset, layout: str = "long") -> None:
        shape = (data.sizes["agent"], data.sizes["task"])
        if layout == "auto":
            layout = "dense" if data.sizes["cell"] >= DENSE_FILL * shape[0] * shape[1] else "long"
        if layout not in LAYOUTS:
            raise ValueError(f"layout {layout!r} is unknown: expected one of {LAYOUTS} or 'auto'")
        self.layout = layout
        self.dims = ("cell",) if layout == "long" else ("agent", "task")
        self.shape = (data.sizes["cell"],) if layout == "long" else shape
        self._agent = data["agent_index"].values
        self._task = data["task_index"].values
        self._family_of_task = data["family_index"].values

    def place(self, per_cell: Any) -> np.ndarray:
        """Put a vector over observed cells (cell,) into the layout's shape; holes get 0."""
        per_cell = np.asarray(per_cell)
        if self.layout == "long":
            return per_cell
        grid = np.zeros(self.shape, dtype=per_cell.dtype)
        grid[self._agent, self._task] = per_cell
        return grid

    def take(self, placed: Any) -> Any:
        """Return the observed cells (..., cell) of an array (..., *shape)."""
        return placed if self.layout == "long" else placed[..., self._agent, self._task]

    def gather(self, x: Labelled) -> Labelled:
        """Give every cell its entry of `x`; axes that are not agent, task or family stay."""
        index = self._index_by_axis()
        moved = [d for d in x.dims if d in index]
        if not moved:
            return x
        rest = [d for d in x.dims if d not in index]
        value = x.value
        if tuple(rest + moved) != x.dims:
            value = value.transpose([x.dims.index(d) for d in rest + moved])
        target = "cell" if self.layout == "long" else "task"
        rows = tuple(index[d] for d in moved)
        return Labelled(value[(slice(None),) * len(rest) + rows], (*rest, target))

    def _index_by_axis(self) -> dict[str, np.ndarray]:
        if self.layout == "dense":  # agent and task axes are the grid's own
            return {"family": self._family_of_task}
        return {
            "agent": self._agent,
            "task": self._task,
            "family": self._family_of_task[self._task],
        }
