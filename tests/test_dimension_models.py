"""testlet, bifactor, three_pl and mirt: closed forms, limits, published numbers, known truths."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy.special import expit

import measurebayes as mb
from measurebayes.backends.evaluate import cell_logits
from measurebayes.backends.simulate import prior_draw
from measurebayes.checks.contract import invented_data
from measurebayes.checks.convergence import convergence
from measurebayes.inference.rotation import procrustes
from measurebayes.program.registry import get_model


def at_prior(label, data, rng, **given):
    """Draw values from the priors, replace some, and return them with log odds by cell."""
    model = get_model(label)
    values = prior_draw(model, data, rng)
    del values["successes"]
    for name, value in given.items():
        values[name] = values[name] * 0.0 + value
    return values, cell_logits(model, data, values).values


# -- closed forms and limits ---------------------------------------------------------------------


@pytest.mark.parametrize(("discrimination", "limit"), [("one", "rasch"), ("task", "two_pl")])
def test_testlets_without_effects_are_the_simpler_model(rng, discrimination, limit):
    data = invented_data()
    label = f"testlet:discrimination={discrimination}"
    values, found = at_prior(label, data, rng, testlet_effect=0.0)
    np.testing.assert_allclose(found, cell_logits(limit, data, values).values, rtol=1e-12)


def test_testlet_effects_move_an_agent_in_a_family_as_ability_does(rng):
    data = invented_data()
    values, found = at_prior("testlet:discrimination=task", data, rng)
    agent, task = data["agent_index"].values, data["task_index"].values
    family = data["family_index"].values[task]
    strength = values["ability"].values[agent] + values["testlet_effect"].values[agent, family]
    slope, place = values["discrimination"].values[task], values["difficulty"].values[task]
    np.testing.assert_allclose(found, slope * (strength - place), rtol=1e-12)


def test_bifactor_with_one_ratio_of_loadings_is_the_testlet_model(rng):
    data = invented_data()
    values, _ = at_prior("bifactor", data, rng)
    values["family_loading"] = values["discrimination"]
    found = cell_logits("bifactor", data, values).values
    limit = cell_logits("testlet:discrimination=task", data, values).values
    np.testing.assert_allclose(found, limit, rtol=1e-12)


@pytest.mark.parametrize("guessing", ["common", "task"])
@pytest.mark.parametrize("discrimination", ["positive", "signed"])
def test_three_pl_never_succeeds_less_often_than_by_guessing(rng, guessing, discrimination):
    data = invented_data()
    label = f"three_pl:guessing={guessing},discrimination={discrimination}"
    values, found = at_prior(label, data, rng)
    agent, task = data["agent_index"].values, data["task_index"].values
    slope, ability = values["discrimination"].values[task], values["ability"].values[agent]
    if discrimination == "signed":
        x = slope * ability + values["easiness"].values[task]
    else:
        x = slope * (ability - values["difficulty"].values[task])
    rate = values["guessing"].values
    rate = rate[task] if guessing == "task" else rate
    np.testing.assert_allclose(expit(found), rate + (1.0 - rate) * expit(x), rtol=1e-9)


def test_three_pl_without_guessing_is_two_pl(rng):
    data = invented_data()
    values, found = at_prior("three_pl:guessing=none", data, rng)
    np.testing.assert_allclose(found, cell_logits("two_pl", data, values).values, rtol=1e-12)
    values, found = at_prior("three_pl", data, rng, guessing=1e-15)
    limit = cell_logits("two_pl", data, values).values
    np.testing.assert_allclose(expit(found), expit(limit), rtol=1e-9, atol=1e-14)


def test_mirt_adds_products_of_loadings_and_traits(rng):
    data = invented_data()
    values, found = at_prior("mirt:dimensions=3", data, rng)
    eta = (values["loading"].values @ values["trait"].values).T + values["easiness"].values
    np.testing.assert_allclose(
        found, eta[data["agent_index"].values, data["task_index"].values], rtol=1e-12
    )


def test_mirt_of_one_dimension_is_two_pl_in_another_form(rng):
    data = invented_data()
    values, found = at_prior("mirt:dimensions=1", data, rng)
    loading, trait = values["loading"].values[:, 0], values["trait"].values[0]
    as_two_pl = at_prior("two_pl", data, rng)[0]
    as_two_pl["ability"] = xr.DataArray(trait, dims="agent")
    as_two_pl["discrimination"] = xr.DataArray(loading, dims="task")
    as_two_pl["difficulty"] = xr.DataArray(-values["easiness"].values / loading, dims="task")
    np.testing.assert_allclose(found, cell_logits("two_pl", data, as_two_pl).values, rtol=1e-9)


def test_tasks_load_only_where_the_table_allows(rng):
    data = invented_data()
    values, found = at_prior("mirt:loadings=allowed", data, rng)
    allowed = data["allowed_loading"].values
    assert values["loading"].dims == ("task", "dimension")
    np.testing.assert_array_equal(values["loading"].values == 0.0, allowed == 0)
    eta = (values["loading"].values @ values["trait"].values).T + values["easiness"].values
    at = data["agent_index"].values, data["task_index"].values
    np.testing.assert_allclose(found, eta[at], rtol=1e-12)


@pytest.mark.parametrize(
    "table",
    [
        None,
        (("task",), np.ones(7)),
        (("task", "dimension"), np.full((7, 2), 0.5)),
        (("task", "dimension"), np.column_stack([np.ones(7), np.zeros(7)])),
    ],
)
def test_a_table_of_allowed_loadings_that_is_none_is_refused(table):
    data = invented_data().drop_vars("allowed_loading")
    if table is not None:
        data = data.assign(allowed_loading=table)
    with pytest.raises(mb.ModelError, match="allowed_loading"):
        mb.describe("mirt", data, loadings="allowed")


# -- truths that must be recovered, and published numbers ----------------------------------------


def table_of(solved, attempts, **columns):
    """Return data of a full table (agent, task) of successes."""
    agent, task = (x.ravel() for x in np.indices(solved.shape))
    frame = {
        "agent": [f"agent {i:02d}" for i in agent],
        "task": [f"task {j:03d}" for j in task],
        "attempts": attempts,
        "successes": solved.ravel(),
    }
    return mb.load(pd.DataFrame(frame | {n: np.asarray(x)[task] for n, x in columns.items()}))


def congruence(found, true):
    """Tucker's coefficient of each column."""
    return np.sum(found * true, axis=0) / np.sqrt(
        np.sum(found**2, axis=0) * np.sum(true**2, axis=0)
    )


