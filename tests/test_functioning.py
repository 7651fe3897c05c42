"""Differential functioning, suspect tasks and pairs of agents, against optimisers and loops."""

import json

import numpy as np
import pytest
import xarray as xr
from scipy.optimize import minimize
from scipy.special import expit
from scipy.stats import norm
from test_checks_predictive import design, rasch_data, rasch_fit, with_successes

import measurebayes as mb
from measurebayes.checks.dependence.design import Design
from measurebayes.checks.dependence.functioning import _Cells, _shifts
from measurebayes.errors import InputError
from measurebayes.estimands.pairs import pair_matrix

AGENTS, TASKS = 12, 18
GROUP = [f"agent {i}" for i in range(6)]


def shifted(rng, shift=2.5):
    """Rasch data in which task 9 is harder for the first six agents by `shift` logits."""
    extra = np.zeros(AGENTS * TASKS)
    at = (design()["agent_index"].values < 6) & (design()["task_index"].values == 9)
    extra[at] = -shift
    return rasch_data(rng, extra=extra)


def test_a_task_harder_for_one_group_is_found(rng):
    data = shifted(rng)
    for source in (rasch_fit(data, rng), data):
        table = mb.differential_functioning(source, {"old": GROUP, "new": ["agent 7", "agent 11"]})
        first = table.iloc[0]
        assert (first["task"], first["size"]) == ("task 9", "large")
        assert first["low"] < 2.5 < first["high"] + 1.0  # the prior pulls towards 0
        assert first["p_harder"] > 0.99
        assert first["attempts_old"] == 6 * 12
        others = table.iloc[1:]
        assert (others["size"] == "large").sum() == 0
        assert ((others["low"] < 0) & (others["high"] > 0)).mean() > 0.8
    found = mb.differential_functioning(rasch_fit(data, rng), GROUP)
    assert found.attrs["p"] < 0.01
    assert list(found.columns[1:5]) == [
        "attempts_first", "rate_first", "attempts_other", "rate_other"
    ]  # fmt: skip


def test_equal_groups_are_not_blamed(rng):
    table = mb.differential_functioning(rasch_fit(rasch_data(rng), rng), GROUP)
    assert table.attrs["p"] > 0.05
    assert (table["size"] == "negligible").mean() > 0.9


def test_a_shift_is_the_mode_of_its_posterior(rng):
    data = shifted(rng, 1.0)
    log_odds = rng.normal(0, 1, data.sizes["cell"])
    one = Design.of(data)
    side = (one.agent >= 6).astype(int)
    cell = _Cells(one, np.arange(len(side)), side)
    modes, variances = _shifts(cell, log_odds)
    p = expit(log_odds)
    scatter = ((one.successes - 12 * p) ** 2).sum() / (12 * p * (1 - p)).sum()
    at = np.flatnonzero(one.task == 9)

    def loss(v):
        middle, difference = v
        eta = log_odds[at] + middle + np.where(side[at] == 1, 0.5, -0.5) * difference
        y = one.successes[at]
        return -np.sum(y * eta - 12 * np.logaddexp(0, eta)) / scatter - norm.logpdf(v).sum()

    best = minimize(loss, [0.0, 0.0])
    assert scatter > 1
    assert modes[9] == pytest.approx(best.x[1], abs=1e-4)
    step = 1e-3
    bend = np.empty((2, 2))
    for i in range(2):
        for j in range(2):
            a, b = np.eye(2)[i] * step, np.eye(2)[j] * step
            x = best.x
            four = loss(x + a + b) - loss(x + a - b) - loss(x - a + b) + loss(x - a - b)
            bend[i, j] = four / (4 * step**2)
    assert variances[9] == pytest.approx(np.linalg.inv(bend)[1, 1], rel=1e-3)


@pytest.mark.parametrize(
    ("groups", "said"),
    [
        ({"a": GROUP}, "1 groups"),
        ({"a": GROUP, "b": []}, "1 groups"),
        ([], "1 groups"),
        (["nobody"], "'nobody' are not in the data"),
        ({"a": GROUP, "b": GROUP[:1]}, "'agent 0' are in both groups"),
    ],
)
def test_groups_that_are_none_are_refused(rng, groups, said):
    with pytest.raises(InputError, match=said):
        mb.differential_functioning(rasch_data(rng), groups)


def test_groups_without_a_common_task_are_refused(rng):
    data = rasch_data(rng)
    old, easy = data["agent_index"].values < 6, data["task_index"].values < 9
    apart = data.isel(cell=old == easy)
    with pytest.raises(InputError, match="no task was tried by both"):
        mb.differential_functioning(apart, GROUP)


