"""Simulation extrapolation: what horizons would be if human times had no error.

Noise is added to log2 minutes on top of the error that they have: with lambda times its variance,
the total is (1 + lambda) times the error's. The estimates as a function of lambda are extrapolated
to lambda = -1, no error (Cook & Stefanski 1994, doi:10.1080/01621459.1994.10476871).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from measurebayes.classical.batch import AgentCells, fit_lines
from measurebayes.classical.horizons import (
    SUCCESS,
    horizon_minutes,
    log2_positive,
    reach,
    remarks,
    success_names,
)
from measurebayes.errors import InputError, listed, shown

ESTIMATES = ("horizon", "line")
LARGEST_ERROR = 100.0  # doublings: no suite is that long
CURVES = {"linear": 1, "quadratic": 2, "rational": 2}  # lambdas beside 0 that each needs
NOT_FINITE = "noise leaves no finite horizon to extrapolate: estimate='line' extrapolates the line"
FALLBACK = "a rational curve has a pole here: quadratic"


def simex(
    runs: xr.Dataset,
    error_sd: float | Sequence[float] | np.ndarray | xr.DataArray,
    *,
    success: Sequence[float] = SUCCESS,
    weighted: bool = True,
    estimate: str = "horizon",
    curve: str = "quadratic",
    lambdas: Sequence[float] = (0.5, 1.0, 1.5, 2.0),
    replicates: int = 50,
    seed: int = 0,
) -> pd.DataFrame:
    """Time horizons corrected for known error in human times, by simulation extrapolation.

    The regression is that of `classical_horizons`; with an error of 0 so is the result. What is
    returned has no intervals.

    Parameters
    ----------
    runs : xarray.Dataset
        Data with human minutes.
    error_sd : float or array (task,)
        Standard deviation of the error of log2 minutes, doublings: one for all tasks, or one each.
    success : sequence of float
        Success rates of the horizons.
    weighted : bool
        As for `classical_horizons`.
    estimate : {"horizon", "line"}
        What is extrapolated: log2 of each horizon, or slope and intercept, of which the horizons
        are then taken. A horizon that noise makes infinite can't be extrapolated; a line can.
    curve : {"quadratic", "linear", "rational"}
        Of the estimate over lambda. Rational is a + b / (c + lambda); where that has a pole between
        the estimates and -1, a quadratic takes its place, and the note says so.
    lambdas : sequence of float
        Variances of the added noise, as multiples of the error's.
    replicates : int
        Noisy data sets for each lambda.
    seed : int
        Of the noise.

    Returns
    -------
    pandas.DataFrame
        One row an agent with attempts: agent, slope and intercept (with ``estimate="line"``
        extrapolated, otherwise as without correction); for each success rate, 50 % say, horizon_50
        and naive_50 (minutes, corrected and not), beyond_50 (corrected, beyond the agent's longest
        task); note, "" or what went wrong: also where the corrected horizon is longer at the higher
        of two success rates, which no curve that falls with length can have.

    Raises
    ------
    InputError
        An argument is out of range, or a task with attempts has no human minutes.
    """
    names = success_names(success)
    _check(estimate, curve, lambdas, replicates)
    cells = AgentCells.of(runs, weighted)
    spread = _error_of_cells(runs, error_sd, cells)
    shortest, longest = reach(cells)
    once = np.array(fit_lines(cells, cells.x, cells.weight[None], cells.solved[None]))[:, 0]
    naive = {
        name: horizon_minutes(once[0], once[1], rate, shortest) for name, rate in names.items()
    }
    line, found, note = once, naive, remarks(cells, once[0], once[1])
    if spread.any():
        steps = np.array([0.0, *lambdas], dtype=float)
        lines = _lines(cells, once, spread, runs.sizes["task"], steps, replicates, seed)
        if estimate == "line":
            line, note = _line(lines, steps, curve, note)
            found = {
                name: horizon_minutes(line[0], line[1], rate, shortest)
                for name, rate in names.items()
            }
        else:
            found = {}
            for name, rate in names.items():
                drawn = horizon_minutes(lines[0], lines[1], rate, shortest)
                found[name], note = _horizon(drawn, steps, curve, note)
    note = _in_order(found, names, note, once[1] < 0.0)
    table: dict[str, Any] = {"agent": runs["agent"].values[cells.agents]}
    table |= {"slope": line[1], "intercept": line[0]}
    for name in names:
        table |= {f"horizon_{name}": found[name], f"naive_{name}": naive[name]}
        table[f"beyond_{name}"] = log2_positive(found[name]) > longest
    return pd.DataFrame({**table, "note": note})


def _line(
    lines: np.ndarray, steps: np.ndarray, curve: str, note: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Extrapolate intercepts and slopes (2, agent); agents without a line stay without."""
    known = np.isfinite(lines[:, 0, 0]).all(axis=0)
    line, pole = _extrapolated(np.where(known, lines, 0.0).mean(axis=2), steps, curve)
    line = np.where(known, line, lines[:, 0, 0])
    return line, _noted(note, known & pole.any(axis=0), FALLBACK)