@pytest.mark.slow
def test_two_dimensions_are_recovered_up_to_a_rotation(rng):
    agents, tasks, attempts = 40, 60, 6
    trait = rng.normal(size=(agents, 2))
    loading = np.column_stack([rng.normal(1.5, 0.5, tasks), rng.normal(0.0, 0.9, tasks)])
    eta = trait @ loading.T + rng.normal(0.5, 1.5, tasks)
    runs = table_of(rng.binomial(attempts, expit(eta)), attempts)
    fit = mb.fit("mirt", runs, seed=1, draws=1200, progress=False)
    rows = {row.name: row for row in convergence(fit)}
    assert rows["rhat"].passed, rows["rhat"]
    assert rows["divergences"].passed, rows["divergences"]
    mean = fit["posterior"]["loading"].mean(("chain", "draw")).values
    found = mean @ procrustes(mean, loading)
    assert np.all(congruence(found, loading) > 0.95)
    # a third dimension that is not there is switched off
    assert np.all(np.sum(mean**2, axis=0) > 5.0)


@pytest.mark.slow
def test_a_wrong_key_shows_where_slopes_may_be_negative(rng):
    agents, tasks = 40, 25
    ability, difficulty = rng.normal(0.0, 1.5, agents), rng.normal(0.0, 1.0, tasks)
    eta = ability[:, None] - difficulty
    eta[:, 3] *= -1.0  # the key of task 3 is wrong
    runs = table_of(rng.binomial(2, expit(eta)), 2)
    settings = {"seed": 1, "chains": 2, "draws": 500, "progress": False}
    fit = mb.fit("three_pl", runs, guessing="none", discrimination="signed", **settings)
    negative = (fit["posterior"]["discrimination"] < 0.0).mean(("chain", "draw")).values
    assert negative[3] > 0.99
    assert np.delete(negative, 3).max() < 0.5


@pytest.mark.slow
def test_a_fit_of_allowed_loadings_finds_them(rng):
    """Two dimensions with ten tasks each, and five tasks that may load on both."""
    allowed = np.zeros((25, 2), dtype=int)
    allowed[:10, 0] = allowed[10:20, 1] = 1
    allowed[20:] = 1
    loading = allowed * rng.uniform(0.8, 1.6, (25, 2))
    trait = rng.normal(0.0, 1.5, (2, 40))
    chance = expit(rng.normal(0.0, 1.0, 25) + (loading @ trait).T)
    agent, task = (x.ravel() for x in np.indices(chance.shape))
    cells = pd.DataFrame(
        {
            "agent": [f"agent {i:02d}" for i in agent],
            "task": [f"task {j:02d}" for j in task],
            "attempts": 4,
            "successes": rng.binomial(4, chance.ravel()),
        }
    )
    runs = mb.load(cells)
    runs = runs.assign(allowed_loading=(("task", "dimension"), allowed))
    short = {"draws": 300, "tune": 300, "chains": 2, "seed": 1, "progress": False}
    fit = mb.fit("mirt", runs, loadings="allowed", **short)
    draws = fit["posterior"].to_dataset()
    assert fit["log_likelihood"]["successes"].dims == ("chain", "draw", "cell")
    np.testing.assert_array_equal(draws["loading"].values[..., allowed == 0], 0.0)
    found = draws.mean(("chain", "draw"))
    for k in range(2):
        assert np.corrcoef(found["trait"].values[k], trait[k])[0, 1] > 0.95
    products = (found["loading"].values @ found["trait"].values).ravel()
    slope, _ = np.polyfit((loading @ trait).ravel(), products, 1)
    assert 0.8 < slope < 1.2
