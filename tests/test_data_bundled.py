"""The bundled METR Time Horizon 1.1 counts against the published numbers, and subset of them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import measurebayes as mb
from measurebayes import data


def test_counts_are_those_published(metr):
    summary = data.summarise(metr)
    expected = {
        "agents": 23,
        "tasks": 228,
        "families": 79,
        "attempts": 27_119,
        "successes": 19_153,
        "cells": 5_207,
        "holes": 23 * 228 - 5_207,
        "always_solved": 59,
        "never_solved": 13,
        "unattempted_tasks": 0,
    }
    assert {key: summary[key] for key in expected} == expected
    assert sum(summary["sources"].values()) == 228
    assert set(summary["sources"]) == {"HCAST", "SWAA", "RE-Bench"}
    assert summary["families_known"]


def test_six_bands_of_minutes(metr):
    minutes = metr["human_minutes"].values
    edges = np.quantile(minutes, np.linspace(0, 1, 7))
    band = np.clip(np.searchsorted(edges, minutes, side="right") - 1, 0, 5)
    assert np.bincount(band).tolist() == [36, 40, 38, 38, 35, 41]
    cells = pd.DataFrame(
        {
            "agent": metr["agent_index"].values,
            "band": band[metr["task_index"].values],
            "successes": metr["successes"].values,
            "attempts": metr["attempts"].values,
        }
    )
    sums = cells.groupby(["agent", "band"])[["successes", "attempts"]].sum()
    rate = (sums["successes"] / sums["attempts"]).unstack()
    published = [1.00, 0.96, 0.73, 0.75, 0.35, 0.24]
    np.testing.assert_allclose(rate.mean(), published, atol=0.005)
    assert int((rate[3] > rate[2]).sum()) == 18


def test_labels_and_provenance(metr):
    for name in ("agent", "task", "family", "source"):
        assert metr[name].dtype.kind == "U"
    assert metr["release_date"].dtype == np.dtype("datetime64[ns]")
    assert not np.isnat(metr["release_date"].values).any()
    assert "2503.14499" in metr.attrs["citation"]
    assert metr.attrs["licence"].startswith("MIT")
    gpt4 = metr["release_date"].sel(agent="GPT-4 0314").values
    assert gpt4 == np.datetime64("2023-03-14")


def test_task_weight_is_one_over_root_of_family_size(metr):
    sizes = pd.Series(metr["family_index"].values).map(
        pd.Series(metr["family_index"]).value_counts()
    )
    np.testing.assert_allclose(metr["task_weight"].values, sizes.to_numpy() ** -0.5)


def test_package_data_equal_the_shared_copy(metr, shared_data):
    counts = pd.read_csv(shared_data / "metr_th1_1" / "counts.csv")
    tasks = pd.read_csv(shared_data / "metr_th1_1" / "tasks.csv").set_index("task_id")
    ours = pd.DataFrame(
        {
            "agent": metr["agent"].values[metr["agent_index"].values],
            "task_id": metr["task"].values[metr["task_index"].values],
            "successes": metr["successes"].values,
            "attempts": metr["attempts"].values,
        }
    )
    keys = ["agent", "task_id"]
    pd.testing.assert_frame_equal(
        ours.sort_values(keys, ignore_index=True),
        counts.sort_values(keys, ignore_index=True),
        check_dtype=False,
    )
    tasks = tasks.loc[metr["task"].values]
    np.testing.assert_array_equal(metr["human_minutes"].values, tasks["human_minutes"])
    np.testing.assert_allclose(metr["task_weight"].values, tasks["task_weight"], atol=5e-4)


def test_metr_slopes_follow_from_the_counts(metr, shared_data):
    """METR's printed slope and intercept of one agent, by weighted logistic regression."""
    from scipy.optimize import minimize

    printed = pd.read_csv(shared_data / "metr_th1_1" / "agents.csv").set_index("agent")
    name = "Claude 3 Opus (Inspect)"
    one = data.subset(metr, agent=name)
    doublings = np.log2(one["human_minutes"].values[one["task_index"].values])
    rate = one["successes"].values / one["attempts"].values
    # the family sizes count the tasks that this agent has, as METR's do
    weight = one["task_weight"].values[one["task_index"].values]

    def loss(x):
        eta = x[0] * doublings + x[1]
        return np.sum(weight * (np.logaddexp(0, eta) - rate * eta)) / weight.sum()

    fitted = minimize(loss, [-0.5, 1.0], tol=1e-10).x
    expected = printed.loc[name, ["metr_slope_per_log2_minute", "metr_intercept"]]
    np.testing.assert_allclose(fitted, expected.to_numpy(float), atol=2e-3)


def test_subset_keeps_what_was_asked_and_drops_the_rest(metr):
    agents = metr["agent"].values[[4, 1]].tolist()
    part = mb.subset(metr, agent=agents, source="HCAST")
    assert part["agent"].values.tolist() == metr["agent"].values[[1, 4]].tolist()
    assert set(part["source"].values) == {"HCAST"}
    assert np.unique(part["family_index"]).size == part.sizes["family"]
    # every cell is the cell of the same labels in the whole
    whole = {
        (metr["agent"].values[a], metr["task"].values[t]): (s, n)
        for a, t, s, n in zip(
            *(metr[v].values for v in ("agent_index", "task_index", "successes", "attempts")),
            strict=True,
        )
    }
    labels = part["agent"].values, part["task"].values
    for a, t, s, n in zip(
        *(part[v].values for v in ("agent_index", "task_index", "successes", "attempts")),
        strict=True,
    ):
        assert whole[labels[0][a], labels[1][t]] == (s, n)
    expected = sum(key[0] in agents for key in whole)
    no_condition = mb.subset(metr, agent=agents)
    assert no_condition.sizes["cell"] == expected
    assert mb.subset(metr).identical(metr)


def test_subset_names_unknown_labels(metr):
    with pytest.raises(mb.InputError, match="no agent 'GPT-4 0315'") as caught:
        mb.subset(metr, agent="GPT-4 0315")
    assert "'GPT-4 0314'" in str(caught.value)
    with pytest.raises(mb.InputError, match="no source 'hcast'") as caught:
        mb.subset(metr, source="hcast")
    assert "'HCAST'" in str(caught.value)


def test_fingerprint_depends_on_contents_alone(metr):
    same = metr.copy(deep=True).assign_attrs(name="other")
    same = same.assign_coords(agent=same["agent"].values.astype("U80"))
    assert data.fingerprint(same) == data.fingerprint(metr)
    changed = metr.copy(deep=True)
    changed["successes"].values[0] += 1
    assert data.fingerprint(changed) != data.fingerprint(metr)
    renamed = metr.assign_coords(agent=np.char.add(metr["agent"].values, "x"))
    assert data.fingerprint(renamed) != data.fingerprint(metr)