def _horizon(
    drawn: np.ndarray, steps: np.ndarray, curve: str, note: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Extrapolate log2 of horizons (step, replicate, agent) to minutes (agent,).

    NaN where some of an agent's horizons are infinite or 0; such as the data's own is stays so.
    """
    proper = np.isfinite(drawn) & (drawn > 0.0)
    usable, own = proper.all(axis=(0, 1)), proper[0, 0]
    logs = np.log2(np.where(usable, drawn, 1.0)).mean(axis=1)
    value, pole = _extrapolated(logs, steps, curve)
    note = _noted(_noted(note, pole & usable, FALLBACK), own & ~usable, NOT_FINITE)
    return np.where(usable, np.exp2(value), np.where(own, np.nan, drawn[0, 0])), note


def _in_order(
    found: dict[str, np.ndarray], names: dict[str, float], note: np.ndarray, falling: np.ndarray
) -> np.ndarray:
    """Add to the notes of agents whose horizons are longer at a higher success rate."""
    for low, high in pairwise(sorted(names, key=lambda name: names[name])):
        text = (
            f"extrapolated beyond sense: the {100 * names[high]:g} % horizon comes out longer than "
            f"the {100 * names[low]:g} % horizon"
        )
        wrong = falling & (found[high] > found[low])
        joined = np.where(note == "", text, note + f"; {text}")
        note = np.where(wrong, joined, note)
    return note


def _lines(
    cells: AgentCells,
    once: np.ndarray,
    spread: np.ndarray,
    tasks: int,
    steps: np.ndarray,
    replicates: int,
    seed: int,
) -> np.ndarray:
    """Intercepts and slopes with added noise, (2, step, replicate, agent); the first is without.

    The same noise serves all steps, stretched, and each comes with both signs, so that what is odd
    in the noise cancels: chance differences grow with the root of lambda, which an extrapolation
    would magnify.
    """
    half = np.random.default_rng(seed).normal(size=((replicates + 1) // 2, tasks))
    noise = np.concatenate([half, -half])[:replicates]
    found = np.empty((2, steps.size, replicates, cells.sizes.size))
    found[:, 0] = once[:, None]
    solved = cells.solved
    for place in range(1, steps.size):
        for block in cells.blocks(replicates):
            x = cells.x + np.sqrt(steps[place]) * spread * noise[block][:, cells.task]
            weight, won = np.broadcast_to(cells.weight, x.shape), np.broadcast_to(solved, x.shape)
            found[:, place, block] = fit_lines(cells, x, weight, won)
    return found


def _extrapolated(
    values: np.ndarray, steps: np.ndarray, curve: str
) -> tuple[np.ndarray, np.ndarray]:
    """Estimates (..., step, agent) at -1, and where a rational curve wasn't possible (..., agent).

    Differences from the estimate without added noise are extrapolated: rounding stays small.
    """
    values = np.moveaxis(values, -2, 0)
    start = values[0]
    flat = (values - start).reshape(steps.size, -1)
    degree = 1 if curve == "linear" else 2
    powers = np.vander(steps, degree + 1)
    end = np.vander([-1.0], degree + 1)[0] @ np.linalg.lstsq(powers, flat, rcond=None)[0]
    trouble = np.zeros(flat.shape[1], dtype=bool)
    if curve == "rational":
        for place, column in enumerate(flat.T):
            value = _rational(column, steps)
            trouble[place] = value is None and bool(column.any())
            end[place] = end[place] if value is None else value
    return start + end.reshape(start.shape), trouble.reshape(start.shape)


def _rational(values: np.ndarray, steps: np.ndarray) -> float | None:
    """Value at -1 of (a lambda + d) / (lambda + c), least squares of the equation times its foot.

    None where the curve has a pole at -1 or beyond, on the side of the estimates.
    """
    design = np.column_stack([-values, steps, np.ones_like(steps)])
    (c, a, d), _, rank, _ = np.linalg.lstsq(design, values * steps, rcond=None)
    return float((d - a) / (c - 1.0)) if rank == 3 and c > 1.0 else None


def _error_of_cells(
    runs: xr.Dataset,
    error_sd: float | Sequence[float] | np.ndarray | xr.DataArray,
    cells: AgentCells,
) -> np.ndarray:
    """Error of every cell's log2 minutes (cell,)."""
    value = np.asarray(error_sd, dtype=float)
    tasks = runs.sizes["task"]
    if value.shape not in ((), (tasks,)):
        raise InputError(
            f"error_sd has shape {value.shape}",
            where="argument error_sd",
            expected=f"one number, or one for each of the {tasks} tasks",
        )
    of_cells = np.broadcast_to(value, tasks)[cells.task]
    possible = (of_cells >= 0.0) & (of_cells < LARGEST_ERROR)
    if not possible.all():
        wrong = of_cells[~possible]
        raise InputError(
            f"error_sd holds {listed(np.unique(wrong).tolist())}",
            where="argument error_sd",
            expected=f"standard deviations of log2 minutes, from 0 to under {LARGEST_ERROR:g}",
            remedy="error_sd=1.0: observed and true minutes differ by a factor of 2, typically",
        )
    return of_cells


def _check(estimate: str, curve: str, lambdas: Sequence[float], replicates: int) -> None:
    for name, value, known in (("estimate", estimate, ESTIMATES), ("curve", curve, tuple(CURVES))):
        if value not in known:
            raise InputError(
                f"{name}={shown(value)}", where=f"argument {name}", expected=" or ".join(known)
            )
    distinct = {float(value) for value in lambdas}
    if min(distinct, default=0.0) <= 0.0 or len(distinct) < CURVES[curve] or replicates < 1:
        raise InputError(
            f"lambdas={list(lambdas)}, replicates={replicates}",
            where="arguments lambdas and replicates",
            expected=f"at least {CURVES[curve]} different lambdas above 0 for a {curve} curve, and "
            "at least one replicate",
            remedy="lambdas=(0.5, 1, 1.5, 2), replicates=50",
        )


def _noted(note: np.ndarray, where: np.ndarray, text: str) -> np.ndarray:
    """Put a note where there is none yet."""
    return np.where((note == "") & where, text, note)
