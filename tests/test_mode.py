"""Method map: the bordered second derivative, the mode, and draws of the right width."""

import json

import numpy as np
import pytest
import xarray as xr
from scipy.optimize import minimize, minimize_scalar
from scipy.special import expit

import measurebayes as mb
from measurebayes.backends.simulate import Variable
from measurebayes.errors import InputError
from measurebayes.inference.mode import marginal
from measurebayes.inference.mode.bordered import Across, Bordered
from measurebayes.inference.mode.columns import Columns
from measurebayes.program.registry import get_model


def table(agents, tasks, spread, seed, holes=0.3):
    """Simulate one attempt a cell: ability SD 1, difficulty SD 1.5, log discrimination `spread`."""
    rng = np.random.default_rng(seed)
    ability = rng.normal(0.0, 1.0, agents)
    ability -= ability.mean()
    difficulty = rng.normal(-0.5, 1.5, tasks)
    discrimination = np.exp(rng.normal(0.0, spread, tasks))
    agent, task = np.nonzero(rng.random((agents, tasks)) >= holes)
    chance = expit(discrimination[task] * (ability[agent] - difficulty[task]))
    cells = {
        "agent_index": agent,
        "task_index": task,
        "attempts": np.ones(agent.size, dtype=np.int64),
        "successes": (rng.random(agent.size) < chance).astype(np.int64),
    }
    of_tasks = {
        "family_index": np.arange(tasks),
        "source": np.full(tasks, "simulated"),
        "human_minutes": np.full(tasks, np.nan),
        "minutes_kind": np.full(tasks, "", dtype="U1"),
        "task_weight": np.ones(tasks),
    }
    runs = xr.Dataset(
        {n: ("cell", x) for n, x in cells.items()}
        | {n: ("task", x) for n, x in of_tasks.items()}
        | {"release_date": ("agent", np.full(agents, np.datetime64("NaT", "ns")))},
        {
            "agent": [f"a{i}" for i in range(agents)],
            "task": [f"t{i}" for i in range(tasks)],
            "family": [f"f{i}" for i in range(tasks)],
        },
    )
    true = {"ability": ability, "difficulty": difficulty, "discrimination": discrimination}
    return runs, true


def bordered_and_dense(rng, agents=4, tasks=7):
    """Return a Bordered of one column on top, two below, and the same matrix in full."""
    variables = [
        Variable("ability", "zero_sum_normal", ("agent",), (agents,), ()),
        Variable("difficulty", "normal", ("task",), (tasks,), ()),
        Variable("slope", "normal", ("task",), (tasks,), ()),
    ]
    columns = Columns(variables, {"agent": agents, "task": tasks}, "made up")
    size = agents + 2 * tasks
    dense = np.eye(size)
    for i, j in np.ndindex(agents, tasks):
        rows = np.zeros((5, size))
        rows[:, [i, agents + j, agents + tasks + j]] = rng.normal(size=(5, 3))
        dense += rows.T @ rows
    each = [agents + part * tasks + np.arange(tasks) for part in range(2)]
    bottom = np.array([[dense[one, other] for other in each] for one in each])
    across = dense[:agents, agents:].reshape(1, agents, 2, tasks)
    part = [slice(0, 4), slice(4, tasks)]
    blocks = [np.ascontiguousarray(across[..., p]) for p in part]
    top = np.diagonal(dense)[:agents].reshape(1, 1, agents)
    shapes = ((1, agents), (2, tasks))
    return Bordered(columns, top, bottom, Across(blocks, part.__getitem__, *shapes)), dense, part


def conditional(dense, agents=4):
    """Return the covariance given that the first numbers sum to zero, by the textbook formula."""
    covariance = np.linalg.inv(dense)
    ones = np.zeros(len(dense))
    ones[:agents] = 1.0
    pulled = covariance @ ones
    return covariance - np.outer(pulled, pulled) / (ones @ pulled), ones @ pulled


