"""Local dependence: against plain loops, closed forms and data that are dependent by design."""

import dataclasses
import json

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy.special import expit
from test_checks_predictive import design, rasch_data, rasch_fit

import measurebayes as mb
from measurebayes.backends.simulate import prior_draw, variables
from measurebayes.checks.dependence.design import Design, above, summary
from measurebayes.checks.dependence.groups import DesignEffect, Unanimous
from measurebayes.checks.dependence.residuals import Dimensions, TaskPairs
from measurebayes.errors import InputError
from measurebayes.program.registry import get_model

AGENTS, TASKS, FAMILIES = 12, 18, 6


def dependent(rng, sd=1.5, attempts=12):
    """Data with an effect of every agent on every family of three tasks."""
    family = design()["family_index"].values[design()["task_index"].values]
    effect = rng.normal(0, sd, (AGENTS, FAMILIES))[design()["agent_index"].values, family]
    return rasch_data(rng, extra=effect, attempts=attempts)


@pytest.fixture(scope="module")
def found():
    rng = np.random.default_rng(4)
    data = dependent(rng)
    fit = rasch_fit(data, rng)
    return fit, data, mb.local_dependence(fit, replicates=150)


def test_dependent_families_are_found(found):
    _, _, result = found
    assert {"q3_within", "unanimous", "design_effect"} <= set(result.found())
    assert result.measures.loc["design_effect", "observed"] > 1.4
    assert result.effective_tasks < TASKS / 1.4
    assert result.text().startswith("Tasks go together more than the model expects, in ")
    assert f"the {TASKS} tasks say as much as {result.effective_tasks:.0f} " in result.text()
    assert result.residual_dimensions >= 1
    assert result.pairs["same_family"].head(5).all()
    assert list(result.families["groups"]) == [AGENTS] * FAMILIES
    assert set(result.to_dict(3)) > {"measures", "pairs", "families", "dimensions", "rates"}
    assert len(result.to_dict(3)["pairs"]) == 3


def test_independent_tasks_are_not(rng):
    result = mb.local_dependence(rasch_fit(rasch_data(rng), rng), replicates=150)
    assert result.found() == []
    assert result.text().startswith("Nothing measured here goes together more than")
    assert result.residual_dimensions == 0
    assert ((result.measures["p"] > 0.02) & (result.measures["p"] < 0.98)).all()
    assert result.effective_tasks == pytest.approx(TASKS, rel=0.25)


def test_less_than_expected_is_said(found):
    result = found[2]
    turned = result.measures.assign(p=1.0 - result.measures["p"])
    text = dataclasses.replace(result, measures=turned).text()
    assert text.startswith("Nothing measured here goes together more")
    assert "design effect of families" in text.split(" By ")[1]
    assert "less than it expects" in text


def test_without_families_no_measure_of_families(rng):
    data = rasch_data(rng, attempts=2)
    alone = data.assign(family_index=("task", np.arange(TASKS)))
    alone = alone.drop_vars("family").assign_coords(family=data["task"].values)
    result = mb.local_dependence(rasch_fit(alone, rng), replicates=20)
    assert list(result.measures.index) == ["q3_largest", "first_dimension"]
    assert result.families.empty
    assert np.isnan(result.effective_tasks)


def test_same_result_whatever_the_blocks(found):
    fit = found[0]
    once = mb.local_dependence(fit, replicates=20)
    again = mb.local_dependence(fit, replicates=20, memory=8 * 6 * AGENTS * TASKS * 7)
    pd.testing.assert_frame_equal(once.measures, again.measures)
    pd.testing.assert_frame_equal(once.families, again.families)


def test_unanimous_groups_are_counted_as_by_hand(rng):
    data = rasch_data(rng, attempts=2)
    one = Design.of(data)
    part, chance = Unanimous(one), rng.uniform(0.1, 0.9, data.sizes["cell"])
    again = rng.binomial(2, chance, (4000, len(chance)))
    part.add(np.broadcast_to(chance, again.shape), again)
    tables = data["successes"].values.reshape(AGENTS, FAMILIES, 3)
    solved, failed = (tables == 2).all(axis=2), (tables == 0).all(axis=2)
    assert part.measures()["all_solved"][0][0] == solved.mean()
    assert part.measures()["all_failed"][0][0] == failed.mean()
    by_family = part.by_family()
    np.testing.assert_array_equal(by_family["unanimous"], (solved | failed).sum(axis=0))
    # independent attempts: the product of their chances
    grid = chance.reshape(AGENTS, FAMILIES, 3)
    expected = (grid**2).prod(axis=2) + ((1 - grid) ** 2).prod(axis=2)
    np.testing.assert_allclose(by_family["unanimous_expected"], expected.sum(axis=0), atol=0.06)


