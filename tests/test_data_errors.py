"""Bad input: every error names the place and the remedy."""

from __future__ import annotations

import gzip
import json
import pickle

import numpy as np
import pandas as pd
import pytest

import measurebayes as mb
from measurebayes import data
from measurebayes.errors import InputError, did_you_mean, listed, shown

LONG = "agent,task,successes,attempts\nb,x,1,2\na,x,0,3\na,y,3,3\n"
ROWS = "agent,task,success\nb,x,1\na,x,0\na,y,1\n"
PYIRT = (
    '{"subject_id": "a", "responses": {"x": 1, "y": 0}}\n'
    '{"subject_id": "b", "responses": {"x": 0, "y": 1}}\n'
)
RUN = {"task_id": "x", "alias": "a", "score_binarized": 1, "task_family": "f", "human_minutes": 2.0}
METR = "".join(
    json.dumps({**RUN, "task_id": task, "alias": alias}) + "\n" for task in "xy" for alias in "ab"
)


def with_row(row, table=LONG):
    return table + row + "\n"


# case: name -> (content, file name, options, words of the message)
CASES = {
    "empty": ("", "t.csv", {}, ["empty"]),
    "blank": ("\n \n", "t.csv", {}, ["empty"]),
    "header only": ("agent,task,success\n", "t.csv", {}, ["header without rows"]),
    "header of a wide table only": ("id,q1,q2\n", "t.csv", {}, ["header without rows"]),
    "misspelt column": (
        LONG.replace("successes", "sucesses"),
        "t.csv",
        {},
        ["no column 'successes'", "header", "successes may be 'sucesses'", "columns={"],
    ),
    "other names": (
        LONG.replace("agent,task", "model,item"),
        "t.csv",
        {},
        ["no column 'agent', 'task'", "'model'", "columns={'agent': 'model', 'task': 'item'}"],
    ),
    "unknown column": (
        LONG.replace("attempts\n", "attempts,famly\n")
        .replace("2\n", "2,f\n")
        .replace("3\n", "3,f\n"),
        "t.csv",
        {},
        ["unknown columns: 'famly'", "did you mean 'family'?", "ignore='famly'"],
    ),
    "mapping to a column that is not there": (
        LONG,
        "t.csv",
        {"columns": {"agent": "agnt"}},
        ["no column 'agnt'", "did you mean 'agent'?"],
    ),
    "mapping of an unknown name": (LONG, "t.csv", {"columns": "agnt=agent"}, ["'agnt'", "'agent'"]),
    "mapping that is none": (LONG, "t.csv", {"columns": "agent"}, ["name=column"]),
    "both forms": (
        "agent,task,success,successes,attempts\na,x,1,1,1\n",
        "t.csv",
        {},
        ["both 'success' and"],
    ),
    "column twice": ("agent,task,success,task\na,x,1,x\n", "t.csv", {}, ["same name: 'task'"]),
    "more successes than attempts": (
        with_row("c,x,5,4"),
        "t.csv",
        {},
        ["5 successes of 4 attempts", "line 5", "'successes'"],
    ),
    "duplicate keys": (
        with_row("b,x,1,2"),
        "t.csv",
        {},
        ["1 pairs", "b at x (2 rows)", "duplicates='sum'"],
    ),
    "negative": (with_row("c,x,-1,4"), "t.csv", {}, ["'-1' is negative", "line 5"]),
    "blank count": (with_row("c,x,,4"), "t.csv", {}, ["1 not_attempted (c: 1)", "line 5"]),
    "NaN count": (with_row("c,x,1,NaN"), "t.csv", {}, ["'missing'", "line 5, column 'attempts'"]),
    "not an integer": (with_row("c,x,1.5,4"), "t.csv", {}, ["'1.5' is not a whole number"]),
    "infinite": (with_row("c,x,1,inf"), "t.csv", {}, ["'inf' is not a whole number", "line 5"]),
    "words": (with_row("c,x,one,4"), "t.csv", {}, ["'one'", "line 5", "'successes'"]),
    "huge": (with_row("c,x,1," + "9" * 30), "t.csv", {}, ["too large"]),
    "endless": (with_row("c,x,1," + "9" * 5000), "t.csv", {}, ["too long", "..."]),
    "outcome 2": (with_row("c,x,2", ROWS), "t.csv", {}, ["'2' is not the outcome", "line 5"]),
    "outcome blank": (with_row("c,x,", ROWS), "t.csv", {}, ["line 5", "policy='failure'"]),
    "failure policy with counts": (
        with_row("c,x,,4"),
        "t.csv",
        {"policy": "failure"},
        ["1 blank counts", "policy='missing'"],
    ),
    "label blank": (with_row(",x,1,2"), "t.csv", {}, ["'' is blank", "line 5, column 'agent'"]),
    "label of blanks": (with_row("  ,x,1,2"), "t.csv", {}, ["'  ' is blank", "line 5"]),
    "label with blanks": (with_row("c ,x,1,2"), "t.csv", {}, ["'c ' has", "strip=True"]),
    "label with control character": (with_row("c\x07,x,1,2"), "t.csv", {}, ["control character"]),
    "too few values": (with_row("c,x"), "t.csv", {}, ["Expected 4 columns, got 2", "line 5"]),
    "too many values": (with_row("c,x,1,2,3"), "t.csv", {}, ["got 5", "line 5"]),
    "open quote": (with_row('"c,x,1,2'), "t.csv", {}, ["not a whole CSV table"]),
    "nothing attempted": ("agent,task,successes,attempts\na,x,0,0\n", "t.csv", {}, ["no record"]),
    "family differs": (
        "agent,task,success,family\na,x,1,f\nb,x,0,g\n",
        "t.csv",
        {},
        ["disagree about family", "'x' has 'f', 'g'"],
    ),
    "minutes differ": (
        "agent,task,success,human_minutes\na,x,1,3\nb,x,0,4\n",
        "t.csv",
        {},
        ["disagree about human_minutes", "'x' has 3.0, 4.0"],
    ),
    "release differs": (
        "agent,task,success,release_date\na,x,1,2024-01-01\na,y,0,2024-01-02\n",
        "t.csv",
        {},
        ["disagree about release_date", "'a'"],
    ),
    "minutes zero": (
        "agent,task,success,human_minutes\na,x,1,0\n",
        "t.csv",
        {},
        ["'0' is not positive", "line 2"],
    ),
    "date": (
        "agent,task,success,release_date\na,x,1,yesterday\n",
        "t.csv",
        {},
        ["'yesterday' is not a date", "2025-02-24"],
    ),
    "family named like a task": (
        "agent,task,success,family\na,x,1,\na,y,1,x\n",
        "t.csv",
        {},
        ["tasks without a family", "'x'"],
    ),
    "option": (LONG, "t.csv", {"duplicate": "sum"}, ["no option 'duplicate'", "'duplicates'"]),
    "choice": (LONG, "t.csv", {"duplicates": "add"}, ["'add'", "'sum'"]),
    "delimiter": (LONG, "t.csv", {"delimiter": ";;"}, ["delimiter", "one character"]),
    "no reader": (LONG, "t.csv", {"reader": "lng"}, ["no reader 'lng'", "did you mean 'long'?"]),
    "wrong reader": (LONG, "t.csv", {"reader": "metr"}, ["the file is csv"]),
    "ambiguous": ("a,b\nfoo,bar\n", "t.csv", {}, ["fits no reader", "columns={'agent': ..."]),
    "unknown JSON": ('{"a": 1}\n', "t.jsonl", {}, ["fits no reader", "reader='metr'"]),
    "wide entry": (
        "id,p,q\na,1,0\nb,1,2\n",
        "w.csv",
        {"reader": "wide"},
        ["'2' is not the outcome", "line 3, column 'q'"],
    ),
    "wide agent twice": ("id,p,q\na,1,0\na,1,1\n", "w.csv", {}, ["'a' has more", "line 3"]),
    "wide without tasks": ("id\na\n", "w.csv", {"reader": "wide"}, ["no task"]),
    "wide column without name": ("id,p,\na,1,0\n", "w.csv", {}, ["'' is blank", "header"]),
    "wide ignoring nothing": ("id,p,q\na,1,0\n", "w.csv", {"ignore": "r"}, ["no column 'r'"]),
    "wide label blank": ("id,p,q\n,1,0\n", "w.csv", {}, ["'' is blank", "line 2"]),
    "JSON array": ("[1, 2]", "t.json", {}, ["one JSON array", "jq -c"]),
    "JSON object over lines": ('{\n"a": 1}\n', "t.json", {}, ["fits no reader", "'a'"]),
    "JSON cut": (PYIRT[:-20], "p.jsonl", {}, ["not complete JSON", "line 2", "remove"]),
    "JSON number": (PYIRT + "3\n", "p.jsonl", {}, ["a int", "line 3"]),
    "JSON key twice": (
        PYIRT + '{"subject_id": "c", "responses": {"x": 1, "x": 0}}\n',
        "p.jsonl",
        {},
        ["'x' stands twice", "line 3"],
    ),
    "JSON huge number": (PYIRT.replace("0", "9" * 5000), "p.jsonl", {}, ["line 1"]),
    "JSON depth": (PYIRT + '{"a":' * 100_000 + "\n", "p.jsonl", {}, ["line 3"]),
    "py-irt agent twice": (PYIRT.replace('"b"', '"a"'), "p.jsonl", {}, ["'a'", "line 2"]),
    "py-irt response": (PYIRT.replace("0", "0.5"), "p.jsonl", {}, ["0.5", "line 1", "'y'"]),
    "py-irt responses": (
        PYIRT + '{"subject_id": "c", "responses": [1]}\n',
        "p.jsonl",
        {},
        ["a list", "line 3"],
    ),
    "py-irt without responses": (
        PYIRT + '{"subject_id": "c", "response": {}}\n',
        "p.jsonl",
        {},
        ["no key 'responses'", "did you mean 'response'?", "line 3"],
    ),
    "py-irt agent null": (PYIRT.replace('"b"', "null"), "p.jsonl", {}, ["blank", "line 2"]),
    "py-irt agent list": (PYIRT.replace('"b"', "[1]"), "p.jsonl", {}, ["not a single", "line 2"]),
    "py-irt surrogate": (PYIRT.replace('"b"', r'"\ud800"'), "p.jsonl", {}, ["surrogate", "line 2"]),
    "metr without alias": (METR + '{"task_id": "x"}\n', "m.jsonl", {}, ["'alias'", "line 5"]),
    "metr score": (
        METR.replace('"score_binarized": 1', '"score_binarized": 0.5', 1),
        "m.jsonl",
        {},
        ["0.5", "line 1", "score_binarized"],
    ),
    "metr score null": (
        METR.replace('"score_binarized": 1', '"score_binarized": null', 1),
        "m.jsonl",
        {},
        ["1 runs have no score", "line 1"],
    ),
    "metr family differs": (
        METR.replace('"task_family": "f"', '"task_family": "g"', 1),
        "m.jsonl",
        {},
        ["disagree about task_family"],
    ),
    "metr stopped": (
        METR + json.dumps({**RUN, "fatal_error_from": "usageLimits"}) + "\n",
        "m.jsonl",
        {},
        ["1 of 5 records", "policy='failure'", "policy='missing'"],
    ),
    "metr policy": (METR, "m.jsonl", {"policy": "drop"}, ["'drop'", "'missing'"]),
    "metr run twice": (
        METR.replace('"alias"', '"run_id": 7, "alias"', 3).replace("7,", "8,", 1),
        "m.jsonl",
        {},
        ["1 runs stand more than once: 7", "line 3", "line 2", "duplicates='keep'"],
    ),
    "metr list": (
        METR.replace('"alias": "a"', '"alias": ["a"]', 1),
        "m.jsonl",
        {},
        ["not a single value", "line 1"],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_message_names_place_and_remedy(tmp_path, case):
    content, name, options, words = CASES[case]
    path = tmp_path / name
    path.write_bytes(content.encode())
    with pytest.raises(InputError) as caught:
        mb.load(path, **options)
    message = str(caught.value)
    for word in words:
        assert word in message, message
    assert len(message) < 2_000
    assert len(message.splitlines()) <= 5


def bytes_case(tmp_path, content, name="t.csv", **options):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(InputError) as caught:
        mb.load(path, **options)
    return str(caught.value)


def test_not_utf8_names_the_line(tmp_path):
    content = LONG.encode() + "é,x,1,2\n".encode("latin-1")
    message = bytes_case(tmp_path, content)
    assert "byte 0xe9" in message
    assert "line 5" in message
    assert "iconv" in message


def test_not_utf8_far_behind_the_start(tmp_path):
    rows = "".join(f"agent {i},x,1\n" for i in range(200_000))
    content = ("agent,task,success\n" + rows).encode() + b"\xff,x,1\n"
    assert "line 200002" in bytes_case(tmp_path, content)


def test_json_not_utf8(tmp_path):
    assert "line 3" in bytes_case(tmp_path, PYIRT.encode() + b'{"a": "\xff"}\n', "p.jsonl")


def test_binary(tmp_path):
    assert "binary" in bytes_case(tmp_path, b"\x00\x01" * 50)
    assert "UTF-16" in bytes_case(tmp_path, LONG.encode("utf-16"))
    assert "not UTF-8" in bytes_case(tmp_path, bytes(range(1, 256)))


def test_nul_behind_the_start(tmp_path):
    rows = "".join(f"agent {i},x,1\n" for i in range(100_000))
    content = ("agent,task,success\n" + rows + "a\0,x,1\n").encode()
    assert "line 100002" in bytes_case(tmp_path, content)


def test_cut_gzip_and_parquet(tmp_path):
    packed = gzip.compress((LONG * 500).encode())
    assert "gzip --test" in bytes_case(tmp_path, packed[:40], "t.csv.gz")
    pd.DataFrame({"agent": ["a"], "task": ["x"], "success": [1]}).to_parquet(tmp_path / "t.parquet")
    whole = (tmp_path / "t.parquet").read_bytes()
    assert "Parquet" in bytes_case(tmp_path, whole[:-5], "u.parquet")
    assert "Parquet" in bytes_case(tmp_path, b"PAR1PAR1", "v.parquet")


def test_missing_path_and_folder(tmp_path, monkeypatch):
    (tmp_path / "runs.csv").write_text(LONG)
    with pytest.raises(InputError, match=r"(?s)no such file.*runs\.csv"):
        mb.load(tmp_path / "run.csv")
    with pytest.raises(InputError, match=r"(?s)did you mean 'metr-th1\.1'"):
        mb.load("metr-th1")
    with pytest.raises(InputError, match=r"(?s)no log in it.*runs\.csv"):
        mb.load(tmp_path)
    with pytest.raises(InputError, match="no such file"):
        mb.load(tmp_path / "none" / "x.csv")
    with pytest.raises(InputError, match="can't be opened"):
        mb.load("a\0b")
    monkeypatch.chdir(tmp_path)
    assert mb.load("runs.csv").sizes["cell"] == 3


def test_other_objects_and_useless_options(metr):
    with pytest.raises(InputError, match="are a list"):
        mb.load([1, 2])
    with pytest.raises(InputError, match="leave them out"):
        mb.load("metr-th1.1", reader="long")
    with pytest.raises(InputError, match="leave them out"):
        mb.load(metr, strip=True)


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"attempts": [2, 3, None]}, "row 2, column 'attempts'"),
        ({"attempts": [2, 3, [1]]}, "not a single value"),
        ({"attempts": [2.0, 3.0, np.inf]}, "not a whole number"),
        ({"attempts": [True, True, True]}, "truth value"),
        ({"attempts": [2, 3, 10**30]}, "too large"),
        ({"agent": [1.5, 2.5, 3.5]}, "of type float"),
        ({"agent": ["a", "b", None]}, "row 2, column 'agent'"),
        ({"task": ["a", "b", pd.NA]}, "blank"),
    ],
)
def test_frames(change, word):
    frame = {"agent": ["a", "b", "c"], "task": list("xyz"), "successes": [1, 1, 1]}
    with pytest.raises(InputError) as caught:
        mb.load(pd.DataFrame({**frame, "attempts": [2, 3, 4], **change}))
    assert word in str(caught.value)


