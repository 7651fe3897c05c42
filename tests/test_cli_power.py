"""The command cancellation-power: the same numbers as in Python, and what goes where."""

from __future__ import annotations

import inspect
import json
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.context import SpawnContext
from pathlib import Path

import pytest
from fake_fit import fake_data
from test_cli import fails, run

import measurebayes as mb
from measurebayes.checks.cancellation.power import DEPARTURES, NULLS
from measurebayes.cli.fitting import executor
from measurebayes.cli.power import cancellation_power
from measurebayes.data import save

FEW = "--bands 4 --min-attempts 10 --replicates 30 --replications 3 --quiet".split()


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("power") / "runs.nc"
    save(fake_data(agents=6, tasks=40, attempts=8, seed=3)[0], file)
    return file


def test_json_has_the_numbers_of_python(runs: Path) -> None:
    result = run("cancellation-power", runs, "--sizes", "0", "1.5", "--seed", "3", *FEW, "--json")
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    found = json.loads(result.stdout, parse_constant=lambda word: pytest.fail(word))
    expected = mb.cancellation_power(
        mb.load(str(runs)),
        sizes=[0, 1.5],
        bands=4,
        min_attempts=10,
        replicates=30,
        replications=3,
        seed=3,
        progress=False,
    )
    columns = ["power", "power_error", "rate", "expected_rate", "unjudged"]
    table = expected[columns].to_dataframe().reset_index().to_dict("records")
    assert found["table"] == [pytest.approx(row) for row in table]
    assert found["unit"] == expected["size"].attrs["long_name"]
    assert found["null"] == "common_slope"
    assert len(found["bands"]) == 4


def test_table_on_the_screen(runs: Path) -> None:
    words = ["--departure", "dimension", "--null", "rasch_ml", "--by", "difficulty"]
    result = run("cancellation-power", runs, *words, "--sizes", "2", *FEW)
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0] == "Departures found: share of 3 data sets with p <= 0.05"
    assert lines[2].split()[0] == "2"
    assert lines[-1].startswith("Size: standard deviation")


def test_defaults_and_choices_are_those_of_python() -> None:
    options = {option.name: option for option in cancellation_power.params}
    names = {"executor": "jobs", "subset": "parts", "progress": "quiet"}
    for name, parameter in inspect.signature(mb.cancellation_power).parameters.items():
        option = options["data" if name == "runs" else names.get(name, name)]
        if name in ("sizes", "bands"):
            assert list(option.default) == list(parameter.default if name == "sizes" else [6])
        elif name not in (*names, "runs"):
            assert option.default == parameter.default, name
    assert options["departure"].type.choices == tuple(DEPARTURES)
    assert options["null"].type.choices == NULLS


def test_refusals_say_what_to_type(runs: Path) -> None:
    few = [word for word in FEW if word != "30"]
    few.insert(few.index("--replicates") + 1, "5")
    fails(run("cancellation-power", runs, *few), "--replicates 200")
    fails(run("cancellation-power", runs, "--bands", "2.5"), "--bands 6")
    fails(run("cancellation-power", runs, "--sizes", "-1", *FEW), "-1")
    fails(run("cancellation-power", runs, "--sizes", "0", "0", *FEW), "none of them twice")
    many = ["--min-attempts", "10000", *(w for w in FEW if w not in ("--min-attempts", "10"))]
    fails(run("cancellation-power", runs, *many), "--min-attempts 76")


def test_more_processes_than_cores_are_not_started(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    started: list[tuple[int, str]] = []

    class Pool(ThreadPoolExecutor):
        def __init__(self, jobs: int, mp_context: SpawnContext) -> None:
            started.append((jobs, mp_context.get_start_method()))
            super().__init__(1)

    monkeypatch.setattr("concurrent.futures.ProcessPoolExecutor", Pool)
    monkeypatch.setattr("os.cpu_count", lambda: 4)
    for jobs in (4, 100_000):
        with executor(jobs) as pool:
            assert pool is not None
            assert pool.submit(abs, -1).result() == 1
        assert ("4 processes" in capfd.readouterr().err) == (jobs > 4)
    assert started == [(4, "spawn")] * 2


def test_data_sets_without_a_case_are_shown(tmp_path: Path) -> None:
    file = tmp_path / "few.nc"
    save(fake_data(agents=4, tasks=12, attempts=1, holes=0.4, seed=3)[0], file)
    words = "--bands 3 --by difficulty --null rasch_ml --min-attempts 3 --seed 1 --sizes 0".split()
    few = "--replications 10 --replicates 40 --quiet".split()
    result = run("cancellation-power", file, *words, *few)
    assert result.exit_code == 0, result.output
    assert "no case" in result.stdout
    assert result.stdout.splitlines()[-1].startswith("No case:")
