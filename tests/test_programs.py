"""Named axes, layouts and verbs, against plain NumPy."""

import itertools
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from scipy.special import expit
from scipy.stats import binom

from measurebayes.backends.describe import describe
from measurebayes.backends.evaluate import cell_logits, log_likelihood, replicate
from measurebayes.backends.simulate import prior_draw, simulate, variables
from measurebayes.checks.contract import _of_one_variant, invented_data
from measurebayes.checks.rows import table as checks_table
from measurebayes.errors import ModelError
from measurebayes.program.cells import Cells
from measurebayes.program.labelled import Labelled, combine, labelled
from measurebayes.program.registry import get_model, model_from_source

EVERY_VERB = Path(__file__).parent / "models" / "every_verb.py"


def test_arithmetic_broadcasts_by_name_in_any_order(rng):
    arrays = {
        "agent": xr.DataArray(rng.normal(size=3), dims="agent"),
        "task": xr.DataArray(rng.normal(size=4), dims="task"),
        "both": xr.DataArray(rng.normal(size=(4, 3)), dims=("task", "agent")),
        "draw": xr.DataArray(rng.normal(size=(5, 4)), dims=("draw", "task")),
    }
    for (_, a), (_, b) in itertools.permutations(arrays.items(), 2):
        mine = labelled(a) * labelled(b) - 2.0 * labelled(a) / (1.0 + labelled(b) ** 2)
        theirs = a * b - 2.0 * a / (1.0 + b**2)
        np.testing.assert_allclose(
            mine.value, theirs.transpose(*mine.dims).values, rtol=1e-14, atol=1e-14
        )


def test_axes_come_out_in_one_order():
    task, agent = Labelled(np.ones(4), ("task",)), Labelled(np.ones(3), ("agent",))
    draw = Labelled(np.ones(5), ("draw",))
    assert (task * agent).dims == (agent * task).dims == ("agent", "task")
    assert (task * draw * agent).dims == ("draw", "agent", "task")


def test_numbers_on_the_left_work_with_numpy_scalars():
    x = Labelled(np.arange(3.0), ("task",))
    assert (np.float64(2.0) * x).value.tolist() == [0.0, 2.0, 4.0]
    assert (1.0 - x).value.tolist() == [1.0, 0.0, -1.0]
    assert (-x).dims == ("task",)


def test_array_without_names_is_refused():
    with pytest.raises(TypeError, match="without names"):
        combine(np.add, Labelled(np.ones(2), ("task",)), np.ones(2))


@pytest.mark.parametrize("layout", ["long", "dense"])
@pytest.mark.parametrize(
    "dims",
    [("agent",), ("task",), ("family",), ("agent", "family"), ("family", "agent"),
     ("agent", "task"), ("dimension", "agent"), ("task", "dimension"), ()],
)  # fmt: skip
def test_cell_finds_the_entry_of_each_cell(rng, layout, dims):
    data = invented_data(4)
    lengths = {**data.sizes, "dimension": 2}
    x = xr.DataArray(rng.normal(size=[lengths[d] for d in dims]), dims=dims)
    cells = Cells(data, layout)
    got = cells.gather(labelled(x))
    spread = labelled(got) * Labelled(np.ones(cells.shape), cells.dims)
    order = [d for d in spread.dims if d not in cells.dims]
    found = cells.take(
        spread.value.transpose([spread.dims.index(d) for d in (*order, *cells.dims)])
    )
    family = data["family_index"].values
    for c, (i, j) in enumerate(zip(data.agent_index.values, data.task_index.values, strict=True)):
        place = {"agent": i, "task": j, "family": family[j]}
        expected = x.isel({d: place[d] for d in dims if d in place}).values
        np.testing.assert_array_equal(found[..., c], expected)


def test_unknown_layout_is_refused():
    with pytest.raises(ValueError, match="'sparse' is unknown"):
        Cells(invented_data(), "sparse")


@pytest.mark.timeout(180)
@pytest.mark.slow  # PyMC compiles for long
@pytest.mark.parametrize("bends", ["with", "without"])
def test_every_verb_has_one_density_in_all_interpreters(bends):
    model = get_model(EVERY_VERB, bends=bends)
    table = checks_table(_of_one_variant(model, invented_data(), 3, 1))
    assert table["passed"].all(), table[["name", "text"]].to_string()
    assert {"PyMC density", "gradients"} <= set(table["name"])


def test_evaluation_of_many_draws_is_that_of_each(rng):
    data = invented_data()
    points = [prior_draw("two_pl", data, rng) for _ in range(6)]
    for point in points:
        del point["successes"]
    values = {
        n: xr.concat([p[n] for p in points], "s").stack(draw=["s"]).reset_index("draw", drop=True)
        for n in points[0]
    }
    eta = cell_logits("two_pl", data, values)
    assert eta.dims == ("draw", "cell")
    for k, point in enumerate(points):
        a, b = point["ability"].values, point["difficulty"].values
        i, j = data["agent_index"].values, data["task_index"].values
        plain = point["discrimination"].values[j] * (a[i] - b[j])
        np.testing.assert_allclose(eta.values[k], plain, rtol=1e-13)
        k, n = data["successes"].values, data["attempts"].values
        kept = np.abs(plain) < 12  # beyond, 1 - p has lost the digits that SciPy's pmf needs
        np.testing.assert_allclose(
            log_likelihood("two_pl", data, point).values[kept],
            binom.logpmf(k, n, expit(plain))[kept],
            rtol=1e-8,
            atol=1e-9,
        )


