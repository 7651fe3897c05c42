"""Leaving out whole tasks, families and agents: integrals against plain quadrature, and refits."""

from dataclasses import replace

import numpy as np
import pytest
import xarray as xr
from scipy import stats
from scipy.special import comb, expit

from measurebayes.backends.evaluate import log_likelihood
from measurebayes.backends.simulate import SimulateProgram, prior_draw, variables
from measurebayes.checks.contract import invented_data
from measurebayes.compare import INTEGRAL_LIMIT
from measurebayes.compare.integrated import unit_log_likelihood
from measurebayes.errors import InputError
from measurebayes.program.human_times import human_times
from measurebayes.program.labelled import Labelled
from measurebayes.program.registry import get_model


def posterior_of(model, data, number=200, seed=3):
    """Return draws like those of a posterior: hyperparameters vary little."""
    rng = np.random.default_rng(seed)
    stated = variables(model, data)
    scalars = {v.name for v in stated if not v.dims}
    centre = prior_draw(model, data, np.random.default_rng(seed))
    points = []
    for _ in range(number):
        point = {n: centre[n] * np.exp(0.005 * rng.normal()) for n in scalars}
        points.append(point | _drawn_given(model, data, point, rng))
    each = {v.name: xr.concat([p[v.name] for p in points], "draw") for v in stated}
    labels = {axis: data[axis].values for axis in ("agent", "task", "family")}
    draws = xr.Dataset(each, labels | {"draw": np.arange(number)})
    return draws.expand_dims("chain").assign_coords(chain=[0])


class Given(SimulateProgram):
    """Draws a model text with some variables given."""

    def sample(self, name, family, parameters, dims):
        if name not in self.given:
            return super().sample(name, family, parameters, dims)
        self.values[name] = Labelled(float(self.given[name]), (), name)
        return self.values[name]


def _drawn_given(model, data, given, rng):
    program = Given(data, rng)
    program.given = given
    model.run(program, data, model.priors)
    return {
        n: xr.DataArray(np.asarray(x.value), dims=x.dims)
        for n, x in program.values.items()
        if x.dims and x.dims != ("cell",)
    }


def informed(model, data, draws, unit, rng):
    """Resample the own parameters of every unit by its likelihood, as a posterior has them."""
    values = {str(n): x.isel(chain=0) for n, x in draws.data_vars.items()}
    terms = log_likelihood(model, data, values).transpose("draw", "cell").values
    own = [n for n, x in draws.data_vars.items() if unit in x.dims]
    new = draws.copy(deep=True)
    for j in range(data.sizes[unit]):
        total = terms[:, data[f"{unit}_index"].values == j].sum(axis=1)
        weight = np.exp(total - total.max())
        chosen = rng.choice(len(weight), len(weight), p=weight / weight.sum())
        for n in own:
            new[n].loc[{unit: new[unit][j]}] = draws[n].isel({unit: j}).values[:, chosen]
    return new


def tempered(name, **priors):
    """Return a model whose parameters stay of the size of real ones."""
    model = get_model(name)
    return replace(model, priors=model.with_priors(priors))


def binomials(data, at, log_odds):
    """Return the product over some cells of their densities, (..., cell) to (...)."""
    n, k = data["attempts"].values[at], data["successes"].values[at]
    return np.prod(comb(n, k) * expit(log_odds) ** k * expit(-log_odds) ** (n - k), axis=-1)


def over(density, mean, sd, points=301):
    """Integrate a function of a normal number by the trapezium rule, exact for smooth ones."""
    x = np.linspace(mean - 10 * sd, mean + 10 * sd, points)
    values = density(x[:, None]) if points == 301 else np.array([density(one) for one in x])
    return np.trapezoid(values * stats.norm.pdf(x, mean, sd), x)


MODEST = {"difficulty_sd": 1.5, "difficulty_mean": 1.0, "ability_sd": 1.0}


