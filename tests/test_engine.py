"""Coordinates and checkpoints of the NUTS engine, without a sampler."""

import multiprocessing
import sqlite3
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing

import numpy as np
import numpyro
import numpyro.distributions as dist
import pandas as pd
import pytest
from numpyro import handlers
from scipy import stats
from scipy.special import expit

import measurebayes as mb
from measurebayes.backends.simulate import variables
from measurebayes.checks.contract import invented_data
from measurebayes.errors import CheckpointError, ModelError
from measurebayes.inference.centring import Auxiliary, Recentred, coordinates, recentred
from measurebayes.inference.checkpoint import Checkpoint
from measurebayes.inference.compiling import compiled_in
from measurebayes.inference.geometry import Split, curved_up, hessian_products, positive
from measurebayes.inference.nuts import Engine
from measurebayes.program.human_times import with_times
from measurebayes.program.registry import get_model, model_from_source

jax = pytest.importorskip("jax")


def same(point, arguments):
    return arguments


def mean_hessian(gradient, points, arguments, split):
    products = [
        hessian_products(gradient, same, split.probes(), point, arguments) for point in points
    ]
    return split.assembled(np.mean(products, axis=0))


@pytest.fixture(autouse=True)
def float64():
    with jax.enable_x64(True):
        yield


WAYS = [(0.3, 0.0, 0.0), (8.0, 0.0, 0.0), (0.0, 0.0, 0.0), (0.5, -4.0, -1.0), (0.5, 3.0, 1.0)]


@pytest.mark.parametrize(("information", "wall", "side"), WAYS)
def test_auxiliary_variable_has_the_density_of_its_image(information, wall, side):
    loc, scale = 0.7, 1.9
    one = np.ones(1)
    auxiliary = Auxiliary(loc * one, scale, information * one, wall * one, side * one)

    free = np.linspace(-300.0, 100.0, 400_001)
    density = np.exp(jax.vmap(auxiliary.log_prob)(free[:, None]))
    image = np.asarray(jax.vmap(auxiliary.value_of)(free[:, None]))[:, 0]
    assert np.trapezoid(density, free) == pytest.approx(1.0, abs=1e-6)
    assert np.trapezoid(density * image, free) == pytest.approx(loc, abs=1e-5)
    below = np.trapezoid(density[free <= 0], free[free <= 0])
    direction = side if side else 1.0
    at_zero = float(auxiliary.value_of(np.zeros(1))[0])
    expected = stats.norm.cdf(direction * at_zero, direction * loc, scale)
    assert below == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("side", [-1.0, 0.0, 1.0])
def test_bend_is_monotone_and_reaches_everywhere(side):
    free = np.linspace(-200, 200, 2001)
    n = np.ones_like(free)
    image = np.asarray(Auxiliary(0 * n, 2.0, 0.5 * n, 1.0 * n, side * n).value_of(free))
    assert np.all(np.diff(image) * (side or 1.0) > 0)
    assert image.min() < -30
    assert image.max() > 30