def test_replicates_have_the_mean_of_the_model(rng):
    data = invented_data()
    point = prior_draw("rasch", data, rng)
    del point["successes"]
    chance = expit(cell_logits("rasch", data, point).values)
    many = {n: v.expand_dims(draw=4000) for n, v in point.items()}
    drawn = replicate("rasch", data, many, rng)
    attempts = data["attempts"].values
    assert ((drawn >= 0) & (drawn <= attempts)).all()
    error = np.sqrt(attempts * chance * (1 - chance) / 4000)
    assert np.all(np.abs(drawn.mean("draw").values - attempts * chance) < 5 * error + 1e-3)


def test_values_that_lack_a_variable_are_named():
    with pytest.raises(ModelError, match="lack the variable 'ability_sd'"):
        cell_logits("rasch", invented_data(), {"ability": xr.DataArray(0.0)})


def test_prior_draws_follow_the_priors(rng):
    data = invented_data()
    draws = [prior_draw("two_pl", data, rng, {"ability_sd": 0.5}) for _ in range(1000)]
    sd = np.array([float(d["ability_sd"]) for d in draws])
    assert sd.mean() == pytest.approx(0.5 * np.sqrt(2 / np.pi), abs=0.04)  # mean of a half-normal
    total = np.array([float(d["ability"].sum()) for d in draws])
    assert np.abs(total).max() < 1e-12
    n = data.sizes["agent"]
    variance = np.mean([float((d["ability"] ** 2).sum()) for d in draws])
    assert variance == pytest.approx((n - 1) * 0.25, rel=0.17)


def test_simulate_is_reproducible_and_keeps_the_design():
    data = invented_data()
    one, two, other = (simulate("two_pl", data, seed=s) for s in (5, 5, 6))
    assert one.identical(two)
    assert not np.array_equal(one["successes"], other["successes"])
    xr.testing.assert_equal(one["attempts"], data["attempts"])
    assert one["true_ability"].dims == ("agent",)


def test_variables_are_listed_as_the_text_states_them():
    listed = {v.name: v for v in variables("two_pl", invented_data())}
    assert listed["difficulty"].parameters == ("difficulty_mean", "difficulty_sd")
    assert listed["discrimination"].dims == ("task",)
    assert listed["ability"].family == "zero_sum_normal"


TEXT = '"""A model."""\nPRIORS = {"a": 1.0}\n\n\ndef model(pp, data, priors=PRIORS):\n    pass\n'


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (TEXT.replace('"""A model."""\n', ""), "no module docstring"),
        (TEXT.replace("PRIORS = ", "OTHERS = ").replace("=PRIORS", ""), "no mapping PRIORS"),
        (TEXT.replace("1.0", "'one'"), "is not a positive number"),
        (TEXT.replace("def model", "def other"), "no function model"),
        (TEXT.replace("(pp, data", "(data, pp"), "model has the parameters"),
        ("import nothing_of_that_name\n", "ModuleNotFoundError"),
        ("def model(:\n", "SyntaxError"),
        ("raise SystemExit(3)\n", "SystemExit"),
    ],
)
def test_what_a_model_file_lacks_is_named(source, message):
    with pytest.raises(ModelError, match=message):
        model_from_source("mine", source, "mine.py")


BODY = "    ability = pp.normal('ability', 0.0, priors['a'], dims='agent')\n"
SEEN = "    pp.observe_successes(pp.cell(ability))\n"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (BODY.replace("'agent'", "'agents'") + SEEN, "axis 'agents' is not one of agent"),
        (BODY.replace("'agent'", "'cell'") + SEEN, "axis 'cell'"),
        (BODY.replace("priors['a']", "priors['b']") + SEEN, "no entry 'b'"),
        (BODY, "never calls pp.observe_successes"),
        (BODY + BODY + SEEN, "two variables are called 'ability'"),
        (BODY + SEEN + SEEN, "observed twice"),
        (BODY.replace("'ability'", "'chain'") + SEEN, "'chain' can't be the name"),
        (BODY.replace("'ability'", "'a/b'") + SEEN, "can't be the name"),
        (BODY.replace("'ability'", "5") + SEEN, "can't be the name"),
        (BODY + "    pp.nosuch(ability)\n" + SEEN, "no attribute 'nosuch'"),
        (BODY + "    raise SystemExit(0)\n" + SEEN, "SystemExit"),
        (BODY + "    pp.observe_successes('x')\n", "TypeError|could not|UFunc"),
    ],
)
def test_mistakes_in_a_model_text_are_named(body, message):
    model = model_from_source("mine", TEXT.replace("    pass\n", body), "mine.py")
    with pytest.raises(ModelError, match=message) as caught:
        describe(model, invented_data())
    assert "mine.py" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "message"),
    [("rash", "did you mean 'rasch'"), ("nowhere.py", "can't be read"), ("", "one of")],
)
def test_unknown_models_are_named(name, message):
    with pytest.raises(ModelError, match=message):
        get_model(name)


@pytest.mark.parametrize(
    ("priors", "message"),
    [
        ({"abilty_sd": 1.0}, "did you mean 'ability_sd'"),
        ({"ability_sd": -1.0}, "a positive number"),
        ({"ability_sd": float("nan")}, "a positive number"),
        ({"ability_sd": float("inf")}, "a positive number"),
        ({"ability_sd": True}, "a positive number"),
    ],
)
def test_priors_that_can_not_be_are_refused(priors, message):
    with pytest.raises(ModelError, match=message):
        get_model("rasch").with_priors(priors)
