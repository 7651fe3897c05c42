"""What a dataset holds, in numbers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr

from measurebayes.data.connect import pieces
from measurebayes.data.provenance import fingerprint
from measurebayes.data.schema import check_layout
from measurebayes.data.statuses import counted_as, statuses_by_agent
from measurebayes.errors import InputError


def check_attempts(dataset: xr.Dataset) -> None:
    """Raise InputError where there is nothing to count."""
    if not dataset.sizes["cell"]:
        raise InputError(
            "there are no attempts",
            where=str(dataset.attrs.get("name", "the data")),
            expected="at least one cell with attempts",
            remedy="look at the data with measurebayes.data.summarise(runs)",
        )


def summarise(dataset: xr.Dataset) -> dict[str, Any]:
    """Count what a dataset holds.

    Parameters
    ----------
    dataset : xarray.Dataset
        Data in the schema of measurebayes.data.schema.

    Returns
    -------
    dict
        Can be written as JSON. Counts: agents, tasks, families, families_known (false where
        each task counts as its own),
        cells (pairs of agent and task with attempts), holes (pairs without), attempts, successes,
        always_solved and never_solved (tasks among those with attempts), unattempted_tasks,
        unattempted_agents, pieces (parts of the data without a common scale; described in
        unconnected where there are several). Then sources (tasks of each), human_minutes (known,
        min, max, in minutes), release_dates (known, first, last), timing (attempts, successes,
        tasks of timed human attempts), status_counts and dropped (records by status and by
        reason), policy and counted_as (what records count as that did not end as scored), statuses
        (records by status, of each agent that has such records), and the provenance: name, title,
        source, licence, citation, reader, sha256, fingerprint.
    """
    check_layout(dataset)
    attempts, solved = _by(dataset, "task", "attempts"), _by(dataset, "task", "successes")
    attempted = attempts > 0
    parts = pieces(dataset)
    agents, tasks, cells = (dataset.sizes[dim] for dim in ("agent", "task", "cell"))
    return {
        "name": dataset.attrs.get("name", ""),
        "title": dataset.attrs.get("title", ""),
        "agents": agents,
        "tasks": tasks,
        "families": dataset.sizes["family"],
        "families_known": "families" not in dataset.attrs,
        "cells": cells,
        "holes": agents * tasks - cells,
        "attempts": int(attempts.sum()),
        "successes": int(solved.sum()),
        "always_solved": int(np.sum(attempted & (solved == attempts))),
        "never_solved": int(np.sum(attempted & (solved == 0))),
        "unattempted_tasks": int(np.sum(~attempted)),
        "unattempted_agents": int(np.sum(_by(dataset, "agent", "attempts") == 0)),
        "pieces": len(parts),
        "unconnected": {f"piece {number}": str(part) for number, part in enumerate(parts, start=1)}
        if len(parts) > 1
        else {},
        "sources": _tally(dataset["source"].values),
        "human_minutes": _minutes(dataset["human_minutes"].values),
        "minutes_kinds": _tally(dataset["minutes_kind"].values),
        "release_dates": _release_dates(dataset["release_date"].values),
        "timing": _timing(dataset),
        "status_counts": json.loads(dataset.attrs.get("status_counts", "{}")),
        "dropped": json.loads(dataset.attrs.get("dropped", "{}")),
        "policy": dataset.attrs.get("policy", ""),
        "counted_as": counted_as(dataset),
        "statuses": _statuses(dataset),
        **{
            key: dataset.attrs.get(key, "")
            for key in ("source", "licence", "citation", "reader", "sha256")
        },
        "fingerprint": fingerprint(dataset),
    }


def _by(dataset: xr.Dataset, dim: str, name: str) -> np.ndarray:
    # np.add.at keeps int64; bincount with weights would go through float64
    totals = np.zeros(dataset.sizes[dim], dtype=np.int64)
    np.add.at(totals, dataset[f"{dim}_index"].values, dataset[name].values)
    return totals


_COUNTED_WORDS = {
    "failure": "counted as failures",
    "missing": "left out, as no attempts",
    "as_scored": "counted by their own score",
}


def status_words(summary: Mapping[str, Any]) -> str:
    """Say what the records count as that did not end as scored; "" where there are none."""
    parts = []
    for status, decisions in summary["counted_as"].items():
        words = [f"{number} {_COUNTED_WORDS[d]}" for d, number in decisions.items()]
        parts.append(f"{status.replace('_', ' ')}: {' and '.join(words)}")
    return "; ".join(parts)


def status_rows(summary: Mapping[str, Any], limit: int) -> list[dict[str, Any]]:
    """Rows of the table of agents by status, those with most records beside scored ones first.

    Parameters
    ----------
    summary : mapping
        What `summarise` returned.
    limit : int
        Number of agents; the others are put together in the last row.

    Returns
    -------
    list of dict
        agent, then the number of records of each status that occurs.
    """
    by_agent = summary["statuses"]
    ordered = sorted(
        by_agent, key=lambda name: by_agent[name]["scored"] - sum(by_agent[name].values())
    )
    rows = [{"agent": name, **by_agent[name]} for name in ordered[:limit]]
    if rest := ordered[limit:]:
        names = by_agent[rest[0]]
        total = {status: sum(by_agent[name][status] for name in rest) for status in names}
        rows.append({"agent": f"{len(rest)} other agents", **total})
    return rows


def _statuses(dataset: xr.Dataset) -> dict[str, dict[str, int]]:
    table = statuses_by_agent(dataset)
    unscored = table.drop(columns="scored").sum(axis=1) > 0
    rows = table[unscored]
    columns = {str(name): rows[name].tolist() for name in rows}
    return {
        str(agent): {name: numbers[at] for name, numbers in columns.items()}
        for at, agent in enumerate(rows.index)
    }


def _tally(texts: np.ndarray) -> dict[str, int]:
    names, counts = np.unique(texts, return_counts=True)
    return {str(name): int(n) for name, n in zip(names, counts, strict=True) if name}


def _minutes(values: np.ndarray) -> dict[str, float | int | None]:
    known = values[~np.isnan(values)]
    return {
        "known": int(known.size),
        "min": float(known.min()) if known.size else None,
        "max": float(known.max()) if known.size else None,
    }


def _release_dates(values: np.ndarray) -> dict[str, int | str | None]:
    known = values[~np.isnat(values)]
    return {
        "known": int(known.size),
        "first": str(known.min().astype("datetime64[D]")) if known.size else None,
        "last": str(known.max().astype("datetime64[D]")) if known.size else None,
    }


def _timing(dataset: xr.Dataset) -> dict[str, int] | None:
    if "timing_minutes" not in dataset:
        return None
    return {
        "attempts": dataset.sizes["timing"],
        "successes": int(dataset["timing_success"].sum()),
        "tasks": int(np.unique(dataset["timing_task_index"].values).size),
    }
