"""The power of the cancellation check, and whether its p values can be trusted."""

import json
import multiprocessing
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from fake_fit import fake_data
from scipy.special import expit, logit
from scipy.stats import binom

import measurebayes as mb
from measurebayes.checks.cancellation.power import DEPARTURES, NULLS, Study
from measurebayes.checks.cancellation.power import _summary as power_summary
from measurebayes.checks.studies import run_tasks
from measurebayes.classical import estimate
from measurebayes.errors import InputError

SMALL = {"bands": 4, "min_attempts": 10, "replicates": 40, "progress": False}
LEVELS = (0.05, 0.1, 0.2, 0.5)


@pytest.fixture(scope="module")
def design():
    """8 agents, 40 tasks, 8 attempts a cell, and a tenth of the cells missing."""
    return fake_data(agents=8, tasks=40, attempts=8, holes=0.1, seed=3)[0]


def departed(departure, runs, size, replication, seed=0):
    """Log odds of a replication's data, written plainly; and its other random numbers."""
    first, other = np.random.default_rng([seed, replication]).spawn(2)
    agent, task = runs["agent_index"].values, runs["task_index"].values
    base = estimate("common_slope", runs).log_odds
    if departure == "slopes":
        z = first.standard_normal(runs.sizes["agent"])
        return np.array([e * np.exp(size * z[i]) for e, i in zip(base, agent, strict=True)]), other
    z, w = first.standard_normal(runs.sizes["agent"]), first.standard_normal(runs.sizes["task"])
    return base + [size * z[i] * w[j] for i, j in zip(agent, task, strict=True)], other


@pytest.mark.parametrize("by", ["minutes", "difficulty"])
@pytest.mark.parametrize("departure", ["slopes", "dimension"])
def test_each_replication_is_the_check_of_simulated_data(design, departure, by):
    found = mb.cancellation_power(design, departure, [0.8], by=by, replications=3, **SMALL)
    for replication in range(3):
        log_odds, rng = departed(departure, design, 0.8, replication)
        successes = rng.binomial(design["attempts"].values, expit(log_odds))
        data = design.assign(successes=("cell", successes))
        check = mb.cancellation(
            data, by=by, against=["common_slope"], seed=int(rng.integers(2**31)), **SMALL
        )
        at = {"size": 0.8, "replication": replication}
        assert found["p"].sel(at) == check.expected["common_slope"]["p"]
        assert found["observed_rate"].sel(at) == check.observed["rate"]


def test_slopes_change_how_steep_agents_are_and_not_where_they_solve_half(rng, design):
    base = estimate("common_slope", design).log_odds
    changed = DEPARTURES["slopes"].log_odds(base, design, 0.5, rng)
    factor = changed / base
    for agent in range(8):
        own = factor[design["agent_index"].values == agent]
        assert own == pytest.approx(own[0])
        assert own[0] > 0
    many = fake_data(agents=1000, tasks=4, attempts=1, holes=0, seed=1)[0]
    factor = DEPARTURES["slopes"].log_odds(np.ones(many.sizes["cell"]), many, 0.5, rng)
    one_each = np.log(factor[:: many.sizes["task"]])
    assert np.std(one_each) == pytest.approx(0.5, rel=0.07)
    assert np.mean(one_each) == pytest.approx(0.0, abs=0.06)


def test_dimension_adds_a_table_of_rank_one(rng):
    full = fake_data(agents=200, tasks=300, attempts=1, holes=0, seed=1)[0]
    base = rng.normal(size=full.sizes["cell"])
    added = DEPARTURES["dimension"].log_odds(base, full, 0.7, rng) - base
    table = added.reshape(200, 300)
    assert np.linalg.matrix_rank(table, tol=1e-9) == 1
    assert np.std(table) == pytest.approx(0.7, rel=0.15)


def test_without_a_departure_all_departures_are_the_same(design):
    none = [
        mb.cancellation_power(design, departure, [0.0, 1.0], replications=4, **SMALL)
        for departure in DEPARTURES
    ]
    one, other = (found["p"].values for found in none)
    assert one[0].tolist() == other[0].tolist()
    assert one[1].tolist() != other[1].tolist()


def test_seed_and_replication_alone_decide(design):
    three = mb.cancellation_power(design, sizes=[0.5], replications=3, seed=4, **SMALL)
    two = mb.cancellation_power(design, sizes=[2.0, 0.5], replications=2, seed=4, **SMALL)
    other = mb.cancellation_power(design, sizes=[0.5], replications=3, seed=5, **SMALL)
    assert two["p"].sel(size=0.5).values.tolist() == three["p"].values[0, :2].tolist()
    assert other["observed_rate"].values.tolist() != three["observed_rate"].values.tolist()
    with ThreadPoolExecutor(2) as threads:
        again = mb.cancellation_power(
            design, sizes=[0.5], replications=3, seed=4, executor=threads, **SMALL
        )
    assert again.identical(three)


@pytest.mark.slow
def test_processes_give_the_same(design):
    settings = {"sizes": [0.5], "replications": 3, **SMALL}
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        apart = mb.cancellation_power(design, executor=pool, **settings)
    assert apart.identical(mb.cancellation_power(design, **settings))


