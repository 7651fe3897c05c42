"""Readers on real files and on small ones whose contents are known."""

from __future__ import annotations

import gzip
import json

import numpy as np
import pandas as pd
import pytest

import measurebayes as mb
from measurebayes import data
from measurebayes.data.readers import READERS

LONG = "agent,task,successes,attempts\nb,x,1,2\na,x,0,3\na,y,3,3\n"


def write(path, text, encoding="utf-8"):
    path.write_bytes(text.encode(encoding))
    return path


def cells(runs):
    """(agent, task) -> (successes, attempts)."""
    agent = runs["agent"].values[runs["agent_index"].values].tolist()
    task = runs["task"].values[runs["task_index"].values].tolist()
    counts = zip(runs["successes"].values.tolist(), runs["attempts"].values.tolist(), strict=True)
    return dict(zip(zip(agent, task, strict=True), counts, strict=True))


# ----- real files


def test_metr_runs(shared_data):
    path = shared_data / "metr_runs_2025_02" / "all_runs.jsonl"
    with pytest.raises(mb.InputError, match=r"1912 of 6852 records .* 1912 limit") as caught:
        mb.load(path)
    assert "policy='missing'" in str(caught.value)

    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert len(rows) == 7_063
    failure = mb.load(path, policy="failure")
    summary = data.summarise(failure)
    assert (summary["agents"], summary["tasks"], summary["families"]) == (10, 83, 36)
    assert summary["status_counts"] == {"scored": 4_940, "limit": 1_912, "human": 211}
    assert summary["dropped"] == {}
    assert summary["attempts"] == 7_063 - 211
    assert summary["timing"] == {"attempts": 211, "successes": 152, "tasks": 83}
    assert sum(summary["minutes_kinds"].values()) == 83
    # 48 tasks have one timed attempt
    assert np.sum(np.bincount(failure["timing_task_index"]) == 1) == 48

    scored = mb.load(path, policy="as_scored")
    solved = sum(row["score_binarized"] for row in rows if row["alias"] != "human")
    assert int(scored["successes"].sum()) == solved
    assert int(failure["successes"].sum()) == solved - 51

    missing = mb.load(path, policy="missing")
    assert json.loads(missing.attrs["dropped"]) == {"limit": 1_912}
    assert int(missing["attempts"].sum()) == 7_063 - 211 - 1_912
    assert data.summarise(missing)["unattempted_tasks"] == 83 - len(
        {r["task_id"] for r in rows if r["alias"] != "human" and not r["fatal_error_from"]}
    )


def test_metr_timing_is_minutes_between_start_and_end(shared_data):
    path = shared_data / "metr_runs_2025_02" / "all_runs.jsonl"
    runs = mb.load(path, policy="missing")
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    human = [row for row in rows if row["alias"] == "human"]
    expected = [(row["completed_at"] - row["started_at"]) / 60_000 for row in human]
    np.testing.assert_allclose(runs["timing_minutes"].values, expected)
    assert runs["task"].values[runs["timing_task_index"].values].tolist() == [
        row["task_id"] for row in human
    ]
    # within-task spread of log2 minutes over successful repeats, from the README of the data
    table = pd.DataFrame(
        {"task": runs["timing_task_index"], "log2": np.log2(runs["timing_minutes"])}
    )[runs["timing_success"].values == 1]
    table = table[table.groupby("task")["log2"].transform("size") > 1]
    deviation = table["log2"] - table.groupby("task")["log2"].transform("mean")
    freedom = len(table) - table["task"].nunique()
    assert len(table) == 107
    assert np.sqrt((deviation**2).sum() / freedom) == pytest.approx(1.4, abs=0.1)


def test_swebench(shared_data):
    path = shared_data / "swebench_verified" / "swe_a_pyirt.jsonl"
    summary = data.summarise(mb.load(path))
    expected = {"agents": 158, "tasks": 500, "cells": 78_994, "attempts": 78_994}
    expected |= {"never_solved": 32, "always_solved": 0, "holes": 6}
    assert {key: summary[key] for key in expected} == expected
    assert summary["successes"] / summary["attempts"] == pytest.approx(0.501, abs=5e-4)
    assert not summary["families_known"]


