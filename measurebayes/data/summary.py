"""What a dataset holds, in numbers."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import xarray as xr

from measurebayes.data.connect import pieces
from measurebayes.data.provenance import fingerprint


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
        unconnected where there are several). Then sources (tasks of each), human_minutes (known, min, max, in
        minutes), release_dates (known, first, last), timing (attempts, successes, tasks of timed
        human attempts), status_counts and dropped (records by status and by reason), and the
        provenance: name, title, source, licence, citation, reader, sha256, fingerprint.
    """
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
