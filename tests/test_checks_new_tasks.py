"""What a model with effects of tasks says of tasks that it has not seen: checks/new_tasks.py."""

import json

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy.special import expit

import measurebayes as mb
from measurebayes.backends.simulate import prior_draw
from measurebayes.checks.new_tasks import band_rates, new_tasks
from measurebayes.inference.results import assemble
from measurebayes.program.registry import get_model

AGENTS, TASKS, DRAWS = 6, 48, 150


def runs_of(rng, curve):
    """Data with log odds `curve(log2 minutes)` plus an agent's and a task's part."""
    length = np.linspace(-2.0, 9.0, TASKS)
    eta = curve(length) + rng.normal(0.0, 1.0, TASKS) + np.linspace(-1.0, 1.0, AGENTS)[:, None]
    agent, task = (x.ravel() for x in np.indices(eta.shape))
    frame = {
        "agent": [f"agent {i}" for i in agent],
        "task": [f"task {j:02d}" for j in task],
        "human_minutes": 2.0 ** length[task],
        "attempts": 5,
        "successes": rng.binomial(5, expit(eta)).ravel(),
    }
    return mb.load(pd.DataFrame(frame))


def fit_of(runs, rng, task_sd):
    """A made fit whose effects of tasks reproduce its own tasks well, whatever their lengths."""
    model = get_model("horizon_task")
    one = prior_draw(model, runs, rng)
    del one["successes"]
    cells = runs["successes"].values.reshape(AGENTS, TASKS)
    steep, horizon = 0.6, 3.5 + np.linspace(-1.0, 1.0, AGENTS) / 0.6
    length = np.log2(runs["human_minutes"].values)
    expected = steep * (horizon[:, None] - length)
    rate = (cells.sum(axis=0) + 0.5) / (5 * AGENTS + 1.0)
    effect = expected.mean(axis=0) - np.log(rate / (1.0 - rate))
    values = {
        "steepness": np.full(AGENTS, steep),
        "slope": np.full(AGENTS, -steep),
        "intercept": steep * horizon,
        "log2_horizon": horizon,
        "centred_intercept": steep * (horizon - 4.0),
        "task_effect": effect,
        "task_sd": task_sd,
    }
    return made(model, runs, one, values)


def made(model, runs, one, values):
    """Put values, the same in all draws, into a fit."""
    draws = {
        name: xr.DataArray(values.get(name, x.values), dims=x.dims).expand_dims(chain=1, draw=DRAWS)
        for name, x in one.items()
    }
    posterior = xr.Dataset(draws).assign_coords(chain=[0], draw=np.arange(DRAWS))
    attrs = {"priors": json.dumps(dict(model.priors)), "seed": 1}
    return assemble(model, runs, posterior, xr.Dataset(), attrs)


def test_rates_of_new_tasks_are_those_of_the_population(rng):
    runs = runs_of(rng, lambda x: 0.6 * (3.5 - x))
    found = band_rates(fit_of(runs, rng, 1.5))
    length, effect = np.linspace(-2.0, 9.0, TASKS), rng.normal(0.0, 1.5, 20_000)
    horizon = 3.5 + np.linspace(-1.0, 1.0, AGENTS) / 0.6
    eta = 0.6 * (horizon[:, None] - length)
    expected = expit(eta[..., None] - effect).mean(axis=(0, 2)).reshape(6, 8).mean(axis=1)
    mean = found["replicated"].mean("replicate").values
    error = found["replicated"].std("replicate").values / np.sqrt(DRAWS)
    assert np.all(abs(mean - expected) < 4.0 * error + 0.003)
    solved = runs["successes"].values.reshape(AGENTS, 6, 8).sum(axis=(0, 2)) / (AGENTS * 8 * 5)
    np.testing.assert_allclose(found["observed"].values, solved)


def test_a_curve_that_is_no_line_fails_although_effects_of_tasks_hide_it(rng):
    straight = new_tasks(fit_of(runs_of(rng, lambda x: 0.6 * (3.5 - x)), rng, 1.0))
    assert straight[0].passed, straight
    step = new_tasks(fit_of(runs_of(rng, lambda x: np.where(x < 3.5, 3.0, -3.0)), rng, 1.0))
    assert not step[0].passed, step
    assert "marginal horizons" in step[0].text


@pytest.mark.parametrize("model", ["rasch", "horizon_logistic"])
def test_models_without_effects_around_length_have_no_such_row(rng, model):
    runs = runs_of(rng, lambda x: -x)
    one = prior_draw(get_model(model), runs, rng)
    del one["successes"]
    assert new_tasks(made(get_model(model), runs, one, {})) == []
