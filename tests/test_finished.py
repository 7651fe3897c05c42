"""The file of finished results: nothing of anybody else's is touched, and nothing is lost."""

import json
from typing import NamedTuple

import numpy as np
import pytest
from click.testing import CliRunner
from fake_fit import fake_data, fake_fit

import measurebayes as mb
from measurebayes.checks.finished import Finished, check_results
from measurebayes.checks.studies import run_tasks
from measurebayes.cli import main
from measurebayes.errors import InputError

KEYS = [f"{i:064x}" for i in range(3)]


class Task(NamedTuple):
    """A task of a study."""

    data: object
    weights: np.ndarray
    settings: dict
    number: int


def line(key=KEYS[0], result=(-1.5, True)):
    return json.dumps({"key": key, "result": result}) + "\n"


def tasks(seed=0):
    runs, _ = fake_data(4, 5, 2, seed=seed)
    return [Task(runs, np.arange(3.0), {"draws": 5, "priors": None}, i) for i in range(4)]


def test_results_come_back_as_they_were(tmp_path):
    path = tmp_path / "study.part"
    results = [
        (np.array([0.1, np.nan, -np.inf]), True, 1 / 3),
        {"rhat": 1.01, "draws": 500},
        np.arange(6).reshape(2, 3),
        ("a", None, np.float64(2.5), (np.array(["ä"]),)),
    ]
    finished = Finished("study", path)
    for task, result in zip(tasks(), results, strict=True):
        finished.add(task, result)
    # other objects with the same content, as in another process
    found = dict(Finished("study", path).known(tasks()))
    np.testing.assert_array_equal(found[0][0], results[0][0])
    assert found[0][1:] == results[0][1:]
    assert found[1] == results[1]
    assert found[2].dtype == np.int64
    np.testing.assert_array_equal(found[2], results[2])
    assert found[3][:3] == ("a", None, 2.5)
    for other in (tasks(seed=1), [task._replace(weights=np.ones(3)) for task in tasks()]):
        assert dict(Finished("study", path).known(other)) == {}
    changed = [task._replace(settings={**task.settings, "draws": 6}) for task in tasks()]
    assert dict(Finished("study", path).known(changed)) == {}
    assert dict(Finished("another study", path).known(tasks())) == {}


def test_a_study_goes_on_where_it_was_left(tmp_path):
    path, asked = tmp_path / "study.part", []

    def double(task):
        if task.number == 2 and len(asked) < 3:
            raise KeyboardInterrupt
        asked.append(task.number)
        return (2 * task.number,)

    with pytest.raises(KeyboardInterrupt):
        run_tasks(double, tasks(), progress=False, finished=Finished("study", path))
    asked += ["again"]
    found = run_tasks(double, tasks(), progress=False, finished=Finished("study", path))
    assert found == [(0,), (2,), (4,), (6,)]
    assert asked == [0, 1, "again", 2, 3]


@pytest.mark.parametrize("cut", [1, 5, 9, 40, 85, 90])
def test_a_result_that_was_cut_off_makes_place_for_the_next(tmp_path, cut):
    path = tmp_path / "study.part"
    path.write_text(line() + line(KEYS[1])[:cut])
    Finished("study", path).add(3, -2.0)
    check_results(path)
    assert path.read_text().startswith(line())
    assert dict(Finished("study", path).known([1, 3])) == {1: -2.0}


@pytest.mark.parametrize(
    "content",
    [
        b"agent,task\na,b\n",
        b"agent,task",
        b"\x89HDF\r\n\x1a\n\0\0\0\0",
        b"\xff\xfe",
        b"\n",
        b"[" * 5000,
        b"x" * 5000,
        b'{"a": 1}',
        b'{"key": "abc", "value": 3}',
        line().encode() + b"\n",
        line().encode() + b"notes\n" + line().encode(),
        line()[:50].encode() + b"\n" + line().encode(),
        line(result={"values": [1]}).encode(),
        line(result={"dtype": "<f8", "values": ["a"]}).encode(),
        line(result={"dtype": "|O", "values": 3}).encode(),
        line(key="short").encode(),
    ],
)
def test_what_is_somebody_elses_is_refused_and_left(tmp_path, content):
    path = tmp_path / "table.csv"
    path.write_bytes(content)
    with pytest.raises(InputError, match="is no result"):
        Finished("study", path)
    assert path.read_bytes() == content


def test_a_place_where_no_file_can_be_is_refused_before_anything_is_computed(tmp_path, monkeypatch):
    def computed(*_, **__):
        raise AssertionError("computed before the checkpoint was looked at")

    monkeypatch.setattr("measurebayes.compare.psis.loo", computed)
    fit = fake_fit(agents=3, tasks=4, draws=10, chains=2)
    table = tmp_path / "table.csv"
    table.write_text("agent,task\n")
    for path, words in [
        (tmp_path, "is a folder"),
        (tmp_path / "absent" / "terms.jsonl", "no folder"),
        (table / "terms.jsonl", "no folder"),
        ("", "no path"),
        (3, "no path"),
        ("/dev/null", "no plain file"),
        ("a\0b", "no path"),
        (table, "line 1"),
    ]:
        with pytest.raises(InputError, match=words):
            mb.compare({"a": fit}, refit=True, checkpoint=path)
    assert table.read_text() == "agent,task\n"


def test_the_command_leaves_a_file_that_is_not_its_own(tmp_path):
    path = tmp_path / "fit.nc"
    mb.save(fake_fit(agents=3, tasks=4, draws=10, chains=2), path)
    own = tmp_path / "out.csv.part"
    own.write_text("my notes\n")
    for words in (
        ["compare", str(path), "--refit", "-o", str(tmp_path / "out.csv")],
        ["crossval", "metr-th1.1", "--models", "rasch", "-o", str(tmp_path / "out.csv")],
        ["crossval", "metr-th1.1", "--models", "rasch", "--checkpoint", str(own)],
        ["calibrate", "rasch", "metr-th1.1", "--checkpoint", str(own)],
        ["cancellation-power", "metr-th1.1", "--checkpoint", str(own)],
    ):
        result = CliRunner().invoke(main, [*words, "--quiet"])
        assert result.exit_code == 2
        assert "is no result" in result.output
        assert own.read_text() == "my notes\n"
