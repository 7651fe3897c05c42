"""Chains over several JAX devices: the programs of a chain, compiled for each device once.

On a machine with GPUs, JAX has a device for each. Draws don't depend on the device where devices
compute alike.
"""

from __future__ import annotations

import threading
from copy import copy
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import jax
import numpy as np
from jax.sharding import SingleDeviceSharding

from measurebayes.inference.compiling import compiled
from measurebayes.inference.nuts import TRACING, Engine

_placed: WeakKeyDictionary[Engine, dict[Any, Engine]] = WeakKeyDictionary()
_LOOKING = threading.Lock()


def device_of(chain: int) -> Any:
    """Return the device of a chain; None where there is one device alone."""
    devices = jax.devices()
    return devices[chain % len(devices)] if len(devices) > 1 else None


def placed(engine: Engine, device: Any) -> Engine:
    """Return an engine whose chains run on a device.

    Parameters
    ----------
    engine
        As it was built, for the first device.
    device
        Of `jax.devices()`.
    """
    if device == jax.devices()[0]:  # nobody waits for another device's compilation
        return engine
    with _LOOKING:
        known = _placed.setdefault(engine, {})
        if device not in known:
            known[device] = _compiled_for(engine, device)
        return known[device]


def _compiled_for(engine: Engine, device: Any) -> Engine:
    there = partial(_shape, SingleDeviceSharding(device))
    with TRACING, jax.enable_x64(True):
        lowered = {
            name: program.lower(*jax.tree.map(there, given))
            for name, (program, given) in engine.of_chains.items()
        }
    other = copy(engine)
    other.run = {**engine.run, **compiled(lowered)}
    return other


def _shape(sharding: SingleDeviceSharding, x: Any) -> jax.ShapeDtypeStruct:
    """Return shape and type of an argument that lies on a device."""
    return jax.ShapeDtypeStruct(np.shape(x), x.dtype, sharding=sharding)
