"""Engines that approximate, against weighted draws from the prior and against NUTS."""

import json
from functools import cache

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from click.testing import CliRunner
from scipy.special import expit

import measurebayes as mb
from measurebayes.checks import converged
from measurebayes.cli import main
from measurebayes.compare import loo
from measurebayes.inference import nested
from measurebayes.inference.blocks import Blocks
from measurebayes.program.registry import get_model

pytestmark = pytest.mark.slow
SETTINGS = {"draws": 1000, "chains": 2, "seed": 3, "progress": False}
PRIORS = {"ability_sd": 1.0, "difficulty_mean": 1.0, "difficulty_sd": 1.0}


def runs_of(successes, attempts):
    agents, tasks = successes.shape
    agent, task = (x.ravel() for x in np.indices(successes.shape))
    records = {
        "agent": [f"agent {i}" for i in agent],
        "task": [f"task {j}" for j in task],
        "attempts": np.full(agents * tasks, attempts),
        "successes": successes.ravel(),
    }
    return mb.load(pd.DataFrame(records))


@cache
def small():
    successes = np.array([[2, 1, 0, 1], [2, 2, 1, 0], [2, 1, 0, 0]])
    return successes, runs_of(successes, 2)


@cache
def by_weight(model):
    """Posterior mean and standard deviation of each scalar, by draws from the prior."""
    successes, _ = small()
    rng, number = np.random.default_rng(8), 1_500_000
    agents, tasks = successes.shape
    ability_sd = np.abs(rng.normal(0, 1, number))
    ability = rng.normal(size=(number, agents))
    ability = ability_sd[:, None] * (ability - ability.mean(axis=1, keepdims=True))
    mean, spread = rng.normal(0, 1, number), np.abs(rng.normal(0, 1, number))
    difficulty = mean[:, None] + spread[:, None] * rng.normal(size=(number, tasks))
    log_spread = np.abs(rng.normal(0, 0.5, number))
    slope = np.exp(log_spread[:, None] * rng.normal(size=(number, tasks)))
    if model == "rasch":
        slope = np.ones_like(slope)
    log_weight = np.zeros(number)
    for i in range(agents):
        chance = expit(slope * (ability[:, [i]] - difficulty)).clip(1e-12, 1 - 1e-12)
        log_weight += np.log(chance) @ successes[i]
        log_weight += np.log1p(-chance) @ (2 - successes[i])
    weight = np.exp(log_weight - log_weight.max())
    weight /= weight.sum()
    assert 1.0 / np.sum(weight**2) > 4_000
    found = {}
    for name, x in {
        "ability": ability, "difficulty": difficulty, "log_ability_sd": np.log(ability_sd),
        "difficulty_mean": mean, "discrimination": slope,
    }.items():  # fmt: skip
        centre = weight @ x
        found[name] = centre, np.sqrt(weight @ (x - centre) ** 2)
    return found


def assert_agree(fit, model, worth, names):
    drawn = fit["posterior"].to_dataset()
    drawn["log_ability_sd"] = np.log(drawn["ability_sd"])
    for name in names:
        centre, spread = by_weight(model)[name]
        x = drawn[name].values.reshape(-1, *np.shape(centre))
        error = np.sqrt(1.0 / worth + 1.0 / 4_000)  # of both, in standard deviations
        np.testing.assert_allclose((x.mean(axis=0) - centre) / spread, 0.0, atol=4.5 * error)
        np.testing.assert_allclose(x.std(axis=0) / spread, 1.0, atol=6.0 * error)


@pytest.mark.parametrize("model", ["rasch", "two_pl"])
def test_laplace_against_weighted_draws_of_the_prior(model):
    fit = mb.fit(model, small()[1], method="laplace", priors=PRIORS, **SETTINGS)
    quality = json.loads(fit.attrs["approximation"])
    assert quality["pareto_k"] < 0.7
    assert converged(fit)
    names = ["ability", "difficulty", "log_ability_sd", "difficulty_mean"]
    assert_agree(fit, model, 500, names)
    again = mb.fit(model, small()[1], method="laplace", priors=PRIORS, **SETTINGS)
    xr.testing.assert_identical(again["posterior"].to_dataset(), fit["posterior"].to_dataset())


def test_agents_that_sum_to_zero_are_integrated_out():
    rng = np.random.default_rng(5)
    ability = 1.3 * rng.normal(size=150)
    difficulty = np.array([-1.5, -0.5, 0.2, 1.0])
    chance = expit(ability[:, None] - difficulty)
    runs = runs_of(rng.binomial(2, chance), 2)
    model = get_model("rasch")
    blocks = Blocks(model, runs, model.priors)
    assert (blocks.axis, blocks.length, blocks.width, len(blocks.tied)) == ("agent", 150, 1, 1)
    fit = mb.fit("rasch", runs, method="laplace", **SETTINGS)
    assert json.loads(fit.attrs["approximation"])["pareto_k"] < 0.7
    sums = fit["posterior"]["ability"].sum("agent")
    np.testing.assert_allclose(sums, 0.0, atol=1e-8)
    sampled = mb.fit("rasch", runs, seed=2, draws=750, chains=2, progress=False)
    for name in ("ability_sd", "difficulty_sd", "difficulty_mean", "difficulty", "ability"):
        x = sampled["posterior"][name]
        spread = x.std(("chain", "draw"))
        found = fit["posterior"][name]
        away = (found.mean(("chain", "draw")) - x.mean(("chain", "draw"))) / spread
        np.testing.assert_allclose(away, 0.0, atol=0.25)
        ratio = found.std(("chain", "draw")) / spread
        np.testing.assert_allclose(ratio, 1.0, atol=0.2)


