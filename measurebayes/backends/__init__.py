"""Interpreters of a model text: NumPyro, PyMC, simulation, evaluation, SciPy density."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from measurebayes.backends.numpyro import numpyro_model
    from measurebayes.backends.pymc import pymc_model
    from measurebayes.backends.simulate import simulate

# Each library is imported by its own interpreter alone, when it is first asked for.
_HOMES = {"numpyro_model": "numpyro", "pymc_model": "pymc", "simulate": "simulate"}
__all__ = ["numpyro_model", "pymc_model", "simulate"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
