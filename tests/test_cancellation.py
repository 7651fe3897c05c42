"""The cancellation check on data whose answers are known from elsewhere."""

import json
import tomllib
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from fake_fit import fake_data, fake_fit
from scipy.stats import spearmanr

import measurebayes as mb
from measurebayes.checks import bands as banding
from measurebayes.checks.cancellation.result import p_text
from measurebayes.checks.cancellation.summary import p_value
from measurebayes.cli.output import jsonable
from measurebayes.errors import InputError

LEDGER = tomllib.loads((Path(__file__).parent / "ledger.toml").read_text(encoding="utf-8"))
QUIET = {"progress": False}


@pytest.fixture(scope="module")
def six(metr):
    return mb.cancellation(metr, bands=6, replicates=400, progress=False)


@pytest.fixture(scope="module")
def invented():
    return fake_data(agents=8, tasks=40, attempts=8, holes=0, seed=3)[0]


def test_metr_violations(metr, six):
    expected = LEDGER["metr_cancellation"]["value"]
    eight = mb.cancellation(metr, bands=8, against=[], **QUIET)
    for bands, found in (("six", six), ("eight", eight)):
        assert [found.observed["cases"], found.observed["violations"]] == expected[bands]
        assert found.observed["rate"] == pytest.approx(expected[bands][1] / expected[bands][0])
    assert eight.expected == {}


def test_metr_bands(six):
    assert six.bands["tasks"].tolist() == [36, 40, 38, 38, 35, 41]
    means = LEDGER["metr_band_means"]["value"]
    assert six.rates.mean("agent").values == pytest.approx(means, abs=0.006)
    assert int((six.rates[:, 3] > six.rates[:, 2]).sum()) == 18


def test_the_published_triple_is_among_the_violations(six):
    bands = six.bands["band"]
    who = {"agent_a": "GPT-5 (Inspect)", "agent_b": "GPT-5.4", "agent_c": "GPT-4o (Inspect)"}
    where = {"band_x": bands[2], "band_y": bands[3], "band_z": bands[5]}
    table = six.violations
    row = table[np.logical_and.reduce([table[k] == v for k, v in (who | where).items()])]
    assert len(row) == 1
    shown = (100 * row[["ay", "bx", "bz", "cy", "az", "cx"]].iloc[0]).round().astype(int)
    assert shown.tolist() == [96, 89, 43, 33, 36, 43]


@pytest.mark.parametrize("bands", ["six", pytest.param("eight", marks=pytest.mark.slow)])
def test_metr_expected_rates(metr, six, bands):
    found = six if bands == "six" else mb.cancellation(metr, bands=8, replicates=400, **QUIET)
    for name, per_cent in LEDGER["metr_cancellation_expected"]["value"][bands].items():
        spread = found.replicated[name].std()
        # The published means come from 200 simulations, these from 400; they are rounded, and the
        # penalty of the published Rasch estimate, which matters (docs/classical.md), isn't known.
        unknown = 0.0005 if name == "rasch_ml" else 0.0001
        allowed = 3 * spread * np.sqrt(1 / 200 + 1 / 400) + unknown
        assert found.expected[name]["rate"] == pytest.approx(per_cent / 100, abs=allowed), name


def test_p_values_are_shares_of_replicates(six):
    for name, rates in six.replicated.items():
        above = int((rates >= six.observed["rate"]).sum())
        assert six.expected[name]["p"] == pytest.approx((1 + above) / 401)
    assert six.expected["common_slope"]["p"] < 0.01
    assert p_value(0.5, np.array([np.nan, 0.2, 0.7])) == pytest.approx(2 / 4)
    assert np.isnan(p_value(np.nan, np.array([0.1])))


def test_tables_add_up(six):
    violations, cases = six.observed["violations"], six.observed["cases"]
    assert six.by_bands["violations"].sum() == violations
    assert six.by_bands["cases"].sum() == cases
    assert len(six.by_bands) == 6 * 5 * 4
    for table in (six.by_agent, six.by_band):  # a case has three agents and three bands
        assert table["violations"].sum() == 3 * violations
        assert table["cases"].sum() == 3 * cases
        assert np.isfinite(table.filter(like="expected")).all().all()
    assert set(six.by_agent["agent"]) == set(six.rates["agent"].values)


