"""Tables of hubs and of persons, items and responses; and all table readers there and back."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from test_data_runs import cells

import measurebayes as mb
from measurebayes import data

HUB = pd.DataFrame(
    {
        "run": ["r1"] * 4 + ["r2"] * 3,
        "task": "Quiz",
        "model": ["a"] * 4 + ["b"] * 3,
        "item_id": ["i1", "i1", "i2", "i2", "i1", "i2", "i10"],
        "epoch": [1, 2, 1, 2, 1, 1, 1],
        "scorer": "match",
        "value": ["C", "I", "C", "C", "I", "C", "I"],
    }
)
IRW = pd.DataFrame({"id": [1, 1, 2, 2], "item": ["p", "q"] * 2, "resp": [1, 0, 0, 1]})


@pytest.fixture(scope="module")
def hub(shared_data):
    path = shared_data / "logs" / "epoch" / "item_scores_long.csv.gz"
    return path, pd.read_csv(path)


def test_hub_of_real_scores_agrees_with_plain_counts(hub):
    path, table = hub
    runs = mb.load(path, suite="GPQA Diamond", runs="all")
    assert (runs.sizes["agent"], runs.sizes["task"]) == (61, 198)
    own = table[table["task"] == "GPQA Diamond"].assign(right=lambda t: t["value"] == "C")
    counted = own.groupby(["model", "item_id"])["right"].agg(["sum", "size"])
    assert cells(runs) == {
        (model, f"GPQA Diamond/{item}"): tuple(counts)
        for (model, item), counts in zip(counted.index, counted.to_numpy().tolist(), strict=True)
    }
    assert set(runs["source"].values.tolist()) == {"GPQA Diamond"}


@pytest.mark.slow
def test_hub_runs_of_real_scores(hub):
    path, table = hub
    own = table[table["task"] == "GPQA Diamond"]
    with pytest.raises(mb.InputError, match=r"several runs at the same tasks.* and 10 more"):
        mb.load(path, suite="GPQA Diamond")
    # up to 16 epochs of a run are attempts of one cell
    apart = mb.load(path, suite="GPQA Diamond", agent_from="model,run")
    assert apart.sizes["agent"] == own["run"].nunique() == 86
    assert int(apart["attempts"].max()) == 16


def test_hub_with_two_scorers_is_refused_until_one_is_chosen(hub):
    path, table = hub
    aime = "OTIS Mock AIME 2024-2025"
    with pytest.raises(mb.InputError, match="more than one scorer") as caught:
        mb.load(path, runs="all")
    for word in (aime, "model_graded", "model_extracted_exact_match", "scorer='all'", "suite="):
        assert word in str(caught.value)
    own = table[table["task"] == aime]
    rows = own[own["scorer"] == "model_graded"]
    one = mb.load(path, suite=aime, scorer="model_graded", runs="all")
    assert int(one["attempts"].sum()) == len(rows)
    assert int(one["successes"].sum()) == (rows["value"] == "C").sum()
    assert json.loads(one.attrs["dropped"]) == {
        "other scorers": len(own) - len(rows),
        "other suites": len(table) - len(own),
    }


@pytest.mark.slow
def test_hub_scores_with_errors_are_fitted_and_reported(hub, tmp_path):
    table = hub[1].query("task == 'GPQA Diamond'").reset_index(drop=True)
    model = table["model"][0]
    rows = table.index[table["model"] == model]
    table.loc[rows[::10], "status"] = "errored"
    runs = mb.load(table, runs="all", policy="errored=missing", name="GPQA Diamond")
    few = {"draws": 50, "tune": 150, "chains": 2, "seed": 1, "progress": False}
    fits = {name: mb.fit(name, runs, **few) for name in ("rasch", "two_pl")}
    for fit in fits.values():
        kept = data.summarise(fit["data"].to_dataset())
        assert kept["statuses"][model]["errored"] == len(rows[::10])
    mb.report(fits, tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "the policy was <code>errored=missing</code>" in page
    assert f"Errored: {len(rows[::10])} left out, as no attempts." in page
    assert "Records by agent and status" in page


@pytest.mark.slow
def test_hub_with_scorers_kept_apart(hub):
    path, table = hub
    own = table[table["task"] == "OTIS Mock AIME 2024-2025"]
    both = mb.load(path, scorer="all", runs="all")
    assert int(both["attempts"].sum()) == len(table)
    assert sum("[model_graded]" in task for task in both["task"].values.tolist()) == 45
    assert both.sizes["task"] == 198 + 2 * own["item_id"].nunique()


def test_hub_columns_settings_and_statuses():
    assert cells(mb.load(HUB)) == {
        ("a", "Quiz/i1"): (1, 2),
        ("a", "Quiz/i2"): (2, 2),
        ("b", "Quiz/i1"): (0, 1),
        ("b", "Quiz/i2"): (1, 1),
        ("b", "Quiz/i10"): (0, 1),
    }
    renamed = HUB.rename(columns={"item_id": "sample"}).sample(frac=1, random_state=1)
    same = mb.load(renamed, reader="hub", columns="item_id=sample")
    assert same.identical(mb.load(HUB).assign_attrs(same.attrs))
    answers = HUB.assign(value=list("ABCDABC"), target=list("abccabc"), area=["x"] * 6 + [None])
    graded = mb.load(answers, family="column:area")
    assert int(graded["successes"].sum()) == 6
    assert graded["family"].values.tolist() == ["x", "Quiz/i10"]
    efforts = HUB.assign(model="m", effort=["low"] * 4 + ["high"] * 3)
    with pytest.raises(mb.InputError, match="effort 'high', 'low'"):
        mb.load(efforts, settings="effort")
    both = mb.load(efforts, settings="effort", agent_from="model,effort")
    assert both["agent"].values.tolist() == ["m [effort=high]", "m [effort=low]"]
    stopped = HUB.assign(status=["error", "timeout", None, "ok", None, "skipped", None])
    stopped.loc[6, "value"] = None
    counted = mb.load(stopped, policy="errored=as_scored,limit=failure,not_attempted=missing")
    assert data.summarise(counted)["statuses"] == {
        "a": {"scored": 2, "errored": 1, "limit": 1, "not_attempted": 0},
        "b": {"scored": 1, "errored": 0, "limit": 0, "not_attempted": 2},
    }
    assert cells(counted)["a", "Quiz/i1"] == (1, 2)


@pytest.mark.parametrize(
    ("change", "options", "words"),
    [
        ({"model": ["a", "b"] + ["c"] * 5}, {}, ["several values of 'model'"]),
        ({"epoch": 1}, {}, ["2 records stand twice", "epoch"]),
        ({"epoch": [1, 2, 1, None, 1, 1, 1]}, {}, ["the epoch is blank", "row 3"]),
        ({"item_id": ["", "x"] * 3 + ["y"]}, {}, ["'' is blank"]),
        ({"status": "odd"}, {}, ["'odd' is no known status", "not_attempted"]),
        ({"value": list("CIABCIC")}, {}, ["'A' (1 times)", "target"]),
        ({"target": [None, *"ABCDAB"]}, {}, ["the target is blank"]),
        ({"extra": 1}, {}, ["unknown columns: 'extra'"]),
        ({}, {"settings": "efort"}, ["no column 'efort'"]),
        ({}, {"suite": "Quizz"}, ["no record is of the suite", "did you mean 'Quiz'"]),
        ({}, {"family": "column:x"}, ["no column 'x'"]),
    ],
)
def test_hub_refusals(change, options, words):
    with pytest.raises(mb.InputError) as caught:
        mb.load(HUB.assign(**change), **options)
    for word in words:
        assert word in str(caught.value)


def test_irw_of_real_responses(shared_data):
    path = shared_data / "verbagg" / "verbagg_long.csv"
    table = pd.read_csv(path)
    with pytest.raises(mb.InputError, match="'perhaps'"):
        mb.load(path, ignore="*")
    codes = table["resp"].map({"no": 0, "perhaps": 1, "yes": 2})
    coded = table.assign(resp=codes).rename(columns={"Anger": "cov_anger", "mode": "itemcov_mode"})
    with pytest.raises(mb.InputError, match=r"1530 of 7584 scores .* 2 \(1530 times\)"):
        mb.load(coded, ignore="*")
    runs = mb.load(coded, ignore="*", threshold=1, family="column:btype", covariates="*")
    assert int(runs["successes"].sum()) == (table["r2"] == "Y").sum()
    assert sorted(runs["family"].values.tolist()) == sorted(table["btype"].unique())
    anger = table.groupby("id")["Anger"].first()
    np.testing.assert_array_equal(runs["cov_anger"], anger[runs["agent"].values.astype(int)])
    assert set(runs["itemcov_mode"].values.tolist()) == {"want", "do"}


def test_irw_waves_raters_keys_and_blanks():
    assert cells(mb.load(IRW))["2", "q"] == (1, 1)
    twice = pd.concat([IRW.assign(wave=1), IRW.assign(wave=2)])
    with pytest.raises(mb.InputError, match=r"4 pairs .* several rows") as caught:
        mb.load(twice)
    assert "agent_from='id,wave'" in str(caught.value)
    assert cells(mb.load(twice, duplicates="attempts"))["1", "p"] == (2, 2)
    waves = mb.load(twice, agent_from="id,wave")
    assert waves["agent"].values.tolist()[:2] == ["1 [wave=1]", "2 [wave=1]"]
    rated = mb.load(twice.rename(columns={"wave": "rater"}), task_from="item,rater")
    assert rated["task"].values.tolist()[::2] == ["p [rater=1]", "p [rater=2]"]
    letters = IRW.assign(resp=["A", "C", "C", None])
    with pytest.raises(mb.InputError, match="can't be read: 'C'"):
        mb.load(letters)
    with pytest.raises(mb.InputError, match="1 not_attempted"):
        mb.load(letters, key="p=a,q=c")
    for key in ({"p": "A", "q": "C"}, pd.DataFrame({"item": ["p", "q"], "key": ["A", "C"]})):
        scored = mb.load(letters, key=key, policy="missing")
        assert cells(scored) == {("1", "p"): (1, 1), ("1", "q"): (1, 1), ("2", "p"): (0, 1)}
    with pytest.raises(mb.InputError, match="no answer for 'q'"):
        mb.load(letters, key="p=A", policy="missing")


def test_long_table_with_statuses():
    table = pd.DataFrame(
        {
            "agent": list("aabb"),
            "task": list("xyxy"),
            "success": [1, 1, None, 0],
            "status": [None, "errored", None, "limit"],
        }
    )
    with pytest.raises(mb.InputError, match=r"1 errored \(a: 1\); 1 limit \(b: 1\); 1 not_att"):
        mb.load(table)
    runs = mb.load(table, policy="errored=as_scored,limit=failure,not_attempted=missing")
    assert cells(runs) == {("a", "x"): (1, 1), ("a", "y"): (1, 1), ("b", "y"): (0, 1)}
    with pytest.raises(mb.InputError, match="scored, but its outcome is blank"):
        mb.load(table.assign(status="scored"))


def _write_pyirt(path):
    lines = [{"subject_id": a, "responses": {"x": a == "a", "y": None, "z": 1}} for a in "ab"]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def _write_metr(path):
    base = {"score_binarized": 1, "task_family": "f", "human_minutes": 2.5, "started_at": 0}
    lines = [
        {**base, "task_id": t, "alias": a, "fatal_error_from": stop, "completed_at": 60_000}
        for t in "xy"
        for a, stop in (("a", None), ("b", "usageLimits"), ("b", "crash"), ("human", None))
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def _write_frame(frame):
    return lambda path: frame.to_csv(path, index=False)


LONG = pd.DataFrame({"agent": list("aab"), "task": list("xyx"), "success": [1, None, 0]})
WIDE = pd.DataFrame({"id": ["a", "b"], "x": [1, 0], "y": [None, 1]})
FILES = {
    "long": (_write_frame(LONG), {"policy": "missing"}),
    "hub": (_write_frame(HUB.assign(value=[*"CICCN", None, "I"])), {"policy": "missing"}),
    "irw": (
        _write_frame(IRW.assign(cov_age=[3, 3, 4, 4], resp=[1, 0, None, 1])),
        {"policy": "failure", "covariates": "*"},
    ),
    "wide": (_write_frame(WIDE), {}),
    "pyirt": (_write_pyirt, {}),
    "metr": (_write_metr, {"policy": "errored=missing,limit=as_scored"}),
}


@pytest.mark.parametrize("reader", FILES)
def test_load_save_open_identical(tmp_path, reader):
    write, options = FILES[reader]
    path = tmp_path / "records"
    write(path)
    runs = mb.load(path, **options)
    assert runs.attrs["reader"] == reader
    assert mb.load(path, **options).identical(runs)
    data.save(runs, tmp_path / "runs.nc")
    assert mb.load(tmp_path / "runs.nc").identical(runs)
    part = mb.subset(runs, agent=runs["agent"].values.tolist())
    assert data.fingerprint(part) == data.fingerprint(runs)
