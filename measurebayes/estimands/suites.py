"""One analysis under several rules for flagged records, and agents on two versions of a suite."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from measurebayes.classical.batch import AgentCells
from measurebayes.classical.bootstrap import resampled_lines
from measurebayes.classical.horizons import horizon_minutes, reach, success_names
from measurebayes.data.load import load
from measurebayes.errors import InputError, listed, shown

RULES = {"failure": "failure", "missing": "missing", "success": "success"}


def under_rules(
    records: Any,
    analysis: Callable[[xr.Dataset], Any],
    rules: Mapping[str, Any] | Sequence[str] = RULES,
    **load_options: Any,
) -> Any:
    """Run one analysis under several rules for records that were not simply scored.

    Parameters
    ----------
    records
        What `measurebayes.load` takes: a path or a DataFrame whose records have a status.
    analysis : callable
        Takes the data, and returns a table or anything else: ``measurebayes.classical_horizons``.
    rules : mapping or sequence of str
        Name -> the `policy` that `measurebayes.load` gets (failure, missing, as_scored, or one for
        each status), or ``"success"``: such a record is a success. Records that were not
        administered are none, whatever the rule, unless a policy names them.
    **load_options
        Further arguments of `measurebayes.load`.

    Returns
    -------
    pandas.DataFrame or dict
        Where the analysis gives tables, their rows with a first column rule; otherwise rule ->
        result.

    Raises
    ------
    InputError
        There are no rules, or the records can't be read under one.
    """
    named = dict(rules) if isinstance(rules, Mapping) else {str(rule): rule for rule in rules}
    if not named or "policy" in load_options:
        raise InputError(
            "no rules" if not named else f"policy={shown(load_options['policy'])}",
            where="argument rules",
            expected="names and policies; they take the place of policy",
            remedy="rules=['failure', 'missing', 'success']",
        )
    found = {}
    for name, policy in named.items():
        won = policy == "success"
        runs = load(records, policy="missing" if won else policy, **load_options)
        found[name] = analysis(as_successes(runs) if won else runs)
    if not all(isinstance(table, pd.DataFrame) for table in found.values()):
        return found
    tables = [table.assign(rule=name) for name, table in found.items()]
    result = pd.concat(tables, ignore_index=True)
    return result[["rule", *(column for column in result if column != "rule")]]


def as_successes(runs: xr.Dataset) -> xr.Dataset:
    """Count as successes the records that count as missing, except those not administered.

    Parameters
    ----------
    runs : xarray.Dataset
        Data in the schema; where it has no records besides scored ones it is returned as it is.
    """
    if "unscored_records" not in runs:
        return runs
    won = (runs["unscored_counted_as"].values == "missing") & (
        runs["unscored_status"].values != "not_administered"
    )
    tasks = runs.sizes["task"]
    names = ("agent_index", "task_index")
    old = [runs[name].values for name in names]
    new = [runs[f"unscored_{name}"].values[won] for name in names]
    pair = np.concatenate([old[0], new[0]]) * tasks + np.concatenate([old[1], new[1]])
    more = runs["unscored_records"].values[won]
    cells, place = np.unique(pair, return_inverse=True)
    counts = []
    for name in ("attempts", "successes"):
        count = np.zeros(cells.size, dtype=np.int64)
        np.add.at(count, place, np.concatenate([runs[name].values, more]))
        counts.append(count)
    others = [name for name in runs.variables if "cell" in runs[name].dims]
    result = runs.drop_vars(others).isel(unscored=~won)
    if won.all():
        result = result.drop_dims("unscored")
    columns = (cells // tasks, cells % tasks, *counts)
    variables = {
        name: ("cell", values)
        for name, values in zip((*names, "attempts", "successes"), columns, strict=True)
    }
    return result.assign(variables).assign_attrs(policy="success")


def compare_suites(
    old: xr.Dataset | xr.DataTree,
    new: xr.Dataset | xr.DataTree,
    *,
    success: Sequence[float] = (0.5, 0.8),
    level: float = 0.95,
    bootstrap: int = 1000,
    seed: int = 0,
    kind: str = "typical",
) -> pd.DataFrame:
    """Compare the horizons of agents on two versions of a suite.

    The two are taken as independent. Where they share tasks the difference is known better than
    its interval says.

    Parameters
    ----------
    old, new : xarray.DataTree or xarray.Dataset
        Fits, whose posterior draws are compared, or data: then resampled regressions are.
    success : sequence of float
        Success rates of the horizons.
    level : float
        Of the intervals.
    bootstrap : int
        Resamples of data; posteriors are taken as they are.
    seed : int
        Of the resamples, and of the pairing of draws.
    kind : str
        Of fits: "typical" or "marginal", as for `measurebayes.horizons`.

    Returns
    -------
    pandas.DataFrame
        One row an agent of both and a success rate: agent, success; old, new, median horizons in
        minutes; ratio, ratio_low, ratio_high, the new over the old horizon; p_longer, the
        probability that the new one is longer; both_infinite, the share of pairs of draws in which
        both are infinite, which are in p_longer by half and not in the ratio. Attributes only_old,
        only_new: names of the agents of one suite that the other has not.

    Warns
    -----
    UserWarning
        Where there are such agents: those of other names are taken for other agents.

    Raises
    ------
    InputError
        No agent is in both, or an argument is out of range.
    """
    names = success_names(success)
    if not 0.0 < level < 1.0 or bootstrap < 1:
        raise InputError(
            f"level={level}, bootstrap={bootstrap}",
            where="arguments level and bootstrap",
            expected="a level between 0 and 1, at least one resample",
        )
    rng = np.random.default_rng(seed)
    rates = list(names.values())
    drawn = [_draws(suite, rates, bootstrap, rng, kind) for suite in (old, new)]
    agents = [agent for agent in drawn[0] if agent in drawn[1]]
    if not agents:
        raise InputError(
            "the two suites have no agent in common",
            where="arguments old and new",
            expected="agents of the same names in both",
            remedy="rename agents: runs.assign_coords(agent=[...])",
        )
    number = min(len(next(iter(part.values()))) for part in drawn)
    order = [rng.permutation(len(next(iter(part.values()))))[:number] for part in drawn]
    rows = []
    for agent in agents:
        before, after = (part[agent][chosen] for part, chosen in zip(drawn, order, strict=True))
        for place, rate in enumerate(rates):
            row = _compared(before[:, place], after[:, place], level)
            rows.append({"agent": agent, "success": rate, **row})
    table = pd.DataFrame(rows)
    apart = {
        name: [agent for agent in drawn[one] if agent not in drawn[1 - one]]
        for one, name in enumerate(("only_old", "only_new"))
    }
    table.attrs |= apart
    words = [
        f"{len(those)} of {len(part)} agents of the {name.removeprefix('only_')} suite have no "
        f"namesake in the other ({listed(those, 3)})"
        for (name, those), part in zip(apart.items(), drawn, strict=True)
        if those
    ]
    if words:
        warnings.warn("; ".join(words) + ": they are left out", UserWarning, stacklevel=2)
    return table


def _compared(old: np.ndarray, new: np.ndarray, level: float) -> dict[str, float]:
    """Compare paired draws of one agent's horizons in minutes; NaN: not determined, left out."""
    known = ~(np.isnan(old) | np.isnan(new))
    old, new = old[known], new[known]
    both = (np.isinf(old) & np.isinf(new)) | ((old == 0.0) & (new == 0.0))
    tail = (1.0 - level) / 2.0
    with np.errstate(divide="ignore"):
        ratio = np.sort(new[~both] / old[~both])
    middle, low, high = (
        float(np.quantile(ratio, q, method=method)) if ratio.size else np.nan  # type: ignore[call-overload]
        for q, method in ((0.5, "nearest"), (tail, "lower"), (1.0 - tail, "higher"))
    )
    ties = old == new
    return {
        "old": float(np.quantile(old, 0.5, method="nearest")) if old.size else np.nan,
        "new": float(np.quantile(new, 0.5, method="nearest")) if new.size else np.nan,
        "ratio": middle,
        "ratio_low": low,
        "ratio_high": high,
        "p_longer": float(np.mean((new > old) + 0.5 * ties)) if old.size else np.nan,
        "both_infinite": float(np.mean(np.isinf(old) & np.isinf(new))) if old.size else np.nan,
    }


def _draws(
    suite: xr.Dataset | xr.DataTree,
    rates: list[float],
    bootstrap: int,
    rng: np.random.Generator,
    kind: str,
) -> dict[str, np.ndarray]:
    """Draws of each agent's horizons in minutes (draw, success)."""
    if isinstance(suite, xr.DataTree):
        module = importlib.import_module("measurebayes.estimands.horizons")
        drawn = module.horizons(suite, success=rates, kind=kind)
        table = drawn.stack(sample=("chain", "draw")).transpose("agent", "sample", "success")
        labels, values = table["agent"].values.tolist(), table.values
    else:
        if kind != "typical":
            raise InputError(
                f"kind={kind!r} for data",
                where="compare_suites",
                expected="kinds of horizons for fits: regressions know no tasks",
                remedy="leave kind out, or fit horizon_task to both suites",
            )
        cells = AgentCells.of(suite, weighted=True)
        lines = resampled_lines(cells, bootstrap, int(rng.integers(2**32)))
        shortest = reach(cells)[0]
        values = np.stack([horizon_minutes(*lines, rate, shortest) for rate in rates], axis=-1)
        labels, values = suite["agent"].values[cells.agents].tolist(), values.swapaxes(0, 1)
    return dict(zip(labels, values, strict=True))
