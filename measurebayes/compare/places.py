"""Where the own parameters of units stand in one row of numbers, and which of them a cell uses.

A unit's numbers stand together: first the inner ones, then the outer ones. Inner numbers fall into
blocks (the tasks of a family, its agents, or the families of an agent) that have no cell in common,
so that blocks are independent given the outer numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import xarray as xr

from measurebayes.compare.own import Draws, OwnParameters
from measurebayes.program.labelled import Labelled
from measurebayes.program.registry import ModelFile

_DATA_AXES = ("agent", "task", "family")
#: Axes along which blocks may lie, by the axis of a parameter beside that of the unit.
_INNER = {"task": ("agent",), "agent": ("family", "task"), "family": ("agent", "task")}


class Kind(NamedTuple):
    """Units that have equally many numbers.

    Attributes
    ----------
    units
        Positions among the units that are present (unit,).
    at
        Positions of their numbers (unit, number), inner ones first.
    inner
        How many of them are inner ones.
    """

    units: np.ndarray
    at: np.ndarray
    inner: int


@dataclass(frozen=True)
class Places:
    """See the module.

    Attributes
    ----------
    count
        Numbers of all units.
    index
        Name of a parameter -> for each of its entries, along its own axes, the position of its
        number; `count` where no cell depends on it.
    dims
        Name -> axes.
    of_cell
        Positions of the numbers that a cell depends on (cell, number); each cell has equally many.
    unit_of_cell
        Position among the units that are present (cell,).
    unit_of, block_of
        Of every number; block -1 for outer numbers.
    block_of_cell
        (cell,), -1 without inner numbers.
    units, blocks
        How many there are; `unit_of_block` (block,).
    """

    count: int
    index: dict[str, np.ndarray]
    dims: dict[str, tuple[str, ...]]
    of_cell: np.ndarray
    unit_of_cell: np.ndarray
    unit_of: np.ndarray
    block_of: np.ndarray
    block_of_cell: np.ndarray
    units: int
    unit_of_block: np.ndarray

    @property
    def blocks(self) -> int:
        """How many blocks of inner numbers there are."""
        return len(self.unit_of_block)

    @property
    def outer(self) -> bool:
        """Whether any unit has outer numbers."""
        return bool((self.block_of < 0).any())

    def kinds(self) -> Iterator[Kind]:
        """Give units with equally many inner and outer numbers together."""
        size = np.bincount(self.unit_of, minlength=self.units)
        inner = np.bincount(self.unit_of[self.block_of >= 0], minlength=self.units)
        start = np.concatenate([[0], np.cumsum(size)[:-1]])
        for both in np.unique(np.stack([size, inner], axis=1), axis=0):
            units = np.flatnonzero((size == both[0]) & (inner == both[1]))
            yield Kind(units, start[units, None] + np.arange(both[0]), int(both[1]))

    def within_blocks(self) -> Places:
        """Give the inner numbers alone places, with blocks as their units."""
        inner = self.block_of >= 0
        new = np.cumsum(inner) - 1
        used = inner[self.of_cell].all(axis=0)
        return Places(
            int(inner.sum()),
            {},
            {},
            new[self.of_cell[:, used]],
            self.block_of_cell,
            self.block_of[inner],
            np.full(int(inner.sum()), -1),
            np.full(len(self.block_of_cell), -1),
            self.blocks,
            np.zeros(0, int),
        )

    def numbers(self, z: np.ndarray, batch: tuple[str, ...]) -> dict[str, Labelled]:
        """Give every parameter its numbers out of a row (*batch, number)."""
        padded = np.concatenate([z, np.zeros((*z.shape[:-1], 1))], axis=-1)
        return {
            name: Labelled(padded[..., at], (*batch, *self.dims[name]))
            for name, at in self.index.items()
        }


def places(
    model: ModelFile,
    runs: xr.Dataset,
    values: Draws,
    unit: str,
    inner: str | None,
) -> Places:
    """Find the numbers of every unit that has cells.

    Parameters
    ----------
    model, runs, values
        As for `OwnParameters`; all cells of the data are integrated over.
    unit
        ``"task"``, ``"family"`` or ``"agent"``.
    inner
        Axis of the blocks. The unit's own: all that is not along the unit's axis alone is one
        block.

    Raises
    ------
    InputError
        A parameter can't be integrated out.
    """
    program = OwnParameters(runs, values, unit)
    model.run(program, runs, model.priors)
    where = positions_by_axis(runs)
    units, unit_of_cell = np.unique(where[unit], return_inverse=True)
    columns, tables, index = [], [], {}
    count = 0
    for name, dims in program.own.items():
        shape = program.size(dims)
        entries = _entries(dims, shape, where)  # (cell, entry)
        used, first = np.unique(entries, return_index=True)
        cell = first // entries.shape[1]
        beside = set(dims) & set(_INNER[unit])
        blocked = bool(beside) if inner == unit else inner in dims
        block = where[inner][cell] if blocked and inner else np.full(len(used), -1)
        tables.append(np.stack([unit_of_cell[cell], block], axis=1))
        flat = np.full(int(np.prod(shape)), -1)
        flat[used] = count + np.arange(len(used))
        index[name] = flat.reshape(shape)
        columns.append(flat[entries])
        count += len(used)
    table = np.concatenate([np.zeros((0, 2), int), *tables])
    order = np.lexsort((table[:, 1], table[:, 1] < 0, table[:, 0]))
    new = np.empty(count + 1, dtype=int)
    new[order], new[-1] = np.arange(count), count
    table = table[order]
    of_cell = np.concatenate([np.zeros((runs.sizes["cell"], 0), int), *columns], axis=1)
    block_of, block_of_cell, unit_of_block = _blocks(table, unit_of_cell, where, inner)
    return Places(
        count,
        {name: new[at] for name, at in index.items()},
        program.own,
        new[of_cell],
        unit_of_cell,
        table[:, 0],
        block_of,
        block_of_cell,
        len(units),
        unit_of_block,
    )


def inner_axis(own: dict[str, tuple[str, ...]], unit: str) -> str | None:
    """Say along which axis own parameters fall into blocks within a unit.

    Where they lie along several, such as agents and tasks in a family, no block is independent of
    the others, and all are one.
    """
    beside = {d for dims in own.values() for d in dims} & set(_INNER[unit])
    return unit if len(beside) > 1 else next(iter(beside), None)


def positions_by_axis(runs: xr.Dataset) -> dict[str, np.ndarray]:
    """Give agent, task and family of every cell (cell,)."""
    task = runs["task_index"].values
    family = runs["family_index"].values[task]
    return {"agent": runs["agent_index"].values, "task": task, "family": family}


def _entries(dims: tuple[str, ...], shape: tuple[int, ...], where: dict) -> np.ndarray:
    """Flat positions of the entries of a variable that each cell depends on (cell, entry)."""
    cells = len(where["agent"])
    at = np.zeros((cells, 1), dtype=int)
    for axis, size in zip(dims, shape, strict=True):
        step = where[axis][:, None] if axis in _DATA_AXES else np.arange(size)[None]
        at = (at[:, :, None] * size + step[:, None, :]).reshape(cells, -1)
    return at


def _blocks(
    table: np.ndarray, unit_of_cell: np.ndarray, where: dict, inner: str | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Number the blocks: block of every number, of every cell, and the unit of every block."""
    inside = table[:, 1] >= 0
    if inner is None or not inside.any():
        none = np.full(len(unit_of_cell), -1)
        return np.full(len(table), -1), none, np.zeros(0, int)
    pairs = np.stack([unit_of_cell, where[inner]], axis=1)
    there, of_cell = np.unique(pairs, axis=0, return_inverse=True)
    base = int(where[inner].max()) + 1
    keys = there[:, 0] * base + there[:, 1]
    block_of = np.full(len(table), -1)
    block_of[inside] = np.searchsorted(keys, table[inside, 0] * base + table[inside, 1])
    return block_of, of_cell.ravel(), there[:, 0]
