"""Inputs that once were read wrongly, ended in a traceback or never ended at all."""

from __future__ import annotations

import errno
import io
import os
import re
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
import xarray as xr
from invented_logs import (
    inspect_header,
    inspect_sample,
    write_every_eval_ever,
    write_inspect_json,
)

import measurebayes as mb
from measurebayes import data
from measurebayes.cli import main
from measurebayes.data import lines, tables
from measurebayes.data.files import matching
from measurebayes.errors import InputError


def cells(runs: xr.Dataset) -> dict[tuple[str, str], tuple[int, int]]:
    """Successes and attempts by agent and task."""
    agents = runs["agent"].values[runs["agent_index"].values].tolist()
    tasks = runs["task"].values[runs["task_index"].values].tolist()
    counts = zip(runs["successes"].values.tolist(), runs["attempts"].values.tolist(), strict=True)
    return dict(zip(zip(agents, tasks, strict=True), counts, strict=True))


# ----- tables


def test_quoted_lines_over_block_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # the quoted second line would be a row of its own wherever a block ends before it
    rows = [f'a{i % 3},t{i},{i % 2},"x\nb,t{i},1"\n' for i in range(30)]
    path = tmp_path / "t.csv"
    path.write_text("agent,task,success,comment\n" + "".join(rows))
    want = {(f"a{i % 3}", f"t{i}"): (i % 2, 1) for i in range(30)}
    for size in (157, 243, 1 << 20):
        monkeypatch.setattr(tables, "_BLOCK_BYTES", size)
        assert cells(mb.load(path, ignore="comment")) == want


@pytest.mark.parametrize("text", ['"x\n\n""y"" z"', "plain", '5" disk', '"a ""\n"" b\n"'])
def test_line_of_a_row_after_quoted_lines(tmp_path: Path, text: str) -> None:
    table = f"agent,task,success,comment\na,t,1,{text}\n\nb,t,maybe,x\n"
    path = tmp_path / "t.csv"
    path.write_text(table)
    line = table[: table.index("b,t")].count("\n") + 1
    with pytest.raises(InputError) as error:
        mb.load(path, ignore="comment")
    assert error.value.where == f"{path}, line {line}, column 'success'"
    found = mb.lint(path, ignore="comment")
    assert f"{path}, line {line}, column 'success'" in found.findings[0].places


def test_row_longer_than_a_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "_BLOCK_BYTES", 1 << 20)
    path = tmp_path / "t.csv"
    path.write_text('agent,task,success\na,t,1\nb,t,"0\n' + "c,t,1\n" * 400_000)
    with pytest.raises(InputError, match="a row is longer than 1 MiB"):
        mb.load(path)


def test_endless_line_of_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "MAX_LINE", 1000)
    path = tmp_path / "t.jsonl"
    good = '{"subject_id": "a", "responses": {"q": 1}}\n'
    path.write_text(good + '{"subject_id": "' + "b" * 3000)
    with pytest.raises(InputError, match="the line is longer"):
        mb.load(path)


# ----- files that are none, and names


def test_pattern_does_not_follow_links_round(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    (logs / "a").mkdir(parents=True)
    for name in ("up", "here", "again"):
        (logs / "a" / name).symlink_to(logs, target_is_directory=True)
    (logs / "a" / "x.json").write_text("{}")
    for pattern in ("logs/**/*.json", "**/*.json", "logs/*/**"):
        with pytest.raises(InputError, match="a symbolic link"):
            mb.load(tmp_path / pattern)
    assert {"F108"} <= {one.code for one in mb.lint(tmp_path / "logs/**/*.json").findings}


def test_patterns_find_what_the_shell_finds(tmp_path: Path) -> None:
    for name in (
        "a.eval",
        "b/c.eval",
        "b/.d.eval",
        ".e/f.eval",
        "b/g/h.eval",
        "b/i.txt",
        "[1].eval",
    ):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
    for pattern, want in {
        "*.eval": {"a.eval", "[1].eval"},
        "**/*.eval": {"a.eval", "[1].eval", "b/c.eval", "b/g/h.eval"},
        "*/*.eval": {"b/c.eval"},
        "b/**": {"b/c.eval", "b/g/h.eval"},
        "*": {"a.eval", "[1].eval", "b/c.eval", "b/g/h.eval"},
        "b/.d*": {"b/.d.eval"},
        "[a-z].eval": {"a.eval"},
    }.items():
        found = {str(file.path.relative_to(tmp_path)) for file in matching(tmp_path / pattern)}
        assert found == want, pattern


def test_pipes_are_refused_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "x.eval")
    for source in (tmp_path, tmp_path / "*.eval", tmp_path / "x.eval", "/dev/null"):
        with pytest.raises(InputError, match="no file, but a pipe"):
            mb.load(source)