def test_lsat(shared_data):
    runs = mb.load(shared_data / "lsat" / "lsat6.csv")
    assert runs.sizes["agent"] == 1_000
    assert runs.sizes["task"] == 5
    assert runs["agent"].values[:2].tolist() == ["1", "2"]
    # Bock and Lieberman (1970): numbers of right answers by item
    right = np.bincount(runs["task_index"], weights=runs["successes"])
    assert right.tolist() == [924, 709, 553, 763, 870]


def test_verbagg_wide_and_long_agree(shared_data):
    folder = shared_data / "verbagg"
    wide = mb.load(folder / "verbagg_wide01.csv")
    assert (wide.sizes["agent"], wide.sizes["task"]) == (316, 24)
    assert wide.attrs["reader"] == "wide"
    table = pd.read_csv(folder / "verbagg_long.csv").assign(r2=lambda t: t["r2"] == "Y")
    long = mb.load(
        table,
        columns={"agent": "id", "task": "item", "success": "r2", "family": "situ"},
        ignore="*",
    )
    # the file writes one item as S4wantCurse in the wide table
    same = {(a, t.casefold()): v for (a, t), v in cells(wide).items()}
    assert {(a, t.casefold()): v for (a, t), v in cells(long).items()} == same
    assert long["family"].values.tolist() == ["other", "self"]


def test_minitest(shared_data):
    runs = mb.load(shared_data / "pyirt_minitest" / "minitest.jsonlines")
    assert cells(runs)["pinguino", "q2"] == (1, 1)
    assert runs["agent"].values.tolist() == ["pedro", "pinguino", "ken", "burt"]


def test_real_wide_tables_with_other_columns(shared_data):
    read = mb.load(shared_data / "sirt_testlets" / "data.read.csv")
    assert (read.sizes["agent"], read.sizes["task"]) == (328, 12)
    spelling = mb.load(shared_data / "edstan_spelling" / "spelling.csv", ignore="male")
    assert spelling["task"].values.tolist() == ["infidelity", "panoramic", "succumb", "girder"]


def test_epoch_scores_compressed(shared_data):
    path = shared_data / "logs" / "epoch" / "item_scores_long.csv.gz"
    table = pd.read_csv(path)
    table = table[table["value"].isin(["C", "I"]) & (table["scorer"] == "choice")]
    expected = table.assign(right=table["value"] == "C").groupby(["model", "item_id"])["right"]
    runs = mb.load(
        table.assign(right=table["value"] == "C"),
        reader="long",
        columns="agent=model,task=item_id,success=right,family=task",
        ignore="*",
    )
    assert runs.sizes["cell"] == expected.ngroups
    assert int(runs["successes"].sum()) == int(expected.sum().sum())


# ----- small files


def test_long_counts_order_and_defaults(tmp_path):
    runs = mb.load(write(tmp_path / "t.csv", LONG))
    assert runs["agent"].values.tolist() == ["b", "a"]
    assert cells(runs) == {("b", "x"): (1, 2), ("a", "x"): (0, 3), ("a", "y"): (3, 3)}
    assert runs.attrs["families"] == "each task its own"
    assert runs["family"].values.tolist() == ["x", "y"]
    assert runs.attrs["reader"] == "long"
    assert len(runs.attrs["sha256"]) == 64


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_line_ends_and_byte_order_mark(tmp_path, ending, mark):
    plain = mb.load(write(tmp_path / "t.csv", LONG))
    same = mb.load(write(tmp_path / "u.csv", mark + LONG.replace("\n", ending)))
    assert data.fingerprint(same) == data.fingerprint(plain)


