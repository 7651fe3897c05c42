"""Horizon models: the sampler's form of the density, records of human time, limits."""

import jax
import numpy as np
import pytest
import xarray as xr
from numpyro import handlers
from scipy import stats
from scipy.special import expit

import measurebayes as mb
from measurebayes.backends.density import log_densities
from measurebayes.backends.evaluate import cell_logits
from measurebayes.backends.numpyro import sampler_model
from measurebayes.backends.simulate import SimulateProgram, prior_data, prior_draw
from measurebayes.checks.contract import invented_data
from measurebayes.inference.fitting import warn_of_windows
from measurebayes.program.human_times import human_times, piled_up, with_times
from measurebayes.program.registry import get_model

MEASURED = [
    "horizon_eiv",
    "horizon_eiv:slopes=common,lengths=family,failed=censored",
    "horizon_eiv:tasks=none",
    "horizon_trend:times=latent",
]


@pytest.mark.parametrize("name", MEASURED)
def test_the_samplers_order_of_densities_has_the_same_joint_density(name, rng):
    data, model = invented_data(), get_model(name)
    for _ in range(3):
        values = prior_draw(model, data, rng)
        arrays = {n: x.values for n, x in values.items() if n != "successes"}
        with jax.enable_x64(True):
            run = handlers.substitute(sampler_model(model, data), data=arrays)
            sites = handlers.trace(run).get_trace()
            terms = [
                float(np.sum(site["fn"].log_prob(site["value"])))
                for site in sites.values()
                if site["type"] == "sample"
            ]
        expected = sum(log_densities(model, data, values).values())
        assert sum(terms) == pytest.approx(expected, rel=1e-10, abs=1e-8)


# -- records of human time ------------------------------------------------------------------------


def timed_data():
    """Return four tasks: timed people, a recorded mean, an estimate, and a fixed window."""
    data = invented_data(tasks=4)
    kinds = np.array(["baseline", "baseline", "estimate", "window"])
    timing = [
        (0, 3.0, 1), (0, 5.0, 1), (0, 8.0, 0),  # two times to completion and one failure
        (2, float(data["human_minutes"][2]), 1),  # the estimate, written twice
        (2, 7.0, 1),
        (3, 480.0, 1), (3, 480.0, 0),  # ends of the window
    ]  # fmt: skip
    task, minutes, success = (np.array(x) for x in zip(*timing, strict=True))
    data = data.drop_vars(["timing_task_index", "timing_minutes", "timing_success"])
    return data.assign(
        minutes_kind=("task", kinds),
        timing_task_index=("timing", task),
        timing_minutes=("timing", minutes),
        timing_success=("timing", success),
        baselines=("task", np.array([2, 4, 1, 3])),
    )


def test_records_of_human_time_are_told_apart():
    data = timed_data()
    found = human_times(data)
    assert {kind: x.task.tolist() for kind, x in found.items()} == {
        "timed": [0, 0, 2],
        "recorded": [1],  # task 0 is timed itself
        "estimated": [2, 3],  # the window says little more
        "failed": [0],
    }
    np.testing.assert_allclose(2.0 ** found["timed"].log2_minutes, [3.0, 5.0, 7.0])
    assert found["recorded"].number.tolist() == [4]
    assert found["estimated"].number.tolist() == [1, 1]


def test_data_with_other_times_keep_what_is_known_of_them():
    data = timed_data()
    drawn = {"timed": np.array([1.0, 2.0, 3.0]), "recorded": np.array([4.0])}
    new = with_times(data, drawn | {"estimated": np.array([5.0, 6.0])})
    found = human_times(new)
    for kind, values in (drawn | {"estimated": [5.0, 6.0]}).items():
        np.testing.assert_allclose(found[kind].log2_minutes, values)
    np.testing.assert_array_equal(
        found["failed"].log2_minutes, human_times(data)["failed"].log2_minutes
    )


def test_simulated_times_have_the_errors_of_the_model(rng):
    data = timed_data()
    model = get_model("horizon_eiv")
    errors = []
    for _ in range(120):
        values, new = prior_data(model, data, rng)
        away = human_times(new)["recorded"].log2_minutes - values["log2_minutes"].values[1]
        suite = values["timing_sd"]["suite"].values.tolist().index(data["source"].values[1])
        errors.append(float(away[0] / values["timing_sd"].values[suite]))
    # the mean of four people: half of the error of one
    assert stats.kstest(np.array(errors) * 2.0, "norm").pvalue > 1e-3


# -- limits: one model equals a simpler one -------------------------------------------------------


def test_horizon_task_without_effects_is_horizon_logistic(rng):
    data = invented_data()
    for slopes in ("agent", "common"):
        values = prior_draw(f"horizon_task:slopes={slopes}", data, rng)
        values["task_effect"] = xr.zeros_like(values["task_effect"])
        np.testing.assert_allclose(
            cell_logits(f"horizon_task:slopes={slopes}", data, values),
            cell_logits(f"horizon_logistic:slopes={slopes}", data, values),
            rtol=1e-12,
        )


