"""Maximum likelihood point estimates: published numbers, independent fits, hard data."""

import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from scipy import stats
from scipy.optimize import approx_fprime, minimize
from scipy.special import expit, log_expit, logit

import measurebayes as mb
from measurebayes.classical import NAMES, estimate, factor, is_name
from measurebayes.classical.additive import fit_additive, rasch_ml
from measurebayes.classical.counts import RIDGE_SD, Counts
from measurebayes.classical.factor import (
    EASINESS_SD,
    FACTOR_RIDGE,
    _Factors,
    _TwoPL,
    dimensions,
    two_pl_ml,
)
from measurebayes.classical.links import logistic, survival, survival_log_odds
from measurebayes.classical.newton import maximise
from measurebayes.errors import InputError, MeasureBayesError

LEDGER = tomllib.loads((Path(__file__).parent / "ledger.toml").read_text(encoding="utf-8"))
WITH_MINUTES = ("common_slope", "agent_slopes", "constant_hazard", "weibull")
EVERY_NAME = [*NAMES, "dimensions_1", "dimensions_3"]


def table(attempts, successes, minutes=None):
    """A dataset of a table of agents by tasks; cells without attempts are left out."""
    attempts, successes = np.asarray(attempts), np.asarray(successes)
    who, what = np.nonzero(attempts)
    agents, tasks = attempts.shape
    minutes = np.full(tasks, np.nan) if minutes is None else np.asarray(minutes, dtype=float)
    return xr.Dataset(
        {
            "agent_index": ("cell", who),
            "task_index": ("cell", what),
            "attempts": ("cell", attempts[who, what]),
            "successes": ("cell", successes[who, what]),
            "human_minutes": ("task", minutes),
        },
        coords={
            "agent": np.array([f"agent {i}" for i in range(agents)]),
            "task": np.array([f"task {j}" for j in range(tasks)]),
        },
    )


@pytest.fixture
def small(rng):
    """Five agents, eight tasks, holes, unequal attempts."""
    attempts = rng.integers(2, 12, (5, 8)) * (rng.random((5, 8)) < 0.9)
    minutes = 2.0 ** rng.uniform(-2, 9, 8)
    eta = rng.normal(1.5, 1, (5, 1)) - 0.4 * np.log2(minutes) + rng.normal(0, 0.5, (5, 8))
    return table(attempts, rng.binomial(attempts, expit(eta)), minutes)


def cells(runs):
    names = ("agent_index", "task_index", "attempts", "successes")
    return [runs[name].values for name in names]


def bernoulli(log_odds, attempts, successes):
    failures = attempts - successes
    return float(np.sum(successes * log_expit(log_odds) + failures * log_expit(-log_odds)))


# The METR counts


def test_metr_logistic_regressions(metr):
    expected = LEDGER["metr_logistic"]["value"]
    common, each = estimate("common_slope", metr), estimate("agent_slopes", metr)
    assert -common.log_likelihood == pytest.approx(expected["common_slope"], abs=0.0006)
    assert -each.log_likelihood == pytest.approx(expected["agent_slopes"], abs=0.0006)
    ratio = 2 * (each.log_likelihood - common.log_likelihood)
    assert ratio == pytest.approx(expected["ratio"], abs=0.006)
    p = stats.chi2.sf(ratio, metr.sizes["agent"] - 1)
    assert p == pytest.approx(expected["p"], rel=0.02)
    slopes = each.parameters["slope"]
    assert slopes.min() == pytest.approx(expected["steepest"], abs=0.0006)
    assert slopes.max() == pytest.approx(expected["flattest"], abs=0.0006)
    assert slopes.min() < common.parameters["slope"] < slopes.max()


def test_metr_hazards(metr):
    expected = LEDGER["metr_hazard"]["value"]
    constant, weibull = estimate("constant_hazard", metr), estimate("weibull", metr)
    assert -constant.log_likelihood == pytest.approx(expected["constant_hazard"], abs=0.06)
    assert -weibull.log_likelihood == pytest.approx(expected["weibull"], abs=0.006)
    assert weibull.parameters["shape"] == pytest.approx(expected["shape"], abs=0.006)


