"""Families, covariates, datasets put together, and pieces without a common scale."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import measurebayes as mb
from measurebayes import data

RULE = "prefix:/"


def table(agents, tasks, **columns):
    """One successful and one failed attempt of each agent at each task."""
    rows = [(agent, task) for agent in agents for task in tasks]
    frame = pd.DataFrame(rows, columns=["agent", "task"])
    return frame.assign(successes=1, attempts=2, **columns)


@pytest.fixture
def runs():
    return mb.load(table(["A", "B", "C"], ["algebra/1", "algebra/2", "logic/1", "lone"]))


def family_of(runs):
    names = runs["family"].values[runs["family_index"].values]
    return dict(zip(runs["task"].values.tolist(), names.tolist(), strict=True))


# ----- families


def test_families_by_prefix(runs):
    joined = mb.join(runs, family=RULE)
    wanted = {"algebra/1": "algebra", "algebra/2": "algebra", "logic/1": "logic", "lone": "lone"}
    assert family_of(joined) == wanted
    assert "families" in runs.attrs
    assert "families" not in joined.attrs
    np.testing.assert_allclose(joined["task_weight"], [0.5**0.5, 0.5**0.5, 1, 1])


def test_families_agree_however_they_are_told(tmp_path):
    frame = table(["A", "B"], ["algebra/1", "algebra/2", "logic/1"])
    frame["topic"] = frame["task"].str.split("/").str[0]
    of_task = frame[["task", "topic"]].drop_duplicates().rename(columns={"topic": "family"})
    of_task.to_csv(tmp_path / "families.csv", index=False)
    plain = frame.drop(columns="topic")
    by_rule = mb.load(plain, family=RULE)
    by_column = mb.load(frame, family="column:topic")
    by_frame = mb.load(plain, families=of_task)
    by_file = mb.load(plain, families=str(tmp_path / "families.csv"))
    for other in (by_column, by_frame, by_file):
        xr.testing.assert_identical(by_rule.drop_attrs(), other.drop_attrs())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"family": "prefix:"}, "rule for families is 'prefix:'"),
        ({"family": "suffix:/"}, "expected: prefix:SEP"),
        ({"family": "prefix:%"}, "no task has '%'"),
        ({"family": RULE, "families": pd.DataFrame()}, "both family and families"),
        ({"unmatched": "drop"}, "it is 'drop'"),
        ({"tasks": 3}, "table of tasks is a int"),
        ({"tasks": pd.DataFrame({"item": ["lone"], "x": [1]})}, "no column 'task'"),
        ({"tasks": pd.DataFrame({"task": ["lone"]})}, "the column 'task' only"),
        ({"tasks": pd.DataFrame({"task": ["lone"] * 2, "x": [1, 2]})}, "several rows for 1 tasks"),
        ({"tasks": pd.DataFrame({"task": ["lone"], "agent": ["A"]})}, "column 'agent' has a name"),
        ({"tasks": pd.DataFrame({"task": ["lone"], "a/b": [1]})}, "'a/b' holds a slash"),
        ({"tasks": pd.DataFrame({"task": ["lone"], "human_minutes": [-1]})}, "not positive"),
        ({"tasks": pd.DataFrame({"task": ["lome"], "x": [1]})}, "did you mean 'lone'"),
        ({"agents": pd.DataFrame({"agent": ["A"], "human_minutes": [1]})}, "something else"),
        ({"agents": pd.DataFrame({"agent": ["A"], "release_date": ["soon"]})}, "not a date"),
    ],
)
def test_what_join_refuses(runs, options, message):
    with pytest.raises(mb.InputError) as caught:
        mb.join(runs, **options)
    assert message in str(caught.value)


def test_a_task_named_like_a_family_needs_one(runs):
    renamed = runs.assign_coords(task=["algebra/1", "algebra/2", "logic/1", "algebra"])
    with pytest.raises(mb.InputError, match="have the name of another task's family"):
        mb.join(renamed, family=RULE)


# ----- covariates


def test_covariates_from_files(runs, tmp_path):
    tasks = tmp_path / "tasks.csv"
    tasks.write_text(
        "task,human_minutes,minutes_kind,length,kind\n"
        "lone,30,baseline,12,open\nalgebra/1,,,7,\nalgebra/2,1.5,estimate,,closed\n"
        "logic/1,2,estimate,9,closed\n"
    )
    agents = pd.DataFrame({"agent": list("CAB"), "release_date": ["2024-02-01", "", "2025-01-31"]})
    agents.to_parquet(tmp_path / "agents.parquet")
    joined = mb.join(runs, tasks=tasks, agents=tmp_path / "agents.parquet")
    np.testing.assert_array_equal(joined["human_minutes"], [np.nan, 1.5, 2, 30])
    assert joined["minutes_kind"].values.tolist() == ["", "estimate", "estimate", "baseline"]
    np.testing.assert_array_equal(joined["length"], [7, np.nan, 9, 12])
    assert joined["kind"].values.tolist() == ["", "closed", "closed", "open"]
    dates = joined["release_date"].values.astype("M8[D]").astype(str).tolist()
    assert dates == ["NaT", "2025-01-31", "2024-02-01"]
    notes = json.loads(joined.attrs["joined"])
    assert [(note["by"], note["matched"]) for note in notes] == [("task", 4), ("agent", 3)]
    loaded = mb.load(runs, tasks=tasks, agents=agents)
    xr.testing.assert_identical(loaded.drop_attrs(), joined.drop_attrs())
    data.save(joined, tmp_path / "runs.nc")
    xr.testing.assert_identical(mb.load(tmp_path / "runs.nc"), joined)
    part = mb.subset(joined, task=["lone", "logic/1"])
    np.testing.assert_array_equal(part["length"], [9, 12])


def test_unmatched_keys_are_listed_on_both_sides(runs):
    prices = pd.DataFrame({"agent": ["A", "Z"], "price": [1, 2]})
    with pytest.warns(UserWarning, match=r"(?s)2 of 3 agents.*'B', 'C'.*no agent.*'Z'"):
        joined = mb.join(runs, agents=prices)
    np.testing.assert_array_equal(joined["price"], [1, np.nan, np.nan])
    with pytest.raises(mb.InputError, match="'B', 'C'"):
        mb.join(runs, agents=prices, unmatched="error")


def test_whose_value_stands(runs):
    first = mb.join(runs, agents=pd.DataFrame({"agent": list("ABC"), "size": [1, 2, None]}))
    second = pd.DataFrame({"agent": list("ABC"), "size": [1, 5, 6]})
    with pytest.raises(mb.InputError, match=r"about size of 1 agents: 'B' has 2.0.*and 5.0"):
        mb.join(first, agents=second)
    for whose, wanted in (("data", [1, 2, 6]), ("table", [1, 5, 6])):
        found = mb.join(first, agents=second, conflicts=whose)
        np.testing.assert_array_equal(found["size"], wanted)
    words = pd.DataFrame({"agent": list("ABC"), "size": list("xyz")})
    with pytest.raises(mb.InputError, match="another variable 'size'"):
        mb.join(first, agents=words)


# ----- datasets put together


def test_parts_put_together_are_the_whole(metr):
    parts = [mb.subset(metr, source=source) for source in ("SWAA", "RE-Bench", "HCAST")]
    whole = mb.concat(parts)
    by_label = {}
    for runs in (metr, whole):
        frame = pd.DataFrame(
            {
                "agent": runs["agent"].values[runs["agent_index"].values],
                "task": runs["task"].values[runs["task_index"].values],
                "attempts": runs["attempts"].values,
                "successes": runs["successes"].values,
            }
        )
        by_label[len(by_label)] = frame.sort_values(["agent", "task"], ignore_index=True)
    pd.testing.assert_frame_equal(by_label[0], by_label[1])
    again = whole.sel(task=metr["task"].values)
    for name in ("human_minutes", "source", "task_weight"):
        assert again[name].values.tolist() == metr[name].values.tolist()
    assert set(family_of(whole).items()) == set(family_of(metr).items())
    assert whole.attrs["name"] == "metr-th1.1"


def test_pairs_in_several_datasets_need_a_decision():
    one = mb.load(table(["A", "B"], ["t", "u"]), name="one")
    other = mb.load(table(["B", "C"], ["u", "v"]).assign(successes=2), name="other")
    with pytest.raises(mb.InputError, match=r"1 pairs.*B at u \(one and other\)"):
        mb.concat([one, other])
    found = {
        rule: mb.concat([one, other], duplicates=rule)["successes"].values.tolist()
        for rule in ("sum", "first", "last")
    }
    # cells: A t, A u, B t, B u, B v, C u, C v
    assert found == {
        "sum": [1, 1, 1, 3, 2, 2, 2],
        "first": [1, 1, 1, 1, 2, 2, 2],
        "last": [1, 1, 1, 2, 2, 2, 2],
    }


def test_linking_by_agents_or_tasks_alone():
    one, other = (mb.load(table(["A", "B"], ["t", "u"]), name=name) for name in ("x", "y"))
    other = other.assign(successes=other["successes"] * 2)
    by_agents = mb.concat({"x": one, "y": other}, shared="agents")
    assert by_agents["task"].values.tolist() == ["x/t", "x/u", "y/t", "y/u"]
    assert by_agents["agent"].values.tolist() == ["A", "B"]
    by_tasks = mb.concat([one, other], shared="tasks")
    assert by_tasks["agent"].values.tolist() == ["x/A", "x/B", "y/A", "y/B"]
    assert by_tasks["attempts"].sum() == 16


def test_records_without_a_score_are_put_together(tmp_path):
    rows = "agent,task,success,status\nA,t,1,\nA,t,,errored\nA,u,0,\nB,t,0,\nB,u,,limit\n"
    (tmp_path / "one.csv").write_text(rows)
    (tmp_path / "two.csv").write_text(rows.replace("B,", "C,").replace("A,t,1", "A,t,0"))
    one, two = (mb.load(tmp_path / f"{n}.csv", policy="missing") for n in ("one", "two"))
    together = mb.concat([one, two], duplicates="sum")
    assert together["unscored_records"].values.tolist() == [2, 1, 1]
    assert together["unscored_status"].values.tolist() == ["errored", "limit", "limit"]
    first = mb.concat([one, two], duplicates="first")
    assert first["unscored_records"].values.tolist() == [1, 1, 1]
    assert json.loads(together.attrs["dropped"]) == {"errored": 2, "limit": 2}


def test_properties_are_merged_or_refused():
    one = mb.load(table(["A", "B"], ["t"], human_minutes=3.0, family="f"), name="one")
    other = mb.load(table(["A", "B"], ["u"]), name="other")
    both = mb.concat([one, other])
    np.testing.assert_array_equal(both["human_minutes"], [3, np.nan])
    assert family_of(both) == {"t": "f", "u": "u"}
    wrong = mb.load(table(["C"], ["t"], human_minutes=4.0), name="wrong")
    with pytest.raises(mb.InputError, match=r"human_minutes of 1 tasks.*3.0 in 'one' and 4.0"):
        mb.concat([one, wrong])
    priced = mb.join(other, tasks=pd.DataFrame({"task": ["u"], "price": [2]}))
    np.testing.assert_array_equal(mb.concat([one, priced])["price"], [np.nan, 2])


def test_what_concat_refuses(runs):
    for given in ([], {}, "runs", 3):
        with pytest.raises(mb.InputError, match="a list of datasets"):
            mb.concat(given)
    with pytest.raises(mb.InputError, match="hold the same data"):
        mb.concat([runs, runs.copy()])
    with pytest.raises(mb.InputError, match="did you mean 'sum'"):
        mb.concat([runs], duplicates="sums")


def test_concat_on_the_command_line(tmp_path):
    from click.testing import CliRunner

    from measurebayes.cli import main

    for name, success in (("one", 1), ("two", 0)):
        rows = f"agent,task,success\nA,t,{success}\n{name},t,1\n"
        (tmp_path / f"{name}.csv").write_text(rows)
    words = ["concat", *(str(tmp_path / f"{n}.csv") for n in ("one", "two"))]
    words += ["-o", str(tmp_path / "both.nc")]
    refused = CliRunner().invoke(main, words)
    assert refused.exit_code == 2
    assert "--duplicates sum" in refused.stderr
    assert CliRunner().invoke(main, [*words, "--duplicates", "sum"]).exit_code == 0
    assert mb.load(tmp_path / "both.nc")["successes"].values.tolist() == [1, 1, 1]


# ----- pieces


@pytest.fixture
def apart():
    frames = [table(["A", "B"], ["t", "u"]), table(["C", "D", "E"], ["v"])]
    return mb.load(pd.concat(frames), name="apart")


def test_pieces_are_named(apart):
    found = mb.pieces(apart)
    assert [piece.agents for piece in found] == [("A", "B"), ("C", "D", "E")]
    assert [piece.tasks for piece in found] == [("t", "u"), ("v",)]
    assert [piece.attempts for piece in found] == [8, 6]
    assert apart.attrs["unconnected"].startswith("2 pieces: (1) 2 agents ('A', 'B') on 2 tasks")
    summary = data.summarise(apart)
    assert summary["pieces"] == 2
    assert "3 agents" in summary["unconnected"]["piece 2"]
    assert "unconnected" not in mb.subset(apart, agent=["A", "B"]).attrs


def test_a_link_joins_pieces(apart):
    link = mb.load(table(["B"], ["v"]), name="link")
    assert len(mb.pieces(mb.concat([apart, link]))) == 1
    assert "unconnected" not in mb.concat([apart, link]).attrs


def test_pieces_of_random_designs_are_those_of_a_plain_search(rng):
    for _ in range(20):
        frame = pd.DataFrame({"agent": rng.integers(12, size=9), "task": rng.integers(12, size=9)})
        frame = frame.drop_duplicates().assign(success=1).astype({"agent": str, "task": str})
        group = {}  # label -> set of labels, merged row by row
        for agent, task in frame[["agent", "task"]].to_numpy():
            one = group.get(("a", agent), {("a", agent)}) | group.get(("t", task), {("t", task)})
            group |= dict.fromkeys(one, one)
        wanted = {frozenset(one) for one in map(frozenset, group.values())}
        found = {
            frozenset([("a", a) for a in piece.agents] + [("t", t) for t in piece.tasks])
            for piece in mb.pieces(mb.load(frame))
        }
        assert found == wanted


def test_fits_refuse_pieces_but_models_of_minutes_take_them(apart):
    from measurebayes.inference.fitting import check_scale
    from measurebayes.program.registry import get_model

    with pytest.raises(mb.InputError, match=r"2 pieces: \(1\) 2 agents"):
        mb.fit("rasch", apart)
    with pytest.raises(mb.InputError, match="unconnected 'yes'"):
        mb.fit("rasch", apart, unconnected="yes")
    check_scale(get_model("rasch"), apart, "fit")
    check_scale(get_model("horizon_logistic"), apart)


@pytest.mark.slow
def test_a_report_names_the_pieces(tmp_path):
    from fake_fit import fake_data, fit_of

    both, truth = fake_data(agents=4, tasks=4, holes=0)
    agent, task = both["agent_index"].values, both["task_index"].values
    fit = fit_of(both.isel(cell=(agent < 2) == (task < 2)), truth, "rasch", draws=20)
    page = mb.report(fit, path=tmp_path / "report.html").read_text(encoding="utf-8")
    assert "fall into 2 pieces that no shared agent or task links" in page
    assert "2 agents (&#39;agent 3&#39;, &#39;agent 4&#39;) on 2 tasks" in page
