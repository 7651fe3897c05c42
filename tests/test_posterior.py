"""Draws of the real samplers against exact posteriors, limits, symmetry, truth and each other."""

import multiprocessing
import signal
import sqlite3
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing

import arviz as az
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy.integrate import quad
from scipy.special import expit, log_expit, logsumexp

import measurebayes as mb
from measurebayes.checks.convergence import convergence
from measurebayes.estimands import score_table

pytestmark = pytest.mark.slow
QUICK = {"draws": 500, "tune": 400, "chains": 2, "seed": 3, "progress": False}


def table(successes, attempts=4):
    """Return data of a full table of successes (agent, task)."""
    successes = np.asarray(successes)
    agent, task = (x.ravel() for x in np.indices(successes.shape))
    return mb.load(
        pd.DataFrame(
            {
                "agent": [f"agent {i:02d}" for i in agent],
                "task": [f"task {j:02d}" for j in task],
                "attempts": attempts,
                "successes": successes.ravel(),
            }
        )
    )


def close(one, other, errors=5.0):
    """Assert that two posteriors (chain, draw, ...) have means equal to Monte Carlo error."""
    for name in one.data_vars:
        error = np.hypot(az.mcse(one[[name]])[name].values, az.mcse(other[[name]])[name].values)
        gap = np.abs(one[name].mean(("chain", "draw")) - other[name].mean(("chain", "draw")))
        assert np.all(gap.values < errors * error), (name, float((gap / error).max()))


# -- the exact posterior ----------------------------------------------------------------------


def prior_sample(rng, number, agents, tasks, slopes):
    """Draw from the priors as the documents state them, all scales 1 (0.5 for log slopes)."""
    ability_sd, difficulty_sd = np.abs(rng.normal(size=(2, number)))
    ability = ability_sd[:, None] * rng.normal(size=(number, agents))
    mean = rng.normal(size=number)
    values = {
        "ability_sd": ability_sd,
        "ability": ability - ability.mean(1, keepdims=True),
        "difficulty_mean": mean,
        "difficulty_sd": difficulty_sd,
        "difficulty": mean[:, None] + difficulty_sd[:, None] * rng.normal(size=(number, tasks)),
    }
    if slopes:
        spread = 0.5 * np.abs(rng.normal(size=number))
        values["log_discrimination_sd"] = spread
        values["discrimination"] = np.exp(spread[:, None] * rng.normal(size=(number, tasks)))
    return values


@pytest.mark.parametrize("model", ["rasch", "two_pl"])
def test_draws_have_the_moments_of_the_exact_posterior(model):
    """Importance sampling from the prior: exact, and shares no line with the package."""
    successes = np.array([[4, 2, 1], [3, 0, 4], [1, 1, 0]])
    exact = prior_sample(np.random.default_rng(11), 1_000_000, 3, 3, model == "two_pl")
    eta = exact["ability"][:, :, None] - exact["difficulty"][:, None, :]
    if model == "two_pl":
        eta = eta * exact["discrimination"][:, None, :]
    log_weight = np.sum(successes * log_expit(eta) + (4 - successes) * log_expit(-eta), (1, 2))
    weight = np.exp(log_weight - logsumexp(log_weight))
    effective = 1 / np.sum(weight**2)
    assert effective > 5000
    priors = {"ability_sd": 1.0, "difficulty_mean": 1.0, "difficulty_sd": 1.0}
    same = {**QUICK, "draws": 4000, "chains": 4}
    fit = mb.fit(model, table(successes), priors=priors, **same)
    assert rows(fit)["rhat"].value < 1.01
    posterior = fit["posterior"].to_dataset()
    least = az.ess(posterior)
    for name, values in exact.items():
        # The logarithm of what is positive, whose tails are light.
        scale = np.log if name.endswith("_sd") or name == "discrimination" else np.asarray
        mean = np.tensordot(weight, scale(values), 1)
        sd = np.sqrt(np.tensordot(weight, (scale(values) - mean) ** 2, 1))
        drawn = scale(posterior[name].values)
        error = sd * np.sqrt(1 / effective + 1 / least[name].values)
        assert np.all(np.abs(drawn.mean((0, 1)) - mean) < 5 * error), name
        assert np.all(np.abs(np.log(drawn.std((0, 1)) / sd)) < 0.12), name


