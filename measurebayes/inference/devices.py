"""Chains, and large grids, over several JAX devices: a chain's programs, compiled for each once.

On a machine with GPUs, JAX has a device for each. Chains are dealt to them in turn. Where there
are devices to spare and the grid of agents by tasks is large, each chain has several, and every
gradient is the sum over their parts of the grid.
"""

from __future__ import annotations

import threading
from copy import copy
from typing import Any
from weakref import WeakKeyDictionary

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from measurebayes.inference.compiling import compiled
from measurebayes.inference.nuts import TRACING, Arguments, Engine

LARGE = 1_000_000  # cells from which a part of a grid is worth the messages between devices

Devices = tuple[Any, ...]
_AXIS = "part"
_placed: WeakKeyDictionary[Engine, dict[Devices, Engine]] = WeakKeyDictionary()
_LOOKING = threading.Lock()


def devices_of(chain: int, chains: int, cells: int) -> Devices:
    """Return the devices of a chain; none where there is one device alone, for all.

    Parameters
    ----------
    chain, chains
        Number of the chain, and how many there are.
    cells
        Of the grid.
    """
    there = jax.devices()
    each = max(1, len(there) // chains) if cells >= LARGE else 1
    places = (chain * each + np.arange(each)) % len(there)
    return tuple(there[place] for place in places) if len(there) > 1 else ()


def placed(engine: Engine, devices: Devices) -> Engine:
    """Return an engine whose chains run on some devices.

    Parameters
    ----------
    engine
        As it was built, for the first device.
    devices
        Of `jax.devices()`.
    """
    if devices == (jax.devices()[0],):  # nobody waits for another device's compilation
        return engine
    with _LOOKING:
        known = _placed.setdefault(engine, {})
        if devices not in known:
            known[devices] = _compiled_for(engine, devices)
        return known[devices]


def put(arguments: Arguments, devices: Devices) -> Arguments:
    """Bring arguments of an engine to devices: its grid in parts, all else as a whole to each."""
    with jax.enable_x64(True):
        return jax.device_put(arguments, _places(arguments, devices))


def _compiled_for(engine: Engine, devices: Devices) -> Engine:
    everywhere = NamedSharding(Mesh(np.array(devices), _AXIS), PartitionSpec())
    lowered = {}
    with TRACING, jax.enable_x64(True):
        for name, (program, given) in engine.of_chains.items():
            *small, arguments = given
            places = (*(jax.tree.map(lambda _: everywhere, x) for x in small),)
            shapes = jax.tree.map(_shape, given, (*places, _places(arguments, devices)))
            lowered[name] = jax.jit(program, out_shardings=everywhere).lower(*shapes)
    other = copy(engine)
    other.run = {**engine.run, **compiled(lowered)}
    return other


def _places(arguments: Arguments, devices: Devices) -> Any:
    """Say where each argument lies; tasks, or else agents, are parted where that comes out even."""
    mesh = Mesh(np.array(devices), _AXIS)

    def place(path: Any, x: Any) -> NamedSharding:
        even = [size % len(devices) == 0 for size in np.shape(x)]
        if path[0].key != "counts" or len(even) < 2 or not any(even):
            return NamedSharding(mesh, PartitionSpec())
        return NamedSharding(mesh, PartitionSpec(*((None, _AXIS) if even[1] else (_AXIS,))))

    return jax.tree_util.tree_map_with_path(place, arguments)


def _shape(x: Any, place: NamedSharding) -> jax.ShapeDtypeStruct:
    """Return shape, type and place of an argument."""
    return jax.ShapeDtypeStruct(np.shape(x), x.dtype, sharding=place)
