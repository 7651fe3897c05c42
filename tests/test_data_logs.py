"""Logs of evaluation harnesses: what each reader makes of them, compared with plain counts."""

from __future__ import annotations

import collections
import itertools
import json
import shutil
import struct
import zipfile
import zlib

import invented_logs as invent
import numpy as np
import pytest

import measurebayes as mb
from measurebayes import data


def counts(runs):
    """Agent, task -> (successes, attempts)."""
    names = zip(
        runs["agent"].values[runs["agent_index"].values],
        runs["task"].values[runs["task_index"].values],
        strict=True,
    )
    numbers = zip(runs["successes"].values, runs["attempts"].values, strict=True)
    return {
        (str(a), str(t)): (int(s), int(n)) for (a, t), (s, n) in zip(names, numbers, strict=True)
    }


def records_by_status(runs):
    if "unscored_status" not in runs:
        return {}
    found = collections.Counter()
    for status, number in zip(
        runs["unscored_status"].values, runs["unscored_records"].values, strict=True
    ):
        found[str(status)] += int(number)
    return dict(found)


def refused(*words, path, **options):
    with pytest.raises(mb.InputError) as caught:
        mb.load(path, **options)
    for word in words:
        assert word in str(caught.value), str(caught.value)
    return caught.value


@pytest.fixture
def logs(shared_data):
    return shared_data / "logs"


# ----- the samples in ../shared/data/logs


def test_inspect_sample_has_the_scores_in_its_archive(logs):
    path = next((logs / "inspect").glob("*mj7khqpMM4GBCfVQozKgzB.eval"))
    with zipfile.ZipFile(path) as archive:
        samples = [
            json.loads(archive.read(name))
            for name in archive.namelist()
            if name.startswith("samples/")
        ]
    expected = {
        ("openai/gpt-4o-mini", f"popularity/{one['id']}"): (
            int(one["scores"]["match"]["value"] == "C"), 1,
        )
        for one in samples
    }  # fmt: skip
    runs = mb.load(path)
    assert counts(runs) == expected
    assert len(expected) == 10
    assert set(runs["source"].values) == {"popularity"}


def test_inspect_sample_without_scores_says_so(logs):
    path = next((logs / "inspect").glob("*dPiJifoWeEQBrfWsAopzWr.eval"))
    refused("logged without scores", "10 samples", "match", "inspect score", path=path)
    # and so it does in its folder, where the rest can still be read
    refused("logged without scores", "without_scores='leave_out'", path=logs / "inspect")
    runs = mb.load(logs / "inspect", without_scores="leave_out")
    assert json.loads(runs.attrs["dropped"]) == {"in runs without scores": 10}
    assert runs.sizes["agent"] == 5
    assert int(runs["attempts"].sum()) == 10 + 3 + 2 + 1 + 1


def test_older_json_and_short_logs_of_inspect(logs):
    for name in ("data_arc_qwen.json", "data_pubmedqa_gpt4o_mini.json"):
        document = json.loads((logs / "inspect" / name).read_text())
        suite, model = document["eval"]["task"], document["eval"]["model"]
        expected = {
            (model, f"{suite}/{one['id']}"): (int(one["scores"]["choice"]["value"] == "C"), 1)
            for one in document["samples"]
        }
        assert counts(mb.load(logs / "inspect" / name)) == expected
    one = mb.load(logs / "inspect" / "log_formats.eval")
    assert counts(one) == {("ollama/llama3.1", "popularity/1"): (0, 1)}
    other = mb.load(logs / "inspect" / "mmlu-summary-choices.eval", family="column:subject")
    assert counts(other) == {("openai/gpt-4o", "inspect_evals/mmlu_0_shot/1"): (0, 1)}
    assert other["family"].values.tolist() == ["college_physics"]


def test_lm_eval_samples(logs):
    runs = mb.load(logs / "lm_eval")
    expected = {
        ("gemma3:12b-u1", "gsm8k/16"): (1, 1),
        ("gemma3:12b-u1", "gsm8k/17"): (0, 1),
        ("gemma3:12b-u1", "gsm8k/18"): (0, 1),
        ("gemma3:12b-it-q4_K_M", "gsm8k/16"): (1, 1),
        ("gemma3:12b-it-q4_K_M", "gsm8k/17"): (0, 1),
        ("gemma3:12b-it-q4_K_M", "gsm8k/18"): (1, 1),
    }
    assert counts(runs) == expected
    # the results speak of 100 documents each, the samples hold 3
    assert sum(json.loads(runs.attrs["dropped"]).values()) == 2 * 97
    one = next((logs / "lm_eval").glob("results_*"))
    refused("results but no samples", "--log_samples", path=one)