def test_nested_parquet_column(tmp_path):
    frame = pd.DataFrame({"agent": ["a"], "task": [["x"]], "success": [1]})
    frame.to_parquet(tmp_path / "t.parquet")
    with pytest.raises(InputError, match="of type list"):
        mb.load(tmp_path / "t.parquet")


def test_parquet_value_names_the_row(tmp_path):
    frame = pd.DataFrame({"agent": list("abc"), "task": "x", "success": [1, 0, 7]})
    frame.to_parquet(tmp_path / "t.parquet")
    with pytest.raises(InputError, match=r"(?s)7 is not the outcome.*row 3, column 'success'"):
        mb.load(tmp_path / "t.parquet")


def test_one_agent_and_one_task_load_but_cannot_be_fitted(tmp_path):
    one_agent = mb.load(pd.DataFrame({"agent": "a", "task": ["x", "y"], "success": [1, 0]}))
    with pytest.raises(InputError, match="1 agent only") as caught:
        data.validate_for_fit(one_agent)
    assert "measurebayes.score" in str(caught.value)
    one_task = mb.load(pd.DataFrame({"agent": ["a", "b"], "task": "x", "success": [1, 0]}))
    with pytest.raises(InputError, match="1 task only"):
        data.validate_for_fit(one_task)


def test_an_agent_without_attempts_does_not_count_for_a_fit():
    frame = pd.DataFrame({"agent": ["a", "a", "b"], "task": ["x", "y", "x"]})
    runs = mb.load(frame.assign(successes=0, attempts=[1, 1, 0]))
    assert runs.sizes["agent"] == 2
    with pytest.raises(InputError, match="1 agent only"):
        data.validate_for_fit(runs)


def test_error_survives_pickling():
    error = InputError("found", where="there", expected="this", remedy="do that")
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is InputError
    assert str(again) == str(error)
    assert "there" in str(again)
    assert isinstance(again, ValueError)


def test_words_of_messages():
    assert listed(range(7)) == "0, 1, 2, 3, 4 and 2 more"
    assert shown("a\x1b[31m") == r"'a\x1b[31m'"
    assert len(shown("x" * 1_000)) == 60
    assert did_you_mean("Rasch", ["rasch", "two_pl"]) == "did you mean 'rasch'?"
    assert did_you_mean("zzz", ["rasch"]) == ""
