"""What checks of dependence and readings of a fit refuse, and say in words."""

import warnings

import numpy as np
import pytest
from fake_fit import fake_data, fake_fit

import measurebayes as mb
from measurebayes.errors import InputError
from measurebayes.estimands.pairs import pair_matrix


@pytest.fixture(scope="module")
def fit():
    return fake_fit(agents=4, tasks=6, draws=20, chains=2)


def in_families(runs, family_of):
    family_of = np.asarray(family_of, dtype=np.int64)
    names = [f"family {i}" for i in range(family_of.max() + 1)]
    runs = runs.drop_vars("family_index").drop_vars("family")
    return runs.assign_coords(family=names).assign(family_index=("task", family_of))


def test_one_family_tells_nothing_of_how_families_differ():
    runs = in_families(fake_data(agents=4, tasks=6)[0], np.zeros(6))
    with pytest.warns(UserWarning, match="no agent tried two families") as found:
        table = mb.clustered_rates(runs)
    assert found[0].filename == __file__
    assert table[["low", "high"]].isna().all(axis=None)
    assert (table["high_tasks"] > table["low_tasks"]).any()


def test_an_agent_of_one_family_or_task_has_no_interval_of_them():
    runs = in_families(fake_data(agents=4, tasks=6, holes=0.0)[0], [0, 0, 0, 1, 1, 1])
    agent, task = runs["agent_index"].values, runs["task_index"].values
    runs = runs.isel(cell=((agent > 1) | (task < 3)) & ((agent > 0) | (task == 1)))
    with pytest.warns(UserWarning, match="2 of 4 agents tried a single family"):
        table = mb.clustered_rates(runs).set_index("agent")
    assert table["low"].isna().to_dict() == {f"agent {i + 1}": i < 2 for i in range(4)}
    assert table["high_tasks"].isna().to_dict() == {f"agent {i + 1}": i < 1 for i in range(4)}


def test_several_families_warn_of_nothing(tiny):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isfinite(mb.clustered_rates(tiny)[["low", "high"]]).all(axis=None)


READERS = [mb.rotate, mb.agent_pairs, pair_matrix, mb.item_parameters, mb.local_dependence]
READERS += [mb.task_fit, mb.agent_fit, mb.check, lambda fit: mb.score(fake_data()[0], fit)]


@pytest.mark.parametrize("read", READERS)
def test_what_is_no_fit_is_not_read(fit, read):
    for wrong in (None, fit["data"].to_dataset(), "fit.nc", fit["posterior"]):
        with pytest.raises(InputError, match="is no fit"):
            read(wrong)


@pytest.mark.parametrize("number", [0, -5, 1.5, "x", None, True])
def test_replicates_are_a_whole_number(fit, number):
    for check in (mb.local_dependence, mb.task_fit, mb.agent_fit, mb.check):
        with pytest.raises(InputError, match="replicates="):
            check(fit, replicates=number)
    with pytest.raises(InputError, match="resamples="):
        mb.clustered_rates(fit, resamples=number)


@pytest.mark.parametrize("groups", [None, 3, {"a": None, "b": ["agent 1"]}, {"a": 3, "b": []}])
def test_groups_are_names_of_agents(fit, groups):
    with pytest.raises(InputError, match="a group that is a"):
        mb.differential_functioning(fit, groups)


def test_a_group_of_one_agent_may_be_its_name(fit):
    one = mb.differential_functioning(fit, {"a": "agent 1", "b": "agent 2"})
    assert one.equals(mb.differential_functioning(fit, {"a": ["agent 1"], "b": ["agent 2"]}))


@pytest.mark.parametrize("wrong", [None, 3, "runs.csv"])
def test_models_are_not_made_of_what_is_no_data(fit, wrong):
    for make in (mb.describe, mb.simulate, mb.calibrate):
        for data in (wrong, fit):
            with pytest.raises(InputError, match="the data are a"):
                make("rasch", data)


@pytest.mark.parametrize("number", [0, -5, 1, 1.5, "x", None])
def test_replications_are_a_whole_number(fit, number):
    with pytest.raises(InputError, match="replications"):
        mb.calibrate("rasch", fit["data"].to_dataset(), replications=number)


def test_one_model_is_not_taken_by_its_letters():
    from measurebayes.analyse import _models

    assert list(_models("rasch")) == ["rasch"]
