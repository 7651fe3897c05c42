"""Options of model files: how they are offered, chosen, written and kept; axes of a model's own."""

import inspect
import json
from decimal import Decimal, getcontext

import jax
import jax.numpy as jnp
import numpy as np
import pytensor.tensor as pt
import pytest
import xarray as xr
from click.testing import CliRunner
from scipy.special import expit

import measurebayes as mb
from measurebayes.backends.evaluate import cell_logits
from measurebayes.backends.simulate import prior_draw
from measurebayes.backends.survival import survival_log_odds
from measurebayes.checks import contract
from measurebayes.checks.contract import invented_data, verify
from measurebayes.cli import main
from measurebayes.inference.results import assemble, labelled_draws, model_of
from measurebayes.inference.trust import trusted
from measurebayes.program.options import (
    combinations,
    declared_in,
    number_of_combinations,
    split,
    written,
)
from measurebayes.program.registry import get_model, model_from_source
from measurebayes.report.summary import model_words, named_fits

TEXT = '''"""A model with options.

Equation
--------
    logit P = sum of terms
"""

PRIORS = {"sd": 1.0}
OPTIONS = {
    "slopes": ("agent", "common"),  # who has a slope
    "terms": 2,  # how many
}


def model(pp, data, priors=PRIORS, slopes="agent", terms=2):
    pp.axis("term", terms)
    dims = ("agent", "term") if slopes == "agent" else "term"
    slope = pp.normal("slope", 0.0, priors["sd"], dims=dims)
    pp.observe_successes(pp.cell(pp.sum(slope, "term")))
'''


@pytest.fixture
def path(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(TEXT)
    return str(file)


def fit_of(model, priors=None, seed=0, data=None):
    """Return a fit whose draws are prior draws: no sampler."""
    data = invented_data() if data is None else data
    rng = np.random.default_rng(seed)
    points = [prior_draw(model, data, rng) for _ in range(6)]
    names = [n for n in points[0] if n != "successes"]
    arrays = {n: np.stack([p[n].values for p in points])[None] for n in names}
    posterior = labelled_draws(arrays, points[0], data)
    stats = xr.Dataset({"diverging": (("chain", "draw"), np.zeros((1, 6), bool))})
    settings = {
        "backend": "numpyro", "method": "nuts", "sampler": "", "layout": "auto", "seed": 0,
        "chains": 1, "draws": 6, "tune": 1, "sampling_seconds": 0.0, "compile_seconds": 0.0,
        "gradients": 0, "priors": json.dumps(model.with_priors(priors)),
    }  # fmt: skip
    return assemble(model, data, posterior, stats, settings)


# -- choosing ---------------------------------------------------------------------------------


def test_options_are_chosen_by_keyword_or_in_the_name(path):
    usual = get_model(path)
    assert usual.options == {"slopes": "agent", "terms": 2}
    assert usual.label == "mine"
    other = get_model(path, slopes="common", terms=3)
    assert other.options == {"slopes": "common", "terms": 3}
    assert other.label == "mine:slopes=common,terms=3"
    for same in (
        get_model(f"{path}:slopes=common,terms=3"),
        get_model(f"{path}:terms=3", slopes="common"),
        get_model(other.reference),
        usual.with_options(slopes="common", terms=np.int64(3)),
        get_model(other),
    ):
        assert same.options == other.options
        assert same.label == other.label
    assert get_model(other, terms=2).label == "mine:slopes=common"
    assert get_model("rasch").label == get_model("rasch").reference == "rasch"


def test_every_combination_comes_once_and_the_default_first(path):
    labels = [variant.label for variant in get_model(path).variants()]
    assert labels == [
        "mine", "mine:terms=1", "mine:terms=3",
        "mine:slopes=common", "mine:slopes=common,terms=1", "mine:slopes=common,terms=3",
    ]  # fmt: skip
    assert [variant.label for variant in get_model("rasch").variants()] == ["rasch"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("slope=common", "did you mean 'slopes'"),
        ("slopes=comon", "one of agent, common"),
        ("terms=0", "a whole number from 1"),
        ("terms=1.5", "a whole number from 1"),
        ("terms=-2", "a whole number from 1"),
        ("terms=99999999999999", "a whole number from 1"),
        ("slopes", "NAME:OPTION=VALUE"),
        ("slopes=", "NAME:OPTION=VALUE"),
        ("", "NAME:OPTION=VALUE"),
        ("terms=1,terms=2", "a second time"),
    ],
)
def test_choices_that_can_not_be_are_refused(path, text, message):
    with pytest.raises(mb.ModelError, match=message):
        get_model(f"{path}:{text}")


