"""Inspect logs: .eval archives and single JSON files, by header and summaries alone.

Source of the format: Inspect (UK AI Security Institute), `inspect_ai.log`, MIT License. An archive
holds header.json, summaries.json and one file a sample with its transcript; a run that has not
finished has _journal/start.json and _journal/summaries/ instead. Transcripts are never opened. The
older JSON form is one document, and its samples are reduced to their scores one at a time.
"""

from __future__ import annotations

import re
import zipfile
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import xarray as xr

from measurebayes.data import archive, jsontext, logs
from measurebayes.data.files import Digest, LogFile
from measurebayes.data.logs import Rows, mapping_of, text_of, wrong_shape
from measurebayes.data.options import Option
from measurebayes.data.problems import going_on
from measurebayes.data.readers.base import Column, Reader
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
_HEADER = frozenset({"version", "status", "eval", "plan", "results", "error", "invalidated"})
_JOURNAL = re.compile(r"_journal/summaries/(\d+)\.json")
_SAMPLE = re.compile(r"samples/.+_epoch_\d+\.json|samples/.+\.json")
_START = "_journal/start.json"
_MOST_RECORDS = 10_000_000
_BY_INSTRUMENT = ("grader_failed", "scoring_failed")


@dataclass
class _Log:
    """What is read of one log."""

    file: LogFile
    header: Mapping[str, Any]
    samples: list[_Sample] = field(default_factory=list)
    logged: bool = True  # whether samples were logged at all


@dataclass(slots=True)
class _Sample:
    """What is read of one sample."""

    identity: str
    epoch: int
    error: bool
    limit: bool
    scores: Mapping[str, Any]
    metadata: Mapping[str, Any]


def recognises(source: Source) -> bool:
    """Tell whether there is a JSON log of Inspect, or an archive that is one."""
    zips = [file for file in source.files if file.is_zip]
    if any({"eval", "status"} <= file.keys for file in source.files if not file.is_zip):
        return True
    return bool(zips) and is_inspect_archive(zips[0])


def is_inspect_archive(file: LogFile) -> bool:
    """Tell whether a zip archive is one Inspect log."""
    with file.opened() as opened, archive.opened_archive(opened, file.place) as members:
        names = set(members.namelist())
    return bool(names & {"header.json", _START})


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
            log = _through_inspect(file, digest) if through else _log(file, digest)
            _check_usable(log)
            run = _run(log, options)
            if not _lacks_scores(log):
                yield run
            elif options["without_scores"] == "error":
                raise _without_scores(log)
            else:
                dropped["in runs without scores"] += len(run.records["task"])


# ----- files


def _log(file: LogFile, digest: Digest) -> _Log:
    if not file.is_zip:
        each = {"samples": lambda value: _sample(value, file.place)}
        document = jsontext.parse_object(digest.add(file.content()), file.place, _HEADER, each)
        samples = document.pop("samples", None)
        if not isinstance(samples, list | None):
            raise wrong_shape("the samples are no list", file.place, "a list under `samples`")
        return _Log(file, document, samples or [], logged=samples is not None)
    with file.opened() as opened, archive.opened_archive(opened, file.place) as members:
        # a sample that was run again stands twice; the last one holds
        by_name = {member.filename: member for member in members.infolist()}
        texts = {
            name: digest.add(archive.member_bytes(members, by_name[name], f"{file.place}, {name}"))
            for name in _wanted(by_name, file)
        }
    return _from_members(file, texts, by_name)


def _wanted(by_name: Mapping[str, zipfile.ZipInfo], file: LogFile) -> list[str]:
    header = "header.json" if "header.json" in by_name else _START
    if header not in by_name:
        raise wrong_shape(
            "the archive is no Inspect log", file.place, "header.json or _journal/start.json in it"
        )
    if "summaries.json" in by_name:
        return [header, "summaries.json"]
    parts = [(int(found[1]), name) for name in by_name if (found := _JOURNAL.fullmatch(name))]
    return [header, *(name for _, name in sorted(parts))]


