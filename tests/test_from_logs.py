"""The commands of docs/from_logs.md do what the page shows."""

from __future__ import annotations

import itertools
import re
import shlex
from pathlib import Path

import pytest
import xarray as xr
from click.testing import CliRunner

import measurebayes as mb
from measurebayes.cli import main

PAGE = (Path(__file__).resolve().parent.parent / "docs" / "from_logs.md").read_text(
    encoding="utf-8"
)
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
MAKE, IN_PYTHON = (text for kind, text in BLOCKS if kind == "python")


def run(command):
    name, *words = shlex.split(command)
    assert name == "measurebayes"
    return CliRunner().invoke(main, words)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(compile(MAKE, "docs/from_logs.md", "exec"), {})
    return tmp_path


def test_commands_print_what_the_page_shows(folder):
    shown = [
        (command.replace("\\\n", ""), output)
        for (kind, command), (after, output) in itertools.pairwise(BLOCKS)
        if (kind, after) == ("sh", "text")
    ]
    assert [command.split()[1] for command, _ in shown] == ["lint", "lint", "load"]
    for command, output in shown:
        lines = iter(run(command).stdout.splitlines())
        missing = [line for line in output.splitlines() if line != "..." and line not in lines]
        assert missing == [], command  # `in` an iterator keeps the order
    in_python = IN_PYTHON.partition("fit = ")[0]
    loaded = {}
    exec(compile(in_python, "docs/from_logs.md", "exec"), loaded)
    xr.testing.assert_identical(loaded["runs"].drop_attrs(), mb.load("runs.nc").drop_attrs())


@pytest.mark.slow
def test_from_logs_to_report(folder):
    load, fits = (text for kind, text in BLOCKS if kind == "sh" and " -o " in text)
    assert run(load.replace("\\\n", "")).exit_code == 0
    fit, check, report = fits.strip().splitlines()
    assert run(f"{fit} --draws 300 --tune 300 --chains 2 --quiet").exit_code == 0
    assert run(check).exit_code in (0, 1)  # so few draws may not converge
    assert run(report).exit_code == 0
    html = (folder / "report.html").read_text(encoding="utf-8")
    assert "lab/large [reasoning_effort=high]" in html
    assert "errored" in html