def test_rasch_leaving_out_a_task_is_the_marginal_likelihood():
    data, model = invented_data(), tempered("rasch", **MODEST)
    draws = posterior_of(model, data)
    found, _, error = unit_log_likelihood(model, data, draws, "task", 2**27)
    assert error < 1e-6
    task = data["task_index"].values
    for i in range(0, 200, 40):
        one = draws.isel(chain=0, draw=i)
        for j in range(data.sizes["task"]):
            at = np.flatnonzero(task == j)
            ability = one["ability"].values[data["agent_index"].values[at]]
            mean, sd = float(one["difficulty_mean"]), float(one["difficulty_sd"])
            plain = over(lambda b, at=at, a=ability: binomials(data, at, a - b), mean, sd)
            assert found[j, i] == pytest.approx(np.log(plain), abs=1e-6)
    by_family, _, _ = unit_log_likelihood(model, data, draws, "family", 2**20)
    family = data["family_index"].values
    summed = [found[family == f].sum(axis=0) for f in range(data.sizes["family"])]
    np.testing.assert_allclose(by_family, summed, atol=1e-9)  # and blocks change nothing


def test_two_parameters_of_a_task_are_integrated_out_together(rng):
    data = invented_data()
    model = tempered("two_pl", **MODEST, log_discrimination_sd=0.3)
    draws = informed(model, data, posterior_of(model, data), "task", rng)
    found, _, error = unit_log_likelihood(model, data, draws, "task", 2**27)
    assert error < INTEGRAL_LIMIT
    one, at = draws.isel(chain=0, draw=7), np.flatnonzero(data["task_index"].values == 2)
    ability = one["ability"].values[data["agent_index"].values[at]]
    mean, sd = float(one["difficulty_mean"]), float(one["difficulty_sd"])

    def given(log_a):
        a = np.exp(log_a)
        return over(lambda b: binomials(data, at, a * (ability - b)), mean, sd)

    plain = over(given, 0.0, float(one["log_discrimination_sd"]), 151)
    assert found[2, 7] == pytest.approx(np.log(plain), abs=0.03)


def test_effects_of_families_are_shared_by_their_tasks():
    data = invented_data()
    small = {"task_sd": 0.7, "family_sd": 0.7, "log2_horizon_sd": 1.0, "log2_horizon_mean": 0.5}
    small |= {"log_steepness_mean": 0.2, "log_steepness_sd": 0.1}
    model = tempered("horizon_task:families=effect,slopes=common", **small)
    draws = posterior_of(model, data, 60)
    found, _, error = unit_log_likelihood(model, data, draws, "family", 2**27)
    assert error < 0.01
    one, family = draws.isel(chain=0, draw=11), 1
    steep = float(one["steepness"])
    horizon = one["centred_intercept"].values / steep + 4.0
    x = np.log2(data["human_minutes"].values)
    tasks = np.flatnonzero(data["family_index"].values == family)

    def given(effect):
        total = 1.0
        for j in tasks:
            at = np.flatnonzero(data["task_index"].values == j)
            line = steep * (horizon[data["agent_index"].values[at]] - x[j])
            total *= over(
                lambda e, at=at, line=line: binomials(data, at, line - e),
                effect,
                float(one["task_sd"]),
            )
        return total

    plain = over(given, 0.0, float(one["family_sd"]), 151)
    assert found[family, 11] == pytest.approx(np.log(plain), abs=0.01)


def lengths_given_records(data, draws, rng):
    """Return log2 minutes and difficulties drawn given human times, record by record."""
    draws, times = draws.isel(chain=0), human_times(data)
    origin, spread = draws["length_mean"].values, draws["length_sd"].values
    sources = data["source"].values.tolist()
    place = [sorted(set(sources)).index(source) for source in sources]
    precision = np.repeat(spread[:, None] ** -2, data.sizes["task"], axis=1)
    total = precision * origin[:, None]
    for kind, shift in (("timed", 0.0), ("recorded", 0.0), ("estimated", draws["estimate_bias"])):
        error = draws["estimate_sd"].values[:, None] + np.zeros(data.sizes["task"])
        if kind != "estimated":
            error = draws["timing_sd"].transpose("draw", "suite").values[:, place]
        for j, observed in zip(times[kind].task, times[kind].log2_minutes, strict=True):
            precision[:, j] += error[:, j] ** -2
            total[:, j] += (observed - np.asarray(shift)) * error[:, j] ** -2
    x = total / precision + rng.normal(size=total.shape) * precision**-0.5
    mean = draws["steepness"].values[:, None] * (x - origin[:, None])
    hard = mean + rng.normal(size=x.shape) * draws["task_sd"].values[:, None]
    dims = ("chain", "draw", "task")
    return {"log2_minutes": (dims, x[None]), "difficulty": (dims, hard[None])}