def rows(fit):
    return {row.name: row for row in convergence(fit)}


def test_two_pl_with_equal_slopes_is_rasch(tiny):
    same = {**QUICK, "draws": 1500, "chains": 4}
    narrow = mb.fit("two_pl", tiny, priors={"log_discrimination_sd": 1e-4}, **same)
    rasch = mb.fit("rasch", tiny, **same)
    names = list(rasch["posterior"].data_vars)
    close(narrow["posterior"].to_dataset()[names], rasch["posterior"].to_dataset())
    np.testing.assert_allclose(narrow["posterior"]["discrimination"], 1.0, atol=0.01)


def test_backends_agree(tiny):
    same = {**QUICK, "draws": 1500, "chains": 4}
    ours = mb.fit("two_pl", tiny, **same)
    theirs = mb.fit("two_pl", tiny, backend="pymc", **same)
    assert set(ours["sample_stats"].data_vars) <= set(theirs["sample_stats"].data_vars)
    assert ours["posterior"].dims == theirs["posterior"].dims
    close(ours["posterior"].to_dataset(), theirs["posterior"].to_dataset(), errors=6.0)


def test_truth_is_recovered():
    rng = np.random.default_rng(5)
    ability = rng.normal(0, 1.5, 30)
    ability -= ability.mean()
    difficulty, slope = rng.normal(0.5, 1.5, 40), np.exp(rng.normal(0, 0.4, 40))
    chance = expit(slope * (ability[:, None] - difficulty))
    fit = mb.fit("two_pl", table(rng.binomial(4, chance)), **QUICK)
    posterior = fit["posterior"]
    inside = []
    for name, truth in (
        ("ability", ability),
        ("difficulty", difficulty),
        ("discrimination", slope),
    ):
        low, high = np.quantile(posterior[name].values, [0.05, 0.95], axis=(0, 1))
        inside += list((low < truth) & (truth < high))
        mean = posterior[name].mean(("chain", "draw"))
        assert np.corrcoef(mean, truth)[0, 1] > (0.7 if name == "discrimination" else 0.9), name
    assert 0.83 < np.mean(inside) < 0.97  # 110 intervals of 90 %
    for name, truth in (("ability_sd", 1.5), ("difficulty_sd", 1.5), ("difficulty_mean", 0.5)):
        low, high = np.quantile(posterior[name].values, [0.005, 0.995])
        assert low < truth < high, name


# -- symmetry ---------------------------------------------------------------------------------


def test_relabelling_permutes_the_posterior(tiny):
    rng = np.random.default_rng(2)
    agents, tasks = rng.permutation(tiny.sizes["agent"]), rng.permutation(tiny.sizes["task"])
    moved = tiny.isel(agent=agents, task=tasks)
    moved["agent_index"] = ("cell", np.argsort(agents)[tiny["agent_index"].values])
    moved["task_index"] = ("cell", np.argsort(tasks)[tiny["task_index"].values])
    order = np.lexsort((moved["task_index"].values, moved["agent_index"].values))
    moved = moved.isel(cell=order)
    same = {**QUICK, "draws": 1500, "chains": 4}
    one = mb.fit("rasch", tiny, **same)["posterior"].to_dataset()
    two = mb.fit("rasch", moved, **same)["posterior"].to_dataset()
    close(one, two.sel(agent=one["agent"].values, task=one["task"].values))