def test_the_same_seed_gives_the_same_and_another_one_does_not(invented):
    def found(seed):
        return mb.cancellation(
            invented, bands=4, against=["rasch_ml"], replicates=50, seed=seed, **QUIET
        )

    assert np.array_equal(found(1).replicated["rasch_ml"], found(1).replicated["rasch_ml"])
    assert not np.array_equal(found(1).replicated["rasch_ml"], found(2).replicated["rasch_ml"])


def test_result_is_json_and_text(six):
    again = json.loads(json.dumps(jsonable(six.to_dict()), allow_nan=False))
    assert again["observed"] == six.observed
    assert again["expected"]["rasch_ml"]["p"] == six.expected["rasch_ml"]["p"]
    assert "4,735 of 219,416 cases (2.16 %) are violations" in str(six)
    assert list(six.table.index) == ["observed", *six.expected]


def test_a_posterior_is_an_explanation(invented):
    fit = fake_fit("rasch", agents=8, tasks=40, attempts=8, holes=0, seed=3)
    runs = fit["data"].to_dataset()
    found = mb.cancellation(runs, bands=4, against=[fit, "rasch_ml"], replicates=300, **QUIET)
    assert found.expected["rasch"]["kind"] == "posterior"
    assert found.expected["rasch"]["p"] > 0.02  # the draws are around the truth
    # replicates given the posterior scatter about as those given the point estimate
    rates = [found.expected[name]["rate"] for name in ("rasch", "rasch_ml")]
    assert rates[0] == pytest.approx(rates[1], rel=0.5)
    part = mb.cancellation(
        runs,
        bands=3,
        against={"mine": fit},
        subset={"task": runs["task"].values[5:30].tolist()},
        replicates=20,
        **QUIET,
    )
    assert list(part.expected) == ["mine"]
    assert part.bands["tasks"].sum() == 25


def test_more_replicates_than_draws_use_draws_again():
    fit = fake_fit("rasch", agents=6, tasks=20, attempts=8, holes=0, draws=30, chains=2)
    found = mb.cancellation(
        fit["data"].to_dataset(), bands=4, against=[fit], replicates=150, min_attempts=5, **QUIET
    )
    assert len(found.replicated["rasch"]) == 150


def test_unconverged_fits_are_marked(monkeypatch, invented):
    fit = fake_fit("rasch", agents=8, tasks=40, attempts=8, holes=0, seed=3)
    fit["sample_stats"]["diverging"][:] = True
    found = mb.cancellation(
        fit["data"].to_dataset(), bands=4, against=[fit], replicates=20, **QUIET
    )
    assert "NOT CONVERGED" in found.expected["rasch"]["title"]


def test_few_attempts_make_holes_in_data_and_replicates_alike(invented):
    found = mb.cancellation(
        invented, bands=4, min_attempts=10**6, against=["rasch_ml"], replicates=10, **QUIET
    )
    assert found.observed["cases"] == 0
    assert np.isnan(found.observed["rate"])
    assert found.expected == {}  # no time is spent on what nothing can be set against
    assert found.left_out["entries_with_few_attempts"] == 32
    assert "No case" in found.text()


def test_random_cuts_average_over_divisions(invented):
    found = mb.cancellation(
        invented, bands=4, cuts=12, against=["rasch_ml"], replicates=30, seed=5, **QUIET
    )
    assert len(found.cuts) == 12
    assert found.observed["rate"] == pytest.approx(found.cuts["observed"].mean())
    above = found.cuts["observed"] > found.cuts["rasch_ml 95 %"]
    assert found.expected["rasch_ml"]["share_above"] == pytest.approx(above.mean())
    assert len(found.replicated["rasch_ml"]) == 30
    assert "random cuts" in found.text()


def test_bands_by_difficulty_label_and_array(invented):
    hard = mb.cancellation(invented, bands=5, by="difficulty", against=[], **QUIET)
    assert spearmanr(hard.rates.mean("agent").values, np.arange(5)).statistic == pytest.approx(-1)
    values = np.arange(40.0)
    plain = mb.cancellation(invented, bands=4, by=values, against=[], **QUIET)
    assert plain.bands["tasks"].tolist() == [10, 10, 10, 10]
    named = invented.assign(kind=("task", np.array(list("abcde") * 8)))
    assert mb.cancellation(named, by="kind", against=[], **QUIET).bands["band"].tolist() == list(
        "abcde"
    )