def test_horizon_task_with_tiny_effects_has_the_density_of_horizon_logistic(rng):
    data, tiny = invented_data(), {"task_sd": 1e-9}
    values = prior_draw("horizon_task", data, rng, tiny)
    task, plain = (
        log_densities(name, data, values, priors)
        for name, priors in (("horizon_task", tiny), ("horizon_logistic", None))
    )
    for name in plain:
        assert task[name] == pytest.approx(plain[name], rel=1e-6), name


def test_horizon_eiv_without_error_is_horizon_task(rng):
    data = invented_data()
    data = data.drop_vars(["timing_task_index", "timing_minutes", "timing_success"])
    data["minutes_kind"] = ("task", np.full(data.sizes["task"], "baseline"))
    exact = {"timing_sd": 1e-7, "log_timing_sd": 1e-3}
    values = prior_draw("horizon_eiv", data, rng, exact)
    known = xr.DataArray(np.log2(data["human_minutes"].values), dims="task")
    moved = values["task_effect"]
    typical = values["steepness"].mean()
    values["difficulty"] = moved + typical * (known - values["length_mean"])
    values["log2_minutes"] = known
    eiv = cell_logits("horizon_eiv", data, values)
    horizon = values["centred_intercept"] / values["steepness"] + values["length_mean"]
    line = values | {"centred_intercept": values["steepness"] * (horizon - 4.0)}
    line["task_effect"] = moved
    np.testing.assert_allclose(eiv, cell_logits("horizon_task", data, line), rtol=1e-9, atol=1e-9)
    # and the density of the recorded times has its mass there alone
    there = log_densities("horizon_eiv", data, values, exact)["recorded_log2_minutes"]
    away = values | {"log2_minutes": known + 1e-5}
    assert there - log_densities("horizon_eiv", data, away, exact)["recorded_log2_minutes"] > 1e3