def test_metr_rasch_difficulty_and_length(metr):
    _, what, attempts, successes = cells(metr)
    n, k = np.bincount(what, attempts), np.bincount(what, successes)
    mixed = (k > 0) & (k < n)
    difficulty = estimate("rasch_ml", metr).parameters["difficulty"][mixed]
    minutes = np.log2(metr["human_minutes"].values[mixed])
    correlation = np.corrcoef(difficulty, minutes)[0, 1]
    assert correlation**2 == pytest.approx(LEDGER["metr_rasch_r2"]["value"], abs=0.006)
    slope, level = np.polyfit(difficulty, minutes, 1)
    spread = np.std(minutes - slope * difficulty - level)
    assert 2.0**spread == pytest.approx(LEDGER["metr_minutes_factor"]["value"], abs=0.06)


def held_out(runs, rng):
    """Log likelihood of one half of every cell's attempts given estimates from the other half."""
    who, what, attempts, successes = cells(runs)
    half = attempts // 2 + (attempts % 2) * (rng.random(attempts.size) < 0.5)
    solved = rng.hypergeometric(successes, attempts - successes, half)
    seen = half > 0
    training = runs.isel(cell=seen).assign(
        attempts=("cell", half[seen]), successes=("cell", solved[seen])
    )
    ability, difficulty = fit_additive(Counts.of(training), 10.0)
    two = estimate("two_pl_ml", training).parameters
    log_odds = {
        "rasch": ability[who] - difficulty[what],
        "two_pl": two["discrimination"][what] * (two["ability"][who] - two["difficulty"][what]),
    }
    for number in (5, 8):
        found = estimate(f"dimensions_{number}", training).parameters
        every = found["intercept"] + found["trait"] @ found["loading"].T
        log_odds[f"dimensions_{number}"] = every[who, what]
    left = (attempts - half, successes - solved)
    return [bernoulli(log_odds[name], *left) for name in log_odds]


def test_metr_held_out_half_of_the_attempts(metr, rng):
    expected = LEDGER["metr_held_out"]["value"]
    rasch, two_pl, five, eight = np.mean([held_out(metr, rng) for _ in range(3)], axis=0)
    # Which halves were published isn't known: over 24 halves the standard deviation was 30, so
    # that two means of three differ by 24, a standard error.
    assert rasch == pytest.approx(expected["rasch"], abs=60)
    gain = {name: expected[name] - expected["rasch"] for name in ("two_pl", "dimensions_5")}
    assert two_pl - rasch == pytest.approx(gain["two_pl"], abs=30)
    assert five - rasch == pytest.approx(gain["dimensions_5"], abs=30)
    assert eight > five


def test_log_likelihood_is_that_of_the_log_odds(metr):
    _, _, attempts, successes = cells(metr)
    for name in EVERY_NAME:
        found = estimate(name, metr)
        direct = bernoulli(found.log_odds, attempts, successes)
        assert found.log_likelihood == pytest.approx(direct, rel=1e-12)
        assert found.log_odds.shape == attempts.shape
        assert found.name == name
        assert found.title


# Independent fits


def best(loss, start):
    """A general optimiser that knows no derivative."""
    found = minimize(loss, start, method="BFGS", options={"gtol": 1e-5, "maxiter": 4000})
    return found.x


@pytest.mark.parametrize("name", ["common_slope", "agent_slopes"])
def test_logistic_regressions_are_the_maximum(small, name):
    who, what, attempts, successes = cells(small)
    minutes = np.log2(small["human_minutes"].values[what])

    def loss(x):
        slope = x[5] if name == "common_slope" else x[5:][who]
        return -bernoulli(x[:5][who] + slope * minutes, attempts, successes)

    x = best(loss, np.zeros(6 if name == "common_slope" else 10))
    found = estimate(name, small)
    assert found.log_likelihood == pytest.approx(-loss(x), abs=1e-3)
    np.testing.assert_allclose(found.parameters["intercept"], x[:5], atol=0.02)
    np.testing.assert_allclose(found.parameters["slope"], np.squeeze(x[5:]), atol=0.01)