@pytest.mark.parametrize("value", [True, 2.0, None, [1], "two"])
def test_values_of_another_kind_are_refused(path, value):
    for name in ("terms", "slopes"):
        with pytest.raises(mb.ModelError, match=name):
            get_model(path, **{name: value})


def test_arguments_that_nobody_knows_are_named():
    data = invented_data()
    for function in (mb.fit, mb.describe, mb.simulate, mb.numpyro_model, mb.pymc_model):
        with pytest.raises(mb.ModelError, match="option 'slopes'") as caught:
            function("rasch", data, slopes="common")
        assert "it has no options" in str(caught.value)
    with pytest.raises(mb.ModelError, match="did you mean 'draws'"):
        mb.fit("rasch", data, draw=5)
    with pytest.raises(mb.ModelError, match="option 'slopes'"):
        mb.calibrate("rasch", data, 2, slopes="common")


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ('{\n    "slopes"', '[\n    "slopes"', "never closed|does not match|invalid syntax"),
        ("OPTIONS = {", "OPTIONS = 5\nOTHERS = {", "not a mapping"),
        ('("agent", "common")', '("agent", 5)', "neither a tuple of words"),
        ('("agent", "common")', '("agent", "agent")', "neither a tuple of words"),
        ('("agent", "common")', '("a b", "common")', "neither a tuple of words"),
        ('("agent", "common")', "()", "neither a tuple of words"),
        ('"terms": 2', '"terms": 0', "neither a tuple of words"),
        ('"terms": 2', '"terms": True', "neither a tuple of words"),
        ('"terms": 2', '"terms": 3', "another default of 'terms'"),
        ('"terms": 2', '"draws": 2', "have for themselves"),
        ('"terms": 2', '"other": 2', "no argument 'other'"),
    ],
)
def test_options_that_can_not_be_offered_are_named(before, after, message):
    assert before in TEXT
    with pytest.raises(mb.ModelError, match=message):
        model_from_source("mine", TEXT.replace(before, after), "mine.py")


def test_names_are_split_where_options_begin():
    assert split("rasch") == ("rasch", {})
    assert split("a:b=c,d=2") == ("a", {"b": "c", "d": "2"})
    assert split("C:/x/mine.py") == ("C:/x/mine.py", {})
    assert split("C:/x/mine.py:b=c") == ("C:/x/mine.py", {"b": "c"})


# -- what they change, and where they are kept --------------------------------------------------


def test_every_function_uses_the_chosen_options(path):
    data = invented_data()
    described = mb.describe(path, data, slopes="common", terms=3)
    assert described.parameters == 3
    assert described.model == "mine:slopes=common,terms=3"
    assert "slopes = common" in str(described)
    assert described.as_dict()["options"] == {"slopes": "common", "terms": 3}
    agents = data.sizes["agent"]
    assert mb.describe(path, data).parameters == 2 * agents
    simulated = mb.simulate(f"{path}:terms=4", data)
    assert simulated["true_slope"].sizes == {"agent": agents, "term": 4}
    assert "mine:terms=4" in simulated.attrs["title"]
    assert mb.pymc_model(path, data, slopes="common", terms=3)["slope"].eval().shape == (3,)


def test_a_fit_keeps_options_and_the_labels_of_its_axes(path, tmp_path):
    model = get_model(path, slopes="common", terms=3)
    fit = fit_of(model)
    assert json.loads(fit.attrs["options"]) == {"slopes": "common", "terms": 3}
    back = mb.open(mb.save(fit, tmp_path / "fit.nc"))
    assert model_of(back).label == model.label
    assert back["posterior"]["term"].values.tolist() == [0, 1, 2]
    assert list(named_fits([fit, fit])) == [model.label, f"{model.label}-2"]
    assert model_words(fit).options == {"slopes": "common", "terms": 3}
    assert list(named_fits(fit_of(get_model(path)))) == ["mine"]


