"""every_eval_ever: JSON lines of samples, with the JSON of the evaluation beside them.

Source of the format: evaleval/every_eval_ever, eval.schema.json and instance_level_eval.schema.json
(versions 0.2 and 0.3), MIT License. The two are joined by evaluation_id, whatever the files' names.
"""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import xarray as xr

from measurebayes.data import jsontext, logs
from measurebayes.data.files import Digest, LogFile
from measurebayes.data.logs import Rows, mapping_of, wrong_shape
from measurebayes.data.options import Option
from measurebayes.data.problems import going_on
from measurebayes.data.readers.base import Column, Reader
from measurebayes.data.runs import RUN_OPTIONS, Run
from measurebayes.data.source import Source
from measurebayes.errors import InputError, shown

TABLE = (
    Column("samples: evaluation_id", "yes", "identifies the run"),
    Column("samples: model_id", "yes", "the setting `model`"),
    Column("samples: evaluation_name", "yes", "the suite; becomes `source` of its tasks"),
    Column("samples: sample_id", "yes", "the task, as `SUITE/ID`"),
    Column("samples: evaluation.score, evaluation.is_correct", "yes", "the score; is_correct "
           "stands for it where the score is 0 or 1 and says the same"),
    Column("samples: evaluation_result_id", "no", "the scorer: metric of that result, or the id"),
    Column("samples: error", "no", "text: the sample errored"),
    Column("samples: metadata", "no", "`epoch` is the number of the attempt; for "
           "family='column:NAME'"),
    Column("evaluation: evaluation_id, evaluation_timestamp, retrieved_timestamp", "no", "time of "
           "the run, for runs='latest'"),
    Column("evaluation: evaluation_results: generation_config.generation_args", "no", "settings "
           "such as temperature and reasoning"),
    Column("evaluation: evaluation_results: evaluation_result_id, metric_config", "no", "name of "
           "the scorer; scores of which less is better are left out and counted"),
    Column("evaluation: eval_library.name", "no", "the setting eval_library"),
)  # fmt: skip
OPTIONS = (
    *RUN_OPTIONS,
    Option(
        "value",
        "score",
        "what is read as the score of a sample: evaluation.score or evaluation.is_correct, where "
        "they differ",
        ("score", "is_correct"),
    ),
)
_EVALUATION = frozenset({"evaluation_id", "evaluation_results"})
_SAMPLES = frozenset({"evaluation_id", "sample_id"})
_SETTINGS = (
    "temperature", "top_p", "top_k", "max_tokens", "reasoning", "prompt_template", "max_attempts",
    "agentic_eval_config", "eval_plan", "eval_limits",
)  # fmt: skip


def recognises(source: Source) -> bool:
    """Tell whether there are samples or an evaluation of this schema."""
    return any(file.keys >= _EVALUATION or file.keys >= _SAMPLES for file in source.files)


def read(source: Source, options: Mapping[str, Any]) -> xr.Dataset:
    """Read samples and evaluations; see TABLE and OPTIONS."""
    return logs.read_logs(source, options, _runs, recognises)


def _runs(
    source: Source, options: Mapping[str, Any], digest: Digest, dropped: Counter[str]
) -> Iterator[Run]:
    samples = [file for file in source.files if file.keys >= _SAMPLES]
    if not samples:
        raise InputError(
            "there are evaluations but no samples: means over samples are no records of attempts",
            where=source.name,
            expected="JSON lines with evaluation_id, sample_id and evaluation beside them",
            remedy="give the folder that holds both, if the evaluation was published with samples",
        )
    evaluations: dict[str, Mapping[str, Any]] = {}
    for file in source.files:
        if file.keys >= _EVALUATION:
            with going_on():
                document = mapping_of(jsontext.parse(digest.add(file.content()), file.place))
                identity = str(document.get("evaluation_id"))
                known = evaluations.setdefault(identity, document)
                if known is not document and logs.canonical(known) != logs.canonical(document):
                    raise InputError(
                        f"two files describe the evaluation {shown(identity)} differently",
                        where=file.place,
                        expected="one description of each evaluation",
                        remedy="leave one of them out",
                    )
    for file in samples:
        with going_on():
            yield from _runs_of(file, evaluations, options, digest, dropped)


