"""The file of terms of refits: nothing of anybody else's is touched, and nothing is lost."""

import json

import pytest
from click.testing import CliRunner
from fake_fit import fake_fit

import measurebayes as mb
from measurebayes.cli import main
from measurebayes.compare.terms import Term, add_term, check_terms, known_term
from measurebayes.errors import InputError

KEYS = [f"{i:064x}" for i in range(3)]


def line(key=KEYS[0], elpd=-1.5, converged=True):
    return json.dumps({"key": key, "elpd": elpd, "converged": converged}) + "\n"


def test_terms_are_added_and_found(tmp_path):
    path = str(tmp_path / "terms.jsonl")
    check_terms(path)
    for place, key in enumerate(KEYS):
        add_term(path, Term(key, -float(place), place != 1))
        check_terms(path)
    assert known_term(path, KEYS[1]) == Term(KEYS[1], -1.0, False)
    assert known_term(path, "f" * 64) is None
    add_term(path, Term("e" * 64, float("-inf"), True))
    assert known_term(path, "e" * 64) is None
    check_terms(path)


@pytest.mark.parametrize("cut", [1, 5, 9, 40, 90, 120])
def test_a_term_that_was_cut_off_makes_place_for_the_next(tmp_path, cut):
    path = tmp_path / "terms.jsonl"
    path.write_text(line() + line(KEYS[1])[:cut])
    check_terms(path)
    add_term(str(path), Term(KEYS[2], -2.0, True))
    check_terms(path)
    assert known_term(str(path), KEYS[0]).elpd == -1.5
    assert known_term(str(path), KEYS[2]).elpd == -2.0


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
        b'{"key": "' + b"y" * 5000,
        line().encode() + b"\n",
        line().encode() + b"notes\n" + line().encode(),
        line()[:50].encode() + b"\n" + line().encode(),
        line(elpd=float("nan")).encode(),
        line(elpd=float("-inf")).encode(),
        line().replace("-1.5", "1e999").encode(),
        line().replace("-1.5", '"-1.5"').encode(),
        line().replace("-1.5", "true").encode(),
        line().replace("true", "1").encode(),
        line(key="short").encode(),
    ],
)
def test_what_is_somebody_elses_is_refused_and_left(tmp_path, content):
    path = tmp_path / "table.csv"
    path.write_bytes(content)
    with pytest.raises(InputError, match="is no term"):
        check_terms(path)
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
    words = ["compare", str(path), "--refit", "--quiet", "-o", str(tmp_path / "out.csv")]
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 2
    assert "is no term" in result.output
    assert own.read_text() == "my notes\n"
