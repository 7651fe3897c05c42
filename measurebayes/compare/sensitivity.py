"""How horizons depend on the size of errors in human time that is taken for known."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr

from measurebayes.compare import UnconvergedWarning
from measurebayes.data.schema import check_is_dataset
from measurebayes.errors import InputError, check_level, listed

KNOWN = 1e-3  # spread of a prior that fixes what it is about


class _Case(NamedTuple):
    """All that one fit needs; picklable."""

    runs: xr.Dataset
    error_sd: float
    success: tuple[float, ...]
    kind: str
    level: float
    settings: dict[str, Any]


def error_sensitivity(
    runs: xr.Dataset,
    sds: Sequence[float] = (0.0, 0.5, 1.0, 1.5),
    success: Sequence[float] = (0.5, 0.8),
    *,
    kind: str = "typical",
    level: float = 0.9,
    seed: int = 0,
    executor: Executor | None = None,
    progress: bool = True,
    **fit_options: Any,
) -> pd.DataFrame:
    """Fit the same data under several sizes of the error in human time, and table the horizons.

    0 is horizon_task, which takes times as exact. The others are horizon_eiv with errors of timings
    and of estimates fixed at that standard deviation, and estimates without bias. The lengths of
    tasks have one population whose spread is estimated.

    Parameters
    ----------
    runs : xarray.Dataset
        Data with human minutes.
    sds : sequence of float
        Standard deviations of log2 minutes: 1 is a factor of 2.
    success : sequence of float
        Success rates of the horizons.
    kind : {"typical", "marginal"}
        As for `measurebayes.horizons`.
    level : float
        Probability of the intervals.
    seed : int
        Of every fit.
    executor : concurrent.futures.Executor, optional
        Where the fits run; by default one after another in this process.
    progress : bool
        Show a bar on standard error.
    **fit_options
        Passed to `measurebayes.fit`: draws, chains, ``slopes="common"``, priors that both models
        have, and the like.

    Returns
    -------
    pandas.DataFrame
        One row an error SD, agent and success rate: error_sd and the columns of
        `measurebayes.horizon_table` (minutes), then converged. ``attrs["longest_minutes"]`` is the
        longest task. A table of agents by SD:
        ``table.pivot(index=["success", "agent"], columns="error_sd", values="median")``.

    Raises
    ------
    InputError
        There is no SD, or one is negative or given twice.

    Warns
    -----
    UnconvergedWarning
        For fits whose convergence checks fail.
    """
    from measurebayes.checks.studies import run_tasks
    from measurebayes.estimands.horizons import longest_minutes

    check_level(level, "error_sensitivity", "level=0.9")
    check_is_dataset(runs)
    sizes = [float(sd) for sd in np.atleast_1d(np.asarray(sds, dtype=float))]
    if not sizes or len(set(sizes)) < len(sizes) or not all(0.0 <= sd < 100.0 for sd in sizes):
        raise InputError(
            f"sds={sds!r}",
            where="error_sensitivity",
            expected="standard deviations of log2 minutes, from 0 up, each once",
            remedy="sds=(0, 0.5, 1, 1.5)",
        )
    settings = {**fit_options, "seed": seed}
    cases = [_Case(runs, sd, tuple(success), kind, level, settings) for sd in sizes]
    done = run_tasks(_horizons, cases, executor, "Fitting error sizes", progress)
    table = pd.concat(done, ignore_index=True)
    doubtful = sorted(set(table.loc[~table["converged"], "error_sd"]))
    if doubtful:
        warnings.warn(
            f"fits with error SD {listed([f'{sd:g}' for sd in doubtful])} have not converged: "
            "their horizons can't be trusted. More draws may settle it (draws=2000, tune=1000).",
            UnconvergedWarning,
            stacklevel=2,
        )
    table.attrs["longest_minutes"] = longest_minutes(runs)
    table.attrs["kind"] = kind
    return table


def fixed_errors(error_sd: float, priors: Mapping[str, float] | None = None) -> dict[str, float]:
    """Return priors of horizon_eiv that fix every error of human time.

    Parameters
    ----------
    error_sd : float
        Standard deviation of log2 minutes, of timings and of estimates, which have no bias.
    priors : mapping, optional
        Other priors, kept.
    """
    return {
        **(priors or {}),
        "timing_sd": error_sd,
        "log_timing_sd": KNOWN,
        "estimate_sd": error_sd,
        "log_estimate_sd": KNOWN,
        "estimate_bias": KNOWN,
    }


def _horizons(case: _Case) -> pd.DataFrame:
    from measurebayes.checks import converged
    from measurebayes.estimands.horizons import horizon_table, horizons
    from measurebayes.inference import fit

    settings = {**case.settings, "progress": False}
    model = "horizon_task"
    if case.error_sd > 0.0:
        model = "horizon_eiv"
        settings["priors"] = fixed_errors(case.error_sd, settings.get("priors"))
    found = fit(model, case.runs, **settings)
    table = horizon_table(horizons(found, case.success, case.kind), case.level)
    table.insert(0, "error_sd", case.error_sd)
    return table.assign(converged=converged(found))
