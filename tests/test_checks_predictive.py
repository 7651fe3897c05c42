"""Posterior predictive checks on Rasch fits whose posterior is nearly normal, so no sampler."""

import re

import numpy as np
import pytest
import xarray as xr
from scipy.special import expit

from measurebayes.checks import check
from measurebayes.checks.predictive import posterior_predictive, predictive
from measurebayes.checks.uninformative import uninformative, uninformative_rows
from measurebayes.program.registry import get_model

AGENTS, TASKS, ATTEMPTS = 12, 18, 12

PRIORS = '{"ability_sd": 2.5, "difficulty_mean": 5.0, "difficulty_sd": 5.0}'

DRAWS = 300


def design(attempts=ATTEMPTS, agents=AGENTS, tasks=TASKS, minutes=True):
    agent, task = (x.ravel() for x in np.indices((agents, tasks)))
    known = 2.0 ** np.linspace(0, 9, tasks) if minutes else np.full(tasks, np.nan)
    return xr.Dataset(
        {
            "agent_index": ("cell", agent),
            "task_index": ("cell", task),
            "attempts": ("cell", np.full(agent.size, attempts)),
            "successes": ("cell", np.zeros(agent.size, int)),
            "family_index": ("task", np.arange(tasks) // 3),
            "source": ("task", np.full(tasks, "")),
            "human_minutes": ("task", known),
            "minutes_kind": ("task", np.full(tasks, "")),
            "task_weight": ("task", np.ones(tasks)),
            "release_date": ("agent", np.full(agents, np.datetime64("NaT", "ns"))),
        },
        coords={
            "agent": np.array([f"agent {i}" for i in range(agents)]),
            "task": np.array([f"task {j}" for j in range(tasks)]),
            "family": np.array([f"family {j}" for j in range(-(-tasks // 3))]),
        },
        attrs={"name": "made"},
    )


def truth_of(data, rng):
    ability = rng.normal(0, 1, data.sizes["agent"])
    return ability - ability.mean(), np.linspace(-1.5, 1.5, data.sizes["task"])


def with_successes(data, probability, rng):
    successes = rng.binomial(data["attempts"].values, probability)
    return data.assign(successes=("cell", successes))


def rasch_data(rng, extra=0.0, **options):
    """Rasch data; `extra` (cell) is added to the log-odds."""
    data = design(**options)
    ability, difficulty = truth_of(data, rng)
    log_odds = ability[data["agent_index"].values] - difficulty[data["task_index"].values]
    return with_successes(data, expit(log_odds + extra), rng)


def rasch_fit(data, rng, shift_ability=0.0, shift_difficulty=0.0):
    """Normal approximation at the mode of Rasch with N(0, 1) priors; shifts make it wrong."""
    agents, tasks = data.sizes["agent"], data.sizes["task"]
    x = np.zeros((data.sizes["cell"], agents + tasks))
    rows = np.arange(len(x))
    x[rows, data["agent_index"].values] = 1
    x[rows, agents + data["task_index"].values] = -1
    n, y = data["attempts"].values, data["successes"].values
    beta = np.zeros(agents + tasks)
    for _ in range(30):
        p = expit(x @ beta)
        precision = x.T @ (x * (n * p * (1 - p))[:, None]) + np.eye(len(beta))
        beta += np.linalg.solve(precision, x.T @ (y - n * p) - beta)
    draws = rng.multivariate_normal(beta, np.linalg.inv(precision), size=(2, DRAWS // 2))
    ability, difficulty = draws[..., :agents], draws[..., agents:]
    mean = ability.mean(axis=-1, keepdims=True)
    batch = ("chain", "draw")
    flat = np.ones((2, DRAWS // 2))
    posterior = xr.Dataset(
        {
            "ability": ((*batch, "agent"), ability - mean + shift_ability),
            "difficulty": ((*batch, "task"), difficulty - mean + shift_difficulty),
            "ability_sd": (batch, flat),
            "difficulty_mean": (batch, 0 * flat),
            "difficulty_sd": (batch, flat),
        },
        coords={"agent": data["agent"].values, "task": data["task"].values},
    )
    model = get_model("rasch")
    attrs = {
        "model": "rasch",
        "priors": PRIORS,
        "model_source": model.source,
        "seed": 3,
        "data_fingerprint": "x",
    }
    groups = {"/": xr.Dataset(attrs=attrs), "posterior": posterior, "data": data}
    return xr.DataTree.from_dict(groups)


def rows_of(fit, **options):
    return {row.name.removeprefix("predictive_"): row for row in predictive(fit, **options)}


def test_a_right_model_passes_every_check(rng):
    rows = rows_of(rasch_fit(rasch_data(rng), rng))
    assert list(rows) == ["agent", "task", "band", "mixed", "families", "q3"]
    for row in rows.values():
        assert row.passed, row.text
        assert 0.02 < row.value < 0.98
        assert row.text.count("p = ") == 1


def test_replicates_of_a_right_model_surround_the_data(rng):
    data = rasch_data(rng)
    found = posterior_predictive(rasch_fit(data, rng))
    low, high = np.quantile(found["agent_replicated"], [0.001, 0.999], axis=0)
    solved = data["successes"].groupby(data["agent_index"]).sum().values
    np.testing.assert_allclose(found["agent_observed"], solved / (TASKS * ATTEMPTS))
    assert ((low <= found["agent_observed"]) & (found["agent_observed"] <= high)).all()
    assert found["task_replicated"].shape == (DRAWS, TASKS)
    assert found["band_observed"].shape == (6,)
    mixed = ((data["successes"] > 0) & (data["successes"] < ATTEMPTS)).mean()
    assert float(found["mixed_observed"]) == pytest.approx(float(mixed))


@pytest.mark.parametrize(
    ("kind", "shift", "name"),
    [
        ("agent", {"shift_ability": np.where(np.arange(AGENTS) == 4, 1.0, 0.0)}, "agent 4"),
        ("task", {"shift_difficulty": np.where(np.arange(TASKS) == 7, 2.0, 0.0)}, "task 7"),
        ("band", {"shift_difficulty": np.where(np.arange(TASKS) >= 15, -0.6, 0.0)}, "to 512 min"),
    ],
)
def test_a_wrong_posterior_fails_and_the_culprit_is_named(rng, kind, shift, name):
    row = rows_of(rasch_fit(rasch_data(rng), rng, **shift))[kind]
    assert not row.passed
    assert row.value == 0
    assert name in row.text.split("Farthest off is ")[1].split(":")[0]


def of_families(rng):
    """Return an effect of every agent on every family, by cell."""
    data = design()
    family = data["family_index"].values[data["task_index"].values]
    return rng.normal(0, 1.5, (AGENTS, 6))[data["agent_index"].values, family]


def test_families_that_go_together_fail(rng):
    fit = rasch_fit(rasch_data(rng, extra=of_families(rng), attempts=2), rng)
    row = rows_of(fit)["families"]
    assert not row.passed
    assert "Try testlet" in row.text
    found = posterior_predictive(fit, replicates=DRAWS)["families_observed"].median()
    assert f"families is {float(found):.2f}," in row.text
    chance = expit(fit["posterior"]["ability"] - fit["posterior"]["difficulty"])
    e = fit["data"]["successes"].values.reshape(AGENTS, 6, 3) - 2 * chance.values.reshape(
        -1, AGENTS, 6, 3
    )
    effect = (e.sum(axis=3) ** 2).sum(axis=(1, 2)) / (e**2).sum(axis=(1, 2, 3))
    assert float(found) == pytest.approx(np.median(effect))


def test_tasks_that_share_more_than_the_ability_fail_q3(rng):
    row = rows_of(rasch_fit(rasch_data(rng, extra=of_families(rng)), rng))["q3"]
    assert not row.passed
    first, second = (int(number) for number in re.findall(r"task (\d+)", row.text))
    assert first // 3 == second // 3


def test_attempts_that_repeat_each_other_fail_the_share_of_mixed_cells(rng):
    data = rasch_data(rng, attempts=1)
    copied = data.assign(
        attempts=data["attempts"] * 4, successes=data["successes"] * 4
    )  # each attempt made once and copied
    row = rows_of(rasch_fit(copied, rng))["mixed"]
    assert not row.passed
    assert row.value == 1
    assert "agree more than the model allows" in row.text


def test_attempts_too_regular_fail_on_the_other_side(rng):
    data = design(attempts=2)
    half = data.assign(successes=("cell", np.ones(data.sizes["cell"], int)))
    row = rows_of(rasch_fit(half, rng))["mixed"]
    assert (row.passed, row.value) == (False, 0)
    assert "agree less than the model allows" in row.text


def test_what_does_not_apply_is_said(rng):
    rows = rows_of(rasch_fit(rasch_data(rng, attempts=1, minutes=False, agents=5), rng))
    for name, why in {"mixed": "one attempt", "band": "minutes", "q3": "10 agents"}.items():
        assert rows[name].passed
        assert np.isnan(rows[name].value)
        assert rows[name].text.startswith("Not judged")
        assert why in rows[name].text


def test_same_fit_same_result_whatever_the_blocks(rng):
    fit = rasch_fit(rasch_data(rng), rng)
    once = posterior_predictive(fit, replicates=50)
    xr.testing.assert_identical(once, posterior_predictive(fit, replicates=50))
    in_blocks = posterior_predictive(fit, replicates=50, budget=8 * 6 * AGENTS * TASKS * 7)
    xr.testing.assert_allclose(once, in_blocks, rtol=1e-12)
    np.testing.assert_array_equal(once["task_replicated"], in_blocks["task_replicated"])


def test_a_task_without_attempts_is_left_out(rng):
    data = rasch_data(rng)
    data = data.isel(cell=data["task_index"].values != 5)
    rows = rows_of(rasch_fit(data, rng))
    assert "17 tasks" in rows["task"].text
    assert rows["task"].passed


def saturated(rng):
    """Task 0 always solved, task 1 never, task 2 not tried, agent 3 fails everywhere."""
    data = rasch_data(rng)
    task, agent = data["task_index"].values, data["agent_index"].values
    y = np.where(task == 0, ATTEMPTS, data["successes"].values)
    y = np.where(task == 1, 0, y)
    y = np.where((agent == 3) & (task != 0), 0, y)
    return data.assign(successes=("cell", y)).isel(cell=(task != 2) & ((agent != 3) | (task != 0)))


def test_uninformative_tasks_and_agents_are_listed_with_wide_intervals(rng):
    fit = rasch_fit(saturated(rng), rng)
    tasks, agents = uninformative(fit), uninformative(fit, "agent")
    assert tasks["kind"].to_dict() == {
        "task 0": "always solved",
        "task 1": "never solved",
        "task 2": "no attempts",
    }
    assert list(agents.index) == ["agent 3"]
    draws = fit["posterior"]["difficulty"].sel(task="task 1").values
    low, high = np.quantile(draws, [0.025, 0.975])
    assert tasks.loc["task 1", "width"] == pytest.approx(high - low)
    row = uninformative_rows(fit)[0]
    assert (row.passed, row.value) == (True, 3)
    assert "'task 1'" in row.text
    others = np.ptp(
        np.quantile(fit["posterior"]["difficulty"][..., 3:], [0.025, 0.975], axis=(0, 1)), axis=0
    )
    assert tasks["width"].min() > 2 * np.median(others)


def test_uninformative_without_a_difficulty(rng):
    fit = rasch_fit(saturated(rng), rng)
    fit["posterior"] = fit["posterior"].to_dataset().drop_vars(["difficulty"])
    assert uninformative(fit)["width"].isna().all()
    assert uninformative_rows(fit)[0].value == 3


def test_the_table_has_every_check_once(rng):
    table = check(rasch_fit(rasch_data(rng), rng), replicates=100)
    assert list(table.columns) == ["name", "passed", "value", "text"]
    assert table["name"].is_unique
    assert len(table) == 14
    assert table["passed"].dtype == bool
    assert table["text"].str.endswith(".").all()
    assert list(table.index) == list(range(14))