def test_two_filters_of_gsm8k_are_not_two_attempts(logs, tmp_path):
    shutil.copytree(logs / "lm_eval", tmp_path / "both")
    for path in (tmp_path / "both").glob("samples_*"):
        path.chmod(0o644)
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        more = [line | {"filter": "flexible-extract", "exact_match": 1.0} for line in lines]
        path.write_text("\n".join(map(json.dumps, lines + more)) + "\n")
    error = refused("filter", "strict-match", "flexible-extract", path=tmp_path / "both")
    assert "filter=" in error.remedy
    strict = mb.load(tmp_path / "both", filter="strict-match")
    assert counts(strict) == counts(mb.load(logs / "lm_eval"))
    apart = mb.load(tmp_path / "both", filter="all")
    assert set(apart["attempts"].values) == {1}
    assert apart.sizes["task"] == 6
    assert "gsm8k/16 [flexible-extract]" in apart["task"].values


def test_helm_sample(logs):
    folder = next((logs / "helm").iterdir())
    folder = folder if folder.is_dir() else next(p for p in (logs / "helm").iterdir() if p.is_dir())
    error = refused("scorer", "exact_match", "quasi_prefix_exact_match@5", path=folder)
    assert "scorer=" in error.remedy
    stats = json.loads((folder / "per_instance_stats.json").read_text())
    suite = "mmlu:subject=philosophy,method=multiple_choice_joint"
    expected = {}
    for instance in stats:
        score = next(s for s in instance["stats"] if s["name"]["name"] == "exact_match")
        expected["openai/gpt2", f"{suite}/{instance['instance_id']}"] = (int(score["sum"]), 1)
    assert counts(mb.load(folder, scorer="exact_match")) == expected
    assert counts(mb.load(logs / "helm", scorer="exact_match")) == expected
    refused("no run_spec.json", path=folder / "per_instance_stats.json")


def test_folder_of_several_formats_names_them(logs):
    refused("inspect", "lm_eval", "helm", "reader='inspect'", path=logs)


# ----- every reader: round trip, order, names


def _inspect(folder):
    folder.mkdir()
    for model in ("lab/a", "lab/b"):
        samples = [invent.inspect_sample(i, "CI"[(i + len(model)) % 2]) for i in range(4)]
        samples.append(invent.inspect_sample(9, ..., error="boom"))
        header = invent.inspect_header(model)
        invent.write_eval(folder / f"{model[-1]}.eval", header, samples)
    invent.write_inspect_json(
        folder / "old.json", invent.inspect_header("lab/c"), [invent.inspect_sample(1)]
    )


def _lm_eval(folder):
    for at, model in enumerate(("ann", "bobby")):
        invent.write_lm_eval(folder / f"m{at}", model, f"2025-09-09T13-31-5{at}.431753")


def _helm(folder):
    for at, model in enumerate(("ann", "bobby")):
        invent.write_helm(folder / f"run{at}", model, metrics=1)


def _every_eval_ever(folder):
    for model in ("lab/a", "lab/bb"):
        invent.write_every_eval_ever(folder, model)


FORMATS = {
    "inspect": (_inspect, {"policy": "missing"}),
    "lm_eval": (_lm_eval, {}),
    "helm": (_helm, {}),
    "every_eval_ever": (_every_eval_ever, {}),
}