def test_a_task_left_out_keeps_its_human_times(rng):
    data = invented_data()
    small = {"task_sd": 0.7, "log2_horizon_sd": 1.0, "log2_horizon_mean": 0.5, "length_sd": 1.0}
    small |= {"log_steepness_mean": 0.2, "length_mean": 1.0, "estimate_bias": 0.3}
    model = tempered("horizon_eiv:slopes=common", **small)
    draws = posterior_of(model, data)
    draws = draws.assign(lengths_given_records(data, draws, rng))
    draws = informed(model, data, draws, "task", rng)
    found, _, error = unit_log_likelihood(model, data, draws, "task", 2**27)
    assert error < INTEGRAL_LIMIT
    one, j = draws.isel(chain=0, draw=5), 3  # one recorded time
    steep, origin = float(one["steepness"]), float(one["length_mean"])
    horizon = one["centred_intercept"].values / steep + origin
    at = np.flatnonzero(data["task_index"].values == j)
    observed = np.log2(data["human_minutes"].values[j])
    place = int(data["source"].values[j] == "suite 1")
    precision = np.array([float(one["length_sd"]), float(one["timing_sd"][place])]) ** -2
    mean = precision @ [origin, observed] / precision.sum()

    def given(x):
        line = steep * (horizon[data["agent_index"].values[at]] - x)
        return over(lambda e: binomials(data, at, line - e), 0.0, float(one["task_sd"]))

    plain = over(given, mean, precision.sum() ** -0.5, 151)
    assert found[j, 5] == pytest.approx(np.log(plain), abs=0.03)


def test_an_agent_left_out_is_drawn_anew_around_the_others():
    data, model = invented_data(), tempered("rasch", **MODEST)
    draws = posterior_of(model, data, 20)
    found, _, error = unit_log_likelihood(model, data, draws, "agent", 2**27)
    assert error < 1e-6
    agents = data.sizes["agent"]
    for i in range(agents):
        one, at = draws.isel(chain=0, draw=11), np.flatnonzero(data["agent_index"].values == i)
        difficulty = one["difficulty"].values[data["task_index"].values[at]]
        mean = np.delete(one["ability"].values, i).mean()
        sd = float(one["ability_sd"]) * np.sqrt(1.0 + 1.0 / (agents - 1))
        plain = over(lambda a, at=at, b=difficulty: binomials(data, at, a - b), mean, sd)
        assert found[i, 11] == pytest.approx(np.log(plain), abs=1e-6)


def test_deviations_that_sum_to_zero_along_another_axis_are_refused():
    data, model = invented_data(), get_model("tests/models/every_verb.py")
    draws = posterior_of(model, data, 3)
    with pytest.raises(InputError, match="can't be integrated out"):
        unit_log_likelihood(replace(model, function=zero_sum_tasks), data, draws, "family", 2**27)


def zero_sum_tasks(pp, data, priors, **options):
    pp.observe_successes(pp.cell(pp.zero_sum_normal("easy", 1.0, dims="task")))


def test_an_agent_left_out_has_its_line_integrated_out():
    data = invented_data()
    small = {"log2_horizon_sd": 1.0, "log2_horizon_mean": 0.5, "log_steepness_mean": 0.2}
    model = tempered("horizon_logistic", **small, log_steepness_sd=0.3)
    draws = posterior_of(model, data)
    found, _, _ = unit_log_likelihood(model, data, draws, "agent", 2**27)
    one, i = draws.isel(chain=0, draw=3), 2
    at = np.flatnonzero(data["agent_index"].values == i)
    x = np.log2(data["human_minutes"].values)[data["task_index"].values[at]]

    def given(log_steepness):
        steep = np.exp(log_steepness)
        return over(
            lambda h: binomials(data, at, steep * (h - x)),
            float(one["log2_horizon_mean"]),
            float(one["log2_horizon_sd"]),
        )

    plain = over(given, float(one["log_steepness_mean"]), float(one["log_steepness_sd"]), 151)
    assert found[i, 3] == pytest.approx(np.log(plain), abs=0.02)
