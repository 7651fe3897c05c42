"""Leaving units out against fits without them; terms of refits; attempts as units."""

import json
import warnings

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from click.testing import CliRunner
from fake_fit import fake_fit
from scipy import stats
from scipy.special import expit, logsumexp

import measurebayes as mb
from measurebayes.cli import main
from measurebayes.compare import loo
from measurebayes.compare.attempts import parts
from measurebayes.compare.integrated import unit_log_likelihood
from measurebayes.compare.refits import refitted
from measurebayes.errors import InputError
from measurebayes.program.registry import get_model

SMALL = {"draws": 500, "tune": 300, "chains": 2, "progress": False}


def left_out(model, runs, mask, rng):
    """Fit without some cells, and average their density over draws of what these cells know."""
    fit = mb.fit(model, runs.isel(cell=~mask), seed=5, unconnected="fit", **SMALL)
    posterior = fit["posterior"].to_dataset().stack(sample=("chain", "draw"))
    cells = runs.isel(cell=mask)
    agent, task = cells["agent_index"].values, cells["task_index"].values
    family = runs["family_index"].values[task]
    tasks = np.unique(task)
    shape = (posterior.sizes["sample"], 200)
    mean, sd = (posterior[f"difficulty_{x}"].values[:, None] for x in ("mean", "sd"))
    total = np.zeros(shape)
    difficulty = {j: mean + sd * rng.normal(size=shape) for j in tasks}
    effect = {}
    if model == "testlet":
        whole = len(tasks) == (runs["family_index"].values == family[0]).sum()
        spread = posterior["testlet_scale"].values[:, None] * np.abs(rng.normal(size=shape))
        for i in np.unique(agent):
            known = posterior["testlet_effect"].values[i, family[0]][:, None]
            effect[i] = spread * rng.normal(size=shape) if whole else known
    for i, j, n, k in zip(
        agent, task, cells["attempts"].values, cells["successes"].values, strict=True
    ):
        log_odds = posterior["ability"].values[i][:, None] + effect.get(i, 0.0) - difficulty[j]
        total += stats.binom.logpmf(k, n, expit(log_odds))
    density = logsumexp(total, axis=1) - np.log(shape[1])
    share = np.exp(density - density.max())
    error = share.std() / share.mean() / np.sqrt(len(share) / 2.0)  # draws follow one another
    return logsumexp(density) - np.log(len(density)), error


@pytest.mark.slow
@pytest.mark.parametrize("model", ["rasch", "testlet"])
def test_tasks_and_families_left_out_agree_with_fits_without_them(tiny, rng, model):
    fit = mb.fit(model, tiny, seed=1, **SMALL)
    task = tiny["task_index"].values
    for unit in ("task", "family"):
        found = loo(fit, unit)
        label = task if unit == "task" else tiny["family_index"].values[task]
        trusted = np.flatnonzero(found["pareto_k"] < 0.7)
        assert len(trusted) >= 2
        for place in trusted[-2:]:
            expected, error = left_out(model, tiny, label == place, rng)
            # 1,000 draws that follow one another, with weights: about 0.08 from seed to seed
            both = 3 * np.hypot(error, 0.08)
            assert float(found["elpd"][place]) == pytest.approx(expected, abs=both)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::measurebayes.compare.UnconvergedWarning")