def test_an_agent_that_solves_everything_ranks_first():
    rng = np.random.default_rng(8)
    successes = rng.binomial(4, 0.5, (6, 10))
    successes[3] = 4
    successes[5] = 0
    for model in ("rasch", "two_pl"):
        fit = mb.fit(model, table(successes), **QUICK)
        mean = fit["posterior"]["ability"].mean(("chain", "draw")).values
        assert mean.argmax() == 3
        assert mean.argmin() == 5
        assert np.isfinite(fit["posterior"]["ability"]).all()


# -- runs ---------------------------------------------------------------------------------------


def test_a_seed_reproduces_the_draws_in_any_executor(tiny):
    first, second = (mb.fit("two_pl", tiny, **QUICK) for _ in range(2))
    assert first["posterior"].to_dataset().identical(second["posterior"].to_dataset())
    other = mb.fit("two_pl", tiny, **{**QUICK, "seed": 4})
    assert not np.array_equal(first["posterior"]["ability"], other["posterior"]["ability"])
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(2, mp_context=context) as executor:
        elsewhere = mb.fit("two_pl", tiny, executor=executor, **QUICK)
    assert first["posterior"].to_dataset().identical(elsewhere["posterior"].to_dataset())


COMMAND = [
    sys.executable, "-m", "measurebayes", "fit", "two_pl", "metr-th1.1", "--seed", "7",
    "--draws", "900", "--tune", "300", "--chains", "2", "--quiet",
]  # fmt: skip


def test_killed_fit_goes_on_with_the_same_draws(tmp_path):
    """kill -9 in the middle of sampling; then --resume; against a run that was left alone."""
    output = tmp_path / "killed.nc"
    part = tmp_path / "killed.nc.part"
    process = subprocess.Popen([*COMMAND, "-o", str(output)])
    deadline = time.monotonic() + 120
    while saved_draws(part) < 100 and time.monotonic() < deadline and process.poll() is None:
        time.sleep(0.1)
    process.send_signal(signal.SIGKILL)
    process.wait()
    drawn = saved_draws(part)
    assert 100 <= drawn < 2 * 900, "it was not killed in the middle of sampling"
    assert not output.exists()
    refused = subprocess.run([*COMMAND, "-o", str(output)], capture_output=True, text=True)
    assert refused.returncode == 2
    assert "--resume" in refused.stderr
    subprocess.run([*COMMAND, "-o", str(output), "--resume"], check=True)
    assert not part.exists()
    whole = tmp_path / "whole.nc"
    subprocess.run([*COMMAND, "-o", str(whole)], check=True)
    one, two = mb.open(output), mb.open(whole)
    for group in ("posterior", "sample_stats", "log_likelihood"):
        assert one[group].to_dataset().identical(two[group].to_dataset()), group
    assert one.attrs["gradients"] == two.attrs["gradients"]


def saved_draws(part):
    if not part.exists():
        return 0
    try:
        with closing(sqlite3.connect(f"file:{part}?mode=ro", uri=True, timeout=5)) as db:
            found = db.execute("SELECT sum(done - 300) FROM chain WHERE done > 300").fetchone()
    except sqlite3.OperationalError:  # the tables are being made
        return 0
    return found[0] or 0


# -- METR ---------------------------------------------------------------------------------------


def test_metr_two_pl_converges_and_is_efficient(metr_two_pl):
    found = rows(metr_two_pl)
    assert found["rhat"].value < 1.01
    assert found["ess_bulk"].value >= 400
    assert found["divergences"].value == 0
    steps = int(metr_two_pl["sample_stats"]["n_steps"].sum())
    assert 1000 * found["ess_bulk"].value / steps >= 5


def test_metr_rasch_converges(metr_rasch):
    found = rows(metr_rasch)
    assert found["rhat"].value < 1.01
    assert found["divergences"].value == 0


def test_saturated_tasks_keep_finite_honest_posteriors(metr_two_pl):
    data = metr_two_pl["data"].to_dataset()
    n = np.bincount(data["task_index"].values, data["attempts"].values)
    k = np.bincount(data["task_index"].values, data["successes"].values)
    difficulty = metr_two_pl["posterior"]["difficulty"]
    sd = difficulty.std(("chain", "draw")).values
    saturated = (k == 0) | (k == n)
    assert saturated.sum() == 72
    assert np.isfinite(difficulty.values).all()
    assert np.median(sd[saturated]) > 4 * np.median(sd[~saturated])
    mean = difficulty.mean(("chain", "draw")).values
    assert mean[k == n].max() < mean[(k > 0) & (k < n)].mean() < mean[k == 0].min()