def test_recentred_sites_keep_the_joint_density(rng):
    """The density of the image, found by the change of variables, is that of the plain model."""

    def model():
        spread = numpyro.sample("spread", dist.HalfNormal(2.0))
        x = numpyro.sample("x", dist.Normal(np.full(3, 0.4), spread))
        numpyro.sample("y", dist.LogNormal(np.full(3, 0.1), spread))
        numpyro.sample("z", dist.ZeroSumNormal(spread, event_shape=(4,)))
        numpyro.factor("data", -np.sum(np.arange(3.0)) * 0.1 * x.sum())

    config = {
        "x": Recentred({"information": np.array([0.2, 9.0, 0.5]),
                        "wall": np.array([0.0, 0.0, -2.0]), "side": np.array([0.0, 0.0, 1.0])}),
        "y": Recentred({"information": np.full(3, 2.0), "wall": np.zeros(3), "side": np.zeros(3)}),
        "z": Recentred({"information": np.array(0.3)}),
    }  # fmt: skip
    moved = handlers.reparam(model, config=config)
    free_values = {
        "spread": np.float64(1.3),
        "x_free": rng.normal(size=3),
        "y_free": rng.normal(size=3),
        "z_free": (lambda v: v - v.mean())(rng.normal(size=4)),
    }
    sites = handlers.trace(handlers.substitute(moved, free_values)).get_trace()
    named = {"spread": free_values["spread"]} | {n: np.asarray(sites[n]["value"]) for n in "xyz"}
    plain = handlers.trace(handlers.substitute(model, named)).get_trace()

    def total(trace):
        return sum(
            float(np.sum(s["fn"].log_prob(s["value"])))
            for s in trace.values()
            if s["type"] == "sample"
        )

    def image(name, free):
        changed = {**free_values, f"{name}_free": free}
        trace = handlers.trace(handlers.substitute(moved, changed)).get_trace()
        return np.asarray(trace[name]["value"])

    log_volume = 0.0
    for name in "xy":
        free = free_values[f"{name}_free"]
        step = 1e-6
        for k in range(len(free)):
            up, down = free.copy(), free.copy()
            up[k] += step
            down[k] -= step
            log_volume += np.log((image(name, up) - image(name, down))[k] / (2 * step))
    # z: three free dimensions, scaled alike
    log_volume += 3 * np.log(1.3 / np.sqrt(1.0 + 0.3 * 1.3**2))
    assert total(sites) == pytest.approx(total(plain) + log_volume, abs=1e-6)


def test_walls_stand_where_tasks_are_saturated():
    data = invented_data()
    attempts, task = data["attempts"].values, data["task_index"].values
    successes = data["successes"].values.copy()
    successes[task == 0] = attempts[task == 0]
    successes[task == 1] = 0
    data["successes"] = ("cell", successes)
    model = get_model("rasch")
    chosen = coordinates(model, data, variables(model, data), model.priors)
    side, wall = chosen["difficulty"]["side"], chosen["difficulty"]["wall"]
    assert side[0] == -1  # always solved: easier than its wall
    assert side[1] == 1
    assert wall[0] < np.median(wall) < wall[1]
    assert chosen["ability"]["information"].shape == ()
    assert np.all(chosen["difficulty"]["information"] > 0)


def test_walls_turn_round_with_the_direction_of_the_variable():
    """An easiness and an ability without constraint: the wall follows what the text says."""
    from measurebayes.program.registry import model_from_source

    text = '''"""Easiness."""
PRIORS = {"a": 1.0}


def model(pp, data, priors=PRIORS):
    easiness = pp.normal("easiness", 0.0, priors["a"], dims="task")
    twice = pp.normal("twice", 0.0, 1.0, dims="task")
    ability = pp.zero_sum_normal("ability", priors["a"], dims="agent")
    pp.observe_successes(pp.cell(ability) * pp.cell(twice) + pp.cell(easiness))
'''
    data = invented_data()
    successes = data["successes"].values.copy()
    first = data["task_index"].values == 0
    successes[first] = data["attempts"].values[first]
    data["successes"] = ("cell", successes)
    model = model_from_source("easy", text, "easy.py")
    chosen = coordinates(model, data, variables(model, data), model.priors)
    assert chosen["easiness"]["side"][0] == 1
    assert np.all(chosen["twice"]["side"] == 0)  # it helps some agents and hinders others


SHAPES = {"sd": (), "b": (3,), "a": (2,), "long": (6,)}
AXES = {"sd": (), "b": ("agent",), "a": ("family",), "long": ("agent", "family")}


def test_split_takes_the_short_ones_to_the_top():
    split = Split.of(SHAPES, AXES, limit=6)
    assert split.top == ("a", "b", "sd")
    assert split.bottom == ("long",)
    assert split.sizes == (6, 6)
    everything = Split.of(SHAPES, AXES, limit=100)
    assert everything.sizes == (12, 0)