def test_refits_of_agents_are_those_of_cross_validation_and_are_kept(tiny, tmp_path, monkeypatch):
    fit = mb.fit("rasch", tiny, seed=1, **SMALL)
    result = loo(fit, "agent")
    result["pareto_k"][1] = result["pareto_k"][4] = 0.9
    result["pareto_k"][[0, 2, 3, 5]] = 0.1
    terms = tmp_path / "terms.jsonl"
    found = refitted({"a": fit}, {"a": result}, progress=False, checkpoint=terms)["a"]
    folds = mb.crossval(["rasch"], tiny, folds="agent", k=6, seed=3, **SMALL)
    expected = folds.attrs["pointwise"]["rasch"].to_numpy()
    np.testing.assert_array_equal(found["refitted"], [0, 1, 0, 0, 1, 0])
    np.testing.assert_allclose(found["elpd"][[1, 4]], expected[[1, 4]], atol=0.2)
    np.testing.assert_array_equal(found["elpd"][[0, 2]], result["elpd"][[0, 2]])
    assert found.attrs["elpd"] == pytest.approx(float(found["elpd"].sum()))
    assert found.attrs["refitted"] == 2
    assert found.attrs["bad_k"] == 0
    monkeypatch.setattr("measurebayes.inference.fit", None)  # nothing is left to fit
    terms.write_text(terms.read_text() + '{"key": "cut o')
    again = refitted({"a": fit}, {"a": result}, progress=False, checkpoint=terms)["a"]
    xr.testing.assert_identical(again, found)
    with pytest.raises(TypeError):
        refitted({"a": fit}, {"a": result}, progress=False)


@pytest.mark.slow
def test_an_attempt_and_a_cell_are_left_out_exactly(tiny):
    fit = mb.fit("rasch", tiny, seed=1, **SMALL)
    for unit in ("attempt", "cell"):
        result = loo(fit, unit)
        expected = result["elpd"].values.copy()
        result["pareto_k"].values[:] = 0.1
        result["pareto_k"].values[:4] = 0.9
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = refitted({"a": fit}, {"a": result}, progress=False)["a"]
        assert found.attrs["refitted"] == (4 if unit == "cell" else found["refitted"].sum())
        np.testing.assert_allclose(found["elpd"], expected, atol=0.08)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::measurebayes.compare.UnconvergedWarning")
def test_half_of_the_attempts_is_predicted_from_the_other(tiny):
    table = mb.crossval({"r": "rasch"}, tiny, folds="half-attempts", k=2, seed=4, **SMALL)
    splits = table.attrs["splits"]
    assert table.loc["r", "log_likelihood"] == pytest.approx(splits["log_likelihood"].mean())
    assert table.loc["r", "elpd"] == pytest.approx(splits["elpd"].mean())
    assert table.loc["r", "elpd"] == pytest.approx(table.attrs["pointwise"]["r"].sum())
    first, second = _halves(tiny, 5)  # the second split by hand
    fit = mb.fit("rasch", first, seed=9, unconnected="fit", **SMALL)["posterior"]
    ability = fit["ability"].values.reshape(-1, tiny.sizes["agent"])
    difficulty = fit["difficulty"].values.reshape(-1, tiny.sizes["task"])
    at = second["agent_index"].values, second["task_index"].values
    chance = expit(ability[:, at[0]] - difficulty[:, at[1]])
    n, k = second["attempts"].values, second["successes"].values
    mean = chance.mean(axis=0)
    singly = np.sum(k * np.log(mean) + (n - k) * np.log1p(-mean))
    together = np.log(stats.binom.pmf(k, n, chance).mean(axis=0)).sum()
    assert splits.loc[("r", 1), "log_likelihood"] == pytest.approx(singly, abs=0.3)
    assert splits.loc[("r", 1), "elpd"] == pytest.approx(together, abs=0.3)


def _halves(runs, seed):
    from measurebayes.compare.attempts import halves

    return halves(runs, seed)


def test_parts_hold_every_attempt_once(metr):
    tried, solved = parts(metr, 5, seed=2)
    np.testing.assert_array_equal(tried.sum(axis=0), metr["attempts"])
    np.testing.assert_array_equal(solved.sum(axis=0), metr["successes"])
    assert np.ptp(tried, axis=0).max() <= 1
    assert (solved <= tried).all()
    shares = solved.sum(axis=1) / tried.sum(axis=1)
    assert np.ptp(shares) < 0.03
    assert np.ptp(tried.sum(axis=1)) < 0.03 * tried[0].sum()


