"""Checks of a fit: convergence, posterior prediction, uninformative tasks; calibration."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from concurrent.futures import Executor

    import pandas as pd
    import xarray as xr

    from measurebayes.checks.calibration import Calibration

__all__ = ["calibrate", "check", "converged"]


def check(fit: xr.DataTree, replicates: int = 400, memory: int | str | None = None) -> pd.DataFrame:
    """Check whether the sampler has converged and the model reproduces the data.

    Parameters
    ----------
    fit : xr.DataTree
    replicates : int
        Posterior draws that data are replicated from.
    memory : int or str, optional
        What temporary arrays of draws by cells may take together, such as "2GiB" or "500MB"; 128
        MiB by default. Changes no result.

    Returns
    -------
    pd.DataFrame
        One row a check. Columns name, passed (bool), value (float; NaN where a check doesn't apply,
        which passes), text (what was found, the worst case by name, what to do). The same fit
        gives the same table each time.

    Raises
    ------
    InputError
        `fit` is no fit, its model is not here, or an argument is none.
    """
    from measurebayes.backends.blocks import in_bytes
    from measurebayes.checks.convergence import convergence
    from measurebayes.checks.new_tasks import new_tasks
    from measurebayes.checks.predictive import predictive
    from measurebayes.checks.replicates import check_replicates
    from measurebayes.checks.rows import table
    from measurebayes.checks.uninformative import uninformative_rows
    from measurebayes.inference.results import model_of

    model_of(fit)  # says in words when `fit` is no fit
    check_replicates(replicates)
    budget = in_bytes(memory)
    rows = [*convergence(fit), *predictive(fit, replicates, budget), *new_tasks(fit, budget)]
    return table([*rows, *uninformative_rows(fit)])


def converged(fit: xr.DataTree) -> bool:
    """Whether the draws can be trusted.

    R-hat, effective sample sizes, divergences and E-BFMI all pass; of an engine that approximates,
    the row approximation does.

    Parameters
    ----------
    fit : xr.DataTree
    """
    from measurebayes.checks.convergence import convergence, failures

    return not failures(convergence(fit))


def calibrate(
    model: Any,
    data_design: xr.Dataset,
    replications: int = 200,
    executor: Executor | None = None,
    seed: int = 1,
    **options: Any,
) -> Calibration:
    """Simulation-based calibration; see `measurebayes.checks.calibration.calibrate`."""
    from measurebayes.checks.calibration import calibrate as run

    return run(model, data_design, replications, executor, seed, **options)
