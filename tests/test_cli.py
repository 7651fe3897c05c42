"""The command line: words in, tables and statuses out."""

from __future__ import annotations

import ast
import inspect
import json
import os
import pty
import shlex
import signal
import sqlite3
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import click
import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner, Result

import measurebayes as mb
from measurebayes.cli import main
from measurebayes.cli.group import Cli
from measurebayes.cli.options import (
    Command,
    Several,
    json_option,
    on_command_line,
    repeat_names,
)
from measurebayes.cli.output import cell_text, jsonable, print_table, printable

COMMANDS = {
    *("data", "load", "lint", "models", "describe", "verify", "copy", "fit", "check", "compare"),
    *(
        "concat",
        "formats",
        "score",
        "crossval",
        "calibrate",
        "report",
        "cite",
        "analyse",
        "cancellation",
        "cancellation-power",
        "additivity",
        "dependence",
        "misfit",
        "suspects",
        "pairs",
        "horizons",
        "trend",
        "plan",
    ),
}


def run(*words: str | Path) -> Result:
    return CliRunner().invoke(main, [str(word) for word in words])


def process(*words: str | Path, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "measurebayes", *map(str, words)],
        **{"capture_output": True, "text": True, "check": False, "timeout": 120, **options},
    )


def fails(result: Result, *parts: str) -> None:
    """Status 2, nothing on stdout, one screen on stderr with these parts and no traceback."""
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert len(result.stderr.splitlines()) < 25
    assert "Traceback" not in result.stderr
    for part in parts:
        assert part in result.stderr


@pytest.fixture
def records(tmp_path: Path) -> Path:
    path = tmp_path / "records.csv"
    path.write_text("model,task,attempts,successes\na,x,3,1\na,y,2,2\nb,x,3,0\nb,y,1,1\n")
    return path


# -- the command line as a whole ---------------------------------------------------------------


def test_has_the_promised_commands() -> None:
    assert set(main.commands) == COMMANDS


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_every_command_has_help(command: str) -> None:
    result = run(command, "--help")
    assert result.exit_code == 0
    assert result.stdout.startswith(f"Usage: measurebayes {command}")
    for parameter in main.commands[command].params:
        if isinstance(parameter, click.Option):
            assert parameter.opts[-1] in result.stdout


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_every_command_that_prints_a_table_has_json(command: str) -> None:
    module = sys.modules[main.commands[command].callback.__module__]
    source = inspect.getsource(main.commands[command].callback)
    prints = any(
        isinstance(node, ast.Call) and ast.unparse(node.func) in ("print_table", "show_summary")
        for node in ast.walk(ast.parse(source.lstrip()))
    )
    names = {p.name for p in main.commands[command].params}
    assert module.__name__.startswith("measurebayes.cli.")
    assert not prints or "as_json" in names


def test_version() -> None:
    assert run("--version").stdout == f"measurebayes, version {mb.__version__}\n"


def test_no_command_prints_the_help_and_fails() -> None:
    result = run()
    assert result.exit_code == 2
    assert "Usage: measurebayes" in result.output


@pytest.mark.parametrize(
    "words",
    [
        ["nonsense"],
        ["fit"],
        ["fit", "rasch", "metr-th1.1"],
        ["fit", "rasch", "metr-th1.1", "-o", "x.nc", "--draws", "0"],
        ["fit", "rasch", "metr-th1.1", "-o", "x.nc", "--backend", "stan"],
        ["compare", "a.nc", "--unit", "galaxy"],
        ["data", "metr-th1.1", "--nonsense"],
    ],
)
def test_wrong_words_end_with_status_2(words: list[str]) -> None:
    fails(run(*words), "Error:")


# -- options with several values ---------------------------------------------------------------