def test_fits_from_before_there_were_options_are_read(tmp_path):
    fit = fit_of(get_model("rasch"))
    del fit.attrs["options"]
    back = mb.open(mb.save(fit, tmp_path / "fit.nc"))
    assert model_of(back).label == "rasch"


@pytest.mark.parametrize("options", ["{", "[]", '{"slopes": 1.5}', '{"slopes": null}'])
def test_options_that_are_none_are_not_trusted(path, options):
    fit = fit_of(get_model(path))
    fit.attrs["options"] = options
    with pytest.raises(mb.InputError, match="options"):
        trusted(fit, "here")


def test_options_that_the_model_lacks_are_refused(path):
    fit = fit_of(get_model(path))
    fit.attrs["options"] = '{"slopes": "none"}'
    with pytest.raises(mb.InputError, match="one of agent, common") as caught:
        model_of(trusted(fit, "here"))
    assert "of the fit" in caught.value.where


@pytest.mark.parametrize("options", [{"slopes": "agent"}, {"slopes": "common", "terms": 3}, {}])
def test_options_of_another_fit_are_refused(path, options):
    fit = fit_of(get_model(path, slopes="common"))
    fit.attrs["options"] = json.dumps(options)
    with pytest.raises(mb.InputError, match="variable 'slope' has dims") as caught:
        model_of(trusted(fit, "here"))
    assert "of the fit" in caught.value.where


def test_options_chosen_twice_must_agree(path):
    assert get_model(f"{path}:terms=3", terms=3).label == "mine:terms=3"
    assert get_model(f"{path}:terms=3,slopes=common", slopes="common").label.count("common") == 1
    for function in (mb.describe, mb.simulate, mb.fit):
        with pytest.raises(mb.ModelError, match="slopes is agent in the model's name and common"):
            function(f"{path}:slopes=agent", invented_data(), slopes="common")


def test_arguments_given_as_options_are_named_as_what_they_are(path):
    for call in (
        lambda: get_model(f"{path}:seed=3"),
        lambda: mb.describe("rasch", invented_data(), seed=3),
    ):
        with pytest.raises(mb.ModelError, match="seed is an argument of fit, simulate") as caught:
            call()
        assert "did you mean" not in str(caught.value)


def test_no_argument_of_the_functions_can_be_an_option():
    functions = (
        mb.fit, mb.describe, mb.simulate, mb.calibrate, mb.numpyro_model, mb.pymc_model,
        mb.get_model, get_model("rasch").with_options,
    )  # fmt: skip
    names = {name for f in functions for name in inspect.signature(f).parameters} - {"changes"}
    assert {"runs", "seed", "model", "priors", "options"} <= names
    for name in (*names, "self", "pp"):
        text = TEXT.replace('"terms": 2', f'"{name}": 2')
        with pytest.raises(mb.ModelError, match=f"OPTIONS names '{name}', which .* themselves"):
            model_from_source("mine", text, "mine.py")


def test_too_many_combinations_are_cut_and_said_to_be(tmp_path):
    offered = {f"o{i}": ("a", "b", "c") for i in range(30)}
    assert number_of_combinations(offered) == 3**30
    first = combinations(offered)
    assert len(first) == 64
    assert len({tuple(one.values()) for one in first}) == 64
    assert set(first[0].values()) == {"a"}
    for name in offered:  # every word is tried once
        assert {one[name] for one in first} == {"a", "b", "c"}

    few = {f"o{i}": ("a", "b") for i in range(7)}
    arguments = ", ".join(f"{name}='a'" for name in few)
    text = TEXT.replace('slopes="agent", terms=2', f'slopes="agent", terms=2, {arguments}')
    file = tmp_path / "many.py"
    file.write_text(text.replace('"terms": 2,', f'"terms": 2, **{few},'))
    model = get_model(file)
    assert len(model.variants()) == 64
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(contract, "_of_one_variant", lambda *_: [])
        rows = contract.verify(file)
    assert rows.set_index("name").loc["options", "text"].startswith("64 of 768 combinations")


