"""Units with many parameters of their own: integrals against means over draws of the prior."""

import numpy as np
import pytest
from scipy import stats
from scipy.special import expit
from test_compare_units import posterior_of, tempered

from measurebayes.checks.contract import invented_data
from measurebayes.compare.integrated import unit_log_likelihood
from measurebayes.compare.nodes import bent, grid, quasi_random, split

DRAW = 3
SAMPLES = 60_000
SMALL = {"difficulty_sd": 1.2, "difficulty_mean": 0.7, "ability_sd": 1.0, "testlet_scale": 1.0}
SLOPES = {**SMALL, "log_discrimination_sd": 0.3}


def prepared(name, priors, tasks=7, agents=4):
    data, model = invented_data(agents=agents, tasks=tasks), tempered(name, **priors)
    return data, model, posterior_of(model, data, 6)


def check(found, place, data, at, log_odds):
    """Compare with the mean of the likelihood over draws of own parameters (sample, cell)."""
    n, k = data["attempts"].values[at], data["successes"].values[at]
    plain = stats.binom.pmf(k, n, expit(log_odds)).prod(axis=1)
    error = plain.std() / plain.mean() / np.sqrt(len(plain))
    assert error < 0.05
    away = found.log_likelihood[place, DRAW] - np.log(plain.mean())
    assert abs(away) < 4.0 * np.hypot(error, found.noise[place, DRAW] ** 0.5) + 0.002


def cells(data, **where):
    task = data["task_index"].values
    index = {
        "agent": data["agent_index"].values,
        "task": task,
        "family": data["family_index"].values[task],
    }
    at = np.flatnonzero(np.logical_and.reduce([index[k] == v for k, v in where.items()]))
    return at, {k: v[at] for k, v in index.items()}


def own(rng, one, data, name):
    """Draw what models of these tests have of their own from the population of one draw."""
    agents, tasks = data.sizes["agent"], data.sizes["task"]
    z = rng.normal(size=(SAMPLES, tasks if "diff" in name or "disc" in name else agents))
    if name == "difficulty":
        return float(one["difficulty_mean"]) + float(one["difficulty_sd"]) * z
    if name == "discrimination":
        return np.exp(float(one["log_discrimination_sd"]) * z)
    sd = np.abs(rng.normal(size=(SAMPLES, 1))) * float(one["testlet_scale"])
    return sd * z


def of_draw(draws):
    return draws.isel(chain=0, draw=DRAW)


