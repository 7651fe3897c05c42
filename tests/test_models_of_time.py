"""Models of human time against closed forms, their limits, and truths that they must recover."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy.special import expit, logit

import measurebayes as mb
from measurebayes.backends.evaluate import cell_logits
from measurebayes.backends.simulate import prior_draw
from measurebayes.checks.contract import invented_data
from measurebayes.checks.convergence import convergence
from measurebayes.program.registry import get_model, model_names

OF_TIME = [
    variant.label
    for name in ("horizon_logistic", "horizon_hazard", "additive", "monotone")
    for variant in get_model(name).variants()
]


def drawn(model, data, rng):
    """Return latent values of a model, drawn from its priors."""
    values = prior_draw(model, data, rng)
    del values["successes"]
    return values


def cells(data):
    """Return agent, and log2 minutes of the task, of every cell."""
    minutes = np.log2(data["human_minutes"].values)
    return data["agent_index"].values, minutes[data["task_index"].values]


def grid(agents, minutes, attempts=1):
    """Return a full table of agents by tasks of the given minutes."""
    agent, task = (x.ravel() for x in np.indices((agents, len(minutes))))
    return mb.load(
        pd.DataFrame(
            {
                "agent": [f"agent {i:03d}" for i in agent],
                "task": [f"task {j:03d}" for j in task],
                "human_minutes": np.asarray(minutes)[task],
                "attempts": attempts,
                "successes": 0,
            }
        )
    )


def test_all_models_of_time_are_bundled():
    assert {get_model(label).name for label in OF_TIME} <= set(model_names())


# -- closed forms and limits --------------------------------------------------------------------


@pytest.mark.parametrize("slopes", ["agent", "common"])
def test_horizon_logistic_is_a_line_of_log_time(rng, slopes):
    data = invented_data()
    values = drawn(get_model("horizon_logistic", slopes=slopes), data, rng)
    who, minutes = cells(data)
    slope = np.broadcast_to(values["slope"].values, data.sizes["agent"])[who]
    eta = cell_logits(get_model("horizon_logistic", slopes=slopes), data, values).values
    np.testing.assert_allclose(eta, values["intercept"].values[who] + slope * minutes, rtol=1e-12)
    assert np.all(slope < 0)
    horizon = -values["intercept"].values[who] / slope
    np.testing.assert_allclose(horizon, values["log2_horizon"].values[who], rtol=1e-12)


def test_horizon_logistic_with_equal_slopes_has_a_common_one(rng):
    data = invented_data()
    common = drawn("horizon_logistic:slopes=common", data, rng)
    equal = drawn("horizon_logistic", data, rng) | {
        "centred_intercept": common["centred_intercept"]
    }
    equal["steepness"] = common["steepness"] + 0.0 * equal["steepness"]
    np.testing.assert_allclose(
        cell_logits("horizon_logistic", data, equal),
        cell_logits("horizon_logistic:slopes=common", data, common),
        rtol=1e-12,
    )


@pytest.mark.parametrize("shape", ["constant", "common", "agent"])
def test_horizon_hazard_is_the_survival_of_the_weibull_distribution(rng, shape):
    data, model = invented_data(), get_model("horizon_hazard", shape=shape)
    values = drawn(model, data, rng)
    who, minutes = cells(data)
    power = values["shape"].values if shape != "constant" else 1.0
    power = np.broadcast_to(power, data.sizes["agent"])[who]
    ratio = 2.0 ** (minutes - values["log2_horizon"].values[who])
    eta = cell_logits(model, data, values).values
    chance = 2.0 ** -(ratio**power)
    plain = (chance > 1e-6) & (chance < 1 - 1e-6)
    assert plain.sum() > 5
    np.testing.assert_allclose(eta[plain], logit(chance[plain]), rtol=1e-8, atol=1e-9)


def test_horizon_hazard_has_even_odds_at_the_horizon(rng):
    data = grid(1, [8.0, 16.0, 32.0])
    for shape in ("common", "agent"):
        model = get_model("horizon_hazard", shape=shape)
        values = drawn(model, data, rng)
        values["log2_horizon"] = xr.DataArray([4.0], dims="agent")
        odds = cell_logits(model, data, values).values
        assert odds[1] == pytest.approx(0.0, abs=1e-12)
        assert odds[0] > 0 > odds[2]


def test_horizon_hazard_of_shape_one_is_constant(rng):
    data = invented_data()
    values = drawn("horizon_hazard:shape=agent", data, rng)
    values["shape"] = xr.ones_like(values["shape"])
    one = cell_logits("horizon_hazard:shape=agent", data, values)
    values["shape"] = xr.DataArray(1.0)
    two = cell_logits("horizon_hazard:shape=common", data, values)
    constant = cell_logits("horizon_hazard", data, values)
    np.testing.assert_allclose(one, constant, rtol=1e-12)
    np.testing.assert_allclose(two, constant, rtol=1e-12)


def test_additive_difficulty_is_the_integral_of_steepness(rng):
    data = grid(4, 2.0 ** np.sort(rng.uniform(-3, 10, 40)))
    values = drawn("additive", data, rng)
    middle, steepness = values["steepness"]["piece"].values, values["steepness"].values
    breaks = (middle[1:] + middle[:-1]) / 2

    def steepness_at(x):
        return steepness[np.searchsorted(breaks, x)]

    log2_minutes = np.log2(data["human_minutes"].values)
    for j in range(0, 40, 7):
        steps = np.linspace(middle[2], log2_minutes[j], 200_001)
        centres, width = (steps[1:] + steps[:-1]) / 2, steps[1] - steps[0]
        integral = np.sum(steepness_at(centres)) * width
        found = float(values["difficulty"][j] - values["level"])
        assert found == pytest.approx(integral, rel=1e-3, abs=1e-3)


def test_additive_with_equal_steepness_is_horizon_logistic_with_a_common_slope(rng):
    data = invented_data()
    values = drawn("additive", data, rng)
    values["steepness"] = xr.full_like(values["steepness"], 0.7)
    middle = values["steepness"]["piece"].values
    horizon = np.median(middle) + (values["ability"] - values["level"]) / 0.7
    line = {"steepness": xr.DataArray(0.7), "centred_intercept": 0.7 * (horizon - 4.0)}
    line |= {"log2_horizon_mean": xr.DataArray(0.0), "log2_horizon_sd": xr.DataArray(1.0)}
    np.testing.assert_allclose(
        cell_logits("additive", data, values),
        cell_logits("horizon_logistic:slopes=common", data, line),
        rtol=1e-11,
        atol=1e-11,
    )


def test_monotone_without_interaction_is_additive(rng):
    data = invented_data()
    values = drawn("monotone", data, rng)
    values["interaction"] = xr.zeros_like(values["interaction"])
    np.testing.assert_array_equal(
        cell_logits("monotone", data, values), cell_logits("additive", data, values)
    )


@pytest.fixture(scope="module")
def fine():
    return grid(60, 2.0 ** np.linspace(-5, 12, 80))


def surface(rng, data, interaction_sd):
    """Return log odds (agent, task) of a draw of monotone, agents and tasks in order."""
    ability = np.sort(rng.normal(0, 1.3, 60))
    values = drawn("monotone", data, rng)
    values["ability"] = xr.DataArray(ability - ability.mean(), dims="agent")
    values["ability_sd"] = xr.DataArray(1.3)
    values["interaction"] = interaction_sd * xr.DataArray(
        rng.normal(size=(3, 5)), dims=("ramp", "piece"), coords=values["interaction"].coords
    )
    return cell_logits("monotone", data, values).values.reshape(60, 80)


@pytest.mark.parametrize("interaction_sd", [0.3, 1.0, 100.0])
def test_monotone_is_monotone_whatever_the_interaction(rng, fine, interaction_sd):
    for _ in range(20):
        eta = surface(rng, fine, interaction_sd)
        assert np.all(np.diff(eta, axis=0) > -1e-9)
        assert np.all(np.diff(eta, axis=1) < 1e-9)


def test_monotone_interacts_in_both_directions_at_once(rng, fine):
    mixed = np.diff(np.diff(surface(rng, fine, 2.0), axis=0), axis=1)
    assert mixed.max() > 1e-3
    assert mixed.min() < -1e-3


@pytest.mark.parametrize("label", OF_TIME)
def test_success_falls_with_time_and_tasks_without_it_are_named(label, rng):
    data = grid(3, [1.0, 4.0, 30.0, 60.0, 500.0, 1000.0])
    eta = cell_logits(label, data, drawn(label, data, rng)).values.reshape(3, 6)
    assert np.all(np.diff(eta, axis=1) < 0)
    data["human_minutes"][4] = np.nan
    with pytest.raises(mb.ModelError, match="1 of 6 tasks with attempts") as caught:
        mb.describe(label, data)
    assert "'task 004'" in str(caught.value)
    assert "mb.subset" in str(caught.value)


def test_one_length_of_all_tasks_is_no_error(rng):
    data = grid(3, [8.0, 8.0, 8.0])
    for label in OF_TIME:
        assert np.isfinite(cell_logits(label, data, drawn(label, data, rng))).all()


# -- posteriors -----------------------------------------------------------------------------------

QUICK = {"draws": 300, "tune": 300, "chains": 2, "seed": 3, "progress": False}
# Truths that differ from what the priors expect.
TRUE = {
    "horizon_logistic": {"log_steepness_mean": -0.6, "log_steepness_sd": 0.3},
    "horizon_hazard:shape=agent": {"log_shape_mean": -0.4, "log_shape_sd": 0.3},
    "additive": {"log_steepness_mean": -0.6, "log_steepness_sd": 0.7, "level": 0.5},
    "monotone": {"log_steepness_mean": -0.6, "log_steepness_sd": 0.5, "interaction_sd": 0.8},
}


@pytest.mark.slow
@pytest.mark.parametrize("label", TRUE)
def test_truth_is_recovered(label, rng):
    data = grid(12, 2.0 ** rng.uniform(-3, 11, 40), attempts=8)
    truth = simulated(label, data, rng)
    fit = mb.fit(label, data.assign(successes=("cell", truth.pop("successes").values)), **QUICK)
    rows = {row.name: row for row in convergence(fit)}
    assert rows["rhat"].value < 1.1
    outside = {}
    for name, true in truth.items():
        low, high = np.quantile(fit["posterior"][name].values, [0.005, 0.995], axis=(0, 1))
        outside[name] = np.ravel((true.values < low) | (high < true.values))
    outside = np.concatenate(list(outside.values()))
    assert outside.mean() < 0.06  # of intervals of 99 %
    main = "log2_horizon" if "log2_horizon" in truth else "ability"
    mean = fit["posterior"][main].mean(("chain", "draw"))
    assert np.corrcoef(mean, truth[main])[0, 1] > 0.95


def simulated(label, data, rng):
    """Return a draw of all variables with the given truths, and successes."""
    fixed = TRUE[label] | {"log2_horizon_mean": 5.0, "log2_horizon_sd": 2.0, "ability_sd": 1.5}
    values = drawn(label, data, rng)
    fixed = {name: value for name, value in fixed.items() if name in values}
    values |= {name: xr.DataArray(value) for name, value in fixed.items()}
    agents, pieces = data.sizes["agent"], 5
    if "log2_horizon" in values:
        values["log2_horizon"] = like(values["log2_horizon"], rng.normal(5.0, 2.0, agents))
    for name in ("steepness", "shape"):
        if name in values:
            mean, sd = fixed[f"log_{name}_mean"], fixed[f"log_{name}_sd"]
            size = values[name].size
            values[name] = like(values[name], np.exp(rng.normal(mean, sd, size)))
    if "centred_intercept" in values:  # from which the text makes log2_horizon
        values["centred_intercept"] = values["steepness"] * (values["log2_horizon"] - 4.0)
    if "ability" in values:
        ability = rng.normal(0, 1.5, agents)
        values["ability"] = like(values["ability"], ability - ability.mean())
    if "interaction" in values:
        interaction = rng.normal(0, fixed["interaction_sd"], (3, pieces))
        values["interaction"] = like(values["interaction"], interaction)
    chance = expit(cell_logits(label, data, values).values)
    latent = {v for v in values if v not in ("slope", "intercept", "size", "difficulty")}
    successes = rng.binomial(data["attempts"].values, chance)
    return {n: values[n] for n in latent} | {"successes": xr.DataArray(successes, dims="cell")}


def like(x, values):
    """Return an array with other values."""
    return x.copy(data=values)
