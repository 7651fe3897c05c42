"""Runs of logs become attempts: identity, statuses, scores; against counts made by hand."""

from __future__ import annotations

import json
import random
import re

import numpy as np
import pandas as pd
import pytest

import measurebayes as mb
from measurebayes import data
from measurebayes.data import scores
from measurebayes.data.identity import natural
from measurebayes.data.runs import RUN_OPTIONS, Run, dataset_of_runs
from measurebayes.data.statuses import parse_policy, policy_text
from measurebayes.data.summary import status_rows, status_words


def run(identity, model, values, suite="S", scorer="m", created="", place="file", **settings):
    """A run with one record a value; a tuple is (status, value), without a scorer."""
    rows = [
        (f"{suite}/{at}", 1, "", *value)
        if isinstance(value, tuple)
        else (f"{suite}/{at}", 1, scorer, "scored", value)
        for at, value in enumerate(values)
    ]
    names = ("task", "epoch", "scorer", "status", "value")
    columns = dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
    return Run(place, identity, created, {"model": model, **settings}, suite, columns)


def made(runs, /, **options):
    complete = {option.name: option.default for option in RUN_OPTIONS} | options
    return dataset_of_runs(runs, complete, "here")


def cells(runs):
    """(agent, task) -> (successes, attempts)."""
    agent = runs["agent"].values[runs["agent_index"].values].tolist()
    task = runs["task"].values[runs["task_index"].values].tolist()
    counts = zip(runs["successes"].values.tolist(), runs["attempts"].values.tolist(), strict=True)
    return dict(zip(zip(agent, task, strict=True), counts, strict=True))


def message(runs, /, **options):
    with pytest.raises(mb.InputError) as caught:
        made(runs, **options)
    return str(caught.value)


# ----- identity


def test_order_of_runs_and_labels_does_not_matter():
    runs = [run(f"r{i}", f"m{i}", "CICICICICIC") for i in range(12)]
    first = made(runs)
    random.Random(1).shuffle(runs)
    assert made(runs).identical(first)
    assert first["agent"].values.tolist() == [f"m{i}" for i in range(12)]
    assert first["task"].values.tolist() == [f"S/{i}" for i in range(11)]
    assert sorted(["q10", "q2", "q1a", "q"], key=natural) == ["q", "q1a", "q2", "q10"]


def two_scorers():
    return [
        run("1", "a", "CI", scorer="m"),
        run("1", "a", "II", scorer="x", place="rescored"),
        run("2", "b", ["C", ("errored", None)]),
        run("3", "b", "CC", suite="T", scorer="other"),
    ]


def test_two_scorers_are_refused_until_one_is_chosen_or_both_kept_apart():
    found = message(two_scorers(), policy="failure")
    assert re.search(r"'S' has m \(3 records\), x \(2 records\)", found)
    assert "scorer='m'" in found
    assert "scorer='all'" in found
    one = made(two_scorers(), policy="failure", scorer="m")
    assert cells(one) == {
        ("a", "S/0"): (1, 1),
        ("a", "S/1"): (0, 1),
        ("b", "S/0"): (1, 1),
        ("b", "S/1"): (0, 1),
        ("b", "T/0"): (1, 1),
        ("b", "T/1"): (1, 1),
    }
    assert json.loads(one.attrs["dropped"]) == {"other scorers": 2}
    apart = made(two_scorers(), policy="failure", scorer="all")
    assert apart["task"].values.tolist() == [
        "S/0 [m]", "S/0 [x]", "S/1 [m]", "S/1 [x]", "T/0", "T/1",
    ]  # fmt: skip
    # the sample that errored belongs to the scorer that its run has, not to the other
    assert ("b", "S/1 [x]") not in cells(apart)
    assert cells(apart)["b", "S/1 [m]"] == (0, 1)
    for option in ({"S": "x"}, "S=x"):
        assert cells(made(two_scorers(), policy="failure", scorer=option))["a", "S/0"] == (0, 1)
    assert "did you mean" in message(two_scorers(), scorer="othr")
    only = made(two_scorers(), suite="T")
    assert json.loads(only.attrs["dropped"]) == {"other suites": 6}


def test_two_filters_are_refused():
    columns = dict(run("1", "a", "CI").records) | {"filter": ["strict", "flexible"]}
    columns["task"] = ["S/0", "S/0"]
    one = Run("f", "1", "", {"model": "a"}, "S", columns)
    assert "more than one filter" in message([one])
    assert cells(made([one], filter="flexible")) == {("a", "S/0"): (0, 1)}
    assert made([one], filter="all")["task"].values.tolist() == ["S/0 [flexible]", "S/0 [strict]"]