@pytest.mark.parametrize("name", ["constant_hazard", "weibull"])
def test_hazards_are_the_maximum(small, name):
    who, what, attempts, successes = cells(small)
    minutes = small["human_minutes"].values[what]

    def chance(log2_horizon, shape):
        return 2.0 ** -((minutes / 2.0 ** log2_horizon[who]) ** shape)

    def loss(x):
        p = np.clip(chance(x[:5], x[5] if name == "weibull" else 1.0), 1e-300, 1 - 1e-16)
        return -np.sum(successes * np.log(p) + (attempts - successes) * np.log1p(-p))

    x = best(loss, np.append(np.full(5, 6.0), [1.0] if name == "weibull" else []))
    found = estimate(name, small)
    assert found.log_likelihood == pytest.approx(-loss(x), abs=1e-3)
    np.testing.assert_allclose(found.parameters["log2_horizon"], x[:5], atol=0.02)
    shape = found.parameters.get("shape", 1.0)
    assert shape == pytest.approx(x[5] if name == "weibull" else 1.0, abs=0.01)
    p = chance(found.parameters["log2_horizon"], shape)
    np.testing.assert_allclose(expit(found.log_odds), p, atol=1e-10)


@pytest.mark.parametrize("turned", [False, True])
def test_rasch_expects_the_margins(turned, rng):
    """At the maximum each agent and task is expected to succeed as often as it did."""
    attempts = rng.integers(1, 9, (6, 11))
    successes = np.clip(rng.binomial(attempts, 0.6), 1, None)
    successes[:, 0] = np.maximum(attempts[:, 0] - 1, 0)
    if turned:  # more agents than tasks: the other side is eliminated
        attempts, successes = attempts.T, successes.T
    runs = table(attempts, successes)
    who, what, n, k = cells(runs)
    found = rasch_ml(runs, added=0.0)
    expected = n * expit(found.log_odds)
    for index in (who, what):
        np.testing.assert_allclose(np.bincount(index, expected), np.bincount(index, k), atol=2e-3)
    assert found.parameters["ability"].mean() == pytest.approx(0, abs=1e-12)


def test_additive_fit_is_the_ridge_estimate(small):
    who, what, n, k = cells(small)
    ridge = 4.0

    def loss(x):
        return -bernoulli(x[:5][who] - x[5:][what], n, k) + np.sum(x**2) / (2 * ridge**2)

    x = best(loss, np.zeros(13))
    ability, difficulty = fit_additive(Counts.of(small), ridge)
    np.testing.assert_allclose(ability, x[:5] - x[:5].mean(), atol=1e-3)
    np.testing.assert_allclose(difficulty, x[5:] - x[:5].mean(), atol=1e-3)


def penalised_two_pl(x, who, what, n, k):
    ability, easiness, log_slope = x[:5], x[5:13], x[13:]
    p = expit(np.exp(log_slope)[what] * ability[who] + easiness[what])
    value = -np.sum(stats.binom.logpmf(k, n, p))
    value -= np.sum(stats.norm.logpdf(ability) - stats.norm.logpdf(0))
    value -= np.sum(
        stats.norm.logpdf(easiness, 0, EASINESS_SD) - stats.norm.logpdf(0, 0, EASINESS_SD)
    )
    slope = np.exp(log_slope)
    value -= np.sum(stats.rayleigh.logpdf(slope) - stats.rayleigh.logpdf(1))
    return value


def test_two_pl_is_the_penalised_maximum(small):
    """It is stationary, and a general optimiser ends there."""
    counts = tuple(cells(small))
    found = two_pl_ml(small).parameters
    slope = found["discrimination"]
    ours = np.concatenate([found["ability"], -slope * found["difficulty"], np.log(slope)])
    gradient = approx_fprime(ours, penalised_two_pl, 1e-6, *counts)
    np.testing.assert_allclose(gradient, 0, atol=2e-3)
    theirs = minimize(penalised_two_pl, ours + 0.3, args=counts, method="BFGS", tol=1e-4)
    assert penalised_two_pl(ours, *counts) == pytest.approx(theirs.fun, abs=1e-4)
    np.testing.assert_allclose(ours, theirs.x, atol=0.02)


