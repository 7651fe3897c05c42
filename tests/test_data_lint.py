"""The linter: every problem of a file made by hand is found at its place, and no other."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import measurebayes as mb
from measurebayes.data.lint_codes import CODES, ERROR, NOTE, WARNING

ROOT = Path(__file__).resolve().parent.parent
GOOD = "agent,task,success\n" + "".join(
    f"{agent},t{n},{int(n < at)}\n"
    for at, agent in enumerate(("first", "second", "third"), start=2)
    for n in range(6)
)
NOTED = GOOD.replace(",t", ",x,t").replace("x,task", "note,task")
COUNTS = "agent,task,successes,attempts\nfirst,t1,1,2\nfirst,t2,0,2\nsecond,t1,2,2\nsecond,t2,1,2\n"
OTHERS = re.sub(r"^(\w+),t", r"\1 else,u", GOOD.partition("\n")[2], flags=re.M)
FEW = "agent,task,success,{}\na,t,1,{}\na,u,0,{}\nb,t,0,{}\n"
HUB = "run,task,model,item_id,epoch,scorer,value\n"
HUB_ROWS = "".join(
    f"r{run},suite,model-{run},i{item},1,match,{'CI'[(run + item) % 2]}\n"
    for run in range(2)
    for item in range(5)
)
FILTERED_ROWS = HUB_ROWS.replace("match", "match,strict")
FILTERED = HUB.replace("scorer", "scorer,filter") + FILTERED_ROWS
PYIRT = "".join(
    json.dumps({"subject_id": who, "responses": {f"q{n}": int(n < at) for n in range(6)}}) + "\n"
    for at, who in enumerate(("first", "second"), start=2)
)
METR = "".join(
    json.dumps(
        {"task_id": f"t{n}", "alias": who, "score_binarized": int(n < at), "run_id": who + str(n)}
    )
    + "\n"
    for at, who in enumerate(("first", "second"), start=2)
    for n in range(6)
)  # fmt: skip

# name of the case -> file name, content, code, words in the place of the finding
CASES = {
    "empty": ("x.csv", "", "F102", "x.csv"),
    "header only": ("x.csv", "agent,task,success\n", "F102", "x.csv"),
    "binary": ("x.csv", b"agent\0task", "F103", "x.csv"),
    "latin1": ("x.csv", GOOD.encode() + b"first,t\xe9,1\n", "F104", "line 20"),
    "ragged": ("x.csv", GOOD + "first,t9\n", "F105", "line 20"),
    "cut line": ("x.jsonl", PYIRT + '{"subject_id"', "F105", "line 3"),
    "key twice": ("x.jsonl", PYIRT + '{"subject_id": "c", "subject_id": "d"}', "F106", "line 3"),
    "unknown format": ("x.csv", "a,b\n5,6\n7,8\n", "F107", "x.csv"),
    "lacking column": ("x.csv", GOOD.replace("success", "passed"), "T201", "header"),
    "lacking key": ("x.jsonl", PYIRT + '{"subject_id": "c"}\n', "T201", "line 3"),
    "unknown column": ("x.csv", NOTED, "T202", "header"),
    "column twice": ("x.csv", "agent,task,success,task\na,b,1,c\n", "T203", "header"),
    "blank label": ("x.csv", GOOD + ",t1,1\n", "V301", "line 20, column 'agent'"),
    "padded label": ("x.csv", GOOD + "first ,t1,1\n", "V301", "line 20, column 'agent'"),
    "bad outcome": ("x.csv", GOOD + "first,t1,2\n", "V302", "line 20, column 'success'"),
    "bad count": ("x.csv", COUNTS + "third,t1,one,2\n", "V302", "line 6, column 'successes'"),
    "bad response": ("x.jsonl", PYIRT.replace("0}", "3}"), "V302", "line 2, response to 'q5'"),
    "k above n": ("x.csv", COUNTS + "third,t1,3,2\n", "V303", "line 6, column 'successes'"),
    "fractions": ("x.csv", HUB + HUB_ROWS.replace(",C", ",0.25"), "V304", ""),
    "families": ("x.csv", FEW.format("family", "f", "f", "g"), "V305", "'family'"),
    "minutes": ("x.csv", FEW.format("human_minutes", -2, 3, ""), "V306", "line 2"),
    "date": ("x.csv", FEW.format("release_date", "soon", "", ""), "V307", "line 2"),
    "scorers": ("x.csv", HUB + HUB_ROWS + HUB_ROWS.replace("match", "judge"), "I401", "x.csv"),
    "filters": ("x.csv", FILTERED + FILTERED_ROWS.replace(",strict,", ",lax,"), "I402", "x.csv"),
    "runs": ("x.csv", HUB + HUB_ROWS + re.sub(r"^r", "s", HUB_ROWS, flags=re.M), "I403", "x.csv"),
    "pairs": ("x.csv", COUNTS + "first,t1,1,2\n", "I405", "first at t1 (2 rows)"),
    "agent twice": ("x.jsonl", PYIRT + PYIRT.splitlines()[0], "I406", "line 3"),
    "row twice": ("x.csv", "who,q1,q2\nann,1,0\nbob,0,1\nann,1,1\n", "I406", "line 4"),
    "run twice": ("x.jsonl", METR + METR.splitlines()[0], "I406", "line 13"),
    "blank outcome": ("x.csv", GOOD + "first,t1,\n", "S501", "line 20, column 'success'"),
    "pieces": ("x.csv", GOOD + OTHERS, "C601", "piece 2: 3 agents"),
    "look alike": ("x.csv", GOOD.replace("third", "FIRST"), "C602", "agent 'FIRST'"),
    "one agent": ("x.csv", "agent,task,success\na,t,1\na,u,0\n", "C604", "x.csv"),
    "few tasks": ("x.csv", "agent,task,success\na,t,1\na,u,0\nb,t,0\n", "C606", "agent 'b'"),
    "saturated": ("x.csv", GOOD, "C605", "task 't0'"),
}  # fmt: skip


def linted(tmp_path, name, content, **options):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return mb.lint(path, **options)


def codes(result, *severities):
    return {one.code for one in result.findings if one.severity in (severities or (ERROR,))}


def test_nothing_grave_in_good_files(tmp_path):
    for content, name in ((GOOD, "x.csv"), (HUB + HUB_ROWS, "x.csv"), (PYIRT, "x.jsonl")):
        result = linted(tmp_path, name, content)
        assert result.ok
        assert codes(result, ERROR, WARNING) == set()


@pytest.mark.parametrize("case", CASES)
def test_each_problem_is_found_at_its_place(tmp_path, case):
    name, content, code, place = CASES[case]
    result = linted(tmp_path, name, content)
    found = [one for one in result.findings if one.code == code]
    assert found, [one.problem for one in result.findings]
    assert any(place in where for one in found for where in one.places)
    assert all(one.severity == CODES[code].severity for one in found)
    # no other error, apart from consequences of having no more than these few rows
    assert codes(result) - {"C601", "C604"} <= {code}


def test_all_problems_at_once(tmp_path):
    content = NOTED + "first,x,t1,7\nfirst,x\n ,x,t1,1\nfirst,x,t2,maybe\nfirst,x,t2,maybe\n"
    content += "second,x,t3,\n"
    content = content.encode() + b"third,x,t\xe9,9\n"
    result = linted(tmp_path, "x.csv", content)
    found = {
        (one.code, place.rpartition("line ")[2]) for one in result.findings
        for place in one.places if one.severity == ERROR and "(the first)" not in place
    }  # fmt: skip
    assert {pair for pair in found if pair[0] != "T202"} == {
        ("V302", "20, column 'success'"),
        ("F105", "21"),
        ("V301", "22, column 'agent'"),
        ("V302", "23, column 'success'"),
        ("V302", "24, column 'success'"),
        ("S501", "25, column 'success'"),
        ("F104", "26"),
        ("V302", "26, column 'success'"),
    }
    assert "T202" in codes(result)
    maybe = next(one for one in result.findings if "'maybe'" in one.problem)
    assert maybe.count == 2


def test_values_over_several_batches_are_one_finding(tmp_path, monkeypatch):
    from measurebayes.data import tables

    monkeypatch.setattr(tables, "_BLOCK_BYTES", 512)
    rows = "".join(f"agent {n % 7},task {n % 5},{'1' if n % 10 else 'x'}\n" for n in range(400))
    result = linted(tmp_path, "x.csv", "agent,task,success\n" + rows)
    bad = [one for one in result.findings if one.code == "V302"]
    assert [one.count for one in bad] == [40]
    assert [int(re.search(r"line (\d+)", p)[1]) for p in bad[0].places] == list(range(2, 402, 10))


def test_a_frame_and_a_dataset(metr):
    frame = pd.DataFrame({"agent": ["a", "b"], "task": ["t", "t"], "success": [1, 5]})
    result = mb.lint(frame)
    assert [one.places for one in result.findings if one.code == "V302"] == [
        ("DataFrame, row 1, column 'success'",)
    ]
    assert mb.lint(metr).ok


def test_what_only_a_look_at_all_data_shows(rng, metr):
    agents, tasks = [f"agent {n}" for n in range(4)], [f"task {n:02d}" for n in range(30)]
    frame = pd.DataFrame([(a, t) for a in agents for t in tasks], columns=["agent", "task"])
    frame["success"] = np.where(rng.random(len(frame)) < 0.5, 1.0, 0.0)
    frame["status"] = ""
    frame.loc[frame["agent"] == "agent 3", "status"] = ["errored"] * 3 + [""] * 27
    copy = frame[frame["agent"] == "agent 0"].assign(agent="agent zero")
    frame = pd.concat([frame, copy])
    result = mb.lint(frame, policy="missing")
    assert codes(result, WARNING) == {"C607", "S502"}
    assert result.number(WARNING) == 2
    assert "3 of 30 records of 'agent 3'" in " ".join(one.problem for one in result.findings)
    assert "S503" in codes(result, NOTE)
    # a label without attempts, a date of some agents only
    alone = mb.load(frame, policy="failure").isel(cell=slice(0, 120))
    assert "C603" in codes(mb.lint(alone), WARNING)
    dates = metr["release_date"].values.copy()
    dates[0] = np.datetime64("NaT", "ns")
    assert "C608" in codes(mb.lint(metr.assign(release_date=("agent", dates))), NOTE)


def test_tables_that_are_joined(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text(GOOD)
    some = pd.DataFrame({"agent": ["first", "fourth"], "size": [1, 2]})
    result = mb.lint(path, agents=some)
    assert codes(result, WARNING) == {"J701"}
    places = [place for one in result.findings for place in one.places if one.code == "J701"]
    assert [place.rpartition(" ")[2] for place in places] == ["'second'", "'third'", "'fourth'"]
    other = pd.DataFrame({"agent": ["nobody"], "size": [1]})
    assert codes(mb.lint(path, agents=other)) == {"J702"}
    sized = mb.join(mb.load(path), agents=some.iloc[:1], unmatched="ignore")
    clash = pd.DataFrame({"agent": ["first", "second", "third"], "size": [2, 2, 2]})
    assert codes(mb.lint(sized, agents=clash)) == {"J703"}


def test_a_set_of_logs_is_read_to_its_end(tmp_path):
    for number in range(3):
        log = {
            "version": 2,
            "status": "success",
            "eval": {
                "task": "suite",
                "model": f"lab/model-{number}",
                "eval_id": f"e{number}",
                "run_id": f"r{number}",
                "created": "2025-01-01T00:00:00+00:00",
            },
            "samples": [
                {"id": n, "epoch": 1, "scores": {"match": {"value": "CI"[(n + number) % 2]}}}
                for n in range(5)
            ],
        }
        (tmp_path / f"{number}.json").write_text(json.dumps(log))
    assert mb.lint(tmp_path).ok
    whole = (tmp_path / "0.json").read_text()
    (tmp_path / "3.json").write_text(whole[: len(whole) // 2])
    (tmp_path / "5.json").write_bytes(b"\xff\xfe{}")
    (tmp_path / "6.eval").write_bytes(b"PK\x03\x04 cut")
    (tmp_path / "7.json").write_text("")
    (tmp_path / "8.json").symlink_to(tmp_path / "0.json")
    log = json.loads(whole) | {"samples": [{"id": 1, "epoch": 1, "scores": None}]}
    log["eval"] |= {"model": "lab/silent", "eval_id": "e9", "run_id": "r9"}
    (tmp_path / "4.json").write_text(json.dumps(log))
    result = mb.lint(tmp_path)
    found = {
        (one.code, Path(place).name) for one in result.findings
        for place in one.places if one.severity == ERROR
    }  # fmt: skip
    assert found == {
        ("F105", "3.json"),
        ("S504", "4.json"),
        ("F103", "5.json"),
        ("F105", "6.eval"),
        ("F102", "7.json"),
        ("F108", "8.json"),
    }
    for number in (3, 4, 5, 7, 8):
        (tmp_path / f"{number}.json").unlink()
    (tmp_path / "6.eval").unlink()
    again = json.loads(whole)
    again["eval"] |= {"eval_id": "e9", "model_generate_config": {"reasoning_effort": "high"}}
    (tmp_path / "9.json").write_text(json.dumps(again))
    assert codes(mb.lint(tmp_path)) == {"I404"}


def test_decisions_that_are_given_are_no_problems(tmp_path):
    content = HUB + HUB_ROWS + HUB_ROWS.replace("match", "judge")
    assert linted(tmp_path, "x.csv", content, scorer="match").ok
    assert linted(tmp_path, "x.csv", GOOD + "first,t1,\n", policy="missing").ok


def test_wrong_usage_is_no_finding(tmp_path):
    with pytest.raises(mb.InputError, match="no such file"):
        mb.lint(tmp_path / "nothing.csv")
    for options in ({"reader": "longer"}, {"colour": "red"}, {"policy": "maybe"}):
        with pytest.raises(mb.InputError):
            linted(tmp_path, "x.csv", GOOD, **options)


def test_loading_still_stops_at_the_first_problem(tmp_path):
    linted(tmp_path, "x.csv", GOOD + "first,t1,7\n")
    with pytest.raises(mb.InputError, match="line 20"):
        mb.load(tmp_path / "x.csv")


# ----- codes and command line


def test_every_code_in_the_source_is_described_and_every_described_one_used():
    source = "\n".join(
        file.read_text(encoding="utf-8")
        for file in (ROOT / "measurebayes" / "data").rglob("*.py")
        if file.name != "lint_codes.py"
    )
    used = set(re.findall(r'"([FTVISCJR]\d{3})"', source))
    assert used == set(CODES)


def run(*words):
    from measurebayes.cli import main

    return CliRunner().invoke(main, ["lint", *map(str, words)])


def test_exit_statuses(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text(GOOD)
    assert run(path).exit_code == 0
    path.write_text(GOOD + "first,t1,7\n")
    assert run(path).exit_code == 1
    assert run(tmp_path / "nothing.csv").exit_code == 2
    assert run(path, "--option", "colour=red").exit_code == 2
    assert run(path, "--colour").exit_code == 2


def test_output(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text(GOOD + "first,t1,7\nfirst,t1,\n")
    text = run(path).stdout
    assert "error V302: the value '7' is not the outcome of an attempt" in text
    assert f"  where:    {path}, line 20, column 'success'" in text
    assert "--policy not_attempted=missing" in text
    found = json.loads(run(path, "--json").stdout)
    assert (found["ok"], found["errors"], found["warnings"]) == (False, 2, 1)
    first = found["findings"][0]
    assert set(first) == {
        "code", "severity", "title", "problem", "places", "count", "expected", "remedy"
    }  # fmt: skip
