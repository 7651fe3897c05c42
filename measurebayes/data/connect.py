"""Do the attempts tie all agents and tasks together, or are there pieces without a common scale."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import xarray as xr

from measurebayes.data.schema import check_layout
from measurebayes.errors import InputError, listed

UNCONNECTED = "unconnected"  # attribute of data in several pieces, in words
ENOUGH_CELLS = 2_000_000  # of a larger table so many are looked at first
_MAX_NAMED = 8  # pieces that a message names


@dataclass(frozen=True)
class Piece:
    """Agents and tasks that attempts tie together.

    Parameters
    ----------
    agents, tasks : tuple of str
        Labels, in the order of the data.
    attempts : int
        Attempts among them.
    """

    agents: tuple[str, ...]
    tasks: tuple[str, ...]
    attempts: int

    def __str__(self) -> str:
        return (
            f"{_counted(self.agents, 'agent')} ({listed(self.agents, 3)}) on "
            f"{_counted(self.tasks, 'task')} ({listed(self.tasks, 3)})"
        )


def pieces(runs: xr.Dataset) -> list[Piece]:
    """Find the pieces that the table of agents by tasks falls into.

    Two agents are in one piece where a chain of shared tasks leads from one to the other. Agents
    of different pieces have no common scale: only priors relate their abilities.

    Parameters
    ----------
    runs : xarray.Dataset
        Data in the schema of measurebayes.data.schema.

    Returns
    -------
    list of Piece
        The one with most attempts first. Agents and tasks without attempts are in none.

    Examples
    --------
    >>> import measurebayes as mb
    >>> len(pieces(mb.load("metr-th1.1")))
    1
    """
    check_layout(runs)
    number, piece_of_agent, piece_of_task = _components(runs)
    attempts = np.zeros(number, dtype=np.int64)
    np.add.at(attempts, piece_of_agent[runs["agent_index"].values], runs["attempts"].values)
    agents = _members(runs["agent"].values, piece_of_agent, number)
    tasks = _members(runs["task"].values, piece_of_task, number)
    order = np.argsort(-attempts, kind="stable")
    return [Piece(agents[i], tasks[i], int(attempts[i])) for i in order if attempts[i]]


def _components(runs: xr.Dataset) -> tuple[int, np.ndarray, np.ndarray]:
    """Return the number of components, and that of each agent and of each task."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    agents, tasks, cells = runs.sizes["agent"], runs.sizes["task"], runs.sizes["cell"]
    number, of_node = 0, np.zeros(0, dtype=int)
    # Of a large table a part mostly ties all together, and takes a part of the memory.
    for step in dict.fromkeys((max(1, cells // ENOUGH_CELLS), 1)):
        at = slice(None, None, step)
        edges = (runs["agent_index"].values[at], agents + runs["task_index"].values[at])
        ones = np.ones(edges[0].size, dtype=np.int8)
        graph = coo_array((ones, edges), shape=(agents + tasks,) * 2)
        number, of_node = connected_components(graph, directed=False)
        if number == 1:
            break
    return int(number), of_node[:agents], of_node[agents:]


def _members(labels: np.ndarray, piece: np.ndarray, number: int) -> list[tuple[str, ...]]:
    order = np.argsort(piece, kind="stable")
    ends = np.cumsum(np.bincount(piece, minlength=number))
    return [tuple(part.tolist()) for part in np.split(labels[order], ends[:-1])]


def with_note(runs: xr.Dataset) -> xr.Dataset:
    """Say in the attribute `unconnected` which pieces there are; without it there is one."""
    found = pieces(runs)
    attrs = {name: value for name, value in runs.attrs.items() if name != UNCONNECTED}
    if len(found) > 1:
        attrs[UNCONNECTED] = described(found)
    if attrs == runs.attrs:
        return runs
    result = runs.copy(deep=False)
    result.attrs = attrs
    return result


def described(found: Sequence[Piece]) -> str:
    """Name the pieces in words."""
    named = [f"({number}) {piece}" for number, piece in enumerate(found[:_MAX_NAMED], start=1)]
    more = [f"and {len(found) - _MAX_NAMED} more"] if len(found) > _MAX_NAMED else []
    return f"{len(found)} pieces: " + "; ".join([*named, *more])


def check_connected(runs: xr.Dataset) -> None:
    """Raise InputError, naming the pieces, where there are several."""
    found = pieces(runs)
    if len(found) > 1:
        raise unconnected(found, str(runs.attrs.get("name", "the data")))


def unconnected(found: Sequence[Piece], where: str) -> InputError:
    """Make the error for data in several pieces."""
    return InputError(
        f"agents and tasks fall into {described(found)}",
        where=where,
        expected="shared agents or shared tasks between all of them: without any, abilities of "
        "different pieces have no common scale",
        remedy="add records that link them (measurebayes.concat), or take the agents of one piece: "
        "measurebayes.subset(runs, agent=[...]); models of human minutes need no link; "
        "unconnected='fit' lets priors alone relate the pieces",
    )


def _counted(labels: Sequence[str], kind: str) -> str:
    return f"{len(labels)} {kind}{'' if len(labels) == 1 else 's'}"
