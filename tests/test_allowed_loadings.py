"""Tables of allowed loadings: what is wrong with one, and who says how many dimensions it has."""

import numpy as np
import pytest
import xarray as xr
from fake_fit import fake_data

import measurebayes as mb
from measurebayes.errors import ModelError
from measurebayes.program.registry import get_model

TASKS = 6


def with_table(table, labels=None):
    runs = fake_data(agents=4, tasks=TASKS)[0]
    runs = runs.assign(allowed_loading=(("task", "dimension"), np.asarray(table)))
    return runs if labels is None else runs.assign_coords(dimension=labels)


def halves():
    return np.arange(TASKS)[:, None] % 2 == np.arange(2)


def described(runs, name="mirt", **options):
    return mb.describe(name, runs, **{"loadings": "allowed", **options})


@pytest.mark.parametrize("number", [1, 3])
def test_another_number_of_dimensions_than_the_table_has_is_refused(number):
    runs = with_table(halves().astype(int))
    words = f"dimensions={number}, but allowed_loading of the data has 2"
    for name, options in [
        ("mirt", {"dimensions": number}),
        (f"mirt:dimensions={number}", {}),
        (get_model("mirt", dimensions=number), {}),
        (get_model("mirt"), {"dimensions": number}),
    ]:
        with pytest.raises(ModelError, match=words):
            described(runs, name, **options)
    with pytest.raises(ModelError, match=words):
        mb.simulate("mirt", runs, loadings="allowed", dimensions=number)


def test_the_default_is_refused_only_where_it_was_chosen():
    three = with_table((np.arange(TASKS)[:, None] % 3 == np.arange(3)).astype(int))
    described(three)
    described(three, dimensions=3)
    with pytest.raises(ModelError, match="dimensions=2, but"):
        described(three, dimensions=2)
    # as processes get it, and as a fit has it
    chosen = get_model("mirt", loadings="allowed", dimensions=2)
    with pytest.raises(ModelError, match="dimensions=2, but"):
        mb.describe(chosen.reference, three)
    mb.describe(get_model("mirt").with_options(loadings="allowed", dimensions=2), three)
    assert chosen.label == "mirt:loadings=allowed"
    assert all(one.given == frozenset() for one in chosen.variants())


@pytest.mark.parametrize(
    ("table", "labels", "words"),
    [
        (np.zeros((TASKS, 0)), None, "no dimension"),
        (halves().astype(int), ["skill", "skill"], "label of their own: 'skill'"),
        (halves().astype(int), [1.0, np.nan], "label of their own: nan"),
        (halves() * 0.5, None, "other than 0 and 1"),
        (halves() * [1, 0], None, "without tasks"),
        (np.where(halves(), 1.0, np.nan), None, "other than 0 and 1"),
    ],
)
def test_a_table_that_is_wrong_is_the_fault_of_the_table(table, labels, words):
    with pytest.raises(ModelError, match=words) as raised:
        described(with_table(table, labels))
    assert "where:    allowed_loading of the data" in str(raised.value)
    assert "mirt.py" not in str(raised.value)


def test_data_without_a_table_say_so():
    runs = fake_data(agents=4, tasks=TASKS)[0]
    with pytest.raises(ModelError, match="no variable allowed_loading"):
        described(runs)
    turned = runs.assign(allowed_loading=xr.DataArray(halves().T, dims=("dimension", "task")))
    with pytest.raises(ModelError, match="has dims"):
        described(turned)
