"""Planning of suites and sensitivity to errors of human times: against brute force and limits."""

import json

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from fake_horizons import horizon_data, horizon_fit
from scipy.integrate import quad
from scipy.special import expit
from scipy.stats import norm

import measurebayes as mb
from measurebayes.cli import main
from measurebayes.cli.plan import answer
from measurebayes.compare.sensitivity import fixed_errors
from measurebayes.errors import InputError
from measurebayes.estimands.planning import _Grid, quantiles, suite_of, sum_terms
from measurebayes.report import plot_error_sensitivity


@pytest.fixture(scope="module")
def small():
    """Six tasks, so that a plan takes no time."""
    return horizon_fit(tasks=6, draws=50)


def test_terms_are_integrals_over_effects():
    grid = _Grid(np.array([3.0, 7.5]), np.array([0.5, 1.2]), np.zeros(2))
    x, mean, sd, won = np.array([5.0, 6.0]), np.array([0.3, -1.0]), np.array([0.8, 2.5]), [[1, 3]]
    found = sum_terms(grid, x, mean, sd, 3, np.array(won))[0]
    for i, horizon in enumerate(grid.horizon):
        for j, steepness in enumerate(grid.steepness):
            total = 0.0
            for task in range(2):

                def density(e, t=task, s=steepness, h=horizon):
                    p = expit(s * (h - x[t]) - e)
                    y = won[0][t]
                    return p**y * (1 - p) ** (3 - y) * norm.pdf(e, mean[t], sd[t])

                total += np.log(quad(density, -15, 15, limit=200)[0])
            assert found[i, j] == pytest.approx(total, abs=2e-3)


def test_posterior_is_that_of_weighted_prior_draws(small):
    """Two tasks, one old and one new: importance sampling shares no line with the grid."""
    suite = suite_of(small)
    grid = _Grid.around(8.0, suite)
    x, mean, sd, won = np.array([7.0, 9.0]), np.array([0.5, 0.0]), np.array([0.7, 1.5]), [2, 1]
    terms = sum_terms(grid, x, mean, sd, 4, np.array([won]))
    rng, number = np.random.default_rng(3), 400_000
    horizon = rng.uniform(grid.horizon[0], grid.horizon[-1], number)
    middle = np.log(suite.steepness).mean()
    steepness = np.exp(middle + suite.log_steepness_sd * rng.normal(size=number))
    p = expit(steepness[:, None] * (horizon[:, None] - x) - rng.normal(mean, sd, (number, 2)))
    weight = np.prod(p ** np.array(won) * (1 - p) ** (4 - np.array(won)), axis=1)
    order = np.argsort(horizon)
    share = np.cumsum(weight[order]) / weight.sum()
    expected = np.interp([0.05, 0.5, 0.95], share, horizon[order])
    np.testing.assert_allclose(quantiles(grid, terms, [0.05, 0.5, 0.95])[0], expected, atol=0.04)


def test_width_shrinks_with_the_root_of_the_number_of_tasks(small):
    """New tasks as long as the horizon, far above all old ones, which all are solved."""
    hours = 5000.0
    options = {"between": (hours, hours), "replications": 60, "seed": 2}
    table = mb.plan_suite(small, hours, 2.0, (10, 40), **options).set_index("added")
    doublings = np.log2(table["width"])
    assert doublings[10] / doublings[40] == pytest.approx(2.0, rel=0.12)
    # one standard deviation of an interval of 90 % from n tasks: the spread of their effects and
    # the noise of four attempts, in doublings
    steepness, sd = suite_of(small).steepness.mean(), np.sqrt(np.mean(suite_of(small).new_sd ** 2))
    rng = np.random.default_rng(1)
    rates = rng.binomial(4, expit(rng.normal(0, sd, 200_000))) / 4
    chance = rng.normal(0, sd, 100_000)
    slope = steepness * np.mean(expit(chance) * expit(-chance))
    expected = norm.ppf(0.95) * rates.std() / slope / np.sqrt(40)
    assert doublings[40] == pytest.approx(expected, rel=0.12)
    assert (table["covers"] > 0.8).all()


def test_arguments_out_of_range_are_refused(small):
    for wrong in ({"factor": 1.0}, {"added": ()}, {"added": (-1,)}, {"level": 1.0}):
        with pytest.raises(InputError, match="hours="):
            mb.plan_suite(small, 24, **wrong)
    with pytest.raises(InputError, match="between"):
        mb.plan_suite(small, 24, between=(5.0, 1.0))
    bare = small.copy()
    del bare["posterior"]["task_effect"]
    with pytest.raises(InputError, match="model horizon_task"):
        mb.plan_suite(bare, 24)