def test_tasks_without_minutes_stay_out():
    data = fake_data(agents=8, tasks=40, attempts=8, holes=0, seed=3)[0]
    minutes = data["human_minutes"].values.copy()
    minutes[:7] = np.nan
    found = mb.cancellation(
        data.assign(human_minutes=("task", minutes)),
        bands=4,
        against=["common_slope"],
        replicates=5,
        **QUIET,
    )
    assert found.left_out["tasks_without_value"] == 7
    assert found.bands["tasks"].sum() == 33
    unknown = data.assign(human_minutes=("task", np.full(40, np.nan)))
    by_difficulty = mb.cancellation(unknown, bands=4, by="difficulty", replicates=5, **QUIET)
    assert list(by_difficulty.expected) == ["rasch_ml"]
    with pytest.raises(InputError, match="no task has human minutes"):
        mb.cancellation(unknown, **QUIET)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"axiom": "quadruple"}, "axiom 'quadruple'"),
        ({"equal": "time"}, "equal 'time'"),
        ({"bands": 2}, "2 bands"),
        ({"bands": 300}, "300 bands"),
        ({"bands": [0, 1, 2, 9], "by": np.arange(40.0), "cuts": 5}, "random cuts of given edges"),
        ({"by": np.array(list("abcd") * 10), "cuts": 5}, "random cuts of labels"),
        ({"by": "minutes_of_day"}, "no variable 'minutes_of_day'"),
        ({"by": "source"}, "no variable 'source'"),
        ({"by": "family_index"}, "no variable 'family_index'"),
        ({"subset": {"source": "HCAST"}}, "name no source"),
        ({"bands": 1}, "1 bands"),
        ({"bands": 10**9}, "1000000000 bands"),
        ({"seed": -1}, "seed=-1"),
        ({"seed": None}, "seed=None"),
        ({"min_attempts": None}, "min_attempts=None"),
        ({"replicates": 10**12}, "replicates=1000000000000"),
        ({"subset": {"nope": 1}}, "subset="),
        ({"subset": "HCAST"}, "subset='HCAST'"),
        ({"subset": {"agent": 1}}, "1"),
        ({"against": 3}, "int is no explanation"),
        ({"against": {"": "rasch_ml"}}, "called ''"),
        ({"against": {"observed": "rasch_ml"}}, "called 'observed'"),
        ({"by": xr.DataArray(np.zeros(40), dims="cell")}, "values along cell"),
        ({"by": xr.DataArray(np.zeros(2), {"task": ["task 1", "x"]}, "task")}, "no value for"),
        ({"bands": [1, 2]}, "edges"),
        ({"bands": [3, 2, 1, 0]}, "edges"),
        ({"bands": "6"}, "edges"),
        ({"by": "colour"}, "no variable 'colour'"),
        ({"by": np.zeros(3)}, "values of shape"),
        ({"min_attempts": 0}, "min_attempts=0"),
        ({"cuts": -1}, "cuts=-1"),
        ({"replicates": 0.5}, "replicates=0.5"),
        ({"against": ["rash_ml"]}, "'rash_ml' is no explanation"),
        ({"against": [3]}, "int is no explanation"),
        ({"against": ["rasch_ml", "rasch_ml"]}, "called 'rasch_ml'"),
        ({"subset": {"agent": ["agent 1", "agent 2"]}}, "2 agents"),
    ],
)
def test_bad_arguments(invented, change, words):
    with pytest.raises(InputError, match=words) as caught:
        mb.cancellation(invented, **{"bands": 4, "against": [], "progress": False, **change})
    assert caught.value.expected
    assert caught.value.remedy


def test_a_fit_of_other_data_is_refused(invented):
    fit = fake_fit("rasch", agents=8, tasks=40, attempts=8, holes=0, seed=4)
    with pytest.raises(InputError, match="is of other data"):
        mb.cancellation(invented, bands=4, against=[fit], **QUIET)


def test_bands_by_attempts_are_about_equal(rng):
    values, attempts = rng.random(60), rng.integers(1, 50, 60)
    found = banding.with_equal_attempts(values, attempts, 4)
    share = np.bincount(found.of_task, attempts) / attempts.sum()
    assert share == pytest.approx(np.full(4, 0.25), abs=50 / attempts.sum())
    assert np.all(np.diff(found.of_task[np.argsort(values)]) >= 0)


def test_bands_at_random_are_ordered_and_not_tiny(rng):
    values = rng.random(80)
    sizes = []
    for _ in range(50):
        found = banding.at_random(values, 5, rng)
        assert len(found) == 5
        assert np.all(np.diff(found.of_task[np.argsort(values)]) >= 0)
        sizes.append(np.bincount(found.of_task, minlength=5))
    assert np.min(sizes) >= 4  # a quarter of an equal share of 16
    assert len({tuple(s) for s in sizes}) > 25