def test_linear_coordinates_are_undone(rng):
    split = Split.of(SHAPES, AXES, limit=6)
    root = np.tril(rng.normal(size=(6, 6))) + 3 * np.eye(6)
    geometry = {"root": root, "shear": rng.normal(size=(6, 6)), "scale": rng.uniform(1, 2, 6)}
    flat = rng.normal(size=12)
    position = split.position(flat, geometry)
    np.testing.assert_allclose(split.flat(position, geometry), flat, atol=1e-12)
    np.testing.assert_array_equal(split.flat(flat, split.plain()), flat)
    named = split.sites(np.arange(12.0))
    assert {n: np.shape(v) for n, v in named.items()} == SHAPES
    np.testing.assert_array_equal(split.joined(named), np.arange(12.0))


def test_geometry_of_a_normal_makes_its_parts_independent(rng):
    """For a normal density the top becomes standard normal and independent of the rest."""
    split = Split.of(SHAPES, AXES, limit=6)
    factor = rng.normal(size=(12, 12))
    precision = factor @ factor.T + np.eye(12)
    points = rng.normal(size=(3, 12))
    hessian = mean_hessian(lambda x, scale: scale * precision @ x, points, 1.0, split)
    np.testing.assert_allclose(hessian, precision, rtol=1e-12)
    geometry = split.geometry(hessian)
    map_ = np.asarray(jax.jacobian(lambda u: split.flat(u, geometry))(np.zeros(12)))
    covariance = np.linalg.inv(map_) @ np.linalg.inv(precision) @ np.linalg.inv(map_).T
    np.testing.assert_allclose(covariance[:6, :6], np.eye(6), atol=1e-9)
    np.testing.assert_allclose(covariance[:6, 6:], 0.0, atol=1e-9)


def test_draws_that_curve_down_do_not_make_stiff_directions_look_loose():
    stiff, down = np.diag([4.0, 1.0]), np.diag([-100.0, 1.0])
    np.testing.assert_allclose(curved_up(stiff), stiff, atol=1e-12)
    np.testing.assert_allclose(curved_up(down), np.diag([0.0, 1.0]), atol=1e-12)
    turn = np.array([[0.6, -0.8], [0.8, 0.6]])
    np.testing.assert_allclose(
        curved_up(turn @ down @ turn.T), turn @ np.diag([0.0, 1.0]) @ turn.T, atol=1e-12
    )
    broken = np.array([[np.nan, 0.0], [0.0, 1.0]])
    np.testing.assert_array_equal(curved_up(broken), broken)


def test_geometry_that_can_not_be_used_is_none():
    split = Split.of(SHAPES, AXES, limit=6)
    assert split.geometry(np.full((12, 12), np.nan)) is None
    indefinite = split.geometry(-np.eye(12))
    assert indefinite is None or all(np.isfinite(x).all() for x in indefinite.values())


@pytest.mark.slow
def test_probes_of_separable_vectors_give_the_whole_second_derivative(rng):
    """Five elements of two vectors and two scalars, against differentiation one by one."""
    shapes, axes = {"m": (), "s": (), "b": (5,), "a": (5,)}, {"b": ("task",), "a": ("task",)}
    split = Split.of(shapes, axes, limit=2)
    assert split.separable
    assert split.bottom == ("a", "b")
    assert len(split.probes()) == 4

    def energy(flat, scale):
        x = split.sites(flat)
        terms = jax.numpy.exp(x["a"] * (x["m"] - x["b"])) + (x["b"] - x["m"]) ** 2 * x["s"] ** 2
        return scale * terms.sum() + x["m"] ** 4

    points = rng.normal(size=(3, 12))
    whole = np.mean([jax.hessian(energy)(p, 2.0) for p in points], axis=0)
    np.testing.assert_allclose(
        mean_hessian(jax.grad(energy), points, 2.0, split), whole, rtol=1e-12, atol=1e-12
    )
    mixed = Split.of(shapes, {"b": ("task",), "a": ("agent",)}, limit=2)
    assert not mixed.separable


