"""Inputs that once were read wrongly, ended in a traceback or never ended at all."""

from __future__ import annotations

from pathlib import Path

import pytest
import xarray as xr

import measurebayes as mb
from measurebayes.data import lines, tables
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
    rows = [f'a{i % 3},t{i},{i % 2},"x\nb,t{i},1"\n' for i in range(60)]
    path = tmp_path / "t.csv"
    path.write_text("agent,task,success,comment\n" + "".join(rows))
    want = {(f"a{i % 3}", f"t{i}"): (i % 2, 1) for i in range(60)}
    for size in (150, 157, 200, 243, 257, 1 << 20):
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
