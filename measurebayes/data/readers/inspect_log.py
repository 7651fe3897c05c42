"""Inspect logs: .eval archives and single JSON files, by header and summaries alone.

Source of the format: Inspect (UK AI Security Institute), `inspect_ai.log`, MIT License. An archive
holds header.json, summaries.json and one file a sample with its transcript; a run that has not
finished has _journal/start.json and _journal/summaries/ instead. Transcripts are never opened. The
older JSON form is one document, and its samples are reduced to their scores one at a time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import xarray as xr

from measurebayes.data import logs
from measurebayes.data.files import Digest
from measurebayes.data.logs import Rows, mapping_of, text_of, wrong_shape
from measurebayes.data.options import Option
from measurebayes.data.problems import going_on
from measurebayes.data.readers.base import Column, Reader
from measurebayes.data.readers.inspect_files import (
    InspectLog,
    InspectSample,
    is_inspect_archive,
    log_through_inspect,
    own_log,
)
from measurebayes.data.runs import RUN_OPTIONS, Run
from measurebayes.data.source import Source
from measurebayes.errors import InputError

TABLE = (
    Column("eval.task", "yes", "the suite; becomes `source` of its tasks, and begins their labels"),
    Column("eval.model", "yes", "the setting `model`"),
    Column("eval.eval_id, eval.run_id, eval.task_id, eval.created", "no", "identify the run"),
    Column("eval.solver, eval.solver_args, plan.steps", "no", "settings solver, solver_args"),
    Column(
        "eval.model_generate_config, plan.config",
        "no",
        "settings such as reasoning_effort and temperature",
    ),
    Column("eval.model_args, model_roles, task_args, task_version", "no", "settings"),
    Column("eval.config", "no", "epochs; limits of messages, tokens, time and cost as settings"),
    Column(
        "eval.dataset.sample_ids",
        "no",
        "samples of the run: those without a summary are not_attempted",
    ),
    Column("invalidated", "no", "a log that is marked so is an error"),
    Column("summaries: id, epoch", "yes", "the sample, as `SUITE/ID`, and number of the attempt"),
    Column(
        "summaries: scores",
        "no",
        "scorer -> value: C, I, P, N, 0, 1 or a number; a value that is an object counts as "
        "several scorers, `SCORER/KEY`",
    ),
    Column("summaries: error", "no", "the sample errored"),
    Column(
        "summaries: limit",
        "no",
        "the sample hit a limit; its score is kept for policy='as_scored'",
    ),
    Column("summaries: metadata", "no", "for family='column:NAME'"),
)
OPTIONS = (
    *RUN_OPTIONS,
    Option(
        "without_scores",
        "error",
        "what a run is that was logged without any score: an error, or left out, its records "
        "counted in `dropped`",
        ("error", "leave_out"),
    ),
    Option(
        "suite_from",
        "task",
        "what makes a suite: the task alone, or the task and its arguments",
        ("task", "task_args"),
    ),
    Option(
        "through",
        "own",
        "who reads the files: this package, or inspect_ai where it is installed (slower; the same "
        "data)",
        ("own", "inspect_ai"),
    ),
)
_GENERATE = (
    "reasoning_effort", "effort", "reasoning_tokens", "temperature", "top_p", "top_k", "max_tokens",
    "verbosity", "system_message", "num_choices", "best_of", "frequency_penalty",
    "presence_penalty",
)  # fmt: skip
_LIMITS = (
    "message_limit",
    "token_limit",
    "time_limit",
    "working_limit",
    "cost_limit",
    "turn_limit",
)
# Benchmarks set these for themselves, so that a model may have others in another benchmark.
_OF_SUITE = frozenset(
    {*_LIMITS, "solver", "solver_args", "task_args", "task_version", "max_tokens", "system_message",
     "temperature", "top_p", "top_k", "num_choices", "best_of"}
)  # fmt: skip
_MOST_RECORDS = 10_000_000
_BY_INSTRUMENT = ("grader_failed", "scoring_failed")


def recognises(source: Source) -> bool:
    """Tell whether there is a JSON log of Inspect, or an archive that is one."""
    zips = [file for file in source.files if file.is_zip]
    if any({"eval", "status"} <= file.keys for file in source.files if not file.is_zip):
        return True
    return any(is_inspect_archive(file) for file in zips)


def read(source: Source, options: Mapping[str, Any]) -> xr.Dataset:
    """Read Inspect logs; see TABLE and OPTIONS."""
    return logs.read_logs(source, options, _runs, recognises)


def _runs(
    source: Source, options: Mapping[str, Any], digest: Digest, dropped: Counter[str]
) -> Iterator[Run]:
    for file in source.files:
        with going_on():
            if not file.is_zip and not {"eval", "status"} <= file.keys:
                continue  # other JSON beside the logs
            through = options["through"] == "inspect_ai"
            log = log_through_inspect(file, digest) if through else own_log(file, digest)
            _check_usable(log)
            run = _run(log, options)
            if not _lacks_scores(log):
                yield run
            elif options["without_scores"] == "error":
                raise _without_scores(log)
            else:
                dropped["in runs without scores"] += len(run.records["task"])


# ----- checks


def _check_usable(log: InspectLog) -> None:
    spec = log.header.get("eval")
    if not isinstance(spec, Mapping):
        raise wrong_shape(
            "the log has no eval", log.file.place, "an object `eval` with task and model"
        )
    if log.header.get("invalidated") is True:
        raise InputError(
            "the log is marked as invalidated",
            where=log.file.place,
            expected="logs that whoever ran them holds valid",
            remedy="leave this file out",
        )
    if not log.logged and not mapping_of(spec.get("dataset")).get("sample_ids"):
        raise InputError(
            "the run was logged without samples",
            where=log.file.place,
            expected="summaries of samples: means over samples are no records of attempts",
            remedy="run it with samples logged (without --no-log-samples), or leave this file out",
        )


def _lacks_scores(log: InspectLog) -> bool:
    completed = [one for one in log.samples if not one.error and not one.limit]
    return bool(completed) and not any(one.scores for one in log.samples)


def _without_scores(log: InspectLog) -> InputError:
    scorers = logs.objects_of(mapping_of(log.header["eval"]).get("scorers"))
    names = [str(one.get("name")) for one in scorers]
    told = f" (its scorer, {', '.join(names)}, was not applied)" if names else ""
    return InputError(
        f"the run was logged without scores: none of its {len(log.samples)} samples has one{told}",
        where=log.file.place,
        expected="a score for each sample that was completed",
        remedy="score it: inspect score FILE; or without_scores='leave_out' to read the other runs",
        code="S504",
    )


# ----- records


def _run(log: InspectLog, options: Mapping[str, Any]) -> Run:
    spec = log.header["eval"]
    suite = text_of(spec.get("task"), "eval.task", log.file)
    settings = _settings(log, spec)
    if options["suite_from"] == "task_args" and settings.get("task_args"):
        suite = f"{suite} {settings.pop('task_args')}"
    created = text_of(spec.get("created"), "eval.created", log.file, required=False)
    parts = [spec.get("run_id"), spec.get("task_id"), created]
    known = spec.get("eval_id") or "/".join(str(part) for part in parts if part)
    rows = Rows(suite, options)
    for sample in log.samples:
        _add(rows, sample)
    for item, epoch in _never_begun(log, spec):
        rows.add(item, epoch, "not_attempted", None)
    return Run(
        place=log.file.place,
        identity=str(known or logs.content_identity(settings, suite, rows.columns)),
        created=created,
        settings=settings,
        suite=suite,
        records=rows.columns,
        of_suite=_OF_SUITE,
    )


def _add(rows: Rows, sample: InspectSample) -> None:
    ended = "errored" if sample.error else "limit" if sample.limit else "scored"
    if not sample.scores:
        # completed, but no scorer gave a value: no outcome is known
        status = "errored" if ended == "scored" else ended
        rows.add(sample.identity, sample.epoch, status, None, metadata=sample.metadata)
    for scorer, (value, reason) in sample.scores.items():
        status = ended
        if ended == "scored":
            if reason == "refusal":
                status = "refused"
            elif logs.is_nothing(value) or reason in _BY_INSTRUMENT:
                status = "errored"
        score = None if logs.is_nothing(value) else value
        rows.add(sample.identity, sample.epoch, status, score, scorer, metadata=sample.metadata)


def _never_begun(log: InspectLog, spec: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    """Samples and epochs that the run was to hold and has no summary of."""
    items = mapping_of(spec.get("dataset")).get("sample_ids")
    epochs = mapping_of(spec.get("config")).get("epochs") or 1
    if not isinstance(items, list) or not isinstance(epochs, int):
        return
    total = mapping_of(log.header.get("results")).get("total_samples")
    if total is not None and total != len(items) * epochs:
        return  # the ids are those of the whole data set, not those that were to be run
    begun = {(one.identity, one.epoch) for one in log.samples}
    if len(begun) >= len(items) * epochs:
        return
    if len(items) * epochs > _MOST_RECORDS:
        raise wrong_shape(
            f"the run was to hold {len(items)} samples in {epochs} epochs",
            log.file.place,
            f"at most {_MOST_RECORDS} records",
        )
    for item in items:
        for epoch in range(1, epochs + 1):
            if isinstance(item, str | int) and (str(item), epoch) not in begun:
                yield str(item), epoch


def _settings(log: InspectLog, spec: Mapping[str, Any]) -> dict[str, str]:
    plan = mapping_of(log.header.get("plan"))
    steps = logs.objects_of(plan.get("steps"))
    solver, arguments = spec.get("solver"), spec.get("solver_args")
    if not solver:
        solver = " > ".join(str(step.get("solver")) for step in steps)
        arguments = [step.get("params") for step in steps]
        arguments = arguments if any(arguments) else None
    generate = {**mapping_of(spec.get("model_generate_config")), **mapping_of(plan.get("config"))}
    config = mapping_of(spec.get("config"))
    version = spec.get("task_version")
    return {
        "model": text_of(spec.get("model"), "eval.model", log.file),
        **logs.chosen(
            {
                "solver": solver,
                "solver_args": arguments,
                "model_args": spec.get("model_args"),
                "model_roles": spec.get("model_roles"),
                "task_args": spec.get("task_args"),
                "task_version": None if version in (0, "0") else version,
                **{name: generate.get(name) for name in _GENERATE},
                **{name: config.get(name) for name in _LIMITS},
            }
        ),
    }


READER = Reader(
    name="inspect",
    title="Inspect logs: .eval archives or JSON; a file, a folder, a glob or a zip of them",
    columns=TABLE,
    options=OPTIONS,
    recognises=recognises,
    read=read,
)
