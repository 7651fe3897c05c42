"""Is it a quantity? Cancellation axioms of conjoint measurement, checked by replication."""

from __future__ import annotations

from measurebayes.checks.cancellation.check import cancellation
from measurebayes.checks.cancellation.power import cancellation_power
from measurebayes.checks.cancellation.result import Cancellation

__all__ = ["Cancellation", "cancellation", "cancellation_power"]