@pytest.mark.parametrize("name", FORMATS)
def test_round_trip_order_and_names(name, tmp_path):
    write, options = FORMATS[name]
    write(tmp_path / "logs")
    runs = mb.load(tmp_path / "logs", **options)
    assert runs.attrs["reader"] == name
    data.save(runs, tmp_path / "runs.nc")
    assert mb.load(tmp_path / "runs.nc").identical(runs)
    assert mb.load(tmp_path / "logs", **options).identical(runs)
    # the same logs under other names, in the other order
    (tmp_path / "other").mkdir()
    renamed = tmp_path / "other" / "logs"
    renamed.mkdir()
    for path in (tmp_path / "logs").rglob("*.*"):
        inside = path.relative_to(tmp_path / "logs")
        if name in ("inspect", "every_eval_ever"):
            target = renamed / f"z{ord('z') - ord(path.name[0])}{len(path.name)}{path.name[::-1]}"
            target = target.with_name(target.name.split(".")[0] + path.suffix)
        elif name == "helm":
            target = renamed / f"x{9 - int(inside.parts[0][-1])}" / f"other_{path.name}"
        else:
            target = renamed / f"x{9 - int(inside.parts[0][-1])}" / f"n{path.suffix}"
        target.parent.mkdir(exist_ok=True)
        shutil.copy(path, target)
    assert len(list(renamed.rglob("*.*"))) == len(list((tmp_path / "logs").rglob("*.*")))
    assert mb.load(renamed, **options).identical(runs)
    # as a zip archive and by a pattern
    archive = shutil.make_archive(str(tmp_path / "packed"), "zip", tmp_path / "logs")
    for path in (archive, tmp_path / "logs" / "**"):
        other = mb.load(path, **options)
        assert other.equals(runs), path
        assert other.attrs["sha256"] == runs.attrs["sha256"]


def test_copies_of_a_log_are_one_run(tmp_path):
    _inspect(tmp_path / "logs")
    runs = mb.load(tmp_path / "logs", policy="missing")
    shutil.copy(tmp_path / "logs" / "a.eval", tmp_path / "logs" / "copy.eval")
    again = mb.load(tmp_path / "logs", policy="missing")
    assert again.equals(runs)
    assert json.loads(again.attrs["dropped"])["copies of a run"] == 5


# ----- Inspect: statuses, scores, identity


def test_statuses_of_inspect(tmp_path):
    nan = float("nan")
    samples = [
        invent.inspect_sample(1, "C"),
        invent.inspect_sample(2, "I"),
        invent.inspect_sample(3, ..., error="boom"),
        invent.inspect_sample(4, "C", limit="token"),
        invent.inspect_sample(5, "N"),
        invent.inspect_sample(6, nan),
        invent.inspect_sample(7, ...),
    ]
    header = invent.inspect_header(dataset={"sample_ids": list(range(1, 9))})
    path = invent.write_eval(tmp_path / "a.eval", header, samples)
    error = refused("errored", "limit", "refused", "not_attempted", "lab/m", path=path)
    assert "policy=" in error.remedy
    expected = {"errored": 3, "limit": 1, "refused": 1, "not_attempted": 1}
    solved = {"missing": (1, 2), "failure": (1, 8)}
    for policy, (successes, attempts) in solved.items():
        runs = mb.load(path, policy=policy)
        assert (int(runs["successes"].sum()), int(runs["attempts"].sum())) == (successes, attempts)
        assert records_by_status(runs) == expected
    runs = mb.load(
        path, policy="errored=missing,limit=as_scored,refused=failure,not_attempted=missing"
    )
    assert (int(runs["successes"].sum()), int(runs["attempts"].sum())) == (2, 4)


def test_unfinished_log_is_read_by_its_journal(tmp_path):
    samples = [invent.inspect_sample(i, "CI"[i % 2]) for i in range(1, 6)]
    whole = invent.write_eval(tmp_path / "a.eval", invent.inspect_header(), samples)
    begun = invent.write_eval(tmp_path / "b.eval", invent.inspect_header(), samples, finished=False)
    assert counts(mb.load(begun)) == counts(mb.load(whole))
    # a sample that was run again stands twice; the later record holds
    again = [*samples, invent.inspect_sample(5, "C")]
    path = invent.write_eval(tmp_path / "c.eval", invent.inspect_header(), again, finished=False)
    assert counts(mb.load(path))["lab/m", "suite/5"] == (1, 1)


def test_epochs_are_attempts_of_one_cell(tmp_path):
    samples = [
        invent.inspect_sample(item, "CI"[epoch % 2], epoch)
        for item, epoch in itertools.product("ab", range(1, 17))
    ]
    header = invent.inspect_header(config={"epochs": 16})
    runs = mb.load(invent.write_eval(tmp_path / "a.eval", header, samples))
    assert counts(runs) == {("lab/m", "suite/a"): (8, 16), ("lab/m", "suite/b"): (8, 16)}


