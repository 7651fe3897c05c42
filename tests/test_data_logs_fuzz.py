"""Damaged logs: whatever happens to a file, loading gives valid data or an InputError."""

from __future__ import annotations

import copy
import io
import json
import shutil
import zipfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import invented_logs as invent
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_data_fuzz import load_or_input_error, mutate

import measurebayes as mb
from measurebayes.data.files import Digest
from measurebayes.data.readers import READERS, every_eval_ever, helm, inspect_log, lm_eval
from measurebayes.data.schema import STATUSES
from measurebayes.data.source import file_source

ROUNDS = 2_000
POLICIES = [{"policy": "missing"}, {"policy": "failure", "threshold": 0.5}, {"scorer": "all"}]
NASTY_VALUES = [
    None, True, 0, -1, 2**40, 10**400, 1e308, float("nan"), float("inf"), "", " ", "x" * 5000, "C",
    "\ud800", "\0", "\x1b[2J", [], {}, [[]], [1], {"value": "C"}, {"": None}, {"name": None},
]  # fmt: skip


def damaged_json(content: bytes, rng: np.random.Generator) -> bytes:
    """Damage the bytes, or put a nasty value or nothing somewhere into the document."""
    if rng.random() < 0.4:
        return mutate(content, rng)
    try:
        documents = [json.loads(line) for line in content.splitlines() if line.strip()]
        lines = True
    except ValueError:
        documents, lines = [json.loads(content)], False
    for _ in range(rng.integers(1, 3)):
        _spoil(documents, rng)
    if lines:
        return "\n".join(map(json.dumps, documents)).encode()
    return json.dumps(documents[0] if documents else None, indent=1).encode()


def _spoil(value: Any, rng: np.random.Generator) -> None:
    """Replace, remove, repeat or rename one thing, at a random depth."""
    while True:
        keys = list(value) if isinstance(value, dict) else list(range(len(value)))
        if not keys:
            return
        key = keys[rng.integers(len(keys))]
        inner = value[key]
        if not isinstance(inner, dict | list) or not inner or rng.random() < 0.15:
            break
        value = inner
    kind = rng.integers(4)
    if kind == 0:
        del value[key]
    elif kind == 1 and isinstance(value, list):
        value.append(copy.deepcopy(inner))
    elif kind == 1:
        value[f"{key}x"] = value.pop(key)
    else:
        value[key] = copy.deepcopy(NASTY_VALUES[rng.integers(len(NASTY_VALUES))])


def damaged_archive(content: bytes, rng: np.random.Generator) -> bytes:
    """Damage the archive, or what stands in its header or summaries."""
    if rng.random() < 0.3:
        return mutate(content, rng)
    with zipfile.ZipFile(io.BytesIO(content)) as old:
        members = {name: old.read(name) for name in old.namelist()}
    read = [name for name in members if not name.startswith("samples/")]
    name = read[rng.integers(len(read))]
    members[name] = damaged_json(members[name], rng)
    if rng.random() < 0.2:
        del members[read[rng.integers(len(read))]]
    new = io.BytesIO()
    with zipfile.ZipFile(new, "w") as archive:
        for name, text in members.items():
            archive.writestr(name, text)
    return new.getvalue()


def _inspect(folder: Path, shared: Path | None) -> None:
    samples = [invent.inspect_sample(i, "CIPN"[i % 4]) for i in range(3)]
    samples += [invent.inspect_sample(8, ..., error="boom"), invent.inspect_sample(9, limit="time")]
    header = invent.inspect_header(dataset={"sample_ids": [0, 1, 2, 8, 9, 10]})
    invent.write_eval(folder / "a.eval", header, samples)
    if shared:
        for path in (shared / "logs" / "inspect").glob("2025-02-11T15-18*"):
            shutil.copy(path, folder / "b.eval")
        shutil.copy(shared / "logs" / "inspect" / "data_pubmedqa_gpt4o_mini.json", folder)
    invent.write_inspect_json(folder / "c.json", invent.inspect_header("lab/c"), samples[:3])


def _lm_eval(folder: Path, shared: Path | None) -> None:
    invent.write_lm_eval(folder / "made", "ann", filters=("strict", "loose"))
    if shared:
        shutil.copytree(shared / "logs" / "lm_eval", folder / "real")


def _helm(folder: Path, shared: Path | None) -> None:
    invent.write_helm(folder / "made", "ann")
    if shared:
        run = next(p for p in (shared / "logs" / "helm").iterdir() if p.is_dir())
        (folder / "real").mkdir()
        spec = json.loads((run / "run_spec.json").read_text())
        (folder / "real" / "run_spec.json").write_text(json.dumps(spec))
        stats = json.loads((run / "per_instance_stats.json").read_text())[:2]
        (folder / "real" / "per_instance_stats.json").write_text(json.dumps(stats))


def _every_eval_ever(folder: Path, shared: Path | None) -> None:
    invent.write_every_eval_ever(folder, "lab/a")
    lines = [invent.every_eval_ever_sample(f"q{i}", 0.5, metadata={"epoch": "1"}) for i in range(3)]
    (folder / "other.jsonl").write_text("\n".join(map(json.dumps, lines)))


def _metr_yaml(folder: Path, shared: Path | None) -> None:
    (folder / "r.yaml").write_text(invent.METR_YAML)


