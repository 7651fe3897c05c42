"""What comparisons refuse before they compute, and say in words."""

import warnings

import numpy as np
import pytest
import xarray as xr
from fake_fit import fake_fit

import measurebayes as mb
from measurebayes.compare import UnconvergedWarning, loo
from measurebayes.errors import InputError

SIZE = {"agents": 4, "tasks": 6, "draws": 20, "chains": 2}


@pytest.fixture(scope="module")
def fit():
    return fake_fit(**SIZE)


@pytest.fixture(autouse=True)
def no_sampling(monkeypatch):
    def refuse_to_fit(*_, **__):
        raise AssertionError("fitted before the arguments were checked")

    monkeypatch.setattr("measurebayes.inference.fit", refuse_to_fit)


def with_attempts(runs, number):
    attempts = runs["attempts"].copy(deep=True)
    attempts[0] = number
    return runs.assign(attempts=attempts)


def one_family(fit):
    data = fit["data"].to_dataset()
    data["family_index"] = ("task", np.zeros(data.sizes["task"], dtype=np.int64))
    data = data.drop_vars("family").assign_coords(family=["all of them"])
    return xr.DataTree.from_dict(
        {**{n: c.to_dataset() for n, c in fit.children.items()}, "data": data}
        | {"/": xr.Dataset(attrs=fit.attrs)}
    )


def test_one_unit_tells_nothing_of_how_sure_a_comparison_is(fit):
    one = one_family(fit)
    with pytest.raises(InputError, match="1 family") as raised:
        mb.compare({"a": one, "b": one}, unit="family")
    assert "at least two" in str(raised.value)
    with pytest.raises(InputError, match="1 family"):
        mb.crossval("rasch", one["data"].to_dataset(), folds="family")


@pytest.mark.parametrize(
    "data", [lambda fit: fit["data"].to_dataset(), lambda _: None, lambda _: 3]
)
def test_what_is_no_fit_is_not_compared(fit, data):
    with pytest.raises(InputError, match="is no fit") as raised:
        mb.compare({"good": fit, "r": data(fit)})
    assert "fits['r']" in str(raised.value)
    with pytest.raises(InputError, match="is no fit"):
        loo(data(fit))


def test_a_fit_is_no_mapping_of_fits(fit):
    for wrong in (fit, fit["data"].to_dataset(), [fit], None):
        with pytest.raises(InputError, match=r"^a \w+"):
            mb.compare(wrong)


@pytest.mark.parametrize("k", [2.5, "x", 1, 0, -3, True, float("nan")])
def test_folds_are_a_whole_number(fit, k):
    with pytest.raises(InputError, match="k="):
        mb.crossval(["rasch"], fit["data"].to_dataset(), k=k)


@pytest.mark.parametrize("seed", [-1, "x", 1.5, None])
def test_a_seed_is_a_whole_number(fit, seed):
    with pytest.raises(InputError, match="seed="):
        mb.crossval("rasch", fit["data"].to_dataset(), seed=seed)


@pytest.mark.parametrize(
    ("models", "words"),
    [
        ([], "no models"),
        ({}, "no models"),
        (None, "a NoneType"),
        (3, "a int"),
        ([3], "a int among them"),
        (["rasch", "rasch"], "'rasch' twice"),
        (["mirt", "mirt:dimensions=2"], "twice"),
    ],
)
def test_models_are_named_once_each(fit, models, words):
    with pytest.raises(InputError, match=words):
        mb.crossval(models, fit["data"].to_dataset())
    with pytest.raises(InputError, match="a DataTree"):
        mb.crossval(fit, fit["data"].to_dataset())


def test_a_fit_is_no_data(fit):
    with pytest.raises(InputError, match="a fit") as raised:
        mb.crossval(["rasch"], fit)
    assert 'fit["data"].to_dataset()' in str(raised.value)
    with pytest.raises(InputError, match="a NoneType"):
        mb.crossval(["rasch"], None)


def test_attempts_are_not_taken_one_by_one_without_limit(fit):
    runs = with_attempts(fit["data"].to_dataset(), 2_000_000_000)
    with pytest.raises(InputError, match="2000000000 attempts"):
        mb.crossval(["rasch"], runs, folds="half-attempts")
    with pytest.raises(InputError, match="attempts"):
        mb.crossval(["rasch"], runs, folds="attempt")
    parts = {name: child.to_dataset() for name, child in fit.children.items()}
    many = xr.DataTree.from_dict({**parts, "data": runs, "/": xr.Dataset(attrs=fit.attrs)})
    with pytest.raises(InputError, match="attempts"):
        mb.compare({"a": many}, unit="attempt")
    with pytest.raises(InputError, match="attempts"):
        loo(many, "attempt")


def crossval_of(monkeypatch, converged, models, **arguments):
    """Cross-validate with fits that come from no sampler."""
    made = fake_fit(converged=converged, holes=0.0, **SIZE)

    def other(model, runs, **_):
        tree = {n: c.to_dataset() for n, c in made.children.items()} | {"data": runs}
        return xr.DataTree.from_dict(tree | {"/": xr.Dataset(attrs=made.attrs)})

    monkeypatch.setattr("measurebayes.inference.fit", other)
    runs = made["data"].to_dataset()
    return mb.crossval(models, runs, k=2, progress=False, **arguments)


@pytest.mark.parametrize("folds", ["cell", "half-attempts"])
def test_crossval_warns_of_fits_that_have_not_converged(monkeypatch, folds):
    with pytest.warns(UnconvergedWarning, match="'rasch': 2 of 2 fits") as found:
        table = crossval_of(monkeypatch, False, "rasch", folds=folds)
    assert table.attrs["warnings"] == [str(found[0].message)]
    assert found[0].filename == __file__
    assert table["unconverged"]["rasch"] == 2


def test_one_model_may_be_given_as_it_is(monkeypatch):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnconvergedWarning)
        table = crossval_of(monkeypatch, True, "rasch", folds="cell")
    assert list(table.index) == ["rasch"]


def test_draws_too_few_to_smooth_are_refused(fit):
    few = fake_fit(**SIZE | {"draws": 10})
    with pytest.raises(InputError, match="20 draws"):
        mb.compare({"few": few})