def several() -> Cli:
    @click.command(cls=Command)
    @click.argument("data")
    @click.option("--models", cls=Several)
    @click.option("--success", cls=Several, type=float)
    @click.option("-o", "--output")
    def echo(**values: Any) -> None:
        click.echo(json.dumps(values))

    group = Cli("test")
    group.add_command(echo)
    return group


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("d --models a b -o out", {"models": ["a", "b"], "output": "out"}),
        ("d --models a -o out --models b c", {"models": ["a", "b", "c"], "output": "out"}),
        ("--models a b -o out d", {"models": ["a", "b"], "output": "out"}),
        ("--models a b -- d", {"models": ["a", "b"]}),
        ("-o out d --models a", {"models": ["a"], "output": "out"}),
        ("d --success 0.5 0.8", {"success": [0.5, 0.8]}),
        ("d --success -1 -2 --models a", {"success": [-1, -2], "models": ["a"]}),
        ("d --models=a -o out", {"models": ["a"], "output": "out"}),
        ("d", {}),
    ],
)
def test_several_values_after_one_option(words: str, expected: dict[str, Any]) -> None:
    result = CliRunner().invoke(several(), ["echo", *words.split()])
    assert result.exit_code == 0, result.output
    empty = {"data": "d", "models": [], "success": [], "output": None}
    assert json.loads(result.stdout) == {**empty, **expected}


def test_argument_swallowed_by_an_option_is_explained() -> None:
    fails(CliRunner().invoke(several(), ["echo", "--models", "a", "d"]), "--models takes all")


def test_repeating_names_leaves_other_words_alone() -> None:
    words = ["a", "-o", "b", "--x", "1", "2", "--", "--x", "3", "4"]
    assert repeat_names(words, ["--y"]) == words
    assert repeat_names(words, ["--x"])[3:] == ["--x", "1", "--x", "2", "--", "--x", "3", "4"]


# -- what is printed ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"),
        (float("nan"), "-"),
        (True, "yes"),
        (np.bool_(False), "no"),
        (-5214.123456, "-5214.1"),
        (0.0123456, "0.01235"),
        (np.float64(2.0), "2"),
        (12345678, "12345678"),
        (np.int64(5207), "5207"),
        ({"a": 1}, "a=1"),
        ([1.5, "x"], "1.5, x"),
        ("\x1b[31mred\n", "\\x1b[31mred\\n"),
        ("Modell \N{LATIN SMALL LETTER A WITH DIAERESIS}", "Modell ä"),
    ],
)
def test_values_as_a_person_reads_them(value: Any, text: str) -> None:
    assert cell_text(value) == text


def test_json_is_strict_and_plain() -> None:
    frame = pd.DataFrame({"x": [1.5, np.nan], "n": [1, 2], "ok": [True, False]}, index=["a", "b"])
    frame.index.name = "model"
    value = {"table": frame, "k": np.int64(3), "v": np.array([1.0, np.inf]), "d": pd.Timestamp(0)}
    assert json.loads(json.dumps(jsonable(value), allow_nan=False)) == {
        "table": [
            {"model": "a", "x": 1.5, "n": 1, "ok": True},
            {"model": "b", "x": None, "n": 2, "ok": False},
        ],
        "k": 3,
        "v": [1.0, None],
        "d": "1970-01-01 00:00:00",
    }


def test_table_in_a_pipe_is_plain_and_whole(capsys: pytest.CaptureFixture[str]) -> None:
    long = "x" * 300
    print_table([{"name": long, "value": 1.5}, {"name": "[bold]b[/bold]", "value": 10}], "Title")
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "Title"
    assert lines[1].split() == ["name", "value"]
    assert lines[2].split() == [long, "1.5"]
    assert lines[3].split() == ["[bold]b[/bold]", "10"]
    assert len({len(line) for line in lines[1:]}) == 1  # numbers stand flush right


def test_table_on_a_terminal_is_drawn() -> None:
    leader, follower = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
    done = process("models", stdout=follower, capture_output=False, env=environment)
    os.close(follower)
    read = b""
    while b"two_pl" not in read:  # a terminal hands out a few thousand bytes at a time
        read += os.read(leader, 65536)
    os.close(leader)
    assert done.returncode == 0
    text = read.decode()
    assert "─" in text
    assert "two_pl" in text


def test_messages_keep_control_characters_from_the_terminal() -> None:
    assert printable("a\x1b]0;title\x07\nb", keep="\n") == "a\\x1b]0;title\\x07\nb"


# -- how commands end --------------------------------------------------------------------------