def test_mixed_line_ends_and_blank_lines(tmp_path):
    plain = mb.load(write(tmp_path / "t.csv", LONG))
    mixed = LONG.replace("2\n", "2\r\n\n").replace("0,3\n", "0,3\r\n\r\n")
    assert data.fingerprint(mb.load(write(tmp_path / "u.csv", mixed))) == data.fingerprint(plain)


def test_long_formats_agree(tmp_path):
    csv = write(tmp_path / "t.csv", LONG)
    frame = pd.read_csv(csv)
    frame.to_parquet(tmp_path / "t.parquet")
    categories = frame.astype({"agent": pd.CategoricalDtype(["a", "b", "unused"])})
    categories.to_parquet(tmp_path / "c.parquet")
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(csv.read_bytes()))
    write(tmp_path / "t.tsv", LONG.replace(",", "\t"))
    attempts = frame.loc[frame.index.repeat(frame["attempts"])].copy()
    rank = attempts.groupby(level=0).cumcount()
    attempts["success"] = np.where(rank < attempts["successes"], "true", "False")
    attempts[["agent", "task", "success"]].to_csv(tmp_path / "a.csv", index=False)
    expected = data.fingerprint(mb.load(csv))
    for source, options in [
        (frame, {}),
        (tmp_path / "t.parquet", {}),
        (tmp_path / "c.parquet", {}),
        (tmp_path / "t.csv.gz", {}),
        (tmp_path / "a.csv", {}),
        (categories, {}),
        (tmp_path / "t.tsv", {"delimiter": "\\t"}),
        (frame.rename(columns={"agent": "model"}), {"columns": {"agent": "model"}}),
        (frame.assign(note=1), {"ignore": ["note"]}),
        (frame.astype({"successes": float}), {}),
    ]:
        assert data.fingerprint(mb.load(source, **options)) == expected, (source, options)


def test_long_properties(tmp_path):
    text = (
        "agent,task,success,family,source,human_minutes,minutes_kind,release_date\n"
        "a,x,1,f,S,2.5,baseline,2024-05-06\n"
        "b,x,0,,S,,,\n"
        "a,y,1,,,,,2024-05-06T10:00:00+02:00\n"
    )
    runs = mb.load(write(tmp_path / "t.csv", text))
    assert runs["family"].values.tolist() == ["f", "y"]
    assert runs["source"].values.tolist() == ["S", ""]
    np.testing.assert_array_equal(runs["human_minutes"].values, [2.5, np.nan])
    assert runs["minutes_kind"].values.tolist() == ["baseline", ""]
    assert runs["release_date"].values[0] == np.datetime64("2024-05-06")
    assert np.isnat(runs["release_date"].values[1])


def test_task_without_attempts_stays_as_a_label(tmp_path):
    runs = mb.load(write(tmp_path / "t.csv", LONG + "c,z,0,0\n"))
    assert runs["task"].values.tolist() == ["x", "y", "z"]
    assert runs["agent"].values.tolist() == ["b", "a", "c"]
    assert ("c", "z") not in cells(runs)
    summary = data.summarise(runs)
    assert (summary["unattempted_tasks"], summary["unattempted_agents"]) == (1, 1)
    assert summary["never_solved"] == 0
    data.validate_for_fit(runs)


def test_missing_outcomes_have_a_policy(tmp_path):
    path = write(tmp_path / "t.csv", "agent,task,success\na,x,1\na,x,\nb,y,NA\nb,y,0\n")
    with pytest.raises(mb.InputError, match="2 not_attempted") as caught:
        mb.load(path)
    assert "line 3" in str(caught.value)
    dropped = mb.load(path, policy="missing")
    assert cells(dropped) == {("a", "x"): (1, 1), ("b", "y"): (0, 1)}
    assert json.loads(dropped.attrs["dropped"]) == {"not_attempted": 2}
    failed = mb.load(path, policy="failure")
    assert cells(failed) == {("a", "x"): (1, 2), ("b", "y"): (0, 2)}
    assert json.loads(failed.attrs["status_counts"]) == {"scored": 2, "not_attempted": 2}