def test_transcripts_are_not_read(tmp_path):
    samples = [invent.inspect_sample(i) for i in range(3)]
    path = invent.write_eval(tmp_path / "a.eval", invent.inspect_header(), samples)
    runs = mb.load(path)
    with zipfile.ZipFile(path) as archive:
        members = [m for m in archive.infolist() if m.filename.startswith("samples/")]
    content = bytearray(path.read_bytes())
    for member in members:
        begin = member.header_offset + 30 + len(member.filename)
        content[begin : begin + member.compress_size] = b"\xff" * member.compress_size
    path.write_bytes(content)
    with zipfile.ZipFile(path) as archive, pytest.raises(zlib.error):
        archive.testzip()
    assert mb.load(path).identical(runs)


def test_scorers_settings_and_runs_of_inspect_are_refused_by_name(tmp_path):
    sample = invent.inspect_sample(1)
    sample["scores"]["judge"] = {"value": {"style": "C", "truth": 0.5}}
    path = invent.write_eval(tmp_path / "a.eval", invent.inspect_header(), [sample])
    refused("match", "judge/style", "judge/truth", "scorer=", path=path)
    refused("0.5", "threshold", path=path, scorer="judge/truth")
    assert counts(mb.load(path, scorer="judge/truth", threshold=0.5))["lab/m", "suite/1"] == (1, 1)

    folder = tmp_path / "settings"
    folder.mkdir()
    for effort in ("low", "high"):
        header = invent.inspect_header(eval_id=effort)
        header["plan"]["config"] = {"reasoning_effort": effort, "max_connections": 5}
        invent.write_eval(folder / f"{effort}.eval", header, [invent.inspect_sample(1)])
    refused("reasoning_effort", "low", "high", "agent_from", path=folder)
    runs = mb.load(folder, agent_from=["model", "reasoning_effort"])
    assert runs.sizes["agent"] == 2

    folder = tmp_path / "runs"
    folder.mkdir()
    for day, value in (("01", "C"), ("02", "I")):
        header = invent.inspect_header(eval_id=day, created=f"2025-01-{day}T00:00:00+00:00")
        invent.write_eval(folder / f"{day}.eval", header, [invent.inspect_sample(1, value)])
    refused("several runs", "runs='all'", "runs='latest'", path=folder)
    assert counts(mb.load(folder, runs="all"))["lab/m", "suite/1"] == (1, 2)
    assert counts(mb.load(folder, runs="latest"))["lab/m", "suite/1"] == (0, 1)


def test_a_suites_own_solver_does_not_part_a_model(tmp_path):
    for task, solver in (("maths", "generate"), ("exam", "multiple_choice")):
        header = invent.inspect_header(task=task)
        header["plan"]["steps"] = [{"solver": solver, "params": {}}]
        invent.write_eval(tmp_path / f"{task}.eval", header, [invent.inspect_sample(1)])
    assert mb.load(tmp_path)["agent"].values.tolist() == ["lab/m"]
    header = invent.inspect_header(task="exam", eval_id="other")
    header["plan"]["steps"] = [{"solver": "react", "params": {"tools": ["bash"]}}]
    invent.write_eval(tmp_path / "again.eval", header, [invent.inspect_sample(1)])
    refused("solver", "react", "multiple_choice", "agent_from", path=tmp_path)


def test_arguments_of_a_task_can_make_the_suite(tmp_path):
    for language in ("EN", "DE"):
        header = invent.inspect_header(eval_id=language, task_args={"language": language})
        invent.write_eval(tmp_path / f"{language}.eval", header, [invent.inspect_sample(1)])
    refused("task_args", path=tmp_path)
    runs = mb.load(tmp_path, suite_from="task_args")
    assert runs["task"].values.tolist() == [
        'suite {"language":"DE"}/1',
        'suite {"language":"EN"}/1',
    ]


def test_logs_of_inspect_that_say_nothing_of_attempts(tmp_path):
    header = invent.inspect_header()
    path = invent.write_inspect_json(tmp_path / "a.json", header, None)
    refused("logged without samples", path=path)
    path = invent.write_inspect_json(
        tmp_path / "b.json", header | {"invalidated": True}, [invent.inspect_sample(1)]
    )
    refused("invalidated", path=path)
    path = tmp_path / "c.eval"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("header.json", json.dumps(header))
        archive.writestr("samples/1_epoch_1.json", "{}")
    refused("no summaries", "inspect log convert", path=path)