def test_settings_and_runs_of_one_model():
    runs = [
        run("1", "a", "CC", created="2025-01-01T10:00:00+00:00", effort="low"),
        run("2", "a", "IC", created="2025-01-01T10:00:00-05:00", effort="high"),
    ]
    assert "agent_from='model,effort'" in message(runs)
    kept = made(runs, agent_from=["model", "effort"])
    assert kept["agent"].values.tolist() == ["a [effort=high]", "a [effort=low]"]
    assert "runs='latest'" in message(runs, agent_from=["model"])
    both = made(runs, agent_from="model", runs="all")
    assert cells(both) == {("a", "S/0"): (1, 2), ("a", "S/1"): (2, 2)}
    latest = made(runs, agent_from="model", runs="latest")
    assert cells(latest) == {("a", "S/0"): (0, 1), ("a", "S/1"): (1, 1)}
    assert json.loads(latest.attrs["dropped"]) == {"earlier runs": 2}
    assert made(runs, agent_from="model,run")["agent"].values.tolist() == ["a [run=1]", "a [run=2]"]
    assert "no setting 'efort'" in message(runs, agent_from="efort")
    undated = [run("1", "a", "C"), run("2", "a", "C")]
    assert "no time" in message(undated, runs="latest")
    # runs at other tasks are no conflict
    other = [run("1", "a", "C"), run("2", "a", "C", suite="T")]
    assert made(other).sizes["cell"] == 2


def test_copies_of_a_run_count_once_and_must_agree():
    one, again = run("1", "a", "CI"), run("1", "a", "CI", place="copy of it")
    runs = made([one, again])
    assert cells(runs) == {("a", "S/0"): (1, 1), ("a", "S/1"): (0, 1)}
    assert json.loads(runs.attrs["dropped"]) == {"copies of a run": 2}
    assert "copy of it" in message([one, run("1", "a", "CC", place="copy of it")])
    twice = Run("f", "1", "", {"model": "a"}, "S", {k: v * 2 for k, v in one.records.items()})
    assert "2 records stand twice" in message([twice])


# ----- statuses


def test_three_policies_for_an_agent_of_whom_a_tenth_errored():
    rng = np.random.default_rng(5)
    marks = {model: rng.choice(["C", "I"], 100).tolist() for model in "abc"}
    with_errors = list(marks["b"])
    with_errors[::10] = [("errored", mark) for mark in with_errors[::10]]
    runs = [run("1", "a", marks["a"]), run("2", "b", with_errors), run("3", "c", marks["c"])]
    found = message(runs)
    assert "10 of 300 records" in found
    assert "10 errored (b: 10)" in found
    assert "policy='as_scored'" in found
    right = sum(mark == "C" for mark in marks["b"])
    stopped = sum(mark == "C" for mark in marks["b"][::10])
    expected = {
        "failure": (right - stopped, 100),
        "missing": (right - stopped, 90),
        "as_scored": (right, 100),
    }
    assert len(set(expected.values())) == 3
    for policy, counts in expected.items():
        one = made(runs, policy=policy)
        own = one["agent_index"].values == 1
        assert (int(one["successes"][own].sum()), int(one["attempts"][own].sum())) == counts
        summary = data.summarise(one)
        assert summary["statuses"] == {"b": {"scored": 90, "errored": 10}}
        assert summary["counted_as"] == {"errored": {policy: 10}}
        assert summary["policy"] == policy
        assert summary["status_counts"] == {"scored": 290, "errored": 10}
        assert summary["dropped"] == ({"errored": 10} if policy == "missing" else {})
        part = mb.subset(one, agent=["a", "b"], task=[f"S/{i}" for i in range(15)])
        assert data.summarise(part)["status_counts"] == {"scored": 28, "errored": 2}
        assert "unscored" not in mb.subset(one, agent="a").dims