def test_duplicates_can_be_added_up(tmp_path):
    path = write(tmp_path / "t.csv", LONG + "b,x,2,5\n")
    assert cells(mb.load(path, duplicates="sum"))["b", "x"] == (3, 7)


def test_wide_numbers_agents_where_the_first_column_is_a_task(tmp_path):
    runs = mb.load(write(tmp_path / "w.csv", "p,q,r\n1,0,\n1,0,\n,NA,1\n"))
    assert runs["agent"].values.tolist() == ["1", "2", "3"]
    assert cells(runs) == {
        ("1", "p"): (1, 1),
        ("1", "q"): (0, 1),
        ("2", "p"): (1, 1),
        ("2", "q"): (0, 1),
        ("3", "r"): (1, 1),
    }


@pytest.mark.parametrize("header", ["id", "agent", "who"])
def test_wide_labels(tmp_path, header):
    runs = mb.load(write(tmp_path / "w.csv", f"{header},p,q\nann,1,0\nben,0,\n"))
    assert runs["agent"].values.tolist() == ["ann", "ben"]
    frame = pd.DataFrame({header: ["ann", "ben"], "p": [1, 0], "q": [0.0, np.nan]})
    assert data.fingerprint(mb.load(frame)) == data.fingerprint(runs)
    frame.to_parquet(tmp_path / "w.parquet")
    parquet = mb.load(tmp_path / "w.parquet", reader="wide")
    assert data.fingerprint(parquet) == data.fingerprint(runs)


def test_wide_id_of_0_and_1_is_a_label(tmp_path):
    runs = mb.load(write(tmp_path / "w.csv", "id,p,q\n0,1,0\n1,0,1\n"))
    assert runs["agent"].values.tolist() == ["0", "1"]
    assert runs["task"].values.tolist() == ["p", "q"]


def test_wide_row_without_any_answer_stays_as_a_label(tmp_path):
    runs = mb.load(write(tmp_path / "w.csv", "id,p,q\na,1,0\nb,,\n"))
    assert runs["agent"].values.tolist() == ["a", "b"]
    assert data.summarise(runs)["unattempted_agents"] == 1


def test_pyirt_null_is_a_hole_and_tasks_may_differ(tmp_path):
    text = '{"subject_id": "a", "responses": {"x": 1, "y": null}}\n\n'
    text += '{"subject_id": "b", "responses": {"z": true, "x": 0.0}}\n'
    runs = mb.load(write(tmp_path / "p.jsonl", text))
    assert cells(runs) == {("a", "x"): (1, 1), ("b", "x"): (0, 1), ("b", "z"): (1, 1)}
    assert runs["task"].values.tolist() == ["x", "y", "z"]
    assert json.loads(runs.attrs["dropped"]) == {"not_administered": 1}


def test_strip_takes_blanks_off_labels(tmp_path):
    path = write(tmp_path / "t.csv", LONG.replace("b,x", " b ,x"))
    with pytest.raises(mb.InputError, match="leading or trailing blanks") as caught:
        mb.load(path)
    assert "strip=True" in str(caught.value)
    assert data.fingerprint(mb.load(path, strip="true")) == data.fingerprint(
        mb.load(write(tmp_path / "u.csv", LONG))
    )


def test_names_given_by_the_user_are_kept(tmp_path):
    runs = mb.load(write(tmp_path / "t.csv", LONG), name="mine", licence="CC0", citation="me")
    assert runs.attrs["name"] == "mine"
    assert runs.attrs["licence"] == "CC0"
    assert runs.attrs["source"] == "t.csv"


def test_dataset_passes_through(metr):
    assert mb.load(metr) is metr


@pytest.mark.parametrize("name", READERS)
def test_every_reader_declares_its_columns(name):
    reader = READERS[name]
    assert reader.name == name
    assert len({column.name for column in reader.columns}) == len(reader.columns)
    assert any(column.required == "yes" for column in reader.columns)
    assert all(column.meaning for column in reader.columns)
    assert all(option.meaning for option in reader.options)
