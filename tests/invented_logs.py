"""Small logs in the formats of evaluation harnesses, made up for tests."""

from __future__ import annotations

import copy
import json
import zipfile
from pathlib import Path
from typing import Any


def inspect_header(model: str = "lab/m", task: str = "suite", **other: Any) -> dict[str, Any]:
    """header.json of an Inspect log; keywords go into `eval`."""
    evaluation = {
        "eval_id": f"id of {model} at {task}",
        "run_id": "r",
        "created": "2025-01-01T00:00:00+00:00",
        "task": task,
        "task_id": "t",
        "dataset": {"name": "d"},
        "model": model,
        "config": {"epochs": 1},
        "scorers": [{"name": "match"}],
    }
    plan = {"steps": [{"solver": "generate", "params": {}}], "config": {}}
    return {"version": 2, "status": "success", "eval": evaluation | other, "plan": plan}


def inspect_sample(item: Any, value: Any = "C", epoch: int = 1, **other: Any) -> dict[str, Any]:
    """A summary of an Inspect sample; without scores where the value is ..."""
    scores = {} if value is ... else {"match": {"value": value, "answer": "x"}}
    return {"id": item, "epoch": epoch, "input": "?", "target": "x", "scores": scores, **other}


def write_eval(
    path: Path,
    header: dict[str, Any],
    samples: list[dict[str, Any]],
    finished: bool = True,
    compression: int = zipfile.ZIP_DEFLATED,
) -> Path:
    """Write an .eval archive; an unfinished one has a journal alone."""
    with zipfile.ZipFile(path, "w", compression) as archive:
        start = {key: header[key] for key in ("version", "eval", "plan")}
        archive.writestr("_journal/start.json", json.dumps(start))
        for sample in samples:
            transcript = json.dumps({**sample, "messages": ["a transcript"] * 20})
            name = f"samples/{sample['id']}_epoch_{sample['epoch']}.json"
            if name not in archive.namelist():
                archive.writestr(name, transcript)
        half = len(samples) // 2
        archive.writestr("_journal/summaries/1.json", json.dumps(samples[:half]))
        archive.writestr("_journal/summaries/2.json", json.dumps(samples[half:]))
        if finished:
            archive.writestr("summaries.json", json.dumps(samples))
            archive.writestr("header.json", json.dumps(header))
    return path


def write_inspect_json(
    path: Path, header: dict[str, Any], samples: list[dict[str, Any]] | None
) -> Path:
    """Write the older form of one JSON document."""
    path.write_text(json.dumps({**header, "samples": samples}, indent=2))
    return path


def write_lm_eval(
    folder: Path,
    model: str,
    stamp: str = "2025-09-09T13-31-53.431753",
    filters: tuple[str, ...] = ("strict-match",),
    documents: int = 3,
    shots: int = 5,
) -> None:
    """Write results and samples of one run of lm-evaluation-harness at gsm8k."""
    folder.mkdir(parents=True, exist_ok=True)
    results = {
        "results": {"gsm8k": {"alias": "gsm8k", "exact_match,strict-match": 0.5}},
        "configs": {"gsm8k": {"task": "gsm8k"}},
        "n-shot": {"gsm8k": shots},
        "higher_is_better": {"gsm8k": {"exact_match": True}},
        "n-samples": {"gsm8k": {"original": 1319, "effective": documents}},
        "config": {"model": "hf", "model_args": f"pretrained={model},dtype=float"},
        "date": 1757424333.5,
        "model_name": model,
    }
    (folder / f"results_{stamp}.json").write_text(json.dumps(results, indent=2))
    lines = [
        {
            "doc_id": doc,
            "doc": {"question": "?", "subject": f"s{doc % 2}"},
            "target": "x",
            "filter": name,
            "metrics": ["exact_match"],
            "exact_match": float((doc + len(model) + at) % 2),
        }
        for doc in range(documents)
        for at, name in enumerate(filters)
    ]
    text = "\n".join(map(json.dumps, lines)) + "\n"
    (folder / f"samples_gsm8k_{stamp}.jsonl").write_text(text)


def write_helm(folder: Path, model: str, instances: int = 4, metrics: int = 2) -> None:
    """Write one run folder of HELM."""
    folder.mkdir(parents=True, exist_ok=True)
    spec = {
        "name": f"mmlu:subject=law,model={model}",
        "scenario_spec": {"class_name": "MMLU", "args": {"subject": "law"}},
        "adapter_spec": {"method": "joint", "model": model, "temperature": 0.0},
        "metric_specs": [],
    }
    (folder / "run_spec.json").write_text(json.dumps(spec, indent=2))
    names = ["exact_match", "quasi_exact_match"][:metrics]
    stats = [
        {
            "instance_id": f"id{i}",
            "train_trial_index": 0,
            "stats": [
                {"name": {"name": "num_bytes", "split": "test"}, "count": 1, "sum": 7},
                *(
                    {"name": {"name": name}, "count": 1, "sum": (i + len(model) + at) % 2}
                    for at, name in enumerate(names)
                ),
            ],
        }
        for i in range(instances)
    ]
    (folder / "per_instance_stats.json").write_text(json.dumps(stats, indent=2))


def every_eval_ever_sample(item: str, score: float = 1.0, **other: Any) -> dict[str, Any]:
    """One line of samples of every_eval_ever."""
    return {
        "schema_version": "0.2.1",
        "evaluation_id": "e1",
        "model_id": "lab/m",
        "evaluation_name": "gsm8k",
        "sample_id": item,
        "interaction_type": "single_turn",
        "input": {"raw": "?", "reference": ["x"]},
        "answer_attribution": [],
        "evaluation": {"score": score, "is_correct": score >= 0.5},
        "error": None,
        "metadata": None,
    } | copy.deepcopy(other)


def write_every_eval_ever(folder: Path, model: str = "lab/m", samples: int = 4) -> None:
    """Write an evaluation and its samples."""
    folder.mkdir(parents=True, exist_ok=True)
    evaluation = {
        "schema_version": "0.2.1",
        "evaluation_id": f"e of {model}",
        "retrieved_timestamp": "1757424333",
        "model_info": {"name": model, "id": model},
        "eval_library": {"name": "lm_eval", "version": "1"},
        "evaluation_results": [
            {
                "evaluation_name": "gsm8k",
                "metric_config": {"lower_is_better": False},
                "score_details": {"score": 0.5},
                "generation_config": {"generation_args": {"temperature": 0.0}},
            }
        ],
    }
    name = model.replace("/", "_")
    (folder / f"{name}.json").write_text(json.dumps(evaluation, indent=2))
    lines = [
        every_eval_ever_sample(
            f"q{i}", float((i + len(model)) % 2), model_id=model, evaluation_id=f"e of {model}"
        )
        for i in range(samples)
    ]
    (folder / f"{name}_samples.jsonl").write_text("\n".join(map(json.dumps, lines)) + "\n")


METR_YAML = """\
agents:
  GPT-X:
    coefficient: -0.5
    intercept: 4.1
    release_date: 2024-05-13
    tasks:
    - task_id: blackbox/acorn
      human_minutes: 12.043
      n_successes: 5
      n_runs: 6
      task_weight: 0.707
    - task_id: blackbox/apple
      human_minutes: 17.6
      n_successes: 0
      n_runs: 6
      task_weight: 0.707
  "Claude: Y":
    release_date: 2025-02-24
    tasks:
    - task_id: blackbox/acorn
      human_minutes: 12.043
      n_successes: 6
      n_runs: 7
benchmark_name: METR-Horizon-v1.1
"""
