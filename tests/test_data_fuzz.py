"""Damaged files: whatever happens to a file, loading it gives valid data or an InputError."""

from __future__ import annotations

import gzip
import io
import json
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import measurebayes as mb
from measurebayes import data

ROUNDS = 50
ROOT = Path(__file__).resolve().parent.parent
INPUTS = 2_000  # for each reader, in the slow test
NASTY = [
    b"\0", b"\xff", b"\xef\xbb\xbf", b'"', b",", b"\n", b"\r", b"{", b"[", b"]", b"}", b"-1",
    b"1e999", b"NaN", b"null", b"true", b"9" * 40, b"\xed\xa0\x80", b"\\ud800", b"\t", b"  ", b"'",
    b"\x1b[2J", b"inf", b"0x1", b"1_0", "\u0663".encode(), "\u2028".encode(), "\u00a0".encode(),
    b"=cmd()",
]  # fmt: skip


def _long_counts(rng):
    rows = [
        f"agent {a},task {t},{rng.integers(0, 4)},3,f{t % 2},{t + 0.5}"
        for a in range(3)
        for t in range(4)
    ]
    return "agent,task,successes,attempts,family,human_minutes\n" + "\n".join(rows) + "\n"


def _long_attempts(rng):
    rows = [
        f"agent {a},task {t},{rng.integers(0, 2)},2024-0{a + 1}-01"
        for a in range(3)
        for t in range(4)
    ]
    return "agent,task,success,release_date\n" + "\n".join(rows) + "\n"


def _wide(rng):
    rows = [f"person {a}," + ",".join(str(x) for x in rng.integers(0, 2, 4)) for a in range(5)]
    return "who,q1,q2,q3,q4\n" + "\n".join(rows) + "\n"


def _pyirt(rng):
    return "".join(
        json.dumps(
            {
                "subject_id": f"a{a}",
                "responses": {f"q{q}": int(rng.integers(0, 2)) for q in range(4)},
            }
        )
        + "\n"
        for a in range(4)
    )


def _metr(rng):
    lines = []
    for alias in ("a", "b", "human"):
        for task in range(3):
            run = {
                "task_id": f"t{task}",
                "alias": alias,
                "score_binarized": int(rng.integers(0, 2)),
            }
            run |= {
                "run_id": len(lines),
                "task_family": "f",
                "human_minutes": task + 1.5,
                "human_source": "baseline",
            }
            run |= {"started_at": 1_700_000_000_000, "completed_at": 1_700_000_600_000}
            lines.append(json.dumps(run | {"fatal_error_from": None}) + "\n")
    return "".join(lines)


def _hub(rng):
    rows = [
        f"run {m}{s},suite {s},lab/model {m},{i},{e},{scorer},{'CI'[rng.integers(0, 2)]}"
        for m in range(2)
        for s in range(2)
        for i in range(3)
        for e in (1, 2)
        for scorer in ("match",)
    ]
    return "run,task,model,item_id,epoch,scorer,value\n" + "\n".join(rows) + "\n"


def _irw(rng):
    rows = [f"p{p},i{i},{rng.integers(0, 2)},g{i % 2},{p + 20}" for p in range(4) for i in range(4)]
    return "id,item,resp,item_family,cov_age\n" + "\n".join(rows) + "\n"


TEXT = {
    "counts.csv": _long_counts,
    "attempts.csv": _long_attempts,
    "wide.csv": _wide,
    "p.jsonl": _pyirt,
    "m.jsonl": _metr,
    "hub.csv": _hub,
    "irw.csv": _irw,
}


def mutate(content, rng):
    """One to four random damages of a file's bytes."""
    for _ in range(rng.integers(1, 5)):
        content = DAMAGES[rng.integers(len(DAMAGES))](content, rng)
    return content


def _flip(content, rng):
    if not content:
        return content
    at = int(rng.integers(len(content)))
    return content[:at] + bytes([content[at] ^ (1 << int(rng.integers(8)))]) + content[at + 1 :]


def _cut(content, rng):
    return content[: int(rng.integers(len(content) + 1))]


def _insert(content, rng):
    at = int(rng.integers(len(content) + 1))
    return content[:at] + NASTY[rng.integers(len(NASTY))] + content[at:]


