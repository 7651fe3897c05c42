"""lm-evaluation-harness: results_*.json with the samples_*.jsonl beside it.

Source of the format: EleutherAI/lm-evaluation-harness, MIT License. A line of samples is a document
under one filter; the model and its settings stand in the results alone, so both files are needed.
"""

from __future__ import annotations

import datetime
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import xarray as xr

from measurebayes.data import jsontext, logs
from measurebayes.data.files import Digest, LogFile
from measurebayes.data.logs import Rows, mapping_of, wrong_shape
from measurebayes.data.problems import going_on
from measurebayes.data.readers.base import Column, Reader
from measurebayes.data.runs import RUN_OPTIONS, Run
from measurebayes.data.source import Source
from measurebayes.errors import InputError, listed

TABLE = (
    Column("results: model_name, config.model_args", "yes", "the setting `model`"),
    Column("results: config", "no", "settings backend and model_args"),
    Column("results: n-shot, configs.TASK.generation_kwargs, system_instruction, chat_template_sha",
           "no", "settings num_fewshot, generation, system_instruction, chat_template"),
    Column("results: results, higher_is_better", "no", "metrics; one where less is better is left "
           "out and counted"),
    Column("results: n-samples", "no", "documents of the run: those without a line are counted in "
           "`dropped`"),
    Column("results: date", "no", "time of the run, for runs='latest'"),
    Column("samples: doc_id", "yes", "the document; the task is `TASK/DOC_ID`"),
    Column("samples: filter", "no", "what picked the answer out of the response"),
    Column("samples: metrics and a key for each", "yes", "the score; each metric is a scorer"),
    Column("samples: doc", "no", "fields of the document, for family='column:NAME'"),
)  # fmt: skip
OPTIONS = RUN_OPTIONS
_RESULTS = frozenset({"results", "configs"})
_SAMPLES = frozenset({"doc_id", "doc", "target"})
_KEEP = frozenset(
    {"results", "configs", "config", "n-shot", "n-samples", "higher_is_better", "date",
     "model_name", "task_hashes", "system_instruction", "chat_template_sha", "start_time"}
)  # fmt: skip
_STAMP = re.compile(r"_(\d{4}-\d{2}-\d{2}T\d{2}-\d{2}-\d{2}[.\d]*?)\.jsonl?(?:\.gz)?$")
# How a model was served says nothing about what answers.
_PLUMBING = frozenset(
    {"base_url", "num_concurrent", "max_retries", "tokenized_requests", "tokenizer_backend",
     "batch_size", "max_batch_size", "device", "device_map", "parallelize", "trust_remote_code",
     "timeout", "tensor_parallel_size", "data_parallel_size", "gpu_memory_utilization"}
)  # fmt: skip


def recognises(source: Source) -> bool:
    """Tell whether there are results or samples of the harness."""
    return any(file.keys >= _RESULTS or file.keys >= _SAMPLES for file in source.files)


def read(source: Source, options: Mapping[str, Any]) -> xr.Dataset:
    """Read results and samples; see TABLE and OPTIONS."""
    return logs.read_logs(source, options, _runs, recognises)


def _runs(
    source: Source, options: Mapping[str, Any], digest: Digest, dropped: Counter[str]
) -> Iterator[Run]:
    results = [file for file in source.files if file.keys >= _RESULTS]
    samples = [file for file in source.files if file.keys >= _SAMPLES]
    if not samples:
        raise InputError(
            "there are results but no samples: means over documents are no records of attempts",
            where=source.name,
            expected="samples_TASK_DATE.jsonl beside results_DATE.json",
            remedy=f"{logs.folder_remedy(results[0], 'the harness')}, with --log_samples",
        )
    documents: dict[str, Mapping[str, Any]] = {}
    for file in samples:
        with going_on():
            of = _results_of(file, results)
            if of.name not in documents:
                content = digest.add(of.content())
                documents[of.name] = jsontext.parse_object(content, of.place, _KEEP, {})
            yield _run(file, of, documents[of.name], options, digest, dropped)


def _results_of(samples: LogFile, results: list[LogFile]) -> LogFile:
    """The results that samples belong to: in the same folder, of the same time."""
    beside = [file for file in results if file.folder == samples.folder]
    stamp = _STAMP.search(samples.name)
    fitting = [file for file in beside if stamp and file.name.endswith(f"_{stamp[1]}.json")]
    if len(fitting) == 1:
        return fitting[0]
    if len(beside) == 1:
        return beside[0]
    raise InputError(
        "it can't be told which results these samples belong to: "
        + (f"{len(beside)} files of results are beside them" if beside else "none were given"),
        where=samples.place,
        expected="results_DATE.json and samples_TASK_DATE.jsonl of the same date in one folder, or "
        "one file of results in it",
        remedy=f"{logs.folder_remedy(samples, 'the harness')}; the results name the model",
    )