def ending(raised: BaseException) -> Result:
    @click.command(cls=Command)
    def command() -> None:
        raise raised

    group = Cli("test")
    group.add_command(command)
    return CliRunner().invoke(group, ["command"])


def test_own_errors_are_one_message() -> None:
    error = mb.InputError("a thing", where="a place", expected="another", remedy="type this")
    result = ending(error)
    fails(result)
    assert result.stderr == f"error: {error}\n"


def test_file_errors_name_the_file() -> None:
    fails(ending(PermissionError(13, "Permission denied", "x.nc")), "Permission denied", "x.nc")


def test_missing_extra_says_how_to_install_it() -> None:
    fails(ending(ModuleNotFoundError("no", name="pymc.sampling")), "measurebayes[pymc]")


def test_interrupt_ends_with_130() -> None:
    result = ending(KeyboardInterrupt())
    assert result.exit_code == 130
    assert "interrupted" in result.stderr


def test_mistakes_in_the_program_keep_their_traceback() -> None:
    assert isinstance(ending(ZeroDivisionError()).exception, ZeroDivisionError)


def test_warnings_are_messages() -> None:
    @click.command(cls=Command)
    def command() -> None:
        warnings.warn("be careful", UserWarning, stacklevel=1)

    group = Cli("test")
    group.add_command(command)
    result = CliRunner().invoke(group, ["command"])
    assert result.exit_code == 0
    assert result.stderr == "warning: be careful\n"


def test_reader_that_goes_away_is_no_error() -> None:
    # The reading end is closed before anything is written.
    reading, writing = os.pipe()
    os.close(reading)
    done = process("models", "--json", capture_output=False, stdout=writing, stderr=subprocess.PIPE)
    os.close(writing)
    assert done.stderr == ""
    assert done.returncode == 141


# -- data --------------------------------------------------------------------------------------


def test_data_json_has_the_published_counts() -> None:
    result = run("data", "metr-th1.1", "--json")
    assert result.exit_code == 0, result.output
    expected = {
        "agents": 23,
        "tasks": 228,
        "families": 79,
        "attempts": 27119,
        "successes": 19153,
        "cells": 5207,
        "always_solved": 59,
        "never_solved": 13,
    }
    found = json.loads(result.stdout)
    assert {key: found[key] for key in expected} == expected


def test_data_without_json_is_lines_of_names_and_values() -> None:
    lines = run("data", "metr-th1.1").stdout.splitlines()
    assert ["always_solved", "59"] in [line.split() for line in lines]