def test_columns_that_netcdf_cannot_name(tmp_path: Path) -> None:
    runs = mb.load(pd.DataFrame({"agent": ["a", "b"], "task": "t", "success": [1, 0]}))
    for name in (".", "-x", "#", "a/b", "x" * 201, "é" * 101, " x", ""):
        with pytest.raises(InputError, match="column"):
            mb.join(runs, tasks=pd.DataFrame({"task": ["t"], name: [1]}))
    table = pd.DataFrame({"task": ["t"], "é%-.": [1], "_x": [2], "1": [3], "x" * 200: [4]})
    joined = mb.join(runs, tasks=table)
    assert mb.load(data.save(joined, tmp_path / "r.nc")).equals(joined)


def test_what_netcdf_reports_of_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: object, **options: object) -> None:
        raise RuntimeError("NetCDF: HDF error")

    runs = mb.load(pd.DataFrame({"agent": ["a", "b"], "task": "t", "success": [1, 0]}))
    path = data.save(runs, tmp_path / "r.nc")
    before = path.read_bytes()
    monkeypatch.setattr(xr.Dataset, "to_netcdf", full)
    with pytest.raises(InputError, match="can't be written: NetCDF"):
        data.save(runs, path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("function", [mb.pieces, data.summarise, data.check_connected])
@pytest.mark.parametrize("thing", [None, "runs.nc", xr.Dataset(), pd.DataFrame({"agent": ["a"]})])
def test_what_is_no_dataset(function: Callable[..., object], thing: object) -> None:
    with pytest.raises(InputError, match="the data "):
        function(thing)


def test_counts_that_add_up_to_too_many() -> None:
    most = 2**31 - 1
    table = pd.DataFrame({"agent": ["a"] * 2, "task": "t", "successes": most, "attempts": most})
    with pytest.raises(InputError, match="out of range"):
        mb.load(table, duplicates="sum")


def test_a_policy_decides_once() -> None:
    table = pd.DataFrame({"agent": ["a", "b"], "task": "t", "success": [1, None]})
    with pytest.raises(InputError, match="'not_attempted' twice"):
        mb.load(table, policy="not_attempted=missing,not_attempted=failure")
    assert mb.load(table, policy=" missing ").attrs["policy"] == "missing"


# ----- logs


def test_two_descriptions_of_one_evaluation(tmp_path: Path) -> None:
    write_every_eval_ever(tmp_path)
    text = (tmp_path / "lab_m.json").read_text()
    (tmp_path / "copy.json").write_text(text)
    mb.load(tmp_path)
    for name in ("a.json", "z.json"):
        (tmp_path / name).write_text(text.replace('"temperature": 0.0', '"temperature": 1.0'))
        with pytest.raises(InputError, match="describe the evaluation"):
            mb.load(tmp_path)
        (tmp_path / name).unlink()


# ----- paths, options and frames


def test_paths_that_are_not_utf8(tmp_path: Path) -> None:
    text = "agent,task,success\na,t,1\nb,t,0\n"
    bad = tmp_path / os.fsdecode(b"\xff.csv")
    bad.write_text(text)
    with pytest.raises(InputError, match="not UTF-8"):
        mb.load(bad)
    good = tmp_path / "t.csv"
    good.write_text(text)
    runs = mb.load(good, name=os.fsdecode(b"a\xff"))
    with pytest.raises(InputError, match="not UTF-8"):
        data.save(runs, tmp_path / os.fsdecode(b"\xff.nc"))
    assert mb.load(data.save(runs, tmp_path / "t.nc")).attrs["name"] == r"a\udcff"
    folder = tmp_path / os.fsdecode(b"logs\xff")
    write_every_eval_ever(folder)
    logs = mb.load(folder)
    assert mb.load(data.save(logs, tmp_path / "logs.nc")).equals(logs)


def test_long_texts_beside_records(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    for size in (140_000, 600_000):
        long = "é" * size
        path.write_text(f'agent,task,success,response\na,t,1,"{long}"\nb,t,0,x\n')
        assert cells(mb.load(path, ignore="response")) == {("a", "t"): (1, 1), ("b", "t"): (0, 1)}


def test_labels_in_the_index_of_a_frame() -> None:
    long = pd.DataFrame({"m": ["a", "a", "b"], "task": ["t", "u", "t"], "success": [1, 0, 0]})
    want = {("a", "t"): (1, 1), ("a", "u"): (0, 1), ("b", "t"): (0, 1)}
    wide = long.pivot_table(index="m", columns="task", values="success")
    assert cells(mb.load(wide)) == want
    assert cells(mb.load(wide.rename_axis(None))) == want
    by_two = long.rename(columns={"m": "agent"}).set_index(["agent", "task"])
    assert cells(mb.load(by_two)) == want
    plain = long.rename(columns={"m": "agent"})
    assert cells(mb.load(plain.set_axis(["x", "y", "z"]))) == want  # names of rows
    assert cells(mb.load(plain[plain["task"] == "t"])) == {k: want[k] for k in want if k[1] == "t"}
    assert cells(mb.load(pd.DataFrame([[1, 0], [0, 1]])))["2", "1"] == (1, 1)
    hard = pd.DataFrame({"task": ["t", "u"], "hard": [1, 2]})
    for table in (hard.set_index("task"), hard.set_axis(["x", "y"])):
        assert mb.join(mb.load(plain), tasks=table)["hard"].values.tolist() == [1, 2]


@pytest.mark.parametrize(
    "options",
    [
        {"columns": "agent=agent,agent=task"},
        {"reader": ["long"]},
        {"reader": 1},
        {"path_or_name": "x"},
        {"ignore": object()},
        {"ignore": True},
    ],
)
def test_options_of_a_wrong_kind(options: dict[str, object]) -> None:
    table = pd.DataFrame({"agent": ["a", "b"], "task": "t", "success": [1, 0]})
    with pytest.raises(InputError):
        mb.load(table, **options)
    with pytest.raises(InputError, match="the path is empty"):
        mb.load("")
    hub = scores(("r1", "a", "m", "q", 1), ("r1", "a", "m", "q", 0), scorer=["x", "y"])
    for wrong in (1, object(), "a=x,a=y"):
        with pytest.raises(InputError, match=r"scorer|lists names"):
            mb.load(hub, scorer=wrong)


def test_tables_with_other_delimiters(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    for mark, name in ((";", ";"), ("\t", "tab"), ("|", "|")):
        path.write_text("agent,task,success\na,t,1\nb,t,0\n".replace(",", mark))
        with pytest.raises(InputError, match=re.escape(f"delimiter={name!r}")):
            mb.load(path)
        assert len(cells(mb.load(path, delimiter=name))) == 2


def test_keys_of_answers() -> None:
    table = pd.DataFrame({"id": ["p", "q"], "item": "a", "resp": ["A", "B"]})
    items = ",".join(f"item{i}=A" for i in range(200))  # longer than the name of a file may be
    assert cells(mb.load(table, key=f"a=B,{items}")) == {("p", "a"): (0, 1), ("q", "a"): (1, 1)}
    twice = pd.DataFrame({"item": ["a", "a"], "key": ["A", "B"]})
    for key in ("a=A,a=B", twice):
        with pytest.raises(InputError, match="two answers for 'a'"):
            mb.load(table, key=key)
    with pytest.raises(InputError, match="the key is a int"):
        mb.load(table, key=1)


def scores(*rows: tuple[object, ...], **columns: object) -> pd.DataFrame:
    """Table of a hub."""
    return pd.DataFrame(
        rows, columns=["run", "task", "model", "item_id", "value"]
    ).assign(**columns)  # fmt: skip


def test_labels_of_two_suites_are_not_merged() -> None:
    table = scores(("r1", "a/b", "m", "c", 1), ("r2", "a", "n", "b/c", 0))
    for rows in (table, table[::-1]):
        with pytest.raises(InputError, match="two suites have a task of the label 'a/b/c'"):
            mb.load(rows, runs="all")
    assert cells(mb.load(table, suite="a")) == {("n", "a/b/c"): (0, 1)}


def test_labels_of_two_agents_are_not_merged() -> None:
    table = scores(("r1", "a", "m", "q", 1), ("r2", "a", "m [e=h]", "q", 0), e=["h", None])
    with pytest.raises(InputError, match="two agents would have the label"):
        mb.load(table, settings="e", agent_from="model,e", runs="all")


def test_strip_merges_no_runs_in_silence(tmp_path: Path) -> None:
    for number, model in enumerate(["lab/m", "lab/m "]):
        header = inspect_header(model)
        write_inspect_json(tmp_path / f"{number}.json", header, [inspect_sample("q")])
    with pytest.raises(InputError, match="several runs at the same tasks"):
        mb.load(tmp_path, strip=True)
    assert cells(mb.load(tmp_path, strip=True, runs="all")) == {("lab/m", "suite/q"): (2, 2)}


def test_true_and_1_count_otherwise_under_a_threshold(tmp_path: Path) -> None:
    for values in ([True, 1, False, 0, 3], [1, True, 0, False, 3]):
        samples = [inspect_sample(f"q{type(v).__name__}{v}", v) for v in values]
        path = write_inspect_json(tmp_path / "x.json", inspect_header(), samples)
        found = {task: k for (_, task), (k, _) in cells(mb.load(path, threshold=2)).items()}
        assert found == {
            "suite/qboolTrue": 1, "suite/qint1": 0, "suite/qboolFalse": 0, "suite/qint0": 0,
            "suite/qint3": 1,
        }  # fmt: skip


class Full(io.StringIO):
    """A stream on a full disk."""

    def write(self, text: str) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")


def test_status_where_messages_cannot_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", Full())
    with pytest.raises(SystemExit) as ended:
        main(["data", "there-is-no-such-file"])
    assert ended.value.code == 2