def test_second_derivative_is_the_mean_over_what_could_have_been_observed(rng):
    """Fisher's information, by all 16 outcomes of four attempts."""
    cells = pd.DataFrame({"agent": ["a", "a", "b", "b"], "task": ["s", "t", "s", "t"]})
    runs = mb.load(cells.assign(attempts=1, successes=[1, 0, 1, 1]))
    model = get_model("two_pl")
    engine = Engine(model, runs, model.priors, 100)
    arguments = {**engine.arguments(runs), "geometry": engine.split.plain()}
    point = rng.normal(size=sum(engine.split.sizes))
    named = engine.constrain(point[None], arguments)
    away = named["ability"][0][:, None] - named["difficulty"][0]
    chance = expit(named["discrimination"][0] * away)
    mean = 0.0
    for outcome in np.ndindex(2, 2, 2, 2):
        solved = np.reshape(outcome, (2, 2)).astype(float)
        counts = {**arguments["counts"], "successes": solved}
        observed = jax.hessian(engine._energy)(point, {**arguments, "counts": counts})
        mean = mean + np.prod(np.where(solved == 1, chance, 1.0 - chance)) * np.asarray(observed)
    np.testing.assert_allclose(engine.hessian(point, arguments), mean, atol=1e-10)


def test_positive_mends_only_what_is_wrong(rng):
    root = rng.normal(size=(5, 5))
    good = root @ root.T + np.eye(5)
    np.testing.assert_allclose(positive(good), good, rtol=1e-10)
    bad = np.diag([1.0, 2.0, -3.0])
    assert np.linalg.eigvalsh(positive(bad)).min() > 0


SETTINGS = {"model": "abc", "seed": 1, "draws": 100}


def test_checkpoint_gives_back_what_was_saved(tmp_path):
    path = tmp_path / "fit.nc.part"
    file = Checkpoint(path, SETTINGS, resume=False)
    assert file.pilot() is None
    assert file.chain(0) is None
    file.save_pilot({"shear": np.eye(2)}, 77)
    file.save_chain(0, 50, 10, {"0": np.arange(3.0)}, None)
    file.save_chain(0, 100, 10, {"0": np.arange(4.0)}, {"flat": np.ones((50, 2))})
    file.save_chain(0, 150, 10, {"0": np.arange(5.0)}, {"flat": np.zeros((50, 2))})
    again = Checkpoint(path, SETTINGS, resume=True)
    geometry, steps = again.pilot()
    assert steps == 77
    np.testing.assert_array_equal(geometry["shear"], np.eye(2))
    saved = again.chain(0)
    assert (saved.done, saved.warmup_steps) == (150, 10)
    np.testing.assert_array_equal(saved.state["0"], np.arange(5.0))
    np.testing.assert_array_equal(saved.parts[0]["flat"], np.ones((50, 2)))
    assert len(saved.parts) == 2


@pytest.mark.parametrize("change", [{"seed": 2}, {"model": "other"}, {"draws": 101}])
def test_checkpoint_of_another_run_is_refused(tmp_path, change):
    path = tmp_path / "fit.nc.part"
    begun(path)
    with pytest.raises(CheckpointError, match=next(iter(change))):
        Checkpoint(path, SETTINGS | change, resume=True)


def begun(path):
    file = Checkpoint(path, SETTINGS, resume=False)
    file.save_chain(0, 50, 10, {"0": np.arange(3.0)}, None)
    return file


def test_checkpoint_without_a_chain_gives_way(tmp_path):
    """A run that failed before its first draw leaves nothing that could be lost."""
    path = tmp_path / "fit.nc.part"
    Checkpoint(path, SETTINGS, resume=False).save_pilot({"shear": np.eye(2)}, 5)
    same = Checkpoint(path, SETTINGS, resume=True)
    assert same.pilot() is not None
    other = Checkpoint(path, SETTINGS | {"seed": 9}, resume=False)
    assert other.pilot() is None