@pytest.mark.parametrize("slopes", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_family_has_effects_of_agents_a_spread_and_tasks_of_its_own(rng, slopes):
    name = "testlet:discrimination=task" if slopes else "testlet"
    data, model, draws = prepared(name, SLOPES if slopes else SMALL)
    found = unit_log_likelihood(model, data, draws, "family", 2**27)
    assert found.error < 0.2
    one, family = of_draw(draws), 1
    at, index = cells(data, family=family)
    effect = own(rng, one, data, "effect")[:, index["agent"]]
    difficulty = own(rng, one, data, "difficulty")[:, index["task"]]
    log_odds = one["ability"].values[index["agent"]] + effect - difficulty
    if slopes:
        log_odds = own(rng, one, data, "discrimination")[:, index["task"]] * log_odds
    check(found, family, data, at, log_odds)
    again = unit_log_likelihood(model, data, draws, "family", 2**21)
    np.testing.assert_allclose(again.log_likelihood, found.log_likelihood, atol=1e-8)  # blocks


def test_a_task_alone_in_its_family_takes_the_family_with_it(rng):
    data, model, draws = prepared("testlet", SMALL, tasks=4)  # tasks 1 and 2 are alone
    found = unit_log_likelihood(model, data, draws, "task", 2**27)
    one = of_draw(draws)
    for task in range(4):
        at, index = cells(data, task=task)
        difficulty = own(rng, one, data, "difficulty")[:, index["task"]]
        effect = one["testlet_effect"].values[index["agent"], index["family"]]
        if task in (1, 2):
            effect = own(rng, one, data, "effect")[:, index["agent"]]
        check(found, task, data, at, one["ability"].values[index["agent"]] + effect - difficulty)


def test_an_agent_has_effects_in_all_families(rng):
    data, model, draws = prepared("testlet", SMALL)
    found = unit_log_likelihood(model, data, draws, "agent", 2**27)
    assert found.error < 0.01
    one, agent = of_draw(draws), 2
    at, index = cells(data, agent=agent)
    others = np.delete(one["ability"].values, agent)
    spread = float(one["ability_sd"]) * np.sqrt(1.0 + 1.0 / len(others))
    ability = others.mean() + spread * rng.normal(size=(SAMPLES, 1))
    effect = one["testlet_sd"].values * rng.normal(size=(SAMPLES, 3))
    log_odds = ability + effect[:, index["family"]] - one["difficulty"].values[index["task"]]
    check(found, agent, data, at, log_odds)


MIRT = {"easiness_mean": 0.5, "easiness_sd": 1.0, "trait_sd": 0.7, "loading_spread": 0.5}


@pytest.mark.parametrize("unit", ["task", "agent", "family"])
def test_several_traits_and_loadings(rng, unit):
    data, model, draws = prepared("mirt:dimensions=3", MIRT)
    found = unit_log_likelihood(model, data, draws, unit, 2**27)
    assert found.error < 0.05
    one, place = of_draw(draws), 1
    at, index = cells(data, **{unit: place})
    easiness, loading = one["easiness"].values[index["task"]], one["loading"].values[index["task"]]
    trait = one["trait"].values[:, index["agent"]].T
    if unit == "agent":
        others = np.delete(one["trait"].values, place, axis=1)
        spread = one["trait_sd"].values * np.sqrt(1.0 + 1.0 / others.shape[1])
        trait = others.mean(axis=1) + spread * rng.normal(size=(SAMPLES, 1, 3))
    else:
        z = rng.normal(size=(SAMPLES, data.sizes["task"], 4))[:, index["task"]]
        easiness = float(one["easiness_mean"]) + float(one["easiness_sd"]) * z[..., 0]
        spread = np.array([float(one["loading_spread"]), 1.0, 1.0])
        loading = np.array([1.0, 0.0, 0.0]) + spread * z[..., 1:]
    check(found, place, data, at, easiness + (loading * trait).sum(axis=-1))


def test_difficulty_discrimination_and_guessing_of_a_task(rng):
    data, model, draws = prepared(
        "three_pl:guessing=task",
        {**{k: x for k, x in SLOPES.items() if k != "testlet_scale"}, "guessing": 4.0},
    )
    found = unit_log_likelihood(model, data, draws, "task", 2**27)
    assert found.error < 0.1
    one, task = of_draw(draws), 5
    at, index = cells(data, task=task)
    ability = one["ability"].values[index["agent"]]
    difficulty, slope = (
        own(rng, one, data, n)[:, index["task"]] for n in ("difficulty", "discrimination")
    )
    guess = rng.beta(1.0, 4.0, size=(SAMPLES, 1))
    chance = guess + (1.0 - guess) * expit(slope * (ability - difficulty))
    check(found, task, data, at, np.log(chance / (1.0 - chance)))


def test_nodes_integrate_a_normal_density_far_from_their_centre():
    def density(x):
        return stats.norm.pdf(x, 0.7, 1.4).prod(axis=-1)

    for dimensions in (1, 2):
        rule = grid(51, dimensions)
        t, log_weight = rule.of(np.arange(3), dimensions)
        x, log_q = bent(t, rule.bend)
        total = np.sum(np.exp(log_weight - log_q) * density(x), axis=1)
        np.testing.assert_allclose(total, 1.0, atol=1e-6)
    t, log_weight = quasi_random(1024, 5, 0).of(np.arange(3), 4)  # the first four of five
    x, log_q = split(t, np.full(4, 1.2), np.full(4, 1.9))
    total = np.sum(np.exp(log_weight - log_q) * density(x), axis=1)
    np.testing.assert_allclose(total, 1.0, atol=0.05)
    assert (x < 0).mean() == pytest.approx(1.2 / 3.1, abs=0.01)