def _from_members(
    file: LogFile, texts: Mapping[str, bytes], by_name: Mapping[str, zipfile.ZipInfo]
) -> _Log:
    header: Mapping[str, Any] = {}
    samples: dict[tuple[str, int], _Sample] = {}
    for name, text in texts.items():
        place = f"{file.place}, {name}"
        if name in ("header.json", _START):
            header = jsontext.parse_object(text, place, _HEADER, {})
            continue
        for sample in jsontext.parse_array(text, place, lambda v, p=place: _sample(v, p)):  # type: ignore[misc]
            samples[sample.identity, sample.epoch] = sample
    transcripts = sum(1 for name in by_name if _SAMPLE.fullmatch(name))
    if transcripts and not samples:
        raise InputError(
            f"the log has {transcripts} samples but no summaries of them",
            where=file.place,
            expected="summaries.json, as Inspect from 0.3.50 on writes it; transcripts aren't read",
            remedy="write it anew: inspect log convert --to eval --output-dir NEW FILE",
        )
    return _Log(file, header, list(samples.values()), logged=bool(samples))


def _through_inspect(file: LogFile, digest: Digest) -> _Log:
    """Header and summaries through inspect_ai's own functions."""
    try:
        from inspect_ai.log import read_eval_log, read_eval_log_sample_summaries
    except ImportError:
        raise InputError(
            "inspect_ai is not installed",
            where="option through",
            expected="the package inspect_ai",
            remedy="pip install 'measurebayes[inspect]', or leave the option out",
        ) from None
    if file.path is None:
        raise InputError(
            "inspect_ai reads files on the disk alone",
            where=file.place,
            expected="a file or a folder of logs",
            remedy="unpack the archive, or leave the option through out",
        )
    wanted = {"id", "epoch", "error", "limit", "scores", "metadata"}
    try:
        header = read_eval_log(str(file.path), header_only=True).model_dump(mode="json")
        found = read_eval_log_sample_summaries(str(file.path))
        summaries = [one.model_dump(mode="json", include=wanted) for one in found]
    except Exception as error:  # noqa: BLE001 - whatever inspect_ai and pydantic raise
        raise InputError(
            f"inspect_ai can't read the log: {str(error)[:200]}",
            where=file.place,
            expected="a log that the installed version of inspect_ai can read",
            remedy="leave the option through out, or install a newer inspect_ai",
        ) from None
    for part in (header, summaries):
        digest.add(logs.canonical(part).encode("utf-8", "replace"))
    samples = [_sample(one, file.place) for one in summaries]
    return _Log(file, header, samples, logged=bool(samples))


def _sample(value: Any, where: str) -> _Sample:
    """Reduce a summary, or a whole sample of the older form, to what counts."""
    if not isinstance(value, dict) or not isinstance(value.get("id"), str | int):
        raise wrong_shape("a sample has no id", where, "an object with id, epoch and scores")
    scores = value.get("scores")
    if scores is None and isinstance(value.get("score"), dict):  # before there were several
        scores = {"score": value["score"]}
    return _Sample(
        identity=str(value["id"]),
        epoch=logs.whole(value.get("epoch", 1), "epoch", where),
        error=bool(value.get("error")),
        limit=bool(value.get("limit")),
        scores=_values(mapping_of(scores)),
        metadata=mapping_of(value.get("metadata")),
    )


def _values(scores: Mapping[str, Any]) -> dict[str, Any]:
    """Scorer -> (value, reason) without answers and explanations."""
    found: dict[str, Any] = {}
    for scorer, score in scores.items():
        value, reason = score, None
        if isinstance(score, dict):
            value, reason = score.get("value"), score.get("reason")
        if isinstance(value, dict):
            found |= {f"{scorer}/{key}": (one, reason) for key, one in value.items()}
        else:
            found[scorer] = (value, reason)
    return found


# ----- checks


def _check_usable(log: _Log) -> None:
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


def _lacks_scores(log: _Log) -> bool:
    completed = [one for one in log.samples if not one.error and not one.limit]
    return bool(completed) and not any(one.scores for one in log.samples)


def _without_scores(log: _Log) -> InputError:
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


def _run(log: _Log, options: Mapping[str, Any]) -> Run:
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


def _add(rows: Rows, sample: _Sample) -> None:
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


def _never_begun(log: _Log, spec: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
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


def _settings(log: _Log, spec: Mapping[str, Any]) -> dict[str, str]:
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