def test_log_likelihoods_beyond_single_precision_stay_finite():
    data = invented_data()
    data["human_minutes"][:] = [1e-300, 1e300, 1.0, 2.0, 4.0, 8.0, 16.0]
    model = get_model("horizon_hazard", shape="agent")
    stored = fit_of(model, data=data)["log_likelihood"]["successes"].values
    assert np.isfinite(stored).all()
    assert stored.min() == np.finfo(np.float32).min


def test_axes_without_labels_are_not_trusted(path):
    fit = fit_of(get_model(path))
    fit["posterior"] = xr.DataTree(fit["posterior"].to_dataset().drop_vars("term"))
    with pytest.raises(mb.InputError, match="axis 'term'"):
        trusted(fit, "here")


def test_options_are_part_of_what_a_run_depends_on(path):
    from measurebayes.inference.nuts import _Key

    data = invented_data()
    keys = {
        _Key(get_model(path, **options), data, {"sd": 1.0}, 10, "design")
        for options in ({}, {"slopes": "agent"}, {"slopes": "common"}, {"terms": 3})
    }
    assert len(keys) == 3


def test_options_are_read_from_a_text_without_running_it():
    assert declared_in(TEXT) == {"slopes": ("agent", "common"), "terms": 2}
    assert declared_in("raise SystemExit\nOPTIONS = {'a': ('b',)}") == {"a": ("b",)}
    for nothing in ("OPTIONS = f()", "x = (", "OPTIONS = {'a': 'b'}", "\0", "OPTIONS = [1]"):
        assert declared_in(nothing) == {}
    offered = {"slopes": ("agent", "common"), "terms": 2}
    assert written(offered) == "slopes = agent or common; terms = 2 or another whole number"


@pytest.mark.slow
def test_contract_is_checked_for_every_combination(path):
    table = verify(path, draws=2)
    simulated = table["name"][table["name"].str.startswith("simulation")].tolist()
    assert simulated == ["simulation"] + [
        f"simulation {words}"
        for words in (
            "terms=1", "terms=3", "slopes=common", "slopes=common,terms=1", "slopes=common,terms=3",
        )
    ]  # fmt: skip
    densities = table[table["name"].str.contains("density")]
    assert densities["passed"].all()


def test_command_line_takes_options_in_the_name(path, tmp_path):
    data = str(tmp_path / "data.csv")
    invented = invented_data()
    invented[["attempts", "successes"]].to_dataframe().assign(
        agent=invented["agent"].values[invented["agent_index"].values],
        task=invented["task"].values[invented["task_index"].values],
    ).to_csv(data, index=False)
    run = CliRunner().invoke(main, ["describe", f"{path}:terms=3", data, "--json"])
    assert run.exit_code == 0, run.output
    assert json.loads(run.stdout)["options"] == {"slopes": "agent", "terms": 3}
    run = CliRunner().invoke(main, ["describe", f"{path}:term=3", data])
    assert run.exit_code == 2, run.output


# -- axes of a model's own ------------------------------------------------------------------------

KNOTS = '''"""A model with knots at quantiles of the data."""

PRIORS = {"sd": 1.0}


def model(pp, data, priors=PRIORS):
    minutes = pp.log2_minutes()
    knots = pp.axis("knot", minutes.quantile([0.25, 0.75]).values)
    height = pp.normal("height", 0.0, priors["sd"], dims="knot")
    pp.observe_successes(pp.cell(pp.sum(height * (minutes - knots), "knot")))
'''