def test_the_bordered_matrix_solves_as_the_dense_one(rng):
    matrix, dense, _ = bordered_and_dense(rng)
    expected, sums = conditional(dense)
    right = rng.normal(size=len(dense))
    top, bottom = matrix.solve((right[:4].reshape(1, 4), right[4:].reshape(2, 7)))
    np.testing.assert_allclose(np.r_[top.ravel(), bottom.ravel()], expected @ right, atol=1e-12)
    determinant = np.linalg.slogdet(dense)[1] + np.log(sums)
    assert matrix.log_determinant == pytest.approx(determinant, abs=1e-10)


def test_its_covariances_are_those_of_the_dense_one(rng):
    matrix, dense, part = bordered_and_dense(rng)
    expected, _ = conditional(dense)
    of_block = matrix.covariances()
    for number, elements in enumerate(part):
        bottom, top, across = of_block(number)
        np.testing.assert_allclose(top[0, 0], np.diagonal(expected)[:4], atol=1e-12)
        wanted = expected[:4, 4:].reshape(4, 2, 7)[..., elements]
        np.testing.assert_allclose(across[0], wanted, atol=1e-12)
        for p, q in np.ndindex(2, 2):
            rows, cols = (4 + 7 * x + np.arange(7)[elements] for x in (p, q))
            np.testing.assert_allclose(bottom[p, q], expected[rows, cols], atol=1e-12)


def test_its_draws_have_that_covariance_and_keep_the_sum(rng):
    matrix, dense, _ = bordered_and_dense(rng)
    expected, _ = conditional(dense)
    root = np.linalg.cholesky(matrix.below)
    (top, bottom), half = matrix.draws(rng, 10_000, root)
    draws = np.c_[top.reshape(len(top), -1), bottom.reshape(len(top), -1)]
    np.testing.assert_allclose(draws[:, :4].sum(axis=1), 0.0, atol=1e-12)
    np.testing.assert_allclose(np.cov(draws.T), expected, atol=0.06 * np.abs(expected).max())
    square = 0.5 * np.einsum("ni,ij,nj->n", draws, dense, draws)
    np.testing.assert_allclose(half, square, rtol=1e-9)


def test_the_longer_axis_is_the_bottom():
    variables = [
        Variable("ability", "normal", ("agent",), (9,), ()),
        Variable("difficulty", "normal", ("task",), (5,), ()),
        Variable("spread", "half_normal", (), (), ()),
    ]
    columns = Columns(variables, {"agent": 9, "task": 5}, "made up")
    assert (columns.top_axis, columns.bottom_axis) == ("task", "agent")
    values = {"ability": np.arange(9.0), "difficulty": np.arange(5.0), "spread": np.array(0.3)}
    again = columns.sites(columns.point(values))
    for name, value in values.items():
        np.testing.assert_array_equal(again[name], value)


@pytest.mark.parametrize(
    ("variable", "words"),
    [
        (Variable("x", "normal", ("agent", "task"), (9, 5), ()), "both agents and tasks"),
        (Variable("x", "normal", ("agent", "family"), (9, 20), ()), "20 vectors along agent"),
        (Variable("x", "zero_sum_normal", ("family",), (20,), ()), "sums to zero along family"),
        (Variable("x", "normal", (), (), ()), "no variable lies along"),
    ],
)
def test_models_of_another_form_are_refused(variable, words):
    with pytest.raises(InputError, match=words):
        Columns([variable], {"agent": 9, "task": 5}, "made up")


@pytest.mark.slow
def test_rotated_models_are_refused():
    runs, _ = table(4, 6, 0.0, seed=1)
    with pytest.raises(InputError, match="rotation"):
        mb.fit("mirt", runs, method="map", progress=False)


