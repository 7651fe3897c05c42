"""The reference numbers of ledger.toml against fits with default settings."""

import tomllib
from pathlib import Path

import numpy as np
import pytest

import measurebayes as mb
from measurebayes.checks.convergence import convergence, failures
from measurebayes.checks.uninformative import uninformative
from measurebayes.data import summarise

HERE = Path(__file__).parent
LEDGER = tomllib.loads((HERE / "ledger.toml").read_text(encoding="utf-8"))


def interval(draws):
    return np.quantile(np.asarray(draws).reshape(-1), [0.025, 0.5, 0.975])


def covered(draws, value):
    low, _, high = interval(draws)
    return low < value < high


def rows(fit):
    return {row.name: row for row in convergence(fit)}


@pytest.mark.parametrize("name", LEDGER)
def test_each_number_has_source_rule_and_a_test_that_names_it(name):
    entry = LEDGER[name]
    assert set(entry) == {"value", "source", "rule", "test"}
    assert all(entry[key] for key in ("source", "rule"))
    text = (HERE / entry["test"]).read_text(encoding="utf-8")
    assert f'LEDGER["{name}"]' in text, f"{entry['test']} does not use {name}"


def test_metr_counts(metr):
    found = summarise(metr)
    expected = LEDGER["metr_counts"]["value"]
    assert {key: found[key] for key in expected} == expected


def test_swe_counts(shared_data):
    runs = mb.load(shared_data / "swebench_verified" / "swe_a_pyirt.jsonl")
    found, expected = summarise(runs), dict(LEDGER["swe_counts"]["value"])
    mean = expected.pop("mean")
    assert {key: found[key] for key in expected} == expected
    assert found["successes"] / found["attempts"] == pytest.approx(mean, abs=0.0006)


@pytest.mark.slow
def test_metr_difficulty_and_length(metr_rasch):
    data = metr_rasch["data"].to_dataset()
    n = np.bincount(data["task_index"].values, data["attempts"].values)
    k = np.bincount(data["task_index"].values, data["successes"].values)
    mixed = (k > 0) & (k < n)
    assert mixed.sum() == 156
    difficulty = metr_rasch["posterior"]["difficulty"].mean(("chain", "draw")).values[mixed]
    minutes = np.log2(data["human_minutes"].values[mixed])
    correlation = np.corrcoef(difficulty, minutes)[0, 1]
    assert correlation**2 == pytest.approx(LEDGER["metr_rasch_r2"]["value"], abs=0.03)
    # Minutes at equal difficulty: residuals of the regression of minutes on difficulty.
    slope, level = np.polyfit(difficulty, minutes, 1)
    spread = np.std(minutes - slope * difficulty - level)
    assert 2.0**spread == pytest.approx(LEDGER["metr_minutes_factor"]["value"], abs=0.4)


@pytest.fixture(scope="module")
def lsat(shared_data):
    return mb.load(shared_data / "lsat" / "lsat6.csv")


@pytest.mark.slow
def test_lsat6_rasch(lsat):
    fit = mb.fit("rasch", lsat, seed=1, progress=False)
    assert not failures(convergence(fit))
    variance = interval(fit["posterior"]["ability_sd"] ** 2)[1]
    assert variance == pytest.approx(LEDGER["lsat6_rasch_variance"]["value"], abs=0.03)
    easiness = mb.item_parameters(fit, "easiness")["easiness"].median(("chain", "draw")).values
    np.testing.assert_allclose(easiness, LEDGER["lsat6_rasch_easiness"]["value"], atol=0.04)


@pytest.mark.slow
def test_lsat6_two_pl(lsat):
    """Five items say little of the spread of their own slopes: longer chains than by default."""
    fit = mb.fit("two_pl", lsat, seed=1, draws=2000, progress=False)
    found = rows(fit)
    assert found["rhat"].passed
    assert found["ess_bulk"].passed
    assert found["divergences"].value < 0.002 * fit["posterior"].sizes["draw"] * 4
    items = mb.item_parameters(fit, unit="ability_sd")
    slopes = LEDGER["lsat6_two_pl_discrimination"]["value"]
    errors = LEDGER["lsat6_two_pl_se"]["value"]
    places = LEDGER["lsat6_two_pl_difficulty"]["value"]
    for task, (slope, error, place) in enumerate(zip(slopes, errors, places, strict=True)):
        drawn = items.isel(task=task)
        assert covered(drawn["discrimination"], slope)
        assert abs(interval(drawn["discrimination"])[1] - slope) < error
        assert covered(drawn["difficulty"], place)


@pytest.mark.slow
def test_verbal_aggression(shared_data):
    runs = mb.load(shared_data / "verbagg" / "verbagg_wide01.csv")
    rasch = mb.fit("rasch", runs, seed=1, progress=False)
    assert not failures(convergence(rasch))
    sd = interval(rasch["posterior"]["ability_sd"])[1]
    assert sd == pytest.approx(LEDGER["verbagg_rasch_sd"]["value"], abs=0.03)
    two_pl = mb.fit("two_pl", runs, seed=1, progress=False)
    assert not failures(convergence(two_pl))
    items = mb.item_parameters(two_pl, unit="ability_sd")
    for task, value in LEDGER["verbagg_two_pl_discrimination"]["value"].items():
        assert covered(items["discrimination"].sel(task=task), value)
    for task, value in LEDGER["verbagg_two_pl_difficulty"]["value"].items():
        assert covered(items["difficulty"].sel(task=task), value)


@pytest.fixture(scope="module")
def swe(shared_data):
    return mb.load(shared_data / "swebench_verified" / "swe_a_pyirt.jsonl")


@pytest.mark.slow
def test_swe_bench_rasch_variance(swe):
    solved = np.bincount(swe["task_index"].values, swe["successes"].values) > 0
    runs = mb.subset(swe, task=swe["task"].values[solved].tolist())
    fit = mb.fit("rasch", runs, seed=1, draws=250, tune=300, progress=False)
    assert rows(fit)["rhat"].value < 1.02
    value = LEDGER["swe_rasch_variance"]["value"]
    assert covered(fit["posterior"]["ability_sd"] ** 2, value)


@pytest.mark.slow
def test_swe_bench_two_pl_converges_with_default_settings(swe):
    fit = mb.fit("two_pl", swe, seed=1, progress=False)
    assert not failures(convergence(fit)), failures(convergence(fit))
    assert float(rows(fit)["rhat"].value) < 1.01
    assert int(fit["sample_stats"]["diverging"].sum()) == 0
    never = np.bincount(swe["task_index"].values, swe["successes"].values) == 0
    listed = uninformative(fit, "task")
    assert set(listed.index) >= set(swe["task"].values[never])
    difficulty = fit["posterior"]["difficulty"]
    low, high = np.quantile(difficulty.values, [0.025, 0.975], axis=(0, 1))
    width = high - low
    assert width[never].min() > 2 * np.median(width[~never])
    assert np.isfinite(width).all()
    assert np.abs(difficulty.mean(("chain", "draw"))).max() < 60  # finite, not run away
