"""The data sets that come with the package."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

import pandas as pd
import xarray as xr

from measurebayes.data.build import build_dataset
from measurebayes.data.provenance import sha256

_FILES = ("counts.csv", "tasks.csv", "agents.csv")


def _metr_th1_1() -> xr.Dataset:
    folder = Path(str(resources.files("measurebayes.data"))) / "bundled" / "metr_th1_1"
    counts, tasks, agents = (pd.read_csv(folder / name, keep_default_na=False) for name in _FILES)
    position = {
        "agent_index": pd.Index(agents["agent"]).get_indexer(pd.Index(counts["agent"])),
        "task_index": pd.Index(tasks["task_id"]).get_indexer(pd.Index(counts["task_id"])),
    }
    return build_dataset(
        agents=agents["agent"].tolist(),
        tasks=tasks["task_id"].tolist(),
        cells=counts.assign(**position),
        families=tasks["family"].tolist(),
        sources=tasks["source"].tolist(),
        human_minutes=tasks["human_minutes"].tolist(),
        release_dates=list(pd.to_datetime(agents["release_date"]).to_numpy()),
        attrs={
            "name": "metr-th1.1",
            "title": "METR Time Horizon 1.1: attempts of agents at tasks",
            "source": "METR, task_results_1_1.yaml, https://metr.org/time-horizons/",
            "licence": "MIT, Copyright (c) 2025 METR",
            "citation": "Kwa, T., West, B., Becker, J. et al. (2025). Measuring AI Ability to "
            "Complete Long Tasks. arXiv:2503.14499. https://doi.org/10.48550/arXiv.2503.14499. "
            "Data: METR, Time Horizon 1.1.",
            "reader": "bundled",
            "sha256": sha256(folder / name for name in _FILES),
            "status_counts": {},
            "dropped": {},
        },
    )


BUNDLED = {"metr-th1.1": _metr_th1_1}


def bundled_names() -> list[str]:
    """Names of the bundled data sets, for `measurebayes.load`."""
    return sorted(BUNDLED)
