"""Damaged files: whatever happens to a file, loading it gives valid data or an InputError."""

from __future__ import annotations

import gzip
import json

import numpy as np
import pandas as pd
import pytest

import measurebayes as mb
from measurebayes import data

ROUNDS = 120
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


TEXT = {
    "counts.csv": _long_counts,
    "attempts.csv": _long_attempts,
    "wide.csv": _wide,
    "p.jsonl": _pyirt,
    "m.jsonl": _metr,
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
@pytest.mark.parametrize("reader", ["long", "wide", "pyirt", "metr"])
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