def test_bands_between_edges():
    values = np.array([0.5, 1.0, 2.0, 4.0, 4.1, np.nan])
    found = banding.between(values, [1, 2, 4], "min")
    assert found.of_task.tolist() == [-1, 0, 1, 1, -1, -1]
    assert found.labels == ["1 to 2 min", "2 to 4 min"]


@pytest.mark.parametrize("number", [1, 2, 3])
def test_bands_of_few_values(number):
    same = np.array([5.0, 5.0, 5.0])
    assert len(banding.with_equal_attempts(same, np.ones(3), number)) <= 1
    assert len(banding.at_random(same, number, np.random.default_rng(0))) <= 1
    assert len(banding.with_equal_tasks(same, number)) <= 1


def test_random_cuts_without_cases_are_no_warning(invented):
    found = mb.cancellation(
        invented, bands=4, cuts=3, min_attempts=10**6, against=["rasch_ml"], replicates=5, **QUIET
    )
    assert np.isnan(found.observed["rate"])
    assert found.expected == {}


def test_too_many_bands_and_bands_that_stay_empty(invented):
    many = np.array([f"label {i}" for i in range(40)])
    with pytest.raises(InputError, match="40 bands"):
        mb.cancellation(invented, by=many, against=[], **QUIET)
    two = np.repeat([1.0, 2.0], 20)  # quantiles between them make bands that no task is in
    with pytest.raises(InputError, match="2 bands"):
        mb.cancellation(invented, by=two, bands=6, against=[], **QUIET)


def test_nothing_observed_and_nothing_expected_is_as_expected():
    sure = fake_data(agents=6, tasks=24, attempts=30, holes=0, seed=3)[0]
    solved = sure["attempts"].where(sure["task_index"] < 12, 0).astype(np.int64)
    found = mb.cancellation(
        sure.assign(successes=solved),
        by=np.arange(24.0),
        bands=4,
        against=["rasch_ml"],
        replicates=20,
        **QUIET,
    )
    assert found.observed["violations"] == 0
    assert "within what it makes likely" in found.text()


@pytest.mark.parametrize(
    ("p", "replicates", "words"),
    [
        (1 / 2001, 2000, "p \u2264 0.0005"),
        (1 / 101, 100, "p \u2264 0.010"),
        (2 / 2001, 2000, "p = 0.001"),
        (0.0371, 500, "p = 0.037"),
        (float("nan"), 9, "p unknown"),
        (1 / 10001, 10000, "p \u2264 0.0001"),
    ],
)
def test_p_values_at_their_floor_are_bounds(p, replicates, words):
    assert p_text(p, replicates) == words


def test_values_with_labels_go_to_their_tasks(invented):
    values = xr.DataArray(np.arange(40.0), {"task": invented["task"].values}, "task")
    expected = mb.cancellation(invented, by=values.values, bands=4, against=[], **QUIET)
    turned = values[::-1]
    for by in (values, turned, turned.to_series()):
        found = mb.cancellation(invented, by=by, bands=4, against=[], **QUIET)
        assert found.rates.equals(expected.rates)
    bare = turned.drop_vars("task")
    other = mb.cancellation(invented, by=bare, bands=4, against=[], **QUIET)
    assert not other.rates.equals(expected.rates)


@pytest.mark.parametrize("scale", [1e-300, 1e-5, 1.0, 1e6, 1e200])
@pytest.mark.parametrize("step", [1e-6, 0.01, 1.0])
def test_bands_have_different_names(scale, step):
    values = scale * (1 + step * np.arange(12))
    labels = banding.with_equal_tasks(values, 6, "min").labels
    assert len(set(labels)) == 6
    assert banding.between(values, [-np.inf, values[4], np.inf]).labels[0].startswith("-inf to")


def test_an_interrupted_count_stops_its_threads(invented, monkeypatch):
    from measurebayes.checks.cancellation import counting

    steps = []

    def interrupted(done):
        steps.append(done)
        raise KeyboardInterrupt

    monkeypatch.setattr(counting, "STEP_BYTES", 1)
    with pytest.raises(KeyboardInterrupt):
        counting.count(np.random.default_rng(0).random((8, 5, 4000)), "double", interrupted)
    assert len(steps) < 40  # of 40 steps of 100 replicates, each of 5 parts