def runs_or_input_error(path: Path, name: str, options: dict[str, Any]) -> bool:
    """Let a reader alone make its runs, without the dataset; True where it could."""
    reader = READERS[name]
    complete = reader.complete(options)
    message = None
    try:
        source = file_source(path)
        if not reader.recognises(source):
            return False
        found = list(MAKE_RUNS[name](source, complete, Digest(), Counter()))
    except mb.InputError as error:
        message = str(error)
    if message is not None:
        assert 0 < len(message) < 3_000
        message.encode("utf-8")  # can be printed
        return False
    for run in found:
        assert run.identity
        assert run.suite
        assert run.settings["model"]
        assert all(isinstance(text, str) and text for text in run.settings.values())
        assert len({len(column) for column in run.records.values()}) == 1
        assert set(run.records["status"]) <= set(STATUSES)
        assert all(type(epoch) is int for epoch in run.records["epoch"])
        hash(tuple(run.records["value"]))
    return True


MAKE_RUNS = {
    "inspect": inspect_log._runs,
    "lm_eval": lm_eval._runs,
    "helm": helm._runs,
    "every_eval_ever": every_eval_ever._runs,
}
FORMATS: dict[str, Callable[[Path, Path | None], None]] = {
    "inspect": _inspect,
    "lm_eval": _lm_eval,
    "helm": _helm,
    "every_eval_ever": _every_eval_ever,
    "metr_yaml": _metr_yaml,
}


@pytest.fixture
def shared(request):
    """The real logs; tests run without them where they are absent."""
    try:
        return request.getfixturevalue("shared_data")
    except pytest.skip.Exception:
        return None


def rounds(name: str, number: int, tmp_path: Path, shared: Path | None) -> tuple[int, int]:
    """Damage one file a round; how many loaded, and how many did not."""
    rng = np.random.default_rng(20260101)
    whole, folder = tmp_path / "whole", tmp_path / "logs"
    whole.mkdir()
    FORMATS[name](whole, shared)
    files = {path.relative_to(whole): path.read_bytes() for path in whole.rglob("*.*")}
    groups = sorted({inside.parts[0] for inside in files if len(inside.parts) > 1})
    loaded = 0
    for number_ in range(number):
        # one run (lm_eval, helm) or one file at a time, so that damage meets little that is whole
        inside = sorted(files)[rng.integers(len(files))]
        damage = damaged_archive if inside.suffix == ".eval" else damaged_json
        damage = mutate if inside.suffix == ".yaml" else damage
        shutil.rmtree(folder, ignore_errors=True)
        beside = [p for p in files if groups and p.parts[0] == inside.parts[0]] or [inside]
        if name == "every_eval_ever":
            beside = list(files)
        for path in beside:
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            content = files[path]
            target.write_bytes(damage(content, rng) if path == inside else content)
        given_path = folder / inside if name in ("inspect", "metr_yaml") else folder
        options = {} if name == "metr_yaml" else POLICIES[number_ % len(POLICIES)]
        # the dataset takes most of the time, and is the same for all: every fifth goes all the way
        if name in MAKE_RUNS and number_ % 5:
            loaded += runs_or_input_error(given_path, name, options)
        else:
            loaded += load_or_input_error(given_path, **options)
    return loaded, number - loaded


@pytest.mark.parametrize("name", FORMATS)
def test_damaged_logs_in_short(name, tmp_path, shared):
    rounds(name, 12, tmp_path, shared)


@pytest.mark.slow
@pytest.mark.parametrize("name", FORMATS)
def test_damaged_logs(name, tmp_path, shared):
    loaded, not_loaded = rounds(name, ROUNDS, tmp_path, shared)
    # both outcomes occur, so the damages are neither harmless nor all fatal
    assert loaded > 30, (loaded, not_loaded)
    assert not_loaded > 300, (loaded, not_loaded)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=6,
)


@pytest.mark.slow
@settings(
    max_examples=300,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    sample=st.dictionaries(
        st.sampled_from(["id", "epoch", "scores", "error", "limit", "metadata", "score"]), values
    ),
    score=values,
    evaluation=st.dictionaries(
        st.sampled_from(
            ["eval_id", "created", "task", "dataset", "model", "config", "solver", "task_args",
             "model_generate_config", "task_version"]
        ), values,
    ),
    other=st.dictionaries(st.sampled_from(["plan", "results", "invalidated", "status"]), values),
)  # fmt: skip
def test_any_values_in_an_inspect_log(tmp_path, sample, score, evaluation, other):
    header = invent.inspect_header(**evaluation) | other
    samples = [invent.inspect_sample(1, score), invent.inspect_sample(2) | sample]
    path = tmp_path / "a.json"
    path.write_text(json.dumps({**header, "samples": samples}, indent=1))
    load_or_input_error(path, policy="missing")


@pytest.mark.slow
@settings(
    max_examples=300,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(text=st.text(max_size=200) | st.builds(json.dumps, values))
def test_any_text_as_yaml_and_json(tmp_path, text):
    for name, start in (("a.yaml", "agents:\n"), ("a.json", ""), ("b.json", '{"eval":\n')):
        path = tmp_path / name
        path.write_text(start + text, encoding="utf-8", errors="surrogatepass")
        load_or_input_error(path)


def test_nasty_values_are_refused_or_read(tmp_path):
    """Each nasty value as a score, so that none of them is forgotten."""
    for at, value in enumerate(NASTY_VALUES):
        samples = [invent.inspect_sample(1, value), invent.inspect_sample(2, "C")]
        path = tmp_path / f"{at}.json"
        path.write_text(json.dumps({**invent.inspect_header(), "samples": samples}, indent=1))
        try:
            runs = mb.load(path)
        except mb.InputError:
            continue
        assert int(runs["attempts"].sum()) == 2