def test_knots_stay_where_the_fit_had_them(rng):
    model, data = model_from_source("knots", KNOTS, "knots.py"), invented_data()
    values = prior_draw(model, data, rng)
    del values["successes"]
    whole = cell_logits(model, data, values).values
    few = mb.subset(data, task=data["task"].values[:3].tolist())
    kept = data["task_index"].values < 3
    np.testing.assert_array_equal(cell_logits(model, few, values).values, whole[kept])
    plain = {"height": xr.DataArray(values["height"].values, dims="knot")}
    assert not np.allclose(cell_logits(model, few, plain).values, whole[kept])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ('"agent", 2', "can't be the name of an axis"),
        ('"a b", 2', "can't be the name of an axis"),
        ('"knot", [1.0, 1.0]', "are not different ones"),
        ('"knot", 0', "are not different ones"),
        ('"knot", [[1.0]]', "are not different ones"),
        ('"height", 2', "can't be the name of a variable"),
    ],
)
def test_axes_that_can_not_be_are_named(call, message):
    text = KNOTS.replace('"knot", minutes.quantile([0.25, 0.75]).values', call)
    with pytest.raises(mb.ModelError, match=message):
        mb.describe(model_from_source("knots", text, "knots.py"), invented_data())


def test_tasks_without_human_minutes_are_named_with_a_remedy():
    model, data = model_from_source("knots", KNOTS, "knots.py"), invented_data()
    data["human_minutes"][2] = np.nan
    with pytest.raises(mb.ModelError, match="1 of 7 tasks with attempts") as caught:
        mb.describe(model, data)
    assert "'task 2'" in str(caught.value)
    few = mb.subset(data, task=data.task[data.human_minutes > 0].values)  # as the remedy says
    assert mb.describe(model, few).parameters == 2


def test_a_task_without_attempts_needs_no_human_minutes(rng):
    data = invented_data()
    data["human_minutes"][2] = np.nan
    data = data.isel(cell=data["task_index"].values != 2)
    values = prior_draw(model_from_source("knots", KNOTS, "knots.py"), data, rng)
    assert np.isfinite(values["successes"].values).all()


# -- survival -------------------------------------------------------------------------------------


def exact_log_odds(x):
    """Return -log(exp(exp(x)) - 1) with 60 digits."""
    getcontext().prec = 60
    hazard = Decimal(float(x)).exp()
    return -(hazard.exp() - 1).ln()


def test_survival_log_odds_has_all_digits_in_both_tails():
    points = np.concatenate([np.linspace(-60, 8, 69), [-1e-9, 0.0, 1e-9, -35.0, -29.999, -30.001]])
    exact = np.array([float(exact_log_odds(x)) for x in points])
    for found in (
        survival_log_odds(np)(points),
        pt.as_tensor(survival_log_odds(pt)(pt.constant(points))).eval(),
    ):
        np.testing.assert_allclose(found, exact, rtol=1e-13, atol=1e-13)
    with jax.enable_x64(True):
        found = survival_log_odds(jnp)(jnp.asarray(points))
        np.testing.assert_allclose(found, exact, rtol=1e-13, atol=1e-13)
    middle = points[np.abs(points) < 3]
    np.testing.assert_allclose(expit(survival_log_odds(np)(middle)), np.exp(-np.exp(middle)), 1e-12)


def test_survival_log_odds_has_finite_derivatives():
    points = np.array([-800.0, -100.0, -31.0, -29.0, -2.0, -1e-12, 1e-12, 0.5, 5.0, 100.0, 800.0])
    assert np.isfinite(survival_log_odds(np)(points)).all()
    with jax.enable_x64(True):
        slope = np.asarray(jax.vmap(jax.grad(survival_log_odds(jnp)))(jnp.asarray(points)))
    assert np.isfinite(slope).all()
    inner = slice(2, 10)
    hazard = np.exp(points[inner])
    exact = hazard / np.expm1(-hazard)  # d/dx of -log(exp(H) - 1), H = exp(x)
    np.testing.assert_allclose(slope[inner], exact, rtol=1e-12)


def test_a_bundled_model_is_not_taken_for_a_copy_of_it(tmp_path):
    copy = tmp_path / "mine.py"
    copy.write_text(get_model("rasch").source, encoding="utf-8")
    get_model(copy)
    assert model_of(fit_of(get_model("rasch"))).label == "rasch"
    assert model_of(fit_of(get_model(copy))).label == "mine"