def _replace_value(content, rng):
    parts = content.replace(b":", b",").split(b",")
    old = parts[rng.integers(len(parts))]
    return content.replace(old, NASTY[rng.integers(len(NASTY))], 1) if old else content


def _remove_line(content, rng):
    lines = content.splitlines(keepends=True)
    if lines:
        del lines[rng.integers(len(lines))]
    return b"".join(lines)


def _repeat_line(content, rng):
    lines = content.splitlines(keepends=True) or [b""]
    at = int(rng.integers(len(lines)))
    return b"".join([*lines[: at + 1], *lines[at:]])


def _swap_lines(content, rng):
    lines = content.splitlines(keepends=True) or [b""]
    i, j = rng.integers(len(lines), size=2)
    lines[i], lines[j] = lines[j], lines[i]
    return b"".join(lines)


def _swap_columns(content, rng):
    lines = [line.split(b",") for line in content.split(b"\n")]
    i, j = rng.integers(len(lines[0]), size=2)
    for line in lines:
        if max(i, j) < len(line):
            line[i], line[j] = line[j], line[i]
    return b"\n".join(b",".join(line) for line in lines)


DAMAGES = [
    _flip, _cut, _insert, _replace_value, _remove_line, _repeat_line, _swap_lines, _swap_columns,
]  # fmt: skip


def load_or_input_error(path, **options):
    """True where the data loaded; any exception but InputError fails the test."""
    message = None
    try:
        runs = mb.load(path, **options)
    except mb.InputError as error:
        message = str(error)
    if message is not None:
        assert 0 < len(message) < 3_000
        message.encode("utf-8")  # can be printed
        return False
    data.validate(runs)
    json.dumps(data.summarise(runs))
    return True


@pytest.mark.parametrize("name", TEXT)
def test_damaged_text_files(tmp_path, rng, name):
    path = tmp_path / name
    whole = TEXT[name](rng).encode()
    path.write_bytes(whole)
    assert load_or_input_error(path)
    options = [{}, {"strip": True}]
    if name == "m.jsonl":
        options += [{"policy": "missing"}, {"policy": "failure"}]
    loaded = 0
    for round_ in range(ROUNDS):
        path.write_bytes(mutate(whole, rng))
        loaded += load_or_input_error(path, **options[round_ % len(options)])
    # both outcomes occur, so the damages are neither harmless nor all fatal
    assert 0 < loaded < ROUNDS


@pytest.mark.parametrize("name", TEXT)
@pytest.mark.parametrize("reader", ["long", "wide", "pyirt", "metr", "hub", "irw"])
def test_any_reader_on_any_file(tmp_path, rng, name, reader):
    path = tmp_path / name
    path.write_bytes(TEXT[name](rng).encode())
    load_or_input_error(path, reader=reader)
    path.write_bytes(mutate(path.read_bytes(), rng))
    load_or_input_error(path, reader=reader)


def test_damaged_parquet_and_gzip(tmp_path, rng):
    frame = pd.read_csv(pd.io.common.StringIO(_long_counts(rng)))
    frame.to_parquet(tmp_path / "t.parquet")
    whole = {
        "t.parquet": (tmp_path / "t.parquet").read_bytes(),
        "t.csv.gz": gzip.compress(_long_counts(rng).encode()),
    }
    for name, content in whole.items():
        path = tmp_path / name
        path.write_bytes(content)
        assert load_or_input_error(path)
        for _ in range(ROUNDS):
            path.write_bytes(
                _flip(_flip(content, rng), rng) if rng.random() < 0.7 else _cut(content, rng)
            )
            load_or_input_error(path)


def test_random_bytes(tmp_path, rng):
    path = tmp_path / "x"
    for start in (b"", b"agent,task,success\n", b"{", b"PAR1", b"\x1f\x8b", b"id,a,b\n1,0,1\n"):
        for size in (0, 1, 7, 300):
            path.write_bytes(start + rng.integers(0, 256, size).astype(np.uint8).tobytes())
            load_or_input_error(path)


# ----- many inputs for each reader of tables, in the slow suite

