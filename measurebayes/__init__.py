"""Hierarchical Bayesian measurement models for AI-agent evaluations.

>>> import measurebayes as mb  # doctest: +SKIP
>>> runs = mb.load("metr-th1.1")  # doctest: +SKIP
>>> fit = mb.fit("two_pl", runs, seed=1)  # doctest: +SKIP
>>> mb.check(fit)  # doctest: +SKIP

Public names are imported when they are first used, so that ``import measurebayes`` stays fast:
jax, pymc, arviz, xarray and pandas take seconds to import.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from measurebayes.backends.describe import describe
    from measurebayes.backends.numpyro import numpyro_model
    from measurebayes.backends.pymc import pymc_model
    from measurebayes.backends.simulate import simulate
    from measurebayes.checks import calibrate, check
    from measurebayes.checks.cancellation import cancellation, cancellation_power
    from measurebayes.checks.conjoint import conjoint_table
    from measurebayes.checks.dependence import (
        agent_fit,
        clustered_rates,
        differential_functioning,
        local_dependence,
        suspect_tasks,
        task_fit,
    )
    from measurebayes.classical.horizons import classical_horizons, slope_test
    from measurebayes.classical.simex import simex
    from measurebayes.compare import compare
    from measurebayes.compare.additivity import additivity
    from measurebayes.compare.crossval import crossval
    from measurebayes.compare.sensitivity import error_sensitivity
    from measurebayes.data import concat, join, lint, load, pieces, subset
    from measurebayes.errors import (
        CheckpointError,
        ExecutorError,
        InputError,
        MeasureBayesError,
        ModelError,
    )
    from measurebayes.estimands import item_parameters, score
    from measurebayes.estimands.horizons import horizon_table, horizons, inversions
    from measurebayes.estimands.length import length_share
    from measurebayes.estimands.pairs import agent_pairs
    from measurebayes.estimands.planning import plan_suite
    from measurebayes.estimands.rotation import rotate
    from measurebayes.estimands.suites import compare_suites, under_rules
    from measurebayes.estimands.trend import crossing_dates, doubling_days, trend_line, trend_table
    from measurebayes.inference import fit
    from measurebayes.inference.results import open_fit as open  # noqa: A004
    from measurebayes.inference.results import save_fit as save
    from measurebayes.program.registry import get_model
    from measurebayes.report import cite, report

__version__ = "0.1.0"

# public name -> (module, attribute there)
_PUBLIC = {
    "load": ("measurebayes.data", "load"),
    "subset": ("measurebayes.data", "subset"),
    "join": ("measurebayes.data", "join"),
    "lint": ("measurebayes.data", "lint"),
    "concat": ("measurebayes.data", "concat"),
    "pieces": ("measurebayes.data", "pieces"),
    "get_model": ("measurebayes.program.registry", "get_model"),
    "describe": ("measurebayes.backends.describe", "describe"),
    "simulate": ("measurebayes.backends.simulate", "simulate"),
    "numpyro_model": ("measurebayes.backends.numpyro", "numpyro_model"),
    "pymc_model": ("measurebayes.backends.pymc", "pymc_model"),
    "fit": ("measurebayes.inference", "fit"),
    "open": ("measurebayes.inference.results", "open_fit"),
    "save": ("measurebayes.inference.results", "save_fit"),
    "score": ("measurebayes.estimands", "score"),
    "item_parameters": ("measurebayes.estimands", "item_parameters"),
    "check": ("measurebayes.checks", "check"),
    "calibrate": ("measurebayes.checks", "calibrate"),
    "conjoint_table": ("measurebayes.checks.conjoint", "conjoint_table"),
    "cancellation": ("measurebayes.checks.cancellation", "cancellation"),
    "cancellation_power": ("measurebayes.checks.cancellation", "cancellation_power"),
    "local_dependence": ("measurebayes.checks.dependence", "local_dependence"),
    "task_fit": ("measurebayes.checks.dependence", "task_fit"),
    "agent_fit": ("measurebayes.checks.dependence", "agent_fit"),
    "differential_functioning": ("measurebayes.checks.dependence", "differential_functioning"),
    "suspect_tasks": ("measurebayes.checks.dependence", "suspect_tasks"),
    "clustered_rates": ("measurebayes.checks.dependence", "clustered_rates"),
    "agent_pairs": ("measurebayes.estimands.pairs", "agent_pairs"),
    "compare": ("measurebayes.compare", "compare"),
    "crossval": ("measurebayes.compare.crossval", "crossval"),
    "additivity": ("measurebayes.compare.additivity", "additivity"),
    "classical_horizons": ("measurebayes.classical.horizons", "classical_horizons"),
    "inversions": ("measurebayes.estimands.horizons", "inversions"),
    "horizon_table": ("measurebayes.estimands.horizons", "horizon_table"),
    "horizons": ("measurebayes.estimands.horizons", "horizons"),
    "crossing_dates": ("measurebayes.estimands.trend", "crossing_dates"),
    "doubling_days": ("measurebayes.estimands.trend", "doubling_days"),
    "trend_line": ("measurebayes.estimands.trend", "trend_line"),
    "trend_table": ("measurebayes.estimands.trend", "trend_table"),
    "compare_suites": ("measurebayes.estimands.suites", "compare_suites"),
    "under_rules": ("measurebayes.estimands.suites", "under_rules"),
    "length_share": ("measurebayes.estimands.length", "length_share"),
    "plan_suite": ("measurebayes.estimands.planning", "plan_suite"),
    "error_sensitivity": ("measurebayes.compare.sensitivity", "error_sensitivity"),
    "rotate": ("measurebayes.estimands.rotation", "rotate"),
    "simex": ("measurebayes.classical.simex", "simex"),
    "slope_test": ("measurebayes.classical.horizons", "slope_test"),
    "report": ("measurebayes.report", "report"),
    "cite": ("measurebayes.report", "cite"),
    "MeasureBayesError": ("measurebayes.errors", "MeasureBayesError"),
    "InputError": ("measurebayes.errors", "InputError"),
    "ModelError": ("measurebayes.errors", "ModelError"),
    "CheckpointError": ("measurebayes.errors", "CheckpointError"),
    "ExecutorError": ("measurebayes.errors", "ExecutorError"),
}

__all__ = [
    "CheckpointError",
    "ExecutorError",
    "InputError",
    "MeasureBayesError",
    "ModelError",
    "__version__",
    "additivity",
    "agent_fit",
    "agent_pairs",
    "calibrate",
    "cancellation",
    "cancellation_power",
    "check",
    "cite",
    "classical_horizons",
    "clustered_rates",
    "compare",
    "compare_suites",
    "concat",
    "conjoint_table",
    "crossing_dates",
    "crossval",
    "describe",
    "differential_functioning",
    "doubling_days",
    "error_sensitivity",
    "fit",
    "get_model",
    "horizon_table",
    "horizons",
    "inversions",
    "item_parameters",
    "join",
    "length_share",
    "lint",
    "load",
    "local_dependence",
    "numpyro_model",
    "open",
    "pieces",
    "plan_suite",
    "pymc_model",
    "report",
    "rotate",
    "save",
    "score",
    "simex",
    "simulate",
    "slope_test",
    "subset",
    "suspect_tasks",
    "task_fit",
    "trend_line",
    "trend_table",
    "under_rules",
]


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, attribute = _PUBLIC[name]
    value = getattr(importlib.import_module(module), attribute)
    # The import may have bound a subpackage of the same name (see _Package); that one stays.
    return globals().setdefault(name, value)


def __dir__() -> list[str]:
    return sorted({*globals(), *_PUBLIC})


class _CallableModule(ModuleType):
    """A subpackage that shares its name with the public function inside it."""

    def _function(self) -> Any:
        return self.__dict__[self.__name__.rpartition(".")[2]]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._function()(*args, **kwargs)

    @property
    def __signature__(self) -> Any:
        import inspect

        return inspect.signature(self._function())


class _Package(ModuleType):
    """The class of measurebayes itself: makes a subpackage named like a function callable.

    Importing ``measurebayes.compare`` makes Python bind the name ``compare`` here to the
    subpackage, whatever was bound before. With this class ``mb.compare(...)`` and
    ``mb.compare.loo`` both work, in any order of imports.
    """

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _PUBLIC and isinstance(value, ModuleType):
            value.__class__ = _CallableModule
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