def test_one_dimension_is_the_penalised_maximum(small):
    who, what, n, k = cells(small)

    def loss(x):
        trait, loading, intercept = x[:5], x[5:13], x[13:]
        eta = intercept[what] + loading[what] * trait[who]
        penalty = FACTOR_RIDGE * np.sum(x[:13] ** 2) + np.sum(intercept**2) / EASINESS_SD**2
        return penalty / 2 - bernoulli(eta, n, k)

    rng = np.random.default_rng(1)
    tries = [best(loss, rng.normal(0, 1, 21)) for _ in range(4)]
    x = min(tries, key=loss)
    found = dimensions(small, 1)
    parameters = found.parameters
    ours = np.concatenate([np.ravel(parameters[p]) for p in ("trait", "loading", "intercept")])
    assert loss(ours) == pytest.approx(loss(x), abs=1e-5)
    eta = x[13:][what] + x[5:13][what] * x[:5][who]
    np.testing.assert_allclose(found.log_odds, eta, atol=5e-3)


@pytest.mark.parametrize("make", [_TwoPL, lambda counts: _Factors(counts, 3)])
def test_gradients_and_hessians_are_the_differences(small, make, rng):
    model = make(Counts.of(small))
    x, direction = rng.normal(0, 0.7, (2, model.precision.size))
    numeric = approx_fprime(x, lambda y: model.objective(y)[0], 1e-7)
    np.testing.assert_allclose(model.objective(x)[1], numeric, atol=2e-5)
    step = 1e-6 * direction
    change = model.objective(x + step)[1] - model.objective(x - step)[1]
    np.testing.assert_allclose(model.product(x, direction), change / 2e-6, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("link", [logistic, survival])
def test_links_against_differences(link, rng):
    eta, n = rng.normal(0, 2, 40), rng.integers(1, 20, 40)
    k = rng.binomial(n, 0.5)
    step = 1e-5
    for j in range(40):
        one = (n[j : j + 1], k[j : j + 1])
        at = [link(eta[j : j + 1] + d, *one) for d in (-step, 0.0, step)]
        assert at[1][1] == pytest.approx((at[2][0] - at[0][0]) / (2 * step), abs=1e-4, rel=1e-6)
        assert at[1][2] == pytest.approx((at[0][1] - at[2][1]) / (2 * step), abs=1e-4, rel=1e-6)


def test_survival_log_odds_in_the_middle_and_in_the_tails():
    eta = np.linspace(-3, 2, 11)
    np.testing.assert_allclose(survival_log_odds(eta), logit(np.exp(-np.exp(eta))), rtol=1e-9)
    # exp(-h) is 1 - h for small h, and the odds are exp(-h) itself for large h
    np.testing.assert_allclose(survival_log_odds(np.array([-40.0, -200.0])), [40.0, 200.0])
    np.testing.assert_allclose(survival_log_odds(np.array([5.0, 20.0])), -np.exp([5.0, 20.0]))
    assert np.isfinite(survival_log_odds(np.array([-1e6, 1e6]))).all()


# Several dimensions


def test_log_likelihood_rises_with_dimensions(metr):
    found = [dimensions(metr, number) for number in range(1, 7)]
    assert np.all(np.diff([each.log_likelihood for each in found]) > 50)
    two_pl = estimate("two_pl_ml", metr).log_likelihood
    assert two_pl == pytest.approx(found[0].log_likelihood, abs=100)


def test_dimensions_are_principal_axes(metr):
    who, what, *_ = cells(metr)
    found = dimensions(metr, 4)
    trait, loading = found.parameters["trait"], found.parameters["loading"]
    eta = found.parameters["intercept"] + trait @ loading.T
    np.testing.assert_allclose(eta[who, what], found.log_odds, atol=1e-9)
    squares = trait.T @ trait
    np.testing.assert_allclose(squares, np.diag(np.diag(squares)), atol=1e-8)
    np.testing.assert_allclose(loading.T @ loading, squares, atol=1e-8)
    assert np.all(np.diff(np.diag(squares)) < 0)
    assert np.all(loading.sum(axis=0) > 0)


def test_enough_dimensions_reach_the_optimum_of_the_convex_problem(rng):
    """With enough dimensions the ridge is a nuclear norm: its conditions of optimality hold.

    No direction has more gradient than `FACTOR_RIDGE`, and those in use have just that.
    """
    attempts = rng.integers(1, 30, (7, 10))
    chance = expit(2 * rng.normal(size=(7, 2)) @ rng.normal(size=(2, 10)))
    runs = table(attempts, rng.binomial(attempts, chance))
    found = dimensions(runs, 7)
    parameters = found.parameters
    eta = parameters["intercept"] + parameters["trait"] @ parameters["loading"].T
    _, _, n, k = cells(runs)
    residual = (k - n * expit(eta).ravel()).reshape(7, 10)
    used = np.sum(np.sum(parameters["trait"] ** 2, axis=0) > 1e-6)
    assert 1 < used < 7
    sizes = np.linalg.svd(residual, compute_uv=False)
    np.testing.assert_allclose(sizes[:used], FACTOR_RIDGE, rtol=1e-3)
    assert np.all(sizes[used:] < FACTOR_RIDGE * (1 + 1e-3))
    intercept = parameters["intercept"] / EASINESS_SD**2
    np.testing.assert_allclose(residual.sum(axis=0), intercept, atol=2e-3)
    more = dimensions(runs, 12)  # more than agents or tasks: the same optimum, the rest zeros
    np.testing.assert_allclose(more.log_odds, found.log_odds, atol=1e-3)
    assert more.parameters["trait"].shape == (7, 12)


# Recovery, and data that are hard


def test_known_parameters_come_back(rng):
    minutes = 2.0 ** np.linspace(-3, 10, 60)
    attempts = np.full((4, 60), 20_000)
    x = np.log2(minutes)
    slope, level = np.array([-0.3, -0.5, -0.7, -0.9]), np.array([1.0, 2.0, 3.0, 4.0])
    runs = table(
        attempts, rng.binomial(attempts, expit(level[:, None] + np.outer(slope, x))), minutes
    )
    found = estimate("agent_slopes", runs).parameters
    np.testing.assert_allclose(found["slope"], slope, atol=0.01)
    np.testing.assert_allclose(found["intercept"], level, atol=0.03)
    horizon = np.array([2.0, 4.0, 6.0, 8.0])
    chance = 2.0 ** -(2.0 ** (0.6 * (x - horizon[:, None])))
    found = estimate("weibull", table(attempts, rng.binomial(attempts, chance), minutes)).parameters
    np.testing.assert_allclose(found["log2_horizon"], horizon, atol=0.02)
    assert found["shape"] == pytest.approx(0.6, abs=0.005)


def hard(case, rng):
    """Tables that have no maximum without a ridge, and other extremes."""
    agents, tasks = rng.integers(1, 6), rng.integers(1, 8)
    seen = rng.random((agents, tasks)) < 0.8
    seen[0, 0] = True
    attempts = seen * rng.integers(1, [2, 1000, 10**5][case % 3], (agents, tasks))
    kinds = rng.choice([0.0, 1.0, 0.5, 0.02, 0.98], (agents, tasks))
    chance = [0.0, 1.0, kinds, np.round(kinds)][case % 4]
    minutes = np.full(tasks, 4.0) if case % 5 == 0 else 10.0 ** rng.uniform(-1, 5, tasks)
    return table(attempts, rng.binomial(attempts, chance), minutes)


@pytest.mark.parametrize("case", range(60))
def test_hard_data_give_finite_estimates(case):
    runs = hard(case, np.random.default_rng(case))
    for name in [*NAMES, "dimensions_2"]:
        found = estimate(name, runs)
        assert np.isfinite(found.log_odds).all()
        assert np.isfinite(found.log_likelihood)
        assert found.log_likelihood <= 0
        for value in found.parameters.values():
            assert np.isfinite(value).all()


@pytest.mark.parametrize("solved", [0, 1])
def test_agents_that_always_or_never_succeed(solved):
    attempts = np.full((3, 6), 4)
    successes = np.array([[4, 4, 3, 2, 1, 0], [4, 3, 3, 2, 0, 1], [0] * 6])
    successes[2] = 4 * solved
    runs = table(attempts, successes, 2.0 ** np.arange(6))
    for name in [*NAMES, "dimensions_1"]:
        chance = expit(estimate(name, runs).log_odds.reshape(3, 6)[2])
        off = np.abs(chance - solved).max()
        # Other penalties than those of the curves are felt in a table as small as this.
        felt = {"two_pl_ml": 0.4, "dimensions_1": 0.4, "rasch_ml": 0.1}
        assert off < felt.get(name, 2e-3)


def test_tasks_of_one_length_tell_rates_only():
    runs = table(np.full((2, 3), 10), [[8, 7, 9], [2, 1, 3]], [5.0, 5.0, 5.0])
    for name in WITH_MINUTES:
        found = estimate(name, runs)
        np.testing.assert_allclose(expit(found.log_odds), [0.8] * 3 + [0.2] * 3, atol=1e-4)
    assert estimate("common_slope", runs).parameters["slope"] == pytest.approx(0, abs=1e-9)
    shape = estimate("weibull", runs).parameters["shape"]
    assert shape == pytest.approx(1, abs=1e-9)


def test_single_attempts(metr):
    """Every cell as one attempt: what the majority of its attempts did."""
    majority = (2 * metr["successes"] >= metr["attempts"]).astype(np.int64)
    runs = metr.assign(attempts=xr.ones_like(metr["attempts"]), successes=majority)
    for name in [*NAMES, "dimensions_3"]:
        found = estimate(name, runs)
        assert np.isfinite(found.log_odds).all()
        assert found.log_likelihood > -0.6 * metr.sizes["cell"]


def test_agents_and_tasks_without_attempts_change_nothing(small):
    wider = xr.Dataset(
        {
            **small.drop_dims(["agent", "task"]),
            "human_minutes": ("task", np.append(small.human_minutes, np.nan)),
        },
        coords={"agent": np.append(small.agent, "idle"), "task": np.append(small.task, "unseen")},
    )
    for name in EVERY_NAME:
        before, after = estimate(name, small), estimate(name, wider)
        np.testing.assert_allclose(after.log_odds, before.log_odds, atol=1e-3)
        sizes = {np.shape(value)[0] for value in after.parameters.values() if np.ndim(value)}
        assert sizes <= {6, 9}


def test_the_same_data_give_the_same_estimate(small):
    for name in EVERY_NAME:
        np.testing.assert_array_equal(
            estimate(name, small).log_odds, estimate(name, small.copy(deep=True)).log_odds
        )


def test_ridge_moves_nothing_that_the_data_inform(small, monkeypatch):
    before = {name: estimate(name, small).log_odds for name in WITH_MINUTES}
    monkeypatch.setattr("measurebayes.classical.curves.PRECISION", 1e-6 / RIDGE_SD**2)
    for name, log_odds in before.items():
        np.testing.assert_allclose(estimate(name, small).log_odds, log_odds, atol=2e-3)


# Names and errors


def test_names():
    assert all(is_name(name) for name in [*NAMES, "dimensions_1", "dimensions_12"])
    wrong = ["rasch", "dimensions_0", "dimensions_", "dimensions_01", "dimensions_2x", "dimensions"]
    assert not any(is_name(name) for name in wrong)


def test_unknown_name_lists_the_known_and_a_near_one(small):
    with pytest.raises(InputError, match="no point estimate 'rasch_m'") as caught:
        estimate("rasch_m", small)
    assert "common_slope" in caught.value.expected
    assert "dimensions_2" in caught.value.expected
    assert "did you mean 'rasch_ml'" in caught.value.remedy


def test_missing_minutes_name_the_tasks(small):
    minutes = small["human_minutes"].copy()
    minutes[[2, 5]] = np.nan
    runs = small.assign(human_minutes=minutes)
    for name in WITH_MINUTES:
        with pytest.raises(InputError, match="2 tasks with attempts") as caught:
            estimate(name, runs)
        assert "'task 2', 'task 5'" in caught.value.found
        assert "subset" in caught.value.remedy
    assert np.isfinite(estimate("rasch_ml", runs).log_odds).all()


def test_the_remedy_for_missing_minutes_works(tiny):
    minutes = np.where(np.arange(tiny.sizes["task"]) < 3, np.nan, 8.0)
    runs = tiny.assign(human_minutes=("task", minutes))
    with pytest.raises(InputError, match="3 tasks"):
        estimate("weibull", runs)
    part = mb.subset(runs, task=runs.task.values[runs.human_minutes.notnull()])
    assert np.isfinite(estimate("weibull", part).log_odds).all()


def test_no_attempts(small):
    with pytest.raises(InputError, match="no attempts"):
        estimate("rasch_ml", small.isel(cell=slice(0, 0)))


def test_a_climb_that_does_not_end_is_an_error():
    with pytest.raises(MeasureBayesError, match="not reached"):
        maximise(lambda x: (float(x[0]), np.ones(1), 1.0), np.zeros(1))


def test_nothing_heavy_is_imported():
    code = "import sys, measurebayes.classical; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert {"jax", "numpyro", "pymc", "arviz", "matplotlib"}.isdisjoint(loaded.stdout.split())


@pytest.mark.parametrize("name", ["constant_hazard", "weibull"])
@pytest.mark.parametrize("shortest", [5e-324, 1e-300, 1e-60])
def test_minutes_that_span_thousands_of_doublings(name, shortest, rng):
    """The hazard of one minute differs by hundreds of powers of ten: no step may overflow."""
    minutes = [shortest, shortest, 1.0, 4.0, 1e300]
    attempts = np.full((4, 5), 8)
    # the third agent solves the longest task, too: its horizon lies beyond
    successes = rng.binomial(8, [[0.9, 0.9, 0.5, 0.3, 0]] * 2 + [[0.9] * 5, [0] * 5])
    runs = table(attempts, successes, minutes)
    found = estimate(name, runs)
    assert np.isfinite(found.log_odds).all()

    who, what, n, s = cells(runs)
    x = np.log2(minutes)[what]
    away = x - x.mean()

    def objective(level, slope):
        eta = level[who] + slope * away
        ridge = np.sum(level**2) + (slope - np.log(2)) ** 2
        hazard = np.exp(np.minimum(eta, 700))
        failing = np.where(eta < -30, eta, np.log(-np.expm1(-np.maximum(hazard, 1e-300))))
        return (n - s) @ failing - s @ hazard - ridge / (2 * RIDGE_SD**2)

    slope = found.parameters.get("shape", 1.0) * np.log(2)
    level = np.log(np.log(2)) + slope * (x.mean() - found.parameters["log2_horizon"])
    best = objective(level, slope)
    for i in range(4):  # strictly concave: no step along an axis gains, however short
        for step in (-1.0, -1e-2, 1e-2, 1.0):
            assert objective(level + step * (np.arange(4) == i), slope) < best
    if name == "weibull":
        assert objective(level, slope * 1.01) < best
        assert objective(level, slope * 0.99) < best


def test_hopeless_fits_end_with_an_error(rng, monkeypatch):
    """Two thousand million attempts a cell, each cell by its own chance: no end in sight."""
    n = np.full((8, 40), 2_147_483_647)
    runs = table(n, rng.binomial(n, rng.beta(0.05, 0.05, n.shape)))
    monkeypatch.setattr(factor, "MAX_PRODUCTS", 2_000)
    monkeypatch.setattr(factor, "MAX_STEPS", 200)
    with pytest.raises(InputError, match="not reached in 200 steps and 2,000 products") as raised:
        estimate("dimensions_3", runs)
    assert "2,147,483,647 attempts" in raised.value.where
    assert "fewer dimensions" in raised.value.remedy
