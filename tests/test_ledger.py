"""The reference numbers of ledger.toml against fits with default settings."""

import tomllib
from pathlib import Path

import arviz as az
import numpy as np
import pytest

import measurebayes as mb
from measurebayes.checks.convergence import convergence, failures
from measurebayes.checks.uninformative import uninformative
from measurebayes.data import summarise
from measurebayes.program.registry import get_model, model_from_source

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
    """Five items say little of the spread of their own slopes, which mixes slowly."""
    fit = mb.fit("two_pl", lsat, seed=1, progress=False)
    found = rows(fit)
    assert found["rhat"].value < 1.05
    assert found["divergences"].value < 0.01 * 4000
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


@pytest.mark.slow
def test_verbal_aggression_two_pl(shared_data):
    """Without pooling of slopes the published estimates are covered; pooling draws them together.

    The slopes of these items differ little (twice the log likelihood ratio to Rasch is 41 on 23
    degrees of freedom), so that the hierarchical posterior rightly shrinks the extreme ones.
    """
    runs = mb.load(shared_data / "verbagg" / "verbagg_wide01.csv")
    slopes = LEDGER["verbagg_two_pl_discrimination"]["value"]
    places = LEDGER["verbagg_two_pl_difficulty"]["value"]
    bundled = get_model("two_pl")
    stated = 'pp.half_normal("log_discrimination_sd", priors["log_discrimination_sd"])'
    assert stated in bundled.source
    text = bundled.source.replace(stated, 'priors["log_discrimination_sd"]')
    unpooled = model_from_source("unpooled", text, "unpooled.py")
    short = {"seed": 1, "draws": 500, "tune": 400, "progress": False}
    fit = mb.fit(unpooled, runs, priors={"log_discrimination_sd": 1.0}, **short)
    alone = mb.item_parameters(fit, unit="ability_sd")
    # ability_sd itself is not identified now; the slopes on its scale are
    assert float(az.rhat(alone)["discrimination"].max()) < 1.03
    fit = mb.fit("two_pl", runs, **short)
    assert rows(fit)["rhat"].value < 1.03
    pooled = mb.item_parameters(fit, unit="ability_sd")
    centre = float(np.median(pooled["discrimination"]))
    for task, value in slopes.items():
        assert covered(alone["discrimination"].sel(task=task), value)
        assert covered(alone["difficulty"].sel(task=task), places[task])
        assert covered(pooled["difficulty"].sel(task=task), places[task])
        middle = interval(pooled["discrimination"].sel(task=task))[1]
        assert min(value, centre) < middle < max(value, centre)


@pytest.fixture(scope="module")
def swe(shared_data):
    return mb.load(shared_data / "swebench_verified" / "swe_a_pyirt.jsonl")


@pytest.mark.slow
def test_swe_bench_rasch_variance(swe):
    solved = np.bincount(swe["task_index"].values, swe["successes"].values) > 0
    runs = mb.subset(swe, task=swe["task"].values[solved].tolist())
    fit = mb.fit("rasch", runs, seed=1, draws=250, tune=300, chains=2, progress=False)
    assert rows(fit)["rhat"].value < 1.06  # short chains: only the variance is read off
    assert az.ess(fit["posterior"].to_dataset()[["ability_sd"]])["ability_sd"] > 200
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