def test_damaged_content_of_a_checkpoint_is_refused(tmp_path):
    path = tmp_path / "fit.nc.part"
    file = begun(path)
    for statement in (
        "UPDATE chain SET state = x'00'",
        "UPDATE chain SET done = 'abc'",
        "UPDATE chain SET done = -5",
    ):
        with closing(sqlite3.connect(path)) as db, db:
            db.execute(statement)
        with pytest.raises(CheckpointError, match="read back"):
            file.chain(0)
        path.unlink()
        file = begun(path)
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("UPDATE run SET value = '{'")
    with pytest.raises(CheckpointError, match="can't be used"):
        Checkpoint(path, SETTINGS, resume=True)


def test_checkpoint_is_not_overwritten_unasked(tmp_path):
    path = tmp_path / "fit.nc.part"
    begun(path)
    with pytest.raises(CheckpointError, match="--resume"):
        Checkpoint(path, SETTINGS, resume=False)


def test_a_file_that_is_no_checkpoint_is_left_alone(tmp_path):
    path = tmp_path / "fit.nc.part"
    path.write_bytes(b"precious" * 1000)
    with pytest.raises(CheckpointError, match="can't be used"):
        Checkpoint(path, SETTINGS, resume=True)
    assert path.read_bytes() == b"precious" * 1000


def test_forked_processes_are_refused(metr):
    context = multiprocessing.get_context("fork")
    with (
        ProcessPoolExecutor(1, mp_context=context) as executor,
        pytest.raises(mb.InputError, match="spawn"),
    ):
        mb.fit("rasch", metr, executor=executor, progress=False)


def test_pymc_leaves_a_checkpoint_alone(metr, tmp_path):
    path = tmp_path / "fit.nc.part"
    begun(path)
    with pytest.raises(CheckpointError, match="backend numpyro"):
        mb.fit("rasch", metr, backend="pymc", checkpoint=path, resume=True, progress=False)
    assert path.exists()


def test_fit_refuses_what_it_can_not_do(metr):
    for wrong in (
        {"method": "advi"},
        {"backend": "stan"},
        {"draws": 0},
        {"seed": -1},
        {"seed": 2**63},
        {"chains": 1.5},
        {"tune": True},
    ):
        with pytest.raises(mb.InputError, match=next(iter(wrong))):
            mb.fit("rasch", metr, progress=False, **wrong)


@pytest.mark.slow
def test_zero_sum_vectors_at_the_bottom_are_not_taken_for_separable(rng, monkeypatch):
    """The free elements of a zero-sum vector are mixtures of all its elements."""
    agents, tasks = 12, 3
    monkeypatch.setattr("measurebayes.inference.nuts.TOP_LIMIT", 8)
    table = pd.DataFrame(rng.integers(0, 2, (agents, tasks))).add_prefix("task ")
    data = mb.load(table.assign(agent=[f"agent {i}" for i in range(agents)]).iloc[:, ::-1])
    model = get_model("rasch")
    engine = Engine(model, data, model.priors, tune=10)
    assert engine.split.bottom == ("ability_free",)
    assert not engine.split.separable
    with jax.enable_x64(True):
        points = rng.normal(size=(2, sum(engine.split.sizes)))
        arguments = engine.arguments(data)
        gradient = jax.grad(engine._energy)
        whole = np.mean([jax.jacfwd(gradient)(p, arguments) for p in points], axis=0)
        found = mean_hessian(gradient, points, arguments, engine.split)
    np.testing.assert_allclose(found, whole, rtol=1e-9, atol=1e-9)