# reader -> its files above, real files (path, number of lines of their beginning), options
READERS = {
    "long": (
        ["counts.csv", "attempts.csv"],
        [("metr_th1_1/counts.csv", 40)],
        [{}, {"policy": "missing"}],
    ),
    "wide": (
        ["wide.csv"],
        [("lsat/lsat6.csv", 40), ("sirt_testlets/data.read.csv", 20)],
        [{}, {"strip": True}],
    ),
    "pyirt": (["p.jsonl"], [("pyirt_minitest/minitest.jsonlines", 40)], [{}, {"strip": True}]),
    "metr": (
        ["m.jsonl"],
        [("metr_runs_2025_02/all_runs.jsonl", 20)],
        [{}, {"policy": "as_scored"}],
    ),
    "hub": (
        ["hub.csv"],
        [("logs/epoch/item_scores_long.csv.gz", 40)],
        [{"scorer": "all", "runs": "all", "policy": "missing"}, {"threshold": 0.5}],
    ),
    "irw": (
        ["irw.csv"],
        [("verbagg/verbagg_long.csv", 40)],
        [{"policy": "missing"}, {"threshold": 1}],
    ),
}
WORDS = ["", "0", "1", "1.0", "true", "C", "I", "NaN", "-1", "1e400", "0.5", "2025-01-02"]
VALUES = st.one_of(st.sampled_from(WORDS), st.text(max_size=6), st.integers().map(str))


def _beginning(path, lines):
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        return b"".join(line for line, _ in zip(file, range(lines), strict=False))


def _as_parquet(path, content):
    """The same table in Parquet, or None where it is none."""
    try:
        pd.read_csv(io.BytesIO(content), dtype=str).to_parquet(path)
    except (ValueError, pa.ArrowException):  # pandas reports whatever is no table by ValueError
        return None
    return path


@st.composite
def tables(draw, names):
    """A table with these columns and others, with any text in them."""
    columns = draw(st.permutations([*draw(st.lists(st.sampled_from(names), unique=True)), "x"]))
    rows = draw(
        st.lists(st.lists(VALUES, min_size=len(columns), max_size=len(columns)), max_size=4)
    )
    return pd.DataFrame(rows, columns=columns, dtype=object)


@pytest.mark.slow
@pytest.mark.parametrize("reader", READERS)
def test_thousands_of_inputs(tmp_path, rng, reader):
    from measurebayes.data import READERS as KNOWN

    names, real, options = READERS[reader]
    shared = Path(os.environ.get("MEASUREBAYES_SHARED_DATA", ROOT.parent / "shared" / "data"))
    wholes = {name: TEXT[name](rng).encode() for name in names}
    wholes |= {
        file.replace("/", "_").removesuffix(".gz"): _beginning(shared / file, lines)
        for file, lines in real
        if (shared / file).exists()
    }
    done = loaded = 0
    while done < INPUTS - 500:
        name = list(wholes)[done % len(wholes)]
        path = tmp_path / name
        path.write_bytes(mutate(wholes[name], rng))
        if done % 10 == 9 and path.suffix == ".csv":
            path = _as_parquet(tmp_path / "t.parquet", path.read_bytes()) or path
        chosen = options[done % len(options)] | ({"reader": reader} if done % 3 else {})
        if done % 10 == 5:
            linted_or_input_error(path, **chosen)
        else:
            loaded += load_or_input_error(path, **chosen)
        done += 1
    assert 0 < loaded < done

    columns = [column.name for column in KNOWN[reader].columns]
    generated = 0

    @settings(max_examples=500, database=None, deadline=None, derandomize=True)
    @given(tables(columns))
    def any_table(table):
        nonlocal generated
        generated += 1
        if KNOWN[reader].name in ("pyirt", "metr"):
            path = tmp_path / "any.jsonl"
            table.to_json(path, orient="records", lines=True)
            load_or_input_error(path, reader=reader)
        else:
            load_or_input_error(table, reader=reader, **options[0])

    any_table()
    assert done + generated >= INPUTS


def linted_or_input_error(path, **options):
    """Lint; wrong usage is an InputError, everything else a finding that can be printed."""
    try:
        found = mb.lint(path, **options)
    except mb.InputError:
        return
    json.dumps(found.as_dict()).encode("utf-8")