def _task_of(samples: LogFile, document: Mapping[str, Any], place: str) -> str:
    known = [name for name in mapping_of(document.get("configs")) if isinstance(name, str)]
    name = _STAMP.sub("", samples.name.rpartition("/")[2]).removeprefix("samples_")
    for task in known:
        if name in (task, re.sub(r"[^\w\-. ]", "_", task)):
            return task
    if len(known) == 1:
        return known[0]
    raise InputError(
        "it can't be told which task these samples are of",
        where=samples.place,
        expected=f"samples_TASK_DATE.jsonl with a task of {place}: {listed(known)}",
        remedy="give the files the names that the harness gave them",
    )


def _run(
    file: LogFile,
    of: LogFile,
    document: Mapping[str, Any],
    options: Mapping[str, Any],
    digest: Digest,
    dropped: Counter[str],
) -> Run:
    task = _task_of(file, document, of.place)
    known = _metrics(document, task)
    worse = {name for name, better in _better(document, task).items() if better is False}
    rows = Rows(task, options)
    seen = set()
    for number, line in file.lines(digest):
        where = f"{file.place}, line {number}"
        with going_on():
            record = jsontext.parse(line, where)
            if not isinstance(record, dict) or not isinstance(record.get("doc_id"), int | str):
                expected = "a document with doc_id and metrics"
                raise wrong_shape("the line has no doc_id", where, expected)
            seen.add(record["doc_id"])
            dropped["scores of which less is better"] += _add(rows, record, known, worse, where)
    lacking = mapping_of(mapping_of(document.get("n-samples")).get(task)).get("effective")
    if isinstance(lacking, int) and lacking > len(seen):
        dropped["documents of the run without a line in the samples"] += lacking - len(seen)
    settings = _settings(document, task, of)
    kept = {name: document.get(name) for name in ("config", "date", "start_time", "task_hashes")}
    return Run(
        place=file.place,
        identity=logs.content_identity(settings, kept),
        created=_time(document.get("date")),
        settings=settings,
        suite=task,
        records=rows.columns,
        of_suite=frozenset({"num_fewshot", "generation"}),
    )


def _add(
    rows: Rows, record: Mapping[str, Any], known: set[str], worse: set[str], where: str
) -> int:
    """Add a record for each metric of a line; returns the number of those left out."""
    listed_metrics = record.get("metrics")
    names = listed_metrics if isinstance(listed_metrics, list) else sorted(known & set(record))
    found = [name for name in names if isinstance(name, str) and name in record]
    if not found:
        raise wrong_shape(
            "the line has no metric", where, f"a score under one of: {listed(sorted(known))}"
        )
    filtered = record.get("filter")
    for name in found:
        value = record[name]
        if name in worse:
            continue
        rows.add(
            record["doc_id"],
            1,
            "errored" if logs.is_nothing(value) else "scored",
            None if logs.is_nothing(value) else value,
            scorer=name,
            filtered="" if filtered in (None, "none") else str(filtered),
            metadata=record.get("doc"),
        )
    return sum(name in worse for name in found)


def _metrics(document: Mapping[str, Any], task: str) -> set[str]:
    means = mapping_of(mapping_of(document.get("results")).get(task))
    names = {str(key).partition(",")[0] for key in means}
    return {name for name in names if not name.endswith("_stderr")} - {"alias"}


def _better(document: Mapping[str, Any], task: str) -> Mapping[str, Any]:
    return mapping_of(mapping_of(document.get("higher_is_better")).get(task))


def _settings(document: Mapping[str, Any], task: str, of: LogFile) -> dict[str, str]:
    config = mapping_of(document.get("config"))
    arguments = _arguments(config.get("model_args"))
    model = document.get("model_name") or arguments.get("pretrained") or arguments.get("model")
    if not isinstance(model, str) or not model.strip():
        raise wrong_shape("the results name no model", of.place, "model_name or config.model_args")
    own = {
        name: value
        for name, value in arguments.items()
        if name not in ("pretrained", "model") and name not in _PLUMBING
    }
    of_task = mapping_of(mapping_of(document.get("configs")).get(task))
    generation = {
        name: value
        for name, value in mapping_of(of_task.get("generation_kwargs")).items()
        if name != "until"
    }
    return {
        "model": model,
        **logs.chosen(
            {
                "backend": config.get("model"),
                "model_args": own,
                "num_fewshot": mapping_of(document.get("n-shot")).get(task),
                "generation": generation,
                "system_instruction": document.get("system_instruction"),
                "chat_template": document.get("chat_template_sha"),
            }
        ),
    }


def _arguments(value: Any) -> dict[str, Any]:
    """Arguments of the model: an object, or text such as "pretrained=NAME,dtype=float"."""
    if isinstance(value, Mapping):
        return dict(value)
    pairs = (part.partition("=") for part in str(value or "").split(","))
    return {name.strip(): text.strip() for name, mark, text in pairs if mark}


def _time(value: Any) -> str:
    """ISO time of seconds since 1970; "" where there are none."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e11:
        return ""
    return datetime.datetime.fromtimestamp(value, tz=datetime.UTC).isoformat()


READER = Reader(
    name="lm_eval",
    title="lm-evaluation-harness: a folder with results_*.json and samples_*.jsonl",
    columns=TABLE,
    options=OPTIONS,
    recognises=recognises,
    read=read,
)
