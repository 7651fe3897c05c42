"""Which tasks and agents say little: always solved, never solved, never tried."""

import numpy as np
import pandas as pd
import xarray as xr

from measurebayes.checks.rows import Check
from measurebayes.errors import listed

KINDS = ("always solved", "never solved", "no attempts")


def uninformative(fit: xr.DataTree, kind: str = "task") -> pd.DataFrame:
    """Tasks (or agents) that were always solved, never solved, or not tried at all.

    Their difficulty is known from one side only, or from the other tasks only, so its posterior
    interval is wide; they stay in the model and do no harm.

    Parameters
    ----------
    fit : xr.DataTree
    kind : {"task", "agent"}

    Returns
    -------
    pd.DataFrame
        Index task (or agent); columns kind ("always solved", "never solved", "no attempts"),
        attempts, successes, low, high, width: 95 % posterior interval of the difficulty (ability),
        on the logit scale; NaN where the model has no such variable.
    """
    data = fit["data"].to_dataset()
    index, number = data[f"{kind}_index"].values, data.sizes[kind]
    attempts = np.bincount(index, weights=data["attempts"].values, minlength=number).astype(int)
    successes = np.bincount(index, weights=data["successes"].values, minlength=number).astype(int)
    which = np.select([attempts == 0, successes == attempts, successes == 0], [3, 1, 2], 0)
    low, high = _interval(fit, kind)
    labels = pd.Index(data[kind].values.astype(object), name=kind)
    table = pd.DataFrame(
        {
            "kind": np.array(["", *KINDS], dtype=object)[which],
            "attempts": attempts,
            "successes": successes,
            "low": low,
            "high": high,
            "width": high - low,
        },
        index=labels,
    )
    return table[which > 0]


def uninformative_rows(fit: xr.DataTree) -> list[Check]:
    """Rows uninformative_tasks and uninformative_agents: they inform, and always pass.

    Parameters
    ----------
    fit : xr.DataTree

    Returns
    -------
    list of Check
        The value is how many there are.
    """
    return [_row(fit, kind) for kind in ("task", "agent")]


def _interval(fit: xr.DataTree, kind: str) -> tuple[np.ndarray, np.ndarray]:
    """95 % posterior interval of each task's difficulty, or agent's ability."""
    number = fit["data"].to_dataset().sizes[kind]
    posterior = fit["posterior"].to_dataset()
    variable = {"task": "difficulty", "agent": "ability"}[kind]
    if variable not in posterior or kind not in posterior[variable].dims:
        return np.full(number, np.nan), np.full(number, np.nan)
    draws = posterior[variable].transpose("chain", "draw", kind).values.reshape(-1, number)
    low, high = np.quantile(draws, [0.025, 0.975], axis=0)
    return low, high


def _row(fit: xr.DataTree, kind: str) -> Check:
    table = uninformative(fit, kind)
    name = f"uninformative_{kind}s"
    if table.empty:
        return Check(name, True, 0.0, f"Every {kind} has at least one success and one failure.")
    if kind == "agent":
        table["kind"] = table["kind"].str.replace("solved", "successful")
    counts = [
        f"{len(part)} {what} ({listed(part.index)})"
        for what, part in table.groupby("kind", sort=False)
    ]
    text = f"{'; '.join(counts)} of {fit['data'].to_dataset().sizes[kind]} {kind}s."
    low, high = _interval(fit, kind)
    others = np.delete(high - low, _positions(fit, kind, table))
    if table["width"].notna().all() and others.size:
        text += (
            f" The 95 % intervals are {table['width'].median():.1f} logits wide at the median, "
            f"against {np.median(others):.1f} for the others."
        )
    text += " They stay in the model."
    return Check(name, True, float(len(table)), text)


def _positions(fit: xr.DataTree, kind: str, table: pd.DataFrame) -> np.ndarray:
    labels = fit["data"].to_dataset()[kind].values.astype(object)
    return np.flatnonzero(np.isin(labels, table.index.to_numpy()))
