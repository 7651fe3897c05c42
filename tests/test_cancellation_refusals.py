"""What is no fit, no result or no executor is refused in words wherever the check takes one."""

import dataclasses

import numpy as np
import pytest
import xarray as xr
from fake_fit import fake_data, fake_fit

import measurebayes as mb
from measurebayes.errors import InputError
from measurebayes.inference.results import model_of

FEW = {"bands": 4, "min_attempts": 5, "replicates": 20, "progress": False}


@pytest.fixture(scope="module")
def fit():
    return fake_fit(draws=50)


def against(fit, explanation):
    return mb.cancellation(fit["data"].to_dataset(), against=explanation, **FEW)


def checked(runs, **more):
    return mb.cancellation(runs, against=["rasch_ml"], **FEW, **more)


@pytest.mark.parametrize("lost", ["posterior", "data", "model", "model_source", "priors"])
def test_trees_that_are_no_fit(fit, lost):
    tree = fit.copy()
    if lost in tree.children:
        del tree[lost]
    else:
        del tree.attrs[lost]
    for function in (model_of, lambda tree: against(fit, [tree]), lambda t: against(fit, t)):
        with pytest.raises(InputError, match=f"is no fit: it lacks the .* {lost}"):
            function(tree)


def test_an_empty_tree_and_a_posterior_alone(fit):
    for tree in (xr.DataTree(), fit["posterior"], xr.DataTree.from_dict({"posterior": None})):
        with pytest.raises(InputError, match="is no fit"):
            against(fit, [tree])


def test_draws_that_are_no_number_are_named(fit):
    broken = fit.copy(deep=True)
    broken["posterior"]["difficulty"].values[1, 2, 3] = np.nan
    for explanation, name in (([broken], "rasch"), ({"mine": broken}, "mine")):
        with pytest.raises(InputError, match=f"the fit '{name}' has draws") as caught:
            against(fit, explanation)
        assert "'difficulty'" in caught.value.where


@pytest.mark.parametrize("result", ["x", {}, [], 3])
def test_a_report_of_what_is_no_check(fit, result, tmp_path):
    pytest.importorskip("matplotlib")
    with pytest.raises(InputError, match="is no result of a check"):
        mb.report(fit, tmp_path / "report.html", cancellation=result)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "other",
    [{"agents": [f"other {i}" for i in range(8)]}, {"tasks": 13}, {"attempts": 7}, {"attempts": 5}],
)
def test_a_report_of_a_check_of_other_data(fit, other, tmp_path):
    pytest.importorskip("matplotlib")
    result = checked(fake_data(**other)[0])
    with pytest.raises(InputError, match="other data than those of the fits"):
        mb.report(fit, tmp_path / "report.html", cancellation=result)
    assert not list(tmp_path.iterdir())


def test_a_report_takes_a_check_of_its_data_or_a_part(fit, monkeypatch, tmp_path):
    pytest.importorskip("matplotlib")
    given = []
    monkeypatch.setattr(
        "measurebayes.report.sections.page_context", lambda *args: given.append(args[-1])
    )
    monkeypatch.setattr("measurebayes.report.page.render", lambda context: "page")
    runs = fit["data"].to_dataset()
    results = [
        checked(runs),
        checked(runs, cuts=2),
        checked(runs, by="difficulty"),
        checked(runs, subset={"agent": [f"agent {i}" for i in (1, 2, 5)]}),
        dataclasses.replace(checked(runs), violations=checked(runs).violations[:0]),
    ]
    other = fake_fit(draws=50, agents=[f"other {i}" for i in range(8)])
    for result in results:
        mb.report([other, fit], tmp_path / "report.html", cancellation=result)
    assert given == results


@pytest.mark.parametrize("function", [mb.cancellation_power, mb.fit, mb.calibrate])
def test_what_is_no_executor(fit, function):
    runs = fit["data"].to_dataset()
    model = () if function is mb.cancellation_power else ("rasch",)
    more = FEW | {"null": "rasch_ml"} if function is mb.cancellation_power else {"progress": False}
    for executor in (3, "x", {}):
        with pytest.raises(InputError, match="is no executor"):
            function(*model, runs, executor=executor, **more)