def test_pathfinder_says_what_it_is_worth():
    pytest.importorskip("blackjax")
    fit = mb.fit("rasch", small()[1], method="pathfinder", **SETTINGS)
    k = json.loads(fit.attrs["approximation"])["pareto_k"]
    assert converged(fit) == (k is not None and k < 0.7)
    assert set(fit["posterior"].data_vars) == {
        "ability", "ability_sd", "difficulty", "difficulty_mean", "difficulty_sd"
    }  # fmt: skip
    assert np.isfinite(fit["posterior"].to_dataset().to_dataarray()).all()


def test_approximations_go_where_fits_go(tmp_path):
    runs = small()[1]
    data, out = tmp_path / "runs.nc", tmp_path / "fit.nc"
    mb.save(runs, data)
    words = ["fit", "rasch", str(data), "--method", "laplace", "--quiet", "-o", str(out)]
    found = CliRunner().invoke(main, [*words, "--draws", "300", "--chains", "2"])
    assert found.exit_code == 0, found.output
    assert not (tmp_path / "fit.nc.part").exists()
    fit = mb.open(out)
    assert fit["posterior"].sizes["draw"] == 300
    assert "approximation" in mb.check(fit)["name"].tolist()
    checked = CliRunner().invoke(main, ["check", str(out)])
    assert "R-hat" not in checked.output
    resumed = CliRunner().invoke(main, [*words, "--resume"])
    assert resumed.exit_code == 2
    assert "keeps no checkpoint" in resumed.output
    table = mb.crossval(
        "rasch", runs, folds="task", k=2, method="laplace", draws=200, chains=2, progress=False
    )
    assert np.isfinite(table["elpd"]).all()
    assert table["unconverged"].tolist() == [0]
    assert np.isfinite(loo(fit, unit="task").attrs["elpd"])


def test_a_density_that_can_not_be_followed_is_not_resampled(monkeypatch):
    monkeypatch.setattr(nested, "K_LIMIT", -10.0)
    fit = mb.fit("rasch", small()[1], method="laplace", **SETTINGS)
    assert "can't be trusted" in json.loads(fit.attrs["approximation"])["text"]


@pytest.mark.parametrize("model", ["two_pl", "three_pl", "mirt:dimensions=2", "testlet"])
def test_factors_make_up_the_joint_density(model, metr):
    """The parts by block and outside sum to the density of the text, in its own coordinates."""
    import jax
    from numpyro.infer.util import log_density

    from measurebayes.backends.numpyro import numpyro_model

    tasks = [str(t) for t in metr["task"].values[::12]]
    runs = mb.subset(metr, task=tasks)
    chosen = get_model(model)
    blocks = Blocks(chosen, runs, chosen.priors)
    rng = np.random.default_rng(1)
    text = numpyro_model(chosen, runs)
    latent = {v.name for v in blocks.variables}
    with jax.enable_x64(True):
        values = []
        for _ in range(3):
            outer = rng.normal(0, 0.3, blocks.size)
            inner = rng.normal(0, 0.3, (blocks.length, blocks.width))
            outside, inside = blocks.terms(outer, inner, blocks.arguments)
            named = blocks.named(outer, inner, blocks.arguments)
            of_text, _ = log_density(text, (), {}, {n: named[n] for n in latent})
            flat = blocks.sites(outer, inner)
            widths = _log_widths(blocks, flat, latent)
            values.append(float(outside + inside.sum() - widths - of_text))
    np.testing.assert_allclose(values, values[0], atol=1e-7)


def _log_widths(blocks, flat, latent):
    """Log determinant of what takes coordinates to variables, by derivatives of the text's own."""
    import jax
    import jax.numpy as jnp
    from jax.flatten_util import ravel_pytree
    from numpyro.infer.util import constrain_fn

    start, unravel = ravel_pytree(flat)

    def variables_of(vector):
        model = blocks._model(blocks.arguments)
        named = constrain_fn(model, (), {}, unravel(vector), return_deterministic=True)
        parts = []
        for name in sorted(latent):
            x = named[name]
            # Sum-zero vectors have one element too many: all but the last tell them.
            parts.append(x[..., :-1] if name in blocks.zero_sum else x)
        return jnp.concatenate([jnp.ravel(p) for p in parts])

    return jnp.linalg.slogdet(jax.jacfwd(variables_of)(start))[1]
