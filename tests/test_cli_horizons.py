"""The command horizons on data: the same numbers as in Python."""

import json

import pandas as pd
import pytest
from click.testing import CliRunner

import measurebayes as mb
from measurebayes.cli import main


def run(*words):
    return CliRunner().invoke(main, ["horizons", *(str(word) for word in words)])


def test_json_is_the_table(metr):
    found = run("metr-th1.1", "--classical", "--success", 0.5, 0.9, "--unweighted", "--json")
    assert found.exit_code == 0
    table = mb.classical_horizons(metr, success=[0.5, 0.9], weighted=False)
    pd.testing.assert_frame_equal(
        pd.DataFrame(json.loads(found.stdout)), table, check_dtype=False, rtol=1e-9
    )


def test_correction_and_csv(metr, tmp_path):
    file = tmp_path / "horizons.csv"
    found = run("metr-th1.1", "--classical", "--error-sd", 1, "--seed", 3, "-o", file)
    assert found.exit_code == 0
    assert found.stdout.startswith(
        "Horizons in minutes, logistic regressions, weighted by family; "
    )
    assert "an error of 1 doubling\n" in found.stdout
    written = pd.read_csv(file)
    assert written.horizon_50.tolist() == pytest.approx(mb.simex(metr, 1.0, seed=3).horizon_50)


def test_what_does_not_go_together_is_refused():
    found = run("metr-th1.1", "--classical", "--error-sd", 1, "--bootstrap", 10)
    assert found.exit_code == 2
    assert "leave out --bootstrap" in found.stderr
    found = run("metr-th1.1")
    assert found.exit_code == 2
    assert "measurebayes horizons metr-th1.1 --classical" in found.stderr
    assert run("metr-th1.1", "--classical", "--success", 1.2).exit_code == 2