def test_load_writes_a_data_set_that_loads(records: Path, tmp_path: Path) -> None:
    target = tmp_path / "runs.nc"
    result = run("load", records, "--column", "agent=model", "-o", target, "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["attempts"] == 9
    again = run("data", target, "--json")
    assert json.loads(again.stdout)["successes"] == 4


def test_load_refuses_to_overwrite_its_input(records: Path) -> None:
    before = records.read_bytes()
    fails(run("load", records, "--column", "agent=model", "-o", records), "also an input")
    assert records.read_bytes() == before


@pytest.mark.parametrize("column", ["agent", "agent=", "=model", "agent=model --column agent=task"])
def test_wrong_column_option(records: Path, column: str, tmp_path: Path) -> None:
    words = ["--column", *column.split()]
    fails(run("load", records, *words, "-o", tmp_path / "runs.nc"), "--column", "agent=model")
    assert not (tmp_path / "runs.nc").exists()


@pytest.mark.parametrize(
    ("remedy", "words"),
    [
        ("policy='failure' or policy='missing'", "--policy failure or --policy missing"),
        ("leave them unread: ignore='a b,c' (or '*')", "--option 'ignore=a b,c' (or '*')"),
        ("add them up: duplicates='sum'", "add them up: --option duplicates=sum"),
        ("columns={'agent': 'ITS NAME', 'task': 'x'}", "--column 'agent=ITS NAME' --column task=x"),
        ('columns="agent=model,task=item"', "--column agent=model --column task=item"),
        ("choose another reader", "choose another reader"),
    ],
)
def test_remedies_are_words_for_the_command_line(remedy: str, words: str) -> None:
    assert on_command_line(remedy).endswith(words)


def test_remedy_for_an_unknown_column_works_as_typed(tmp_path: Path) -> None:
    path = tmp_path / "records.csv"
    path.write_text("agent,task,attempts,successes,odd one\na,x,3,1,?\nb,x,2,2,?\n")
    result = run("data", path)
    fails(result, "unknown columns")
    typed = result.stderr[result.stderr.index("--option") :].split(" (or")[0]
    assert run("data", path, *shlex.split(typed)).exit_code == 0


def test_help_names_all_readers_and_policies() -> None:
    from measurebayes.data import READERS

    text = run("data", "--help").stdout
    choices = {o.name: o.choices for reader in READERS.values() for o in reader.options}
    assert all(name in text for name in [*READERS, *choices["policy"]])
    known = {*choices, "reader"} - {"columns"}
    assert all(on_command_line(f"{name}='x'").startswith("--") for name in known)


def test_unknown_data_is_wrong_input(tmp_path: Path) -> None:
    fails(run("data", tmp_path / "nothing.csv"), "error:", "nothing.csv")


# -- models ------------------------------------------------------------------------------------


def test_models_are_listed() -> None:
    found = json.loads(run("models", "--json").stdout)
    assert {"rasch", "two_pl"} <= {row["model"] for row in found}
    assert all(row["priors"] for row in found)
    assert "rasch" in run("models").stdout


def test_copied_model_is_the_text_of_the_file(tmp_path: Path) -> None:
    target = tmp_path / "mine.py"
    assert run("copy", "two_pl", target).exit_code == 0
    assert mb.describe.__module__  # the public name resolves beside the command
    from measurebayes.program.registry import get_model

    assert target.read_text() == get_model("two_pl").source
    fails(run("copy", "two_pl", target), "exists already")


@pytest.mark.parametrize("name", ["mine", "mine.txt", "nowhere/mine.py"])
def test_copy_wants_the_name_of_a_model_file(name: str, tmp_path: Path) -> None:
    fails(run("copy", "rasch", tmp_path / name), "ends in .py")


@pytest.mark.slow
def test_verify_passes_the_copy_of_a_bundled_model(tmp_path: Path) -> None:
    run("copy", "rasch", tmp_path / "mine.py")
    result = run("verify", tmp_path / "mine.py", "--json")
    assert result.exit_code == 0, result.output
    assert all(row["passed"] for row in json.loads(result.stdout))


def test_verify_ends_with_1_when_a_part_is_missing(tmp_path: Path) -> None:
    run("copy", "rasch", tmp_path / "mine.py")
    text = (tmp_path / "mine.py").read_text()
    (tmp_path / "mine.py").write_text(text.replace("Assumes\n-------\n", ""))
    result = run("verify", tmp_path / "mine.py", "--json")
    assert result.exit_code == 1, result.output
    assert [row["name"] for row in json.loads(result.stdout) if not row["passed"]] == ["docstring"]


def test_verify_of_no_model_is_wrong_input(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("x = 1\n")
    fails(run("verify", tmp_path / "mine.py"), "docstring", "mine.py")


def test_describe_prints_variables_and_json() -> None:
    result = run("describe", "two_pl", "metr-th1.1", "--json")
    assert result.exit_code == 0, result.output
    assert "discrimination" in result.stdout
    json.loads(result.stdout)
    assert "discrimination" in run("describe", "two_pl", "metr-th1.1").stdout


# -- fits: what is refused before anything runs ------------------------------------------------


@pytest.fixture
def never_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("the sampler was started")

    monkeypatch.setattr(mb, "fit", refuse)


@pytest.mark.usefixtures("never_fit")
@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (["rash", "metr-th1.1", "-o", "f.nc"], ["rash", "did you mean"]),
        (["rasch", "nothing-here", "-o", "f.nc"], ["nothing-here"]),
        (["rasch", "metr-th1.1", "-o", "no/folder/f.nc"], ["does not exist", "mkdir"]),
        (["rasch", "metr-th1.1", "-o", "."], ["is a folder"]),
        (["rasch", "metr-th1.1", "-o", "f.nc", "--prior", "ability_sd"], ["NAME=VALUE"]),
        (["rasch", "metr-th1.1", "-o", "f.nc", "--prior", "ability_sd=x"], ["a number"]),
        (["rasch", "metr-th1.1", "-o", "f.nc", "--prior", "abilitysd=1"], ["ability_sd"]),
        (["rasch", "metr-th1.1", "-o", "f.nc", "--prior", "ability_sd=-1"], ["positive"]),
    ],
)
def test_fit_refuses_before_it_runs(
    words: list[str], parts: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    fails(run("fit", *words), *parts)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("never_fit")
@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (["metr-th1.1", "--models", "rasch", "rasch", "-o", "out"], ["two models"]),
        (["metr-th1.1", "--models", "rash", "-o", "out"], ["did you mean"]),
        (["metr-th1.1", "--models", "rasch", "-o", "no/out"], ["parent folder"]),
        (["nothing-here", "--models", "rasch", "-o", "out"], ["nothing-here"]),
        (["metr-th1.1", "--models", "rasch", "-o", "out", "--prior", "x=1"], ["prior 'x'"]),
        (["--models", "rasch", "metr-th1.1"], ["DATA"]),
    ],
)
def test_analyse_refuses_before_it_runs(
    words: list[str], parts: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    fails(run("analyse", *words), *parts)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", ["fit", "analyse"])
def test_defaults_are_those_of_the_function(command: str) -> None:
    function = {n: p.default for n, p in inspect.signature(mb.fit).parameters.items()}
    options = {p.name: p.default for p in main.commands[command].params}
    for name in ("backend", "method", "draws", "tune", "chains", "seed"):
        assert options[name] == function[name]


def test_interrupted_fit_says_how_to_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "f.nc"
    seen: dict[str, Any] = {}

    def interrupted(model: str, runs: Any, **options: Any) -> None:
        seen.update(options)
        Path(options["checkpoint"]).write_bytes(b"draws")
        raise KeyboardInterrupt

    monkeypatch.setattr(mb, "fit", interrupted)
    result = run("fit", "rasch", "metr-th1.1", "--draws", "7", "--seed", "3", "-o", target)
    assert result.exit_code == 130
    assert f"rasch metr-th1.1 --draws 7 --seed 3 -o {target} --resume" in result.stderr
    assert (seen["draws"], seen["seed"], seen["resume"]) == (7, 3, False)
    assert seen["checkpoint"] == f"{target}.part"
    assert not target.exists()


def test_json_option_stands_alone() -> None:
    @json_option
    @click.command(cls=Command)
    def command(as_json: bool) -> None:
        click.echo(str(as_json))

    assert CliRunner().invoke(command, ["--json"]).output == "True\n"


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Children take SIGINT, also where this process ignores it, being in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.slow
@pytest.mark.usefixtures("interruptible")
def test_interrupt_by_signal_ends_with_130(tmp_path: Path) -> None:
    """In the middle of sampling: as soon as a chain has been saved."""
    target, part = tmp_path / "f.nc", tmp_path / "f.nc.part"
    words = ["fit", "two_pl", "metr-th1.1", "--draws", "50000", "-o", str(target)]
    with subprocess.Popen(
        [sys.executable, "-m", "measurebayes", *words], stderr=subprocess.PIPE, text=True
    ) as running:
        try:
            deadline = time.monotonic() + 150
            while not saved_chains(part) and time.monotonic() < deadline:
                time.sleep(0.2)
            running.send_signal(signal.SIGINT)
            _, errors = running.communicate(timeout=60)
        finally:
            running.kill()
    assert running.returncode == 130, errors
    assert "Traceback" not in errors
    assert "--resume" in errors
    assert saved_chains(part)
    assert not target.exists()


def saved_chains(part: Path) -> int:
    if not part.exists():
        return 0
    try:
        with closing(sqlite3.connect(f"file:{part}?mode=ro", uri=True, timeout=5)) as db:
            return int(db.execute("SELECT count(*) FROM chain").fetchone()[0])
    except sqlite3.OperationalError:  # the tables are being made
        return 0