def test_attempts_of_cells_with_one_are_their_cells():
    fit = fake_fit(attempts=1, agents=4, tasks=5, draws=100)
    attempts, cells = loo(fit, "attempt"), loo(fit, "cell")
    np.testing.assert_allclose(attempts["elpd"], cells["elpd"], atol=1e-3)
    assert attempts["agent"].values.tolist() == cells["agent"].values.tolist()
    np.testing.assert_array_equal(attempts["success"], fit["data"]["successes"])


def test_attempts_are_as_many_as_the_data_have():
    fit = fake_fit(attempts=6, agents=4, tasks=5, draws=100)
    found = loo(fit, "attempt")
    data = fit["data"].to_dataset()
    assert found.attrs["n_units"] == int(data["attempts"].sum())
    assert int(found["success"].sum()) == int(data["successes"].sum())
    assert loo(fit, "attempt", memory=1).identical(found)
    counts = pd.Series(1, pd.MultiIndex.from_arrays([found["agent"].values, found["task"].values]))
    assert (
        counts.groupby(level=[0, 1], sort=False).sum().tolist() == data["attempts"].values.tolist()
    )


def test_a_part_of_the_units_is_integrated_as_in_all(tiny):
    fit = fake_fit(agents=5, tasks=6, draws=30)
    data, draws = fit["data"].to_dataset(), fit["posterior"].to_dataset()
    whole = unit_log_likelihood(get_model("rasch"), data, draws, "task", 2**27)
    left = np.isin(data["task_index"].values, [1, 4])
    some = unit_log_likelihood(get_model("rasch"), data, draws, "task", 2**27, left)
    np.testing.assert_allclose(some.log_likelihood, whole.log_likelihood[[1, 4]], atol=1e-10)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"folds": "tasks"}, "folds='tasks'"),
        ({"folds": "half-attempts"}, "attempted a task twice"),
        ({"folds": "half-attempts", "k": 0}, "k=0"),
        ({"folds": "agent", "k": 1}, "k=1"),
    ],
)
def test_folds_that_can_not_be(tiny, change, words):
    once = tiny.assign(attempts=tiny["attempts"] * 0 + 1, successes=tiny["successes"] * 0)
    with pytest.raises(InputError, match=words):
        mb.crossval(["rasch"], once, **change)


def run(*words):
    return CliRunner().invoke(main, [str(word) for word in words])


def test_command_compare_takes_attempts(tmp_path):
    fit = fake_fit(agents=4, tasks=5, draws=100)
    mb.save(fit, tmp_path / "a.nc")
    found = run(
        "compare", tmp_path / "a.nc", "--unit", "attempt", "--json", "-o", tmp_path / "a.csv"
    )
    assert found.exit_code == 0, found.output
    (row,) = json.loads(found.stdout)
    assert row["unit"] == "attempt"
    assert row["elpd"] == pytest.approx(loo(fit, "attempt").attrs["elpd"])
    assert pd.read_csv(tmp_path / "a.csv")["elpd"][0] == pytest.approx(row["elpd"])


@pytest.mark.slow
def test_commands_refit_and_cross_validate(tiny, tmp_path):
    data, fit, csv = tmp_path / "runs.nc", tmp_path / "rasch.nc", tmp_path / "found.csv"
    small = ("--draws", 100, "--tune", 100, "--chains", 2, "--quiet")
    tiny.to_netcdf(data)
    assert run("fit", "rasch", data, *small, "-o", fit).exit_code == 0
    found = run("compare", fit, "--unit", "agent", "--refit", "--quiet", "--json", "-o", csv)
    assert found.exit_code == 0, found.output
    assert json.loads(found.stdout)[0]["bad_k"] == 0
    assert not (tmp_path / "found.csv.part").exists()
    words = ("--models", "rasch", "--folds", "half-attempts", "--k", 1)
    found = run("crossval", data, *words, *small, "--json", "-o", csv)
    assert found.exit_code == 0, found.output
    (row,) = json.loads(found.stdout)
    assert row["log_likelihood"] < row["elpd"] < 0  # no binomial coefficients, and not together
    assert pd.read_csv(csv)["model"].tolist() == ["rasch"]