@pytest.mark.parametrize("null", ["common_slope", "rasch_ml"])
def test_p_values_are_uniform_or_conservative_where_the_model_is_true(design, null):
    replications = 60
    found = mb.cancellation_power(
        design, sizes=[0.0], null=null, replications=replications, **SMALL
    )
    p = found["p"].values[0]
    assert p.mean() > 0.5 - 3 * np.sqrt(1 / 12 / replications)  # and the other way is safe
    for level in LEVELS:
        # as many rejections as these, or more, should not be rare under a rate of `level`
        assert binom.sf(np.sum(p <= level) - 1, replications, level) > 0.001, level
    assert p.min() >= 1 / 41
    assert len(np.unique(p)) > 10  # a check that never says anything is no check


def test_committed_study_says_what_the_page_says():
    file = Path(__file__).parent.parent / "benchmarks" / "cancellation_power.json"
    study = json.loads(file.read_text(encoding="utf-8"))
    once = "20 agents x 200 tasks, 1 attempt"  # where free difficulties follow the noise
    trusted = [row for row in study["calibration"] if once not in row["design"]]
    trusted += study["posterior"]
    for row in study["added"]:
        if row["added"] == 1 if once in row["design"] else row["added"] <= 0.25:
            trusted.append(row)
    assert len(trusted) == 8 + 4 + 4
    for row in trusted:
        n = row["replications"]
        assert n >= 150
        assert row["mean_p"] > 0.5 - 2.6 * np.sqrt(1 / 12 / n), row
        for level, share in row["share"].items():
            so_many = binom.sf(round(share * n) - 1, n, float(level))
            assert so_many == pytest.approx(row["tail"][level])
            assert so_many > 0.01, row
    biased = [row for row in study["calibration"] if once in row["design"]]
    biased += [row for row in study["added"] if row not in trusted]
    assert len(biased) == 2 + 6
    assert all(0.05 < row["share"]["0.05"] < 0.12 and row["mean_p"] < 0.45 for row in biased)
    for row in study["agreement"]:
        n, shares = row["replications"], np.array([row["predicted"], row["realised"]])
        assert abs(np.diff(shares)[0]) < 2.6 * np.sqrt(2 * shares.mean() * (1 - shares.mean()) / n)
        assert 0.2 < shares.mean() < 0.8  # where a wrong prediction would show


def test_power_grows_with_the_departure(design):
    found = mb.cancellation_power(design, "slopes", [0.0, 0.5, 2.0], replications=30, **SMALL)
    power = found["power"].values
    assert power[0] < 0.2 < 0.6 < power[2]
    assert power[0] <= power[1] <= power[2]
    assert (np.diff(found["rate"]) > 0).all()


def test_summary_follows_from_the_replications(design):
    found = mb.cancellation_power(
        design, "slopes", [0.0, 1.0], replications=8, level=0.2, seed=2, **SMALL
    )
    assert found["p"].dims == ("size", "replication")
    shares = [np.mean([p <= 0.2 for p in row]) for row in found["p"].values]
    assert found["power"].values.tolist() == shares
    a = np.array(shares) * 8 + 0.5
    closed_form = np.sqrt(a * (9 - a) / (81 * 10))
    assert found["power_error"].values == pytest.approx(closed_form)
    assert found["rate"].values == pytest.approx(found["observed_rate"].values.mean(axis=1))
    assert found.attrs["level"] == 0.2
    assert len(found.attrs["bands"]) == 4
    assert found["size"].attrs["long_name"] == "standard deviation of the agents' log slopes"


def test_data_sets_without_a_case_are_left_out_of_the_power():
    # bands by the difficulties of each data set: in some of these too few rates are left
    some = fake_data(agents=4, tasks=12, attempts=1, holes=0.4, seed=3)[0]
    few = SMALL | {"bands": 3, "by": "difficulty", "null": "rasch_ml", "min_attempts": 3}
    found = mb.cancellation_power(some, sizes=[0.0, 3.0], replications=10, seed=1, **few)
    without = np.isnan(found["p"].values)
    assert (without == np.isnan(found["observed_rate"].values)).all()
    assert found["unjudged"].values.tolist() == without.sum(axis=1).tolist()
    assert 0 < without.sum() < without.size
    for power, p in zip(found["power"].values, found["p"].values, strict=True):
        assert power == np.mean([each <= 0.05 for each in p if np.isfinite(each)])


def test_power_is_unknown_where_no_data_set_can_be_judged(design):
    outcomes = np.full((2, 4, 3), np.nan)
    outcomes[1, :3] = [[0.1, 0.05, 0.01], [0.2, 0.05, 0.02], [0.0, 0.05, 1.0]]
    study = Study(design, [], None, 4, "tasks", 10, "slopes", "rasch_ml", "double", 40, 0)
    found = power_summary(outcomes, np.array([0.0, 1.0]), study, {"level": 0.05})
    assert found["unjudged"].values.tolist() == [4, 1]
    for name in ("power", "power_error", "rate", "expected_rate"):
        assert np.isnan(found[name].values[0])
        assert np.isfinite(found[name].values[1])
    assert found["power"].values[1] == 2 / 3