def test_constant_hazard_is_a_complementary_log_log_model_with_an_offset(rng):
    data = invented_data()
    values = prior_draw("horizon_hazard", data, rng)
    who, what = data["agent_index"].values, data["task_index"].values
    offset = np.log(data["human_minutes"].values)[what]  # log exposure
    intercept = np.log(np.log(2.0)) - np.log(2.0) * values["log2_horizon"].values[who]
    failure = -np.expm1(-np.exp(intercept + offset))  # inverse complementary log-log
    found = expit(-cell_logits("horizon_hazard", data, values).values)
    np.testing.assert_allclose(found, failure, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("lapse", ["common", "agent"])
def test_a_lapse_scales_the_curve(rng, lapse):
    data = invented_data()
    values = prior_draw(f"horizon_logistic:lapse={lapse}", data, rng)
    chance = expit(cell_logits("horizon_logistic", data, values).values)
    rate = np.broadcast_to(values["lapse"].values, data.sizes["agent"])
    expected = (1.0 - rate[data["agent_index"].values]) * chance
    found = expit(cell_logits(f"horizon_logistic:lapse={lapse}", data, values).values)
    np.testing.assert_allclose(found, expected, rtol=1e-10)


def test_weights_raise_each_cell_to_a_power_that_sums_to_the_effective_number_of_tasks(metr, rng):
    weight = SimulateProgram(metr, rng).family_weights().value
    agent, task = metr["agent_index"].values, metr["task_index"].values
    family = metr["family_index"].values[task]
    for i in (0, 11, 22):
        own = agent == i
        sizes = np.bincount(family[own])
        plain = sizes[family[own]] ** -0.5
        total = (weight * metr["attempts"].values)[own]
        np.testing.assert_allclose(total / total.sum(), plain / plain.sum(), rtol=1e-12)
        assert total.sum() == pytest.approx(plain.sum() ** 2 / (plain**2).sum())


# -- trends ---------------------------------------------------------------------------------------


def trend_of(shape, data, values):
    """Return the trend, plainly, from the docstring."""
    dates = data["release_date"].values
    e = (dates - dates.min()) / np.timedelta64(1, "D") / 365.25
    span = e.max()
    d = e - span / 2
    v = {name: float(x) for name, x in values.items() if x.ndim == 0}
    if shape == "linear":
        return v["level"] + v["rate"] * d
    if shape == "quadratic":
        return v["level"] + v["rate"] * d + v["curvature"] * d**2
    if shape == "power":
        gone = ((1 + e) ** v["power"] - 1) / ((1 + span) ** v["power"] - 1)
        return v["level"] + v["gain"] * (gone - 0.5)
    if shape == "saturating":
        gone = np.expm1(-e / v["duration"]) / np.expm1(-span / v["duration"])
        return v["level"] + v["gain"] * (gone - 0.5)
    # piecewise, with a sharp bend
    before, after, change = v["rate_before"], v["rate_after"], v["change"]
    start = v["level"] - v["rate"] * span / 2
    at = start + before * (change + span / 2)
    return np.where(d < change, start + before * (d + span / 2), at + after * (d - change))


@pytest.mark.parametrize("shape", ["linear", "quadratic", "power", "saturating", "piecewise"])
def test_trends_are_those_of_the_docstring(rng, shape):
    data = invented_data(agents=12)
    for _ in range(5):
        values = prior_draw(f"horizon_trend:shape={shape}", data, rng)
        expected = trend_of(shape, data, values)
        # the bend is spread over about a month, log(2) / 12 years times its size high
        slack = abs(float(values["bend"])) / 12.0 if shape == "piecewise" else 1e-9
        np.testing.assert_allclose(values["trend"], expected, rtol=1e-9, atol=slack)


def test_a_trend_without_dates_is_refused_with_the_agents():
    data = invented_data()
    dates = data["release_date"].values.copy()
    dates[1] = np.datetime64("NaT", "ns")
    with pytest.raises(mb.ModelError, match="no release date: 'agent 1'"):
        mb.describe("horizon_trend", data.assign(release_date=("agent", dates)))
    dates[:] = dates[0]
    with pytest.raises(mb.ModelError, match="released on the same day"):
        mb.describe("horizon_trend", data.assign(release_date=("agent", dates)))


# -- sampling ------------------------------------------------------------------------------------


@pytest.mark.slow
def test_real_timing_data_tell_how_much_people_differ(shared_data):
    """METR's runs of February 2025: 211 timed human attempts, some of which are no such thing."""
    runs = mb.load(shared_data / "metr_runs_2025_02" / "all_runs.jsonl", policy="as_scored")
    assert runs.sizes["timing"] == 211
    window = np.char.startswith(runs["task"].values, "ai_rd_")  # RE-Bench: eight hours for all
    kinds = np.where(window, "window", runs["minutes_kind"].values).astype(str)
    runs = runs.assign(minutes_kind=("task", kinds))
    fit = mb.fit("horizon_eiv", runs, slopes="common", seed=1, draws=2500, progress=False)
    table = mb.check(fit).set_index("name")
    assert table.loc[["rhat", "ess_bulk", "ess_tail"], "passed"].all(), table
    assert table.loc["divergences", "value"] <= 20, table  # of 10,000; none to 7 seen
    # the pooled standard deviation of repeated successes, plainly; and how uncertain it is
    times = human_times(runs)["timed"]
    groups = [times.log2_minutes[times.task == j] for j in np.unique(times.task)]
    repeated = [x for x in groups if len(x) > 1]
    freedom = sum(len(x) - 1 for x in repeated)
    pooled = np.sqrt(sum(np.sum((x - x.mean()) ** 2) for x in repeated) / freedom)
    found = fit["posterior"]["timing_sd"].values
    low, high = np.quantile(found, [0.005, 0.995])
    assert low < pooled * (1.0 + 2.0 / np.sqrt(2.0 * freedom))
    assert high > pooled * (1.0 - 2.0 / np.sqrt(2.0 * freedom))
    print(f"pooled {pooled:.2f} of {freedom}, posterior {found.mean():.2f} ({low:.2f}, {high:.2f})")


@pytest.mark.slow
def test_horizon_trend_finds_the_doubling_time_of_the_counts(metr):
    fit = mb.fit("horizon_trend", metr, seed=1, chains=2, draws=800, progress=False)
    days = mb.doubling_days(fit).values
    low, high = np.quantile(days, [0.025, 0.975])
    assert low < 129.0 < high  # METR, frontier agents
    assert low < 4.3 * 30.44 < high  # metr-stats, which gives 3.7 to 5.1 months
    assert 3.0 < low / 30.44 < 4.4
    assert 4.4 < high / 30.44 < 6.0


def test_attempts_that_pile_up_at_one_time_are_named():
    data = invented_data()
    timed = np.repeat([0, 1, 2, 3], [4, 4, 3, 2])
    minutes = np.array([480, 479, 481, 90, 1, 2, 4, 8, 15.0, 15.1, 30, 60, 60])
    data = data.drop_dims("timing").assign(
        timing_task_index=("timing", timed),
        timing_minutes=("timing", minutes),
        timing_success=("timing", np.arange(timed.size) % 2),
        minutes_kind=("task", np.full(data.sizes["task"], "baseline")),
    )
    assert piled_up(data) == ["task 0"]
    with pytest.warns(UserWarning, match="timed attempts at 1 task pile up at one time: 'task 0'"):
        warn_of_windows(get_model("horizon_eiv"), data)
    window = np.where(np.arange(data.sizes["task"]) == 0, "window", "baseline")
    warn_of_windows(get_model("horizon_eiv"), data.assign(minutes_kind=("task", window)))
    warn_of_windows(get_model("horizon_task"), data)  # has no use for timed attempts
    assert piled_up(data.drop_dims("timing")) == []
