"""The commands horizons, trend and plan on fits: the numbers of Python, and words for people."""

import json

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from click.testing import CliRunner
from fake_horizons import horizon_fit

import measurebayes as mb
from measurebayes.cli import main
from measurebayes.cli.horizons import work_time


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Files of a fit with horizons and of one with a trend, and the fits."""
    folder = tmp_path_factory.mktemp("fits")
    found = {}
    for name, model in (("task", "horizon_task"), ("trend", "horizon_trend")):
        fit = horizon_fit(model)
        mb.save(fit, folder / f"{name}.nc")
        found[name] = str(folder / f"{name}.nc"), fit
    return found


def run(*words):
    return CliRunner().invoke(main, [str(word) for word in words])


def test_horizons_are_those_of_python(files, tmp_path):
    path, fit = files["task"]
    csv = tmp_path / "h.csv"
    options = ("--success", 0.5, 0.9, "--kind", "marginal", "--level", 0.8, "--json", "-o", csv)
    found = run("horizons", path, *options)
    assert found.exit_code == 0
    table = pd.DataFrame(json.loads(found.stdout))
    expected = mb.horizon_table(mb.horizons(fit, [0.5, 0.9], "marginal"), 0.8)
    pd.testing.assert_frame_equal(table.drop(columns=["fit", "kind"]), expected, check_dtype=False)
    assert set(table["fit"]) == {"task"}
    assert set(table["kind"]) == {"marginal"}
    pd.testing.assert_frame_equal(pd.read_csv(csv), table, check_dtype=False)


def test_people_read_times_and_marks(files):
    path, _ = files["task"]
    found = run("horizons", path, files["trend"][0], "--success", 0.5, "--inversions")
    assert found.exit_code == 2
    assert "--success 0.5 0.8" in found.stderr
    lines = run("horizons", path).stdout.splitlines()
    assert lines[0] == "task: 50 % horizon, typical task; the longest task takes 16 h"
    assert lines[2].startswith("newest")
    assert lines[2].endswith("extrapolated")
    assert " h  " in lines[2]
    assert lines[5].startswith("old")
    assert not lines[5].endswith("extrapolated")


def test_inversions_are_printed_alone_and_say_of_what(files, tmp_path):
    path, fit = files["task"]
    csv = tmp_path / "pairs.csv"
    found = run("horizons", path, "--inversions", "--kind", "marginal", "-o", csv)
    assert found.stdout.startswith(
        "Pairs of agents whose order changes between the 50 % and 80 % horizons of a marginal task"
    )
    assert "longest task takes" not in found.stdout
    expected = mb.inversions(fit, kind="marginal")
    pd.testing.assert_frame_equal(pd.read_csv(csv).drop(columns="fit"), expected)


def test_fits_that_have_not_converged_are_warned_of(files, tmp_path):
    """Chains at different values, and long ones at the same."""
    fit = horizon_fit("horizon_trend", draws=500, tasks=4)
    mb.save(fit, tmp_path / "good.nc")
    assert "converged" not in run("trend", tmp_path / "good.nc").stderr
    apart = xr.DataArray([0.0, 3.0], dims="chain")
    fit["posterior"] = xr.DataTree(
        fit["posterior"].to_dataset().assign(rate=lambda p: p["rate"] + apart)
    )
    mb.save(fit, tmp_path / "bad.nc")
    for words in (
        ["horizons"],
        ["trend"],
        ["plan", "--hours", 24, "--added", 0, "--replications", 2],
    ):
        found = run(words[0], tmp_path / "bad.nc", *words[1:])
        assert found.exit_code == 0, found.output
        assert "warning: 'bad' has not converged (rhat, " in found.stderr
        assert found.stderr.count("has not converged") == 1
        assert "warning" not in found.stdout


def test_pairs_in_json(files):
    path, fit = files["task"]
    found = json.loads(run("horizons", path, "--inversions", "--json").stdout)
    pairs = mb.inversions(fit).to_dict("records")
    assert [{**row, "fit": "task"} for row in pairs] == found["inversions"]
    assert len(found["horizons"]) == 8


@pytest.mark.parametrize(
    ("minutes", "words"),
    [
        (0.05, "3 s"),
        (15, "15 min"),
        (192, "3.2 h"),
        (2820, "47 h"),
        (1440 * 12, "288 h"),
        (10080, "168 h"),
        (np.inf, "infinite"),
        (0.0, "0"),
        (1440e9, "2e+10 h"),
    ],
)
def test_times_in_words(minutes, words):
    assert work_time(minutes) == words


@pytest.mark.parametrize(
    ("minutes", "like", "words"),
    [
        (1.0, 1.3, "1 min"),  # 60 s beside minutes
        (59.0, 70.0, "0.98 h"),
        (75.0, 30.0, "75 min"),
        (0.02, 1.3, "1.2 s"),  # 0.02 min would be hard to read
        (1e6, 30.0, "16,667 h"),
        (np.inf, 30.0, "infinite"),
        (75.0, np.inf, "1.2 h"),
    ],
)
def test_ends_of_an_interval_have_the_unit_of_the_median(minutes, like, words):
    assert work_time(minutes, like) == words


def test_what_is_no_fit_is_refused_with_both_ways():
    found = run("horizons", "metr-th1.1", "more.csv")
    assert found.exit_code == 2
    assert "measurebayes fit horizon_task metr-th1.1" in found.stderr
    assert "horizons metr-th1.1 --classical" in found.stderr
    assert run("horizons", "metr-th1.1", "more.csv", "--classical").exit_code == 2


def test_trend_is_that_of_python(files):
    path, fit = files["trend"]
    found = run("trend", path, "--crosses", 480, 1e15, "--json")
    assert found.exit_code == 0
    [row] = json.loads(found.stdout)
    expected = mb.trend_table(fit, crossing_minutes=[480, 1e15]).iloc[0]
    assert row["doubling_days"] == pytest.approx(expected["doubling_days"])
    assert row["crosses_480"] == str(expected["crosses_480"].date())
    assert row["crosses_1e+15_high"] is None
    assert (row["acceleration"], row["acceleration_low"], row["p_accelerates"]) == (0.0, 0.0, None)
    spread = fit["posterior"]["log2_horizon_sd"].values
    assert row["scatter"] == pytest.approx(np.median(spread))
    text = run("trend", path, "--crosses", 480).stdout
    assert "average agent on the trend" in text.splitlines()[0]
    assert f"{expected['doubling_days']:.0f} days" in text
    assert "reaches 8 h" in text


def test_trend_refuses_what_it_can_not_do(files):
    assert "measurebayes fit horizon_trend" in run("trend", files["task"][0]).stderr
    found = run("trend", files["trend"][0], "--weights", "stacking")
    assert found.exit_code == 2
    assert "leave out --weights" in found.stderr


def test_weights_by_refits_are_those_of_crossval(files, tmp_path, monkeypatch):
    path, fit = files["trend"]
    asked = []

    def crossval(models, runs, folds):
        asked.append((dict(models), runs.sizes["agent"], folds))
        table = pd.DataFrame({"weight": [0.75, 0.25], "unconverged": [0, 2]}, list(models))
        return table.rename_axis("model")

    monkeypatch.setattr(mb, "crossval", crossval)
    other = tmp_path / "again.nc"
    mb.save(fit, other)
    found = run("trend", path, other, "--weights", "crossval", "--json")
    assert found.exit_code == 0, found.output
    models = {"trend": "horizon_trend", "again": "horizon_trend"}
    assert asked == [(models, fit["data"].sizes["agent"], "agent")]
    rows = {row["trend"]: row for row in json.loads(found.stdout)}
    assert [rows[name]["weight"] for name in models] == [0.75, 0.25]
    assert [rows[name]["unconverged"] for name in models] == [0, 2]
    expected = mb.trend_table({"trend": fit, "again": fit}, {"trend": 0.75, "again": 0.25})
    assert rows["weighted"]["doubling_days"] == pytest.approx(
        expected.loc["weighted", "doubling_days"]
    )
    assert "unconverged" in run("trend", path, other, "--weights", "crossval").stdout
    fit = fit.copy()
    fit.attrs["priors"] = fit.attrs["priors"].replace("4.0", "3.0")
    mb.save(fit, tmp_path / "own.nc")
    refused = run("trend", path, tmp_path / "own.nc", "--weights", "crossval")
    assert refused.exit_code == 2
    assert "own was fitted with priors of its own" in refused.stderr


def test_the_way_from_data_to_horizons_is_told_for_data_alone(tmp_path):
    (tmp_path / "broken.nc").write_bytes(b"no fit")
    for name in ("nofile.nc", "broken.nc"):
        found = run("horizons", tmp_path / name)
        assert found.exit_code == 2
        assert "--classical" not in found.stderr
    assert "--classical" in run("horizons", "metr-th1.1").stderr