@pytest.mark.parametrize("by", ["minutes", "difficulty"])
def test_too_few_attempts_for_any_data_set_are_refused(design, by, monkeypatch):
    few = SMALL | {"min_attempts": 10_000}
    refused = pytest.raises(InputError, match="too few attempts reach min_attempts")
    with monkeypatch.context() as patch, refused as caught:
        if by == "minutes":  # known before anything is simulated
            patch.setattr("measurebayes.checks.cancellation.power.run_tasks", None)
        mb.cancellation_power(design, sizes=[0.0], by=by, replications=2, **few)
    name, number = caught.value.remedy.split("=")
    found = mb.cancellation_power(
        design, sizes=[0.0], by=by, replications=2, **(few | {name: int(number)})
    )
    assert np.isfinite(found["p"]).any()


def test_other_axioms_parts_and_columns(design):
    labels = xr.DataArray(np.repeat(["a", "b", "c", "d"], 10), dims="task", name="letter")
    for settings in (
        {"axiom": "single"},
        {"axiom": "triple"},
        {"by": labels},
        {"equal": "attempts", "null": "weibull"},
        {"subset": {"agent": [f"agent {i}" for i in range(1, 6)]}, "null": "constant_hazard"},
    ):
        found = mb.cancellation_power(design, sizes=[0.5], replications=2, **settings, **SMALL)
        assert ((found["p"] > 0) & (found["p"] <= 1)).all(), settings


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"departure": "slope"}, "slopes"),
        ({"null": "two_pl_ml"}, "rasch_ml"),
        ({"axiom": "quadruple"}, "double"),
        ({"equal": "runs"}, "tasks"),
        ({"sizes": []}, "0 or larger"),
        ({"sizes": [-0.1]}, "0 or larger"),
        ({"sizes": "many"}, "0 or larger"),
        ({"sizes": [np.nan]}, "0 or larger"),
        ({"sizes": [1000]}, "at most 100"),
        ({"sizes": [0, 0.5, 0]}, "none of them twice"),
        ({"replications": 0}, "at least 1"),
        ({"replications": None}, "at least 1"),
        ({"replicates": None}, "at least 1"),
        ({"min_attempts": None}, "at least 1"),
        ({"seed": None}, "at least 0"),
        ({"seed": 1.5}, "at least 0"),
        ({"level": None}, "between 0 and 1"),
        ({"level": "x"}, "between 0 and 1"),
        ({"level": True}, "between 0 and 1"),
        ({"level": [0.05]}, "between 0 and 1"),
        ({"subset": {"x": 1}}, "agent, task, family, source"),
        ({"executor": 3}, "int is no executor"),
        ({"replicates": 2.5}, "at least 1"),
        ({"seed": -1}, "at least 0"),
        ({"level": 0}, "between 0 and 1"),
        ({"replicates": 10, "level": 0.05}, "at least 19 replicates"),
        ({"bands": 2}, "at least 3"),
    ],
)
def test_arguments_that_cannot_be_used(design, wrong, words):
    with pytest.raises(InputError, match=words):
        mb.cancellation_power(design, **(SMALL | {"replications": 2} | wrong))


@pytest.mark.parametrize("departure", list(DEPARTURES))
def test_the_largest_departure_overflows_nowhere(design, departure):
    for null in NULLS:
        found = mb.cancellation_power(
            design, departure, sizes=[100], null=null, replications=2, **SMALL
        )
        assert np.isfinite(found["p"]).all()


def test_a_task_without_minutes_needs_another_explanation():
    runs = fake_data(minutes=False, tasks=40, holes=0)[0]
    with pytest.raises(InputError, match="no human minutes"):
        mb.cancellation_power(runs, by="difficulty", replications=2, **SMALL)
    found = mb.cancellation_power(
        runs, by="difficulty", null="rasch_ml", sizes=[0], replications=2, **SMALL
    )
    assert np.isfinite(found["p"]).all()


def test_progress_goes_to_standard_error(design, capfd):
    settings = SMALL | {"progress": True}
    mb.cancellation_power(design, sizes=[0], replications=2, **settings)
    out, err = capfd.readouterr()
    assert out == ""
    assert "Simulating" in err
    mb.cancellation_power(design, sizes=[0], replications=2, **SMALL)
    assert capfd.readouterr().err == ""


def test_results_of_a_study_keep_the_order_of_tasks():
    tasks = [0.9, 0.2, 0.5]
    expected = [float(logit(t)) for t in tasks]
    assert run_tasks(logit, tasks, progress=False) == expected
    with ThreadPoolExecutor(3) as threads:
        assert run_tasks(logit, tasks, threads, progress=False) == expected
    with (
        ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("fork")) as forks,
        pytest.raises(InputError, match="fork"),
    ):
        run_tasks(logit, tasks, forks, progress=False)


def test_the_first_error_of_a_study_ends_it():
    def fail(task):
        raise ValueError(task)

    with ThreadPoolExecutor(1) as threads, pytest.raises(ValueError, match="1"):
        run_tasks(fail, [1, 1, 1], threads, progress=False)
