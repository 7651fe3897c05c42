"""Every model file holds the contract; needs nothing but the installed package."""

import importlib.util

import numpy as np
import pytest

from measurebayes.backends.density import log_densities
from measurebayes.backends.simulate import prior_draw
from measurebayes.checks.contract import (
    DENSITY_TOLERANCE,
    GRADIENT_TOLERANCE,
    _of_one_variant,
    _parts,
    code_lines,
)
from measurebayes.checks.contract import invented_data as invented
from measurebayes.checks.rows import table as checks_table
from measurebayes.program.registry import get_model, model_names

pytestmark = pytest.mark.timeout(180)  # PyMC compiles


def test_tolerances_are_those_that_were_promised():
    assert DENSITY_TOLERANCE == 1e-10
    assert GRADIENT_TOLERANCE == 1e-8


def one_change(name):
    """Return the labels of a model's variants with one option changed, the defaults first."""
    model = get_model(name)
    labels = [model.label]
    for option, offer in model.offered.items():
        words = offer[1:] if isinstance(offer, tuple) else (offer + 1,)
        labels += [model.with_options(**{option: word}).label for word in words]
    return labels


# PyMC compiles them for seconds
LONG = ("additive", "monotone", "horizon_eiv", "three_pl", "bifactor", "mirt")


def with_changes(first, label):
    """Mark what is not the default as slow: PyMC compiles each anew."""
    fast = label == first and first not in LONG
    return label if fast else pytest.param(label, marks=pytest.mark.slow)


CONTRACTS = [with_changes(n, label) for n in model_names() for label in one_change(n)]


@pytest.mark.parametrize("name", CONTRACTS)
def test_model_holds_the_contract(name):
    rows = _parts(get_model(name)) if name in model_names() else []
    table = checks_table([*rows, *_of_one_variant(get_model(name), invented(), 10, 1)])
    table = table.set_index("name")
    failed = table[~table["passed"]]
    assert failed.empty, failed["text"].to_dict()
    expected = {"simulation", "SciPy density, dense layout"}
    expected |= {"docstring", "length", "imports"} if name in model_names() else set()
    expected |= {"NumPyro density, long layout", "NumPyro density, dense layout", "PyMC density"}
    assert expected <= set(table.index)
    if importlib.util.find_spec("pymc"):
        assert table.loc["gradients", "value"] < GRADIENT_TOLERANCE


VARIANTS = [variant for name in model_names() for variant in get_model(name).variants()]


@pytest.mark.parametrize("model", VARIANTS, ids=lambda variant: variant.label)
def test_relabelling_permutes_the_density_and_changes_nothing_else(model):
    data, rng = invented(), np.random.default_rng(3)
    point = prior_draw(model, data, rng)
    del point["successes"]
    agents, tasks = rng.permutation(data.sizes["agent"]), rng.permutation(data.sizes["task"])
    moved = data.isel(agent=agents, task=tasks)
    moved["agent_index"] = ("cell", np.argsort(agents)[data["agent_index"].values])
    moved["task_index"] = ("cell", np.argsort(tasks)[data["task_index"].values])
    moved["timing_task_index"] = ("timing", np.argsort(tasks)[data["timing_task_index"].values])
    order = {"agent": agents, "task": tasks}
    values = {n: v.isel({d: order[str(d)] for d in v.dims if d in order}) for n, v in point.items()}
    before, after = (log_densities(model, *at) for at in ((data, point), (moved, values)))
    assert before.keys() == after.keys()
    for variable, value in before.items():
        assert after[variable] == pytest.approx(value, rel=1e-12, abs=1e-12), variable


@pytest.mark.parametrize("name", model_names())
def test_sections_are_read_from_the_docstring(name):
    model = get_model(name)
    assert model.equations.splitlines()[0].lstrip().startswith(("logit P(", "P("))
    assert model.references
    assert any("doi:10." in reference for reference in model.references)
    assert set(model.priors) == set(model.with_priors({next(iter(model.priors)): 2.0}))


def test_code_lines_leave_out_docstring_comments_and_blanks():
    assert code_lines('"""One\n\ntwo."""\n\n# a comment\nx = 1\n\ny = (\n    2\n)  # end\n') == 4
