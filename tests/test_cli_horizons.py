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


@pytest.mark.parametrize(
    "words",
    [("--kind", "marginal"), ("--level", 0.5)],
)
def test_options_of_fits_are_refused_with_regressions(words):
    found = run("metr-th1.1", "--classical", *words)
    assert found.exit_code == 2
    assert f"leave out {words[0]}" in found.stderr


@pytest.mark.parametrize(
    "words", [("--error-sd", 1), ("--bootstrap", 10), ("--unweighted",), ("--seed", 3)]
)
def test_options_of_regressions_are_refused_with_fits(words):
    found = run("fit.nc", *words)
    assert found.exit_code == 2
    assert f"leave out {words[0]}, or add --classical" in found.stderr


def test_intervals_of_regressions_have_the_level_that_was_asked_for(metr):
    options = ("--classical", "--success", 0.5, "--bootstrap", 20)
    found = run("metr-th1.1", *options, "--level", 0.5, "--json")
    table = pd.DataFrame(json.loads(found.stdout))
    expected = mb.classical_horizons(metr, success=[0.5], bootstrap=20, level=0.5)
    pd.testing.assert_frame_equal(table, expected, check_dtype=False, rtol=1e-9)
    assert "50 % intervals" in run("metr-th1.1", *options, "--level", 0.5).stdout
    assert "95 % intervals" in run("metr-th1.1", *options).stdout