def test_policy_for_each_status():
    values = ["C", ("errored", None), ("limit", "C"), ("not_administered", None), "N"]
    runs = [run("1", "a", values)]
    found = message(runs, policy="errored=missing")
    assert "1 limit" in found
    assert "1 refused" in found
    assert "errored" not in found.partition("expected")[0]
    mixed = made(runs, policy={"limit": "as_scored", "errored": "missing", "refused": "failure"})
    assert cells(mixed) == {("a", "S/0"): (1, 1), ("a", "S/2"): (1, 1), ("a", "S/4"): (0, 1)}
    assert mixed.attrs["policy"] == "errored=missing,limit=as_scored,refused=failure"
    assert "have no score" in message(runs, policy="as_scored")
    # nobody fails a task that they were not given, unless the policy says so by name
    assert ("a", "S/3") not in cells(made(runs, policy="failure"))
    assert parse_policy("not_administered=failure") == {"not_administered": "failure"}
    assert policy_text("limit=failure, errored=missing") == "errored=missing,limit=failure"
    for wrong in ("drop", "errored=drop", "scored=failure", "eror=missing", ""):
        with pytest.raises(mb.InputError):
            parse_policy(wrong)


def test_table_of_statuses_has_a_bounded_number_of_agents():
    runs = [run(str(i), f"m{i}", ["C"] * i + [("errored", None)] * (5 - i)) for i in range(5)]
    summary = data.summarise(made(runs, policy="missing"))
    assert status_words(summary) == "errored: 15 left out, as no attempts"
    assert status_rows(summary, 2) == [
        {"agent": "m0", "scored": 0, "errored": 5},
        {"agent": "m1", "scored": 1, "errored": 4},
        {"agent": "3 other agents", "scored": 9, "errored": 6},
    ]
    assert len(status_rows(summary, 5)) == 5


# ----- scores


def test_scores():
    for value in ("C", "correct", "PASS", "True", True, 1, 1.0, "1", "1.0"):
        assert scores.number(value) == 1
    for value in ("I", "incorrect", "fail", "false", False, 0, "0.0", "N"):
        assert scores.number(value) == 0
    for value in ("c", "A", "yes", "", None, "nan", float("inf"), "1_0", [1], 10**400, "\u0661"):
        assert np.isnan(scores.number(value))
    assert scores.by_key(["a", " B", None, "x"], ["A", "b", "A", ["x", "y"]]) == [
        "C",
        "C",
        None,
        "C",
    ]


def test_partial_credit_is_never_rounded():
    runs = [run("1", "a", ["C", "P", 0.65, 0.2, 1])]
    found = message(runs)
    assert "3 of 5 scores are neither 0 nor 1: 'P' (1 times), 0.65 (1 times)" in found
    assert made(runs, threshold=0.5)["successes"].values.tolist() == [1, 1, 1, 0, 1]
    assert made(runs, threshold="0.6")["successes"].values.tolist() == [1, 0, 1, 0, 1]
    for wrong in (True, "C", "x"):
        assert "threshold" in message(runs, threshold=wrong)
    assert "'A' (1 times)" in message([run("1", "a", "CA")])


def test_family_from_metadata():
    one = run("1", "a", "CIC")
    columns = dict(one.records) | {"metadata.area": ["x", "y", None]}
    runs = [Run("f", "1", "", one.settings, "S", columns)]
    assert made(runs, family="column:area")["family"].values.tolist() == ["x", "y", "S/2"]
    assert "no record has the metadata 'field'" in message(runs, family="column:field")


def test_scores_that_a_threshold_judged_are_kept_on_their_cell(rng):
    frame = pd.DataFrame(
        [
            {"run": f"r{a}", "task": "S", "model": a, "item_id": t, "epoch": e, "scorer": "x"}
            for a in "AB"
            for t in range(3)
            for e in (1, 2)
        ]
    ).assign(value=lambda x: rng.random(len(x)).round(2))
    runs = mb.load(frame, reader="hub", threshold=0.5)
    plain = frame.groupby(["model", "item_id"])["value"].mean()
    np.testing.assert_allclose(runs["score"], plain.to_numpy())
    other = mb.load(frame.assign(value=1 - frame["value"]), reader="hub", threshold=0.5)
    both = mb.concat([runs, other], duplicates="sum")
    np.testing.assert_allclose(both["score"], 0.5)  # of twice as many attempts
    part = mb.subset(runs, agent=["B"])
    np.testing.assert_allclose(part["score"], plain.loc["B"].to_numpy())
    whole = mb.load(frame.assign(value=frame["value"].round()), reader="hub")
    assert "score" not in whole  # nothing is lost where scores are 0 and 1
    assert "score" not in mb.concat({"old": runs, "new": whole}, duplicates="first")
