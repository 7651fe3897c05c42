"""Calibration with a real model text and an exact posterior on a grid in place of the sampler."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import xarray as xr

from measurebayes.checks.calibration import calibrate, plot_ranks
from measurebayes.errors import InputError

MODEL = '''"""One easiness for each agent.

Equation
--------
logit P = easiness[i]
"""

PRIORS = {"easiness_sd": 1.5}


def model(pp, data, priors=PRIORS):
    easiness = pp.normal("easiness", 0.0, priors["easiness_sd"], dims="agent")
    pp.deterministic("total", pp.sum(easiness, "agent"))
    pp.observe_successes(pp.cell(easiness))
'''


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "common.py"
    path.write_text(MODEL, encoding="utf-8")
    return str(path)


@pytest.fixture
def design():
    agent, task = (x.ravel() for x in np.indices((2, 3)))
    return xr.Dataset(
        {
            "agent_index": ("cell", agent),
            "task_index": ("cell", task),
            "attempts": ("cell", np.full(6, 4)),
            "successes": ("cell", np.zeros(6, int)),
            "family_index": ("task", np.arange(3)),
        },
        coords={"agent": ["a", "b"], "task": ["x", "y", "z"], "family": ["x", "y", "z"]},
    )


class GridFit:
    """Exact posterior draws of each easiness; notes how many it was asked for."""

    def __init__(self, sd, repeats=1):
        self.sd, self.repeats, self.asked = sd, repeats, []

    def __call__(self, model, data, *, draws, tune, chains, seed, **others):
        self.asked.append(draws)
        grid = np.linspace(-10, 10, 4001)
        rng = np.random.default_rng(seed)
        number = chains * draws // self.repeats
        easiness = np.empty((chains, draws, data.sizes["agent"]))
        for agent in range(data.sizes["agent"]):
            cells = data.isel(cell=data["agent_index"].values == agent)
            y, n = int(cells["successes"].sum()), int(cells["attempts"].sum())
            log_density = y * grid - n * np.logaddexp(0, grid) - grid**2 / (2 * self.sd**2)
            weights = np.exp(log_density - log_density.max())
            drawn = rng.choice(grid, size=number, p=weights / weights.sum())
            drawn = np.repeat(drawn + rng.uniform(-0.0025, 0.0025, number), self.repeats)
            easiness[..., agent] = drawn.reshape(chains, draws)
        batch = ("chain", "draw")
        values = {"easiness": ((*batch, "agent"), easiness), "total": (batch, easiness.sum(-1))}
        posterior = xr.Dataset(values, coords={"agent": data["agent"].values})
        return xr.DataTree.from_dict({"posterior": posterior})


def run(monkeypatch, model, design, fit, replications=200, **options):
    monkeypatch.setattr("measurebayes.inference.fit", fit)
    settings = {"draws": 200, "chains": 2, "progress": False, **options}
    return calibrate(model, design, replications, **settings)


@pytest.mark.slow
def test_an_exact_posterior_is_calibrated(monkeypatch, model, design):
    result = run(monkeypatch, model, design, GridFit(sd=1.5))
    assert result.uniform(0.01)
    names = ["easiness[a]", "easiness[b]", "total", "log_likelihood"]
    assert list(result.ranks["parameter"]) == names
    assert list(result.table.index) == [*names, "easiness[all]"]
    assert result.ranks.sizes == {"replication": 200, "parameter": 4}
    assert result.ranks.min() >= 0
    assert result.ranks.max() <= result.largest == 99
    assert result.unconverged < 20


@pytest.mark.slow
def test_a_fit_with_another_prior_is_found(monkeypatch, model, design):
    result = run(monkeypatch, model, design, GridFit(sd=0.4))
    assert not result.uniform(0.01)
    assert result.summary()["uniform"] is False


@pytest.mark.slow
def test_priors_reach_simulation_and_fit(monkeypatch, model, design):
    result = run(monkeypatch, model, design, GridFit(sd=0.4), priors={"easiness_sd": 0.4})
    assert result.uniform(0.01)


def test_the_executor_changes_nothing(monkeypatch, model, design):
    alone = run(monkeypatch, model, design, GridFit(sd=1.5), 6)
    with ThreadPoolExecutor(3) as executor:
        together = run(monkeypatch, model, design, GridFit(sd=1.5), 6, executor=executor)
    xr.testing.assert_identical(alone.ranks, together.ranks)
    other_seed = run(monkeypatch, model, design, GridFit(sd=1.5), 6, seed=2)
    assert not alone.ranks.equals(other_seed.ranks)


def test_a_fit_with_too_few_effective_draws_is_repeated_longer(monkeypatch, model, design):
    slow = GridFit(sd=1.5, repeats=10)
    result = run(monkeypatch, model, design, slow, 2, ranked_among=50)
    assert slow.asked[:2] == [200, 400]
    assert result.diagnostics["draws"].min() >= 400
    stuck = GridFit(sd=1.5, repeats=100)
    result = run(monkeypatch, model, design, stuck, 2, ranked_among=50)
    assert stuck.asked == [200, 400, 800] * 2
    assert result.unconverged == 2
    assert result.ranks.sizes["replication"] == 2  # kept, not selected on the data


@pytest.mark.parametrize("options", [{"replications": 1}, {"ranked_among": 401}])
def test_impossible_settings_are_refused(model, design, options):
    settings = {"replications": 5, "draws": 200, "chains": 2} | options
    with pytest.raises(InputError, match=r"expected"):
        calibrate(model, design, **settings)


def test_rank_histograms(monkeypatch, model, design):
    pytest.importorskip("matplotlib")
    result = run(monkeypatch, model, design, GridFit(sd=1.5), 50)
    figure = plot_ranks(result)
    titles = [axis.get_title() for axis in figure.axes if axis.get_visible()]
    assert titles == ["easiness", "total", "log_likelihood"]
    heights = [patch.get_height() for patch in figure.axes[0].patches[1:]]
    assert sum(heights) == 2 * 50