def test_zstandard_as_inspect_packs_since_2025(tmp_path):
    samples = [invent.inspect_sample(i, "CI"[i % 2]) for i in range(9)]
    plain = invent.write_eval(tmp_path / "a.eval", invent.inspect_header(), samples)
    packed = _as_zstandard(plain, tmp_path / "b.eval")
    assert mb.load(packed).equals(mb.load(plain))
    content = bytearray(packed.read_bytes())
    at = content.find(b"\x28\xb5\x2f\xfd", content.find(b"summaries.json"))
    content[at + 20] ^= 0xFF
    packed.write_bytes(content)
    refused("can't be read", path=packed)


def _as_zstandard(path, target):
    """Write the archive anew with method 93, which zipfile knows from Python 3.14 on alone."""
    import pyarrow as pa

    out, central = bytearray(), bytearray()
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    for name, content in members.items():
        sink = pa.BufferOutputStream()
        with pa.CompressedOutputStream(sink, "zstd") as stream:
            stream.write(content)
        packed = sink.getvalue().to_pybytes()
        sizes = (zlib.crc32(content), len(packed), len(content), len(name), 0)
        offset, raw = len(out), name.encode()
        common = struct.pack("<HHHHHIIIHH", 63, 0, 93, 0, 33, *sizes)
        out += b"PK\x03\x04" + common + raw + packed
        central += b"PK\x01\x02\x3f\x00" + common + struct.pack("<HHHII", 0, 0, 0, 0, offset) + raw
    end = struct.pack("<HHHHIIH", 0, 0, len(members), len(members), len(central), len(out), 0)
    target.write_bytes(bytes(out + central) + b"PK\x05\x06" + end)
    return target


def test_inspect_ai_reads_the_same(logs):
    path = next((logs / "inspect").glob("*mj7khqpMM4GBCfVQozKgzB.eval"))
    try:
        import inspect_ai  # noqa: F401
    except ImportError:
        refused("inspect_ai is not installed", "pip install", path=path, through="inspect_ai")
        return
    for name in (path, logs / "inspect" / "data_arc_qwen.json"):
        assert mb.load(name, through="inspect_ai").equals(mb.load(name))


# ----- the other formats


def test_lm_eval_pairs_by_folder_and_time(tmp_path):
    for at, model in enumerate(("ann", "bobby")):
        invent.write_lm_eval(tmp_path / "one", model, f"2025-09-09T13-31-5{at}.431753")
        invent.write_lm_eval(tmp_path / "each" / model, model)
    runs = mb.load(tmp_path / "one")
    assert counts(runs) == counts(mb.load(tmp_path / "each"))
    assert counts(runs)["ann", "gsm8k/0"] == (1, 1)
    for path in (tmp_path / "one").glob("samples*"):
        path.rename(path.with_name("renamed" + path.name[-12:]))
    refused("which results", "2 files of results", path=tmp_path / "one")
    families = mb.load(tmp_path / "each", family="column:subject")
    assert families["family"].values.tolist() == ["s0", "s1"]


def test_lm_eval_shots_and_metrics(tmp_path):
    invent.write_lm_eval(tmp_path / "a", "ann")
    invent.write_lm_eval(tmp_path / "b", "ann", shots=0)
    refused("num_fewshot", "'0'", "'5'", path=tmp_path)
    assert mb.load(tmp_path, agent_from="model,num_fewshot").sizes["agent"] == 2
    path = next((tmp_path / "a").glob("samples*"))
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines:
        line |= {"acc": 1.0, "metrics": ["exact_match", "acc"]}
    path.write_text("\n".join(map(json.dumps, lines)))
    refused("exact_match", "acc", "scorer=", path=tmp_path / "a")
    lines[0]["exact_match"] = float("nan")
    path.write_text("\n".join(map(json.dumps, lines)))
    refused("1 errored", "policy=", path=tmp_path / "a", scorer="exact_match")
    lines[0]["exact_match"] = float("inf")
    path.write_text("\n".join(map(json.dumps, lines)))
    refused("inf", path=tmp_path / "a", scorer="exact_match")


def test_helm_perturbed_instances_and_trials(tmp_path):
    invent.write_helm(tmp_path / "run", "ann", metrics=1)
    path = tmp_path / "run" / "per_instance_stats.json"
    stats = json.loads(path.read_text())
    changed = json.loads(json.dumps(stats[0])) | {"perturbation": {"name": "typos"}}
    trial = json.loads(json.dumps(stats[0])) | {"train_trial_index": 1}
    trial["stats"][1]["sum"] = 0
    path.write_text(json.dumps([*stats, changed, trial]))
    runs = mb.load(tmp_path, family="column:subject")
    assert counts(runs)["ann", "mmlu:subject=law/id0"] == (1, 2)
    assert counts(runs)["ann", "mmlu:subject=law/id0 [typos]"] == (1, 1)
    assert runs["family"].values.tolist() == ["law"]
    (tmp_path / "run" / "run_spec.json").unlink()
    refused("no run_spec.json", path=tmp_path)