def _runs_of(
    file: LogFile,
    evaluations: Mapping[str, Mapping[str, Any]],
    options: Mapping[str, Any],
    digest: Digest,
    dropped: Counter[str],
) -> Iterator[Run]:
    """One run for each evaluation, suite and model in a file."""
    runs: dict[tuple[str, str, str], Rows] = {}
    scorers: dict[str, Mapping[str, str | None]] = {}
    for number, line in file.lines(digest):
        where = f"{file.place}, line {number}"
        record = jsontext.parse(line, where)
        evaluation, suite, model = (
            _text(record, name, where) for name in ("evaluation_id", "evaluation_name", "model_id")
        )
        key = evaluation, suite, model
        if key not in runs:
            runs[key] = Rows(suite, options)
        if evaluation not in scorers:
            scorers[evaluation] = _scorers(evaluations.get(evaluation, {}))
        result = str(record.get("evaluation_result_id") or "")
        scorer = scorers[evaluation].get(result, result)
        if scorer is None:
            dropped["scores of which less is better"] += 1
            continue
        _add(runs[key], record, scorer, str(options["value"]), where)
    for (evaluation, suite, model), rows in runs.items():
        document = evaluations.get(evaluation, {})
        yield Run(
            place=file.place,
            identity=evaluation,
            created=_time(document),
            settings={"model": model, **_settings(document, suite)},
            suite=suite,
            records=rows.columns,
            of_suite=frozenset(_SETTINGS) - {"reasoning"},
        )


def _text(record: Any, key: str, where: str) -> str:
    value = record.get(key) if isinstance(record, Mapping) else None
    if isinstance(value, str | int) and not isinstance(value, bool) and str(value).strip():
        return str(value)
    raise wrong_shape(f"the sample has no {key}", where, f"an object with text under {key!r}")


def _add(rows: Rows, record: Mapping[str, Any], scorer: str, wanted: str, where: str) -> None:
    item = _text(record, "sample_id", where)
    metadata = mapping_of(record.get("metadata"))
    value = _value(mapping_of(record.get("evaluation")), wanted)
    failed = bool(record.get("error"))
    rows.add(
        item,
        _epoch(metadata.get("epoch"), where),
        "errored" if failed or value is None else "scored",
        value,
        scorer=scorer,
        metadata=metadata,
    )


def _value(evaluation: Mapping[str, Any], wanted: str) -> Any:
    score, correct = evaluation.get("score"), evaluation.get("is_correct")
    if wanted == "is_correct" or logs.is_nothing(score):
        return correct
    # A converter may have made is_correct of a fraction; then the fraction is what was scored.
    return correct if isinstance(correct, bool) and score == correct else score


def _epoch(value: Any, where: str) -> int:
    if value is None or value == "":
        return 1
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 9:
        value = int(value)
    return logs.whole(value, "metadata.epoch", where)


def _results(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    return logs.objects_of(document.get("evaluation_results"))


def _scorers(document: Mapping[str, Any]) -> dict[str, str | None]:
    """Result id -> name of its metric; None where less is better. "" is a sample without an id."""
    names: dict[str, str | None] = {}
    worse = []
    for result in _results(document):
        metric = mapping_of(result.get("metric_config"))
        identity = str(result.get("evaluation_result_id") or "")
        worse.append(metric.get("lower_is_better") is True)
        name = metric.get("metric_name") or metric.get("metric_id") or identity
        names[identity] = None if worse[-1] else str(name) if identity else ""
    names[""] = None if worse and all(worse) else ""
    return names


def _settings(document: Mapping[str, Any], suite: str) -> dict[str, str]:
    found: dict[str, Any] = {"eval_library": mapping_of(document.get("eval_library")).get("name")}
    for result in _results(document):
        if result.get("evaluation_name") in (suite, None) or len(_results(document)) == 1:
            config = mapping_of(mapping_of(result.get("generation_config")).get("generation_args"))
            found |= {name: config[name] for name in _SETTINGS if config.get(name) is not None}
    return logs.chosen(found)


def _time(document: Mapping[str, Any]) -> str:
    value = document.get("evaluation_timestamp") or document.get("retrieved_timestamp") or ""
    text = str(value)
    try:
        seconds = float(text)
    except ValueError:
        return text
    if not 0 < seconds < 1e11:
        raise InputError(
            f"the time of the evaluation is {shown(text)}",
            where="evaluation_timestamp or retrieved_timestamp",
            expected="an ISO time, or seconds since 1970",
            remedy="the evaluation is damaged: leave it out",
        )
    return datetime.datetime.fromtimestamp(seconds, tz=datetime.UTC).isoformat()


READER = Reader(
    name="every_eval_ever",
    title="every_eval_ever: samples as JSON lines, with the JSON of their evaluation",
    columns=TABLE,
    options=OPTIONS,
    recognises=recognises,
    read=read,
)