def test_the_command_prints_the_table(small, tmp_path, monkeypatch):
    path = str(tmp_path / "fit.nc")
    mb.save(small, path)
    words = ["plan", path, "--hours", "24", "--added", "0", "4", "--replications", "5"]
    found = CliRunner().invoke(main, [*words, "--json"])
    assert found.exit_code == 0
    told = json.loads(found.stdout)
    table = mb.plan_suite(small, 24.0, 2.0, (0, 4), replications=5)
    pd.testing.assert_frame_equal(pd.DataFrame(told["table"]), table, check_dtype=False)
    assert told["between"] == pytest.approx([16.0, 96.0])
    monkeypatch.setattr("measurebayes.plan_suite", lambda *_, **__: table)
    printed = CliRunner().invoke(main, words).stdout
    assert "new tasks of 16 to 96 h, 4 attempts" in printed
    assert printed.splitlines()[-1] == answer(table)
    wrong = CliRunner().invoke(main, [*words, "--between", "20", "10"])
    assert wrong.exit_code == 2
    assert "--between 20 10" in wrong.stderr
    assert "--between 10 20" in wrong.stderr
    assert "between=" not in wrong.stderr
    wrong = CliRunner().invoke(main, [*words, "--between", "0", "10"])
    assert "--between 24 96" in wrong.stderr


def test_the_answer_is_the_smallest_number_that_suffices():
    table = pd.DataFrame({"added": [0, 20, 10, 5], "narrow": [0.1, 0.95, 0.9, 0.89]})
    table.attrs["factor"] = 2.0
    assert "to a factor of 2 with 10 new tasks" in answer(table)
    assert "(0, 5) suffices" in answer(table[table["narrow"] < 0.9])


def test_repeated_numbers_count_once(small):
    found = mb.plan_suite(small, 24, added=(2, 0, 2, 0), replications=2)
    assert found["added"].tolist() == [2, 0]


def test_sensitivity_fits_each_size_of_error(monkeypatch):
    """Fits are replaced by ones whose horizons are known: what is asked for, and the table."""
    asked = []

    def fake(model, runs, **options):
        asked.append((model, options))
        return horizon_fit(seed=len(asked), tasks=6, draws=20)

    monkeypatch.setattr("measurebayes.inference.fit", fake)
    runs, _ = horizon_data(6)
    options = {"seed": 5, "priors": {"task_sd": 1.0}, "progress": False, "slopes": "common"}
    with pytest.warns(UserWarning, match="error SD '0', '1' have not converged"):
        table = mb.error_sensitivity(runs, sds=(0, 1), success=(0.5,), **options)
    assert not table["converged"].any()  # 40 draws without any structure
    assert [model for model, _ in asked] == ["horizon_task", "horizon_eiv"]
    assert asked[0][1] == {**options, "priors": {"task_sd": 1.0}}
    assert asked[1][1]["priors"] == fixed_errors(1.0, {"task_sd": 1.0})
    assert asked[1][1]["priors"]["timing_sd"] == 1.0
    assert table.groupby("error_sd").size().to_dict() == {0.0: 4, 1.0: 4}
    expected = mb.horizon_table(mb.horizons(horizon_fit(seed=2, tasks=6, draws=20), 0.5))
    assert table["median"].tolist()[4:] == expected["median"].tolist()
    assert table.attrs["longest_minutes"] == pytest.approx(960.0)
    for wrong in ((), (1.0, 1.0), (-1.0,)):
        with pytest.raises(InputError, match="sds"):
            mb.error_sensitivity(runs, sds=wrong)
    panel = plot_error_sensitivity(table, most=3).axes[0]
    assert [line.get_label() for line in panel.lines] == ["newest", "new", "middle"]
    assert [t.get_text() for t in panel.get_xticklabels()] == ["0", "1"]
    with pytest.raises(InputError, match=r"success=0\.8"):
        plot_error_sensitivity(table, 0.8)


@pytest.mark.slow
def test_a_horizon_far_beyond_the_suite_is_not_measured():
    fit = horizon_fit()
    far = mb.plan_suite(fit, hours=1e6, added=[0], replications=30)
    assert far["unbounded"].item() > 0.9
    assert far["close"].item() < 0.1
    low = mb.plan_suite(fit, hours=1e-9, added=[0], replications=30)
    assert low["unbounded"].item() > 0.9
    near = mb.plan_suite(fit, hours=1.0, added=[0], replications=30)
    assert near["unbounded"].item() == 0.0


@pytest.mark.slow
def test_more_attempts_than_the_quadrature_can_take_are_refused():
    fit = horizon_fit()
    many = mb.plan_suite(fit, hours=4.0, added=[10], replications=60, attempts=100)
    assert many["covers"].item() > 0.8
    assert many["width"].item() > 1.1  # effects of tasks stay, however many attempts
    with pytest.raises(InputError, match="attempts=101"):
        mb.plan_suite(fit, hours=4.0, attempts=101)
