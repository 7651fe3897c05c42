"""Whether tasks go together more than a model says, and which tasks and agents it misses."""

from __future__ import annotations

from measurebayes.checks.dependence.clusters import clustered_rates
from measurebayes.checks.dependence.functioning import differential_functioning
from measurebayes.checks.dependence.local import local_dependence
from measurebayes.checks.dependence.misfit import agent_fit, task_fit
from measurebayes.checks.dependence.result import LocalDependence
from measurebayes.checks.dependence.suspects import suspect_tasks

__all__ = [
    "LocalDependence",
    "agent_fit",
    "clustered_rates",
    "differential_functioning",
    "local_dependence",
    "suspect_tasks",
    "task_fit",
]