def energy_of_abilities(ability, counts, scales):
    """Minus the log density of abilities of the Rasch model, difficulties integrated by Laplace."""
    attempts, successes = counts
    ability_sd, mean, sd = scales
    total = 0.5 * np.sum((ability / ability_sd) ** 2)
    for n, k in zip(attempts.T, successes.T, strict=True):

        def energy(difficulty, n=n, k=k):
            eta = ability - difficulty
            return (
                np.sum(n * np.logaddexp(0.0, eta) - k * eta) + 0.5 * ((difficulty - mean) / sd) ** 2
            )

        best = minimize_scalar(energy, bracket=(mean - 1.0, mean + 1.0), tol=1e-10)
        chance = expit(ability - best.x)
        total += best.fun + 0.5 * np.log(np.sum(n * chance * (1.0 - chance)) + sd**-2)
    return total


@pytest.mark.slow
def test_abilities_are_at_the_mode_that_a_plain_optimiser_finds():
    import jax

    from measurebayes.inference.mode.grid import Grid
    from measurebayes.inference.mode.prior import Prior
    from measurebayes.inference.mode.search import Search
    from measurebayes.inference.mode.text import Text

    runs, _ = table(5, 8, 0.0, seed=2, holes=0.1)
    model = get_model("rasch")
    with jax.enable_x64(True):
        text = Text(model, runs, model.with_priors(None))
    search = Search(Prior(text), Grid(text, runs), lambda words: None)
    point, _, _ = search.mode(text.start, None)
    named = dict(zip(text.columns._singles, text.start.singles, strict=True))
    scales = np.exp(named["ability_sd"]), named["difficulty_mean"], np.exp(named["difficulty_sd"])

    counts = np.zeros((2, 5, 8))
    at = runs["agent_index"].values, runs["task_index"].values
    counts[0][at], counts[1][at] = runs["attempts"].values, runs["successes"].values

    def energy(free):
        return energy_of_abilities(np.r_[free, -np.sum(free)], counts, scales)

    options = {"xatol": 1e-6, "fatol": 1e-9, "maxiter": 4000}
    found = minimize(energy, np.zeros(4), method="Nelder-Mead", options=options)
    np.testing.assert_allclose(point.top[0, :4], found.x, atol=2e-3)


@pytest.mark.slow
@pytest.mark.parametrize("large", [False, True])
def test_standard_errors_are_those_of_repeated_simulation(large, monkeypatch):
    agents, tasks = (500, 1_000) if large else (150, 500)
    if large:  # as tables of millions of cells are fitted
        monkeypatch.setattr(marginal, "LARGE", 0)
    runs, true = table(agents, tasks, 0.3, seed=3)
    fit = mb.fit("two_pl", runs, method="map", draws=500, chains=2, progress=False)
    posterior = fit["posterior"].to_dataset()
    for name, value in true.items():
        draws = np.log(posterior[name]) if name == "discrimination" else posterior[name]
        value = np.log(value) if name == "discrimination" else value
        mean, sd = (getattr(draws, f)(("chain", "draw")).values for f in ("mean", "std"))
        # abilities share a unit, so that their errors go together in one data set
        assert np.sqrt(np.mean(((mean - value) / sd) ** 2)) == pytest.approx(1.0, abs=0.2)
    spread = posterior["log_discrimination_sd"]
    distance = float(spread.mean()) - np.log(true["discrimination"]).std()
    assert abs(distance) < 3.0 * float(spread.std())
    assert json.loads(fit.attrs["approximation"])["text"]


@pytest.mark.slow
def test_the_draws_are_those_of_nuts_where_tasks_have_many_attempts():
    runs, _ = table(80, 120, 0.0, seed=4, holes=0.1)
    settings = {"draws": 500, "chains": 2, "progress": False, "seed": 1}
    fast = mb.fit("rasch", runs, method="map", **settings)["posterior"].to_dataset()
    nuts = mb.fit("rasch", runs, tune=300, **settings)["posterior"].to_dataset()
    for name in ("ability", "difficulty"):
        (mean, sd), (expected, wanted) = (
            (p[name].mean(("chain", "draw")), p[name].std(("chain", "draw"))) for p in (fast, nuts)
        )
        assert np.sqrt(np.mean(((mean - expected) / wanted) ** 2)) < 0.12
        assert float((sd / wanted).median()) == pytest.approx(1.0, abs=0.08)
