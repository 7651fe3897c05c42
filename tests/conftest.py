"""Fixtures that all tests share, and the time that a test may take."""

from __future__ import annotations

import os
import runpy
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parent.parent
FAST_SECONDS = 60  # a test that is not marked slow; slow ones: `timeout` in pyproject.toml


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if not any(item.get_closest_marker(name) for name in ("slow", "timeout")):
            item.add_marker(pytest.mark.timeout(FAST_SECONDS))


@pytest.fixture(scope="session", autouse=True)
def programs_of_this_session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Compiled programs are shared by the tests of a session, and by nothing else."""
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MEASUREBAYES_CACHE", str(folder / "programs"))
        yield


@pytest.fixture
def rng() -> np.random.Generator:
    """The random numbers of a test: the same in every run."""
    return np.random.default_rng(20260101)


@pytest.fixture
def benchmark_script(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], dict[str, Any]]:
    """Run benchmarks/NAME.py as a module and return what it defines."""
    folder = ROOT / "benchmarks"
    monkeypatch.syspath_prepend(str(folder))  # scripts there import each other
    return lambda name: runpy.run_path(str(folder / f"{name}.py"))


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Folder of data sets that are read in place and not part of the project."""
    default = ROOT.parent / "shared" / "data"
    folder = Path(os.environ.get("MEASUREBAYES_SHARED_DATA", default))
    if not folder.is_dir():
        pytest.skip(f"needs the data sets in {folder} (set MEASUREBAYES_SHARED_DATA)")
    return folder


@pytest.fixture(scope="session")
def metr() -> Any:
    """The bundled METR Time Horizon 1.1 counts."""
    import measurebayes as mb

    return mb.load("metr-th1.1")


@pytest.fixture(scope="session")
def tiny() -> Any:
    """Small Rasch data with holes: 6 agents, 12 tasks in 4 families, 3 attempts a cell."""
    import pandas as pd

    import measurebayes as mb

    rng = np.random.default_rng(7)
    ability, difficulty = rng.normal(0, 1.5, 6), rng.normal(0, 1.5, 12)
    agent, task = (x.ravel() for x in np.meshgrid(np.arange(6), np.arange(12), indexing="ij"))
    seen = rng.random(agent.size) < 0.85
    agent, task = agent[seen], task[seen]
    chance = 1 / (1 + np.exp(difficulty[task] - ability[agent]))
    return mb.load(
        pd.DataFrame(
            {
                "agent": [f"agent {i}" for i in agent],
                "task": [f"task {j:02d}" for j in task],
                "family": [f"family {j // 3}" for j in task],
                "attempts": 3,
                "successes": rng.binomial(3, chance),
            }
        )
    )


@pytest.fixture(scope="session")
def metr_two_pl(metr: Any) -> Any:
    """The two-parameter model on the METR counts, default settings."""
    import measurebayes as mb

    return mb.fit("two_pl", metr, seed=1, progress=False)


@pytest.fixture(scope="session")
def metr_rasch(metr: Any) -> Any:
    """The Rasch model on the METR counts, default settings."""
    import measurebayes as mb

    return mb.fit("rasch", metr, seed=1, progress=False)