# -- scores ---------------------------------------------------------------------------------------


def test_score_of_one_agent_at_one_task_is_the_integral(metr_rasch):
    """With the tasks' draws as they are: against quadrature of each draw's density."""
    data = metr_rasch["data"].to_dataset()
    task = str(data["task"].values[np.argsort(data["human_minutes"].values)[150]])
    new = mb.load(
        pd.DataFrame({"agent": ["new"], "task": [task], "attempts": [5], "successes": [4]})
    )
    found = mb.score(new, metr_rasch, draws=4000)
    posterior = metr_rasch["posterior"].to_dataset().isel(draw=slice(None, None, 20))
    spread = posterior["ability_sd"].values.ravel() * np.sqrt(1 + 1 / data.sizes["agent"])
    place = posterior["difficulty"].sel(task=task).values.ravel()
    means = [
        moment(lambda x, b=b: 4 * log_expit(x - b) + log_expit(b - x), s)
        for b, s in zip(place, spread, strict=True)
    ]
    ability = found["ability"].values
    error = ability.std() / np.sqrt(ability.size) + np.std(means) / np.sqrt(len(means))
    assert abs(ability.mean() - np.mean(means)) < 5 * error
    assert score_table(found).shape == (1, 6)


def moment(log_likelihood_of, spread):
    """Return the mean of one ability by quadrature."""

    def density(x):
        return np.exp(log_likelihood_of(x) - x**2 / (2 * spread**2))

    reach = 10 * spread
    top, _ = quad(lambda x: x * density(x), -reach, reach, limit=200)
    bottom, _ = quad(density, -reach, reach, limit=200)
    return top / bottom


def test_scores_of_fitted_agents_are_their_posteriors(metr, metr_two_pl):
    few = mb.subset(metr, agent=metr["agent"].values[[0, 9, 18]].tolist())
    found = mb.score(few, metr_two_pl)["ability"]
    fitted = metr_two_pl["posterior"]["ability"].sel(agent=few["agent"].values)
    gap = np.abs(found.mean(("chain", "draw")) - fitted.mean(("chain", "draw")))
    sd = fitted.std(("chain", "draw"))
    assert np.all(gap < 0.15 * sd)
    np.testing.assert_allclose(found.std(("chain", "draw")), sd, rtol=0.15)


def test_scores_refuse_tasks_that_were_not_fitted(metr_rasch):
    new = mb.load(
        pd.DataFrame({"agent": ["new"], "task": ["nowhere"], "attempts": [5], "successes": [4]})
    )
    with pytest.raises(mb.InputError, match="'nowhere'"):
        mb.score(new, metr_rasch)


def test_item_parameters_are_the_same_model(metr_two_pl):
    """a theta + d = a (theta - b), in either unit."""
    theta = metr_two_pl["posterior"]["ability"].isel(agent=3)
    sd = metr_two_pl["posterior"]["ability_sd"]
    plain = mb.item_parameters(metr_two_pl)
    eta = plain["discrimination"] * (theta - plain["difficulty"])
    scaled = mb.item_parameters(metr_two_pl, unit="ability_sd")
    xr.testing.assert_allclose(
        scaled["discrimination"] * (theta / sd - scaled["difficulty"]), eta.transpose(*eta.dims)
    )
    easy = mb.item_parameters(metr_two_pl, "easiness", "ability_sd")
    xr.testing.assert_allclose(easy["discrimination"] * theta / sd + easy["easiness"], eta)
    with pytest.raises(mb.InputError, match="parametrisation"):
        mb.item_parameters(metr_two_pl, "hardness")