def test_data_with_other_holes_share_a_program_where_the_text_cannot_tell(metr):
    from measurebayes.data import fingerprint

    part = metr.isel(cell=metr["task_index"].values % 5 > 0)

    def shared(model, one, other):
        return fingerprint(compiled_in(model, one)) == fingerprint(compiled_in(model, other))

    rasch = get_model("rasch")
    assert shared(rasch, metr, part)
    assert not shared(rasch, metr, mb.subset(metr, source="HCAST"))  # other tasks
    few = metr.isel(cell=slice(0, None, 5))  # few enough cells for a list in place of a grid
    assert not shared(rasch, few, few.isel(cell=slice(1, None)))
    for changed in (
        rasch.source.replace("pp.half_normal(", "pp.half_normal(*[], ", 1) + "\nimport math\n",
        rasch.source.replace(
            "pp.cell(ability) -", "0 * pp.cell(data.attempts.size) + pp.cell(ability) -"
        ),
        rasch.source.replace(
            "pp.cell(ability) -", "0 * pp.data.sizes['cell'] + pp.cell(ability) -"
        ),
    ):
        assert not shared(model_from_source("mine", changed, "mine.py"), metr, part)
    untimed = metr.assign(
        human_minutes=metr["human_minutes"] * np.where(np.arange(228) < 1, np.nan, 1)
    )
    without = untimed.isel(cell=untimed["task_index"].values > 0)  # an error in one, not the other
    assert shared(rasch, untimed, without)  # which doesn't look at human times
    compiled_in(get_model("horizon_logistic"), without)
    with pytest.raises(ModelError, match="no human minutes"):
        compiled_in(get_model("horizon_logistic"), untimed)


def test_observed_human_times_are_arguments_of_the_program_unless_the_text_takes_them_as_exact():
    from measurebayes.data import fingerprint

    data = invented_data()
    other = with_times(data, {"timed": np.zeros(9), "estimated": np.ones(2)})
    keys = {
        name: [fingerprint(compiled_in(get_model(name), one)) for one in (data, other)]
        for name in ("horizon_eiv", "horizon_task", "rasch")
    }
    assert keys["horizon_eiv"][0] == keys["horizon_eiv"][1]
    assert keys["horizon_task"][0] != keys["horizon_task"][1]
    kinds = data["minutes_kind"].values.copy()
    kinds[0] = "estimate"  # another pattern of records
    changed = data.assign(minutes_kind=("task", kinds))
    model = get_model("horizon_eiv")
    assert fingerprint(compiled_in(model, changed)) != keys["horizon_eiv"][0]


def test_walls_stand_only_where_a_variable_is_on_the_scale_of_the_additive_fit():
    data = invented_data()
    data["successes"] = data["attempts"]  # every agent solves everything
    for name in ("horizon_logistic", "horizon_hazard"):
        model = get_model(name)
        chosen = coordinates(model, data, variables(model, data), model.priors)
        name_of_agents = {"horizon_hazard": "log2_horizon"}.get(name, "centred_intercept")
        assert np.all(chosen[name_of_agents]["side"] == 0), name
    model = get_model("rasch")
    chosen = coordinates(model, data, variables(model, data), model.priors)
    assert np.all(chosen["difficulty"]["side"] == -1)


def test_arrays_along_axes_of_a_models_own_are_recentred(rng):
    data = invented_data()
    model = get_model("monotone")
    before = coordinates(model, data, variables(model, data), model.priors)
    shape = before["interaction"]["information"].shape
    assert shape == (3, 5)
    assert before["steepness"]["information"].shape == (5,)
    kept = {"interaction": before["interaction"]}  # information 1 to begin with
    scale, loc = np.array([0.1, 0.2, 1.0, 3.0]), np.zeros((4, *shape))
    draws = {"interaction_free": rng.normal(size=(4, *shape)), "interaction_scale": scale}
    draws["interaction_loc"] = loc
    true = rng.uniform(0.5, 20.0, shape)

    def root(information):
        return np.sqrt(1.0 + information * scale[:, None, None] ** 2)

    at = np.array([0, 2, 3])
    variances = (root(1.0) / root(true))[at] ** 2
    variances[0] = 0.3  # small scales are not asked
    after, moved = recentred(kept, draws, {"interaction": variances}, at)
    np.testing.assert_allclose(after["interaction"]["information"], true)

    def value(free, information):
        return scale[:, None, None] / root(information) * free

    np.testing.assert_allclose(
        value(moved["interaction_free"], true), value(draws["interaction_free"], 1.0)
    )
