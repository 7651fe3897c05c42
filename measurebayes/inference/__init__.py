"""Engines that draw from a posterior, and the fit that they return."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from measurebayes.inference.fitting import fit

__all__ = ["fit"]


def __getattr__(name: str) -> Any:
    if name == "fit":
        from measurebayes.inference.fitting import fit

        return fit
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