def test_every_eval_ever_samples(tmp_path):
    make = invent.every_eval_ever_sample
    lines = [
        make("a", 1.0, metadata={"epoch": "1"}),
        make("a", 0.0, metadata={"epoch": "2"}),
        make("b", 0.0, error="timeout"),
        make("c", 0.7),
    ]
    path = tmp_path / "x_samples.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)))
    refused("0.7", "threshold", path=path, policy="missing")
    runs = mb.load(path, policy="missing", value="is_correct")
    assert counts(runs) == {("lab/m", "gsm8k/a"): (1, 2), ("lab/m", "gsm8k/c"): (1, 1)}
    assert records_by_status(runs) == {"errored": 1}
    invent.write_every_eval_ever(tmp_path / "folder")
    path = next((tmp_path / "folder").glob("*m.json"))
    refused("evaluations but no samples", path=path)
    document = json.loads(path.read_text())
    document["evaluation_results"][0]["metric_config"]["lower_is_better"] = True
    path.write_text(json.dumps(document))
    refused("no record", path=tmp_path / "folder")


def test_metr_yaml_gives_the_bundled_counts(metr, tmp_path):
    metr = mb.subset(metr, agent=metr["agent"].values[:4])
    lines = ["benchmark_name: METR-Horizon-v1.1", "agents:"]
    for agent, name in enumerate(metr["agent"].values):
        date = str(metr["release_date"].values[agent])[:10]
        lines += [f"  {json.dumps(str(name))}:", f"    release_date: {date}", "    tasks:"]
        for cell in np.flatnonzero(metr["agent_index"].values == agent):
            task = int(metr["task_index"].values[cell])
            lines += [
                f"    - task_id: {metr['task'].values[task]}",
                f"      human_minutes: {metr['human_minutes'].values[task]!r}".replace(
                    "np.float64(", ""
                ).replace(")", ""),
                f"      n_successes: {int(metr['successes'].values[cell])}",
                f"      n_runs: {int(metr['attempts'].values[cell])}",
                "      task_weight: 1.0",
            ]
    path = tmp_path / "task_results.yaml"
    path.write_text("\n".join(lines) + "\n")
    runs = mb.load(path, family="prefix:/")
    assert runs.attrs["reader"] == "metr_yaml"
    assert counts(runs) == counts(metr)
    by_task = dict(zip(metr["task"].values, metr["human_minutes"].values, strict=True))
    assert [by_task[task] for task in runs["task"].values] == runs["human_minutes"].values.tolist()
    assert sorted(runs["family"].values) == sorted(metr["family"].values)
    dates = dict(zip(metr["agent"].values, metr["release_date"].values, strict=True))
    assert [dates[agent] for agent in runs["agent"].values] == list(runs["release_date"].values)
    data.save(runs, tmp_path / "runs.nc")
    assert mb.load(tmp_path / "runs.nc").identical(runs)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("n_successes: 5", "n_successes: 7", ["7 successes of 6 runs", "task 1"]),
        ("n_successes: 5", "n_successes: 4.5", ["4.5", "whole number"]),
        ("n_successes: 5", "n_success: 5", ["n_successes", "did you mean"]),
        ("blackbox/apple", "blackbox/acorn", ["stands twice for one agent"]),
        ("GPT-X:", "GPT-X: &x", ["anchor"]),
        ("release_date: 2024-05-13", "release_date: !!python/object:os.system x", ["tag"]),
        ("    intercept: 4.1", "    coefficient: 1", ["coefficient", "twice"]),
        ("benchmark_name:", "tasks: [", ["not complete YAML"]),
        ("n_runs: 7", "n_runs: .nan", ["nan"]),
        ("human_minutes: 17.6", "human_minutes: .inf", ["inf"]),
    ],
)
def test_metr_yaml_refusals(old, new, words, tmp_path):
    assert old in invent.METR_YAML
    path = tmp_path / "r.yaml"
    path.write_text(invent.METR_YAML)
    assert int(mb.load(path)["attempts"].sum()) == 19
    path.write_text(invent.METR_YAML.replace(old, new, 1))
    refused(*words, path=path)