def test_copied_tasks_have_their_number_as_design_effect(rng):
    data = design(attempts=1)
    family = data["family_index"].values[data["task_index"].values]
    drawn = rng.integers(0, 2, (AGENTS, FAMILIES))[data["agent_index"].values, family]
    data = data.assign(successes=("cell", drawn))
    part = DesignEffect(Design.of(data))
    half = np.full((3, data.sizes["cell"]), 0.5)
    part.add(half, rng.integers(0, 2, half.shape))
    observed, replicated = part.measures()["design_effect"]
    np.testing.assert_allclose(observed, 3.0)
    assert (replicated < 2).all()
    np.testing.assert_allclose(part.by_family()["design_effect"], 3.0)


def test_residuals_are_those_of_numpy(rng):
    data = rasch_data(rng).isel(cell=slice(3, None))  # with holes
    one = Design.of(data)
    pairs, dimensions = TaskPairs(one, data["family_index"].values), Dimensions(one)
    chance = rng.uniform(0.2, 0.8, (1, data.sizes["cell"]))
    again = rng.binomial(12, chance)
    for part in (pairs, dimensions):
        part.add(chance, again)
    agent, task = data["agent_index"].values, data["task_index"].values
    rate = np.full((AGENTS, TASKS), np.nan)
    rate[agent, task] = data["successes"].values / 12 - chance[0]
    row = pairs.table(data["task"].values).iloc[0]
    i, j = int(row["task"].split()[1]), int(row["other"].split()[1])
    both = np.isfinite(rate[:, i] + rate[:, j])
    assert row["q3"] == pytest.approx(np.corrcoef(rate[both, i], rate[both, j])[0, 1])
    assert row["same_family"] == (i // 3 == j // 3)
    values = np.linalg.svd(np.nan_to_num(rate) * np.sqrt(12), compute_uv=False) ** 2
    observed = dimensions.shares()[0][0]
    np.testing.assert_allclose(observed, [values[k] / values[k:].sum() for k in range(8)])


def test_p_values_count_ties_half():
    assert above(np.array([1.0, 1.0, 1.0, 1.0]), np.array([0.0, 1.0, 2.0, 3.0])) == 0.625
    assert np.isnan(summary(np.array([np.nan]), np.array([1.0]))["p"])


def test_rates_of_copied_tasks_have_the_width_of_families(rng):
    data = design(attempts=1, tasks=240)
    family = data["family_index"].values[data["task_index"].values]
    drawn = rng.integers(0, 2, (AGENTS, 80))[data["agent_index"].values, family]
    data = data.assign(successes=("cell", drawn))
    table = mb.clustered_rates(data).set_index("agent")
    share = drawn.reshape(AGENTS, 80, 3)[:, :, 0]
    for at in (0, 5):
        row = table.loc[f"agent {at}"]
        assert row["rate"] == pytest.approx(share[at].mean())
        # the variance of a mean of 80 families, and of 240 tasks taken for independent
        sd = share[at].std() / np.sqrt(80)
        assert (row["high"] - row["low"]) / 3.92 == pytest.approx(sd, rel=0.1)
        assert (row["high_tasks"] - row["low_tasks"]) / 3.92 == pytest.approx(sd / 3**0.5, rel=0.1)
        assert row["design_effect"] == pytest.approx(3 * 80 * 239 / (79 * 240))
        assert row["effective_tasks"] == pytest.approx(240 / row["design_effect"])
    assert table["rate"].is_monotonic_decreasing


def test_rates_where_little_is_known(rng):
    data = rasch_data(rng)
    data = data.isel(cell=(data["agent_index"].values != 2) & (data["task_index"].values < 3))
    with pytest.warns(UserWarning, match="no agent tried two families"):
        table = mb.clustered_rates(data, resamples=50)  # one family, and an agent without attempts
    assert len(table) == AGENTS - 1
    assert table["design_effect"].isna().all()
    assert table[["low", "high"]].isna().all(axis=None)
    with pytest.raises(InputError, match="level=2"):
        mb.clustered_rates(data, level=2)
    with pytest.raises(InputError, match="no attempts"):
        mb.clustered_rates(data.isel(cell=slice(0, 0)))
    with pytest.raises(InputError, match="neither a fit nor data"):
        mb.clustered_rates(3)


def test_infit_and_outfit_are_those_of_their_formulas(rng):
    data = rasch_data(rng)
    fit = rasch_fit(data, rng)
    posterior = fit["posterior"].to_dataset()
    same = posterior.isel(chain=[0], draw=[0]).isel(draw=np.zeros(600, int))
    fit["posterior"] = xr.DataTree(same)  # one point, so that nothing is uncertain
    ability, difficulty = (same[n].values[0, 0] for n in ("ability", "difficulty"))
    chance = expit(ability[:, None] - difficulty)
    residual = data["successes"].values.reshape(AGENTS, TASKS) - 12 * chance
    variance = 12 * chance * (1 - chance)
    tasks, agents = mb.task_fit(fit, replicates=600), mb.agent_fit(fit, replicates=600)
    for table, axis, name in ((tasks, 0, "task"), (agents, 1, "agent")):
        table = table.set_index(name)
        order = [f"{name} {i}" for i in range(chance.shape[1 - axis])]
        infit = (residual**2).sum(axis) / variance.sum(axis)
        np.testing.assert_allclose(table.loc[order, "infit"], infit)
        outfit = (residual**2 / variance).mean(axis)
        np.testing.assert_allclose(table.loc[order, "outfit"], outfit)
        assert (table["infit_low"] < 1).all()
        assert (table["infit_high"] > 1).all()
    # about chi-square of 12 agents over 12: 95 % within 0.37 to 1.94
    assert tasks["infit_low"].mean() == pytest.approx(0.37, abs=0.05)
    assert tasks["infit_high"].mean() == pytest.approx(1.94, abs=0.1)
    assert list(tasks["infit_p"]) == sorted(tasks["infit_p"])


def test_a_turned_task_and_a_turned_agent_are_noisy(rng):
    data = rasch_data(rng)
    fit = rasch_fit(data, rng)  # of the data before they are turned
    turned = (data["task_index"].values == 9) | (data["agent_index"].values == 0)
    y = np.where(turned, 12 - data["successes"].values, data["successes"].values)
    fit["data"] = xr.DataTree(data.assign(successes=("cell", y)))
    tasks, agents = mb.task_fit(fit, replicates=200), mb.agent_fit(fit, replicates=200)
    assert tasks.loc[0, ["task", "note"]].tolist() == ["task 9", "noisier than the model"]
    assert agents.loc[0, ["agent", "note"]].tolist() == ["agent 0", "noisier than the model"]


@pytest.mark.parametrize(
    "name",
    ["testlet", "bifactor", "mirt", "three_pl:discrimination=signed"],
)
def test_models_of_every_shape_are_judged(rng, name):
    """Draws from the priors: the functions take what a model has, and no more."""
    model = get_model(name)
    data = rasch_data(rng, attempts=2)
    drawn = [prior_draw(model, data, rng) for _ in range(6)]
    latent = {v.name for v in variables(model, data)}
    posterior = xr.Dataset(
        {key: xr.concat([one[key] for one in drawn], "draw").expand_dims("chain") for key in latent}
    )
    attrs = {
        "model": model.name,
        "model_source": model.source,
        "options": json.dumps(dict(model.options)),
        "priors": json.dumps(model.priors),
        "data_fingerprint": "x",
    }
    groups = {"/": xr.Dataset(attrs=attrs), "posterior": posterior, "data": data}
    fit = xr.DataTree.from_dict(groups)
    assert mb.local_dependence(fit).replicates == 6
    assert len(mb.task_fit(fit)) == TASKS
    assert len(mb.differential_functioning(fit, ["agent 0"])) == TASKS
    assert ("p_negative" in mb.suspect_tasks(fit)) == name.endswith("signed")
    if "ability" in posterior:
        assert len(mb.agent_pairs(fit)) == AGENTS * (AGENTS - 1) // 2
