"""HELM run folders: run_spec.json with per_instance_stats.json; transcripts are left unread.

Source of the format: stanford-crfm/helm, Apache License 2.0.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import xarray as xr

from measurebayes.data import jsontext, logs
from measurebayes.data.files import Digest, LogFile
from measurebayes.data.logs import Rows, mapping_of, text_of, wrong_shape
from measurebayes.data.problems import going_on
from measurebayes.data.readers.base import Column, Reader
from measurebayes.data.runs import RUN_OPTIONS, Run
from measurebayes.data.source import Source
from measurebayes.errors import InputError, shown

TABLE = (
    Column("run_spec.json: name", "yes", "the suite, without the model; begins the tasks' labels"),
    Column("run_spec.json: adapter_spec.model", "yes", "the setting `model`"),
    Column(
        "run_spec.json: adapter_spec",
        "no",
        "settings: model_deployment, method, max_train_instances, temperature, max_tokens, "
        "num_outputs, instructions",
    ),
    Column("run_spec.json: scenario_spec.args", "no", "for family='column:NAME'"),
    Column("per_instance_stats.json: instance_id", "yes", "the task, as `SUITE/ID`"),
    Column(
        "per_instance_stats.json: perturbation",
        "no",
        "a changed instance is a task of its own, `SUITE/ID [NAME]`",
    ),
    Column("per_instance_stats.json: train_trial_index", "no", "number of the attempt, from 0"),
    Column(
        "per_instance_stats.json: stats: name.name, count, sum",
        "yes",
        "the scorer, and its score as sum / count; what HELM counts beside scores (num_*, "
        "finish_reason_*, training_*, inference_*, batch_size, prompt_truncated, logprob, "
        "max_prob) is left unread",
    ),
)
OPTIONS = RUN_OPTIONS
_SPEC = frozenset({"name", "adapter_spec"})
_INSTANCES = frozenset({"instance_id", "stats"})
_NO_SCORES = ("num_", "finish_reason_", "training_", "inference_")
_NO_SCORE = frozenset({"batch_size", "prompt_truncated", "logprob", "max_prob"})
_ADAPTER = ("method", "max_train_instances", "temperature", "max_tokens", "num_outputs",
            "instructions")  # fmt: skip


def recognises(source: Source) -> bool:
    """Tell whether there is a run_spec or a file of statistics by instance."""
    return any(file.keys >= _SPEC or file.keys >= _INSTANCES for file in source.files)


def read(source: Source, options: Mapping[str, Any]) -> xr.Dataset:
    """Read HELM runs; see TABLE and OPTIONS."""
    return logs.read_logs(source, options, _runs, recognises)


def _runs(
    source: Source, options: Mapping[str, Any], digest: Digest, dropped: Counter[str]
) -> Iterator[Run]:
    by_folder: dict[str, dict[str, LogFile]] = {}
    for file in source.files:
        kind = "spec" if file.keys >= _SPEC else "stats" if file.keys >= _INSTANCES else ""
        if not kind:
            continue
        found = by_folder.setdefault(file.folder, {})
        if kind in found:
            raise InputError(
                "there are two files of one kind in one folder",
                where=f"{found[kind].place} and {file.place}",
                expected="a folder for each run, with run_spec.json and per_instance_stats.json",
                remedy="give the folders as HELM wrote them",
            )
        found[kind] = file
    for found in by_folder.values():
        with going_on():
            if len(found) < 2:
                lacking = "per_instance_stats.json" if "spec" in found else "run_spec.json"
                one = next(iter(found.values()))
                raise InputError(
                    f"no {lacking} was given with the run",
                    where=one.place,
                    expected="run_spec.json and per_instance_stats.json in one folder",
                    remedy=logs.folder_remedy(one, "HELM"),
                )
            yield _run(found["spec"], found["stats"], options, digest)


def _run(spec: LogFile, stats: LogFile, options: Mapping[str, Any], digest: Digest) -> Run:
    document = jsontext.parse(digest.add(spec.content()), spec.place)
    name = text_of(document.get("name"), "name", spec)
    suite = _without_model(name)
    scenario, _, _ = name.partition(":")
    described = mapping_of(mapping_of(document.get("scenario_spec")).get("args"))
    metadata = {"scenario": scenario, **described}
    rows = Rows(suite, options)
    content = digest.add(stats.content())
    jsontext.parse_array(content, stats.place, lambda one: _add(rows, one, metadata, stats.place))
    settings = _settings(mapping_of(document.get("adapter_spec")), spec)
    return Run(
        place=stats.place,
        # HELM gives runs no time and no number
        identity=logs.content_identity(document, rows.columns),
        created="",
        settings=settings,
        suite=suite,
        records=rows.columns,
        of_suite=frozenset(_ADAPTER),
    )


def _without_model(name: str) -> str:
    """Name of a run without the part that names the model."""
    scenario, mark, arguments = name.partition(":")
    kept = [part for part in arguments.split(",") if not part.startswith(("model=", "model_"))]
    return scenario + mark + ",".join(kept) if any(kept) else scenario


def _add(rows: Rows, instance: Any, metadata: Mapping[str, Any], place: str) -> None:
    if not isinstance(instance, Mapping) or not isinstance(instance.get("instance_id"), str):
        raise wrong_shape("an instance has no id", place, "objects with instance_id and stats")
    item = instance["instance_id"]
    changed = mapping_of(instance.get("perturbation")).get("name")
    label = f"{item} [{changed}]" if changed else item
    where = f"{place}, instance {shown(item)}"
    trial = logs.whole(instance.get("train_trial_index", 0), "train_trial_index", where)
    stats = instance.get("stats")
    if not isinstance(stats, list):
        raise wrong_shape("the instance has no stats", where, "a list of statistics")
    for one in stats:
        name = mapping_of(mapping_of(one).get("name")).get("name")
        if not isinstance(name, str):
            raise wrong_shape("a statistic has no name", where, "name.name, count and sum")
        if name.startswith(_NO_SCORES) or name in _NO_SCORE:
            continue
        value = _mean(one, where)
        status = "errored" if value is None else "scored"
        rows.add(label, trial + 1, status, value, scorer=name, metadata=metadata)


def _mean(stat: Mapping[str, Any], where: str) -> float | None:
    count, total = stat.get("count"), stat.get("sum")
    if not count:
        return None  # no value was added up
    for value in (count, total):
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise wrong_shape("a statistic has no sum", where, "numbers count and sum")
    try:
        mean = total / count
    except OverflowError:
        raise wrong_shape("a sum is too large", where, "a finite number") from None
    return None if logs.is_nothing(mean) else mean


def _settings(adapter: Mapping[str, Any], spec: LogFile) -> dict[str, str]:
    model = text_of(adapter.get("model"), "adapter_spec.model", spec)
    others = {name: adapter.get(name) for name in ("model_deployment", *_ADAPTER)}
    return {"model": model, **logs.chosen(others)}


READER = Reader(
    name="helm",
    title="HELM: folders of runs with run_spec.json and per_instance_stats.json",
    columns=TABLE,
    options=OPTIONS,
    recognises=recognises,
    read=read,
)