def test_item_rest_is_the_corrected_item_total_correlation(rng):
    data = rasch_data(rng)
    share = data["successes"].values.reshape(AGENTS, TASKS) / 12
    table = mb.suspect_tasks(data).set_index("task")
    for j in (0, 7, 17):
        rest = np.delete(share, j, axis=1).sum(axis=1)
        expected = np.corrcoef(share[:, j], rest)[0, 1]
        assert table.loc[f"task {j}", "item_rest"] == pytest.approx(expected)
    assert (table["note"] == "").all()
    assert "p_negative" not in mb.suspect_tasks(rasch_fit(data, rng))


def test_weak_agents_with_easy_tasks_look_no_abler(rng):
    """Able agents tried hard tasks besides, weak ones easy tasks: their own rates mislead."""
    data = design(attempts=50)
    agent, task = data["agent_index"].values, data["task_index"].values
    able = agent < 6
    chance = np.select([task < 6, task < 12], [np.where(able, 0.7, 0.4), 0.1], 0.95)
    data = with_successes(data, chance, rng)
    tried = (task < 6) | (able == (task < 12))
    data = data.isel(cell=tried)
    share = data["successes"] / 50
    rates = share.groupby(data["agent_index"]).mean().values
    of_first = share.values[data["task_index"].values == 0]
    assert np.corrcoef(of_first, rates)[0, 1] < 0
    assert (
        mb.suspect_tasks(data).set_index("task")["item_rest"][[f"task {j}" for j in range(6)]] > 0.5
    ).all()


def test_a_wrong_key_is_suspect_and_a_signed_fit_says_how_surely(rng):
    data = rasch_data(rng)
    turned = data["task_index"].values == 4
    y = np.where(turned, 12 - data["successes"].values, data["successes"].values)
    data = data.assign(successes=("cell", y))
    first = mb.suspect_tasks(data).iloc[0]
    assert (first["task"], first["note"]) == ("task 4", "rest correlation is negative")
    fit = rasch_fit(data, rng)
    slopes = rng.normal(1.0, 0.2, (2, 150, TASKS))
    slopes[..., 4] = rng.normal(-0.3, 0.3, (2, 150))
    slopes[1] *= -1  # a chain that has the ability upside down
    posterior = fit["posterior"].to_dataset()
    fit["posterior"] = xr.DataTree(
        posterior.assign(discrimination=(("chain", "draw", "task"), slopes))
    )
    table = mb.suspect_tasks(fit)
    assert table.loc[0, ["task", "note"]].tolist() == ["task 4", "probably backwards"]
    assert table.loc[0, "p_negative"] == pytest.approx(norm.cdf(1.0), abs=0.06)
    assert table["p_negative"][1:].max() < 0.01
    assert table["discrimination"][1:].median() == pytest.approx(1.0, abs=0.05)
    positive = posterior.assign(discrimination=(("chain", "draw", "task"), np.abs(slopes)))
    fit["posterior"] = xr.DataTree(positive)
    assert "p_negative" not in mb.suspect_tasks(fit)
    fit.attrs["options"] = json.dumps({"discrimination": "signed"})
    assert (mb.suspect_tasks(fit)["p_negative"] == 0).all()


def test_pairs_are_counted_as_by_hand(rng):
    fit = rasch_fit(rasch_data(rng), rng)
    draws = fit["posterior"]["ability"].values.reshape(-1, AGENTS)
    table = mb.agent_pairs(fit, level=0.9)
    assert len(table) == AGENTS * (AGENTS - 1) // 2
    for row in table.sample(10, random_state=1).itertuples():
        i, j = (int(name.split()[1]) for name in (row.one, row.other))
        difference = draws[:, i] - draws[:, j]
        assert row.p_greater == (difference > 0).mean()
        assert row.difference == pytest.approx(difference.mean())
        assert row.difference > 0
        assert (row.low, row.high) == pytest.approx(tuple(np.quantile(difference, [0.05, 0.95])))
    matrix = pair_matrix(fit)
    np.testing.assert_allclose(matrix + matrix.T, 1.0)
    first = table.iloc[0]
    assert matrix.loc[first["one"], first["other"]] == first["p_greater"]
    few = mb.agent_pairs(fit, agents=["agent 3", "agent 5"])
    assert {few["one"][0], few["other"][0]} == {"agent 3", "agent 5"}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"variable": "difficulty"}, "no variable difficulty of each agent"),
        ({"level": 1.0}, "level=1.0"),
        ({"agents": ["agent 1"]}, "1 agents"),
        ({"agents": ["agent 1", "nobody"]}, "no agent 'nobody'"),
    ],
)
def test_pairs_that_are_none_are_refused(rng, options, said):
    with pytest.raises(InputError, match=said):
        mb.agent_pairs(rasch_fit(rasch_data(rng), rng), **options)
