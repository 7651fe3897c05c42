"""What is read of an Inspect log: the header, and of each sample what became of it.

Of an archive that is the directory of its members, header and summaries; never a transcript.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from measurebayes.data import archive, jsontext, logs
from measurebayes.data.files import Digest, LogFile
from measurebayes.data.logs import mapping_of, wrong_shape
from measurebayes.errors import InputError

_HEADER = frozenset({"version", "status", "eval", "plan", "results", "error", "invalidated"})
_JOURNAL = re.compile(r"_journal/summaries/(\d+)\.json")
_SAMPLE = re.compile(r"samples/.+_epoch_\d+\.json|samples/.+\.json")
_START = "_journal/start.json"


@dataclass
class InspectLog:
    """What is read of one log."""

    file: LogFile
    header: Mapping[str, Any]
    samples: list[InspectSample] = field(default_factory=list)
    logged: bool = True  # whether samples were logged at all


@dataclass(slots=True)
class InspectSample:
    """What is read of one sample."""

    identity: str
    epoch: int
    error: bool
    limit: bool
    scores: Mapping[str, Any]
    metadata: Mapping[str, Any]


def is_inspect_archive(file: LogFile) -> bool:
    """Tell whether a zip archive is one Inspect log."""
    with file.opened() as opened, archive.opened_archive(opened, file.place) as members:
        names = set(members.namelist())
    return bool(names & {"header.json", _START})


def own_log(file: LogFile, digest: Digest) -> InspectLog:
    """Read a log, whichever of the two forms it has.

    Raises
    ------
    InputError
        Where it is damaged, or holds samples without summaries.
    """
    if not file.is_zip:
        each = {"samples": lambda value: _sample(value, file.place)}
        document = jsontext.parse_object(digest.add(file.content()), file.place, _HEADER, each)
        samples = document.pop("samples", None)
        if not isinstance(samples, list | None):
            raise wrong_shape("the samples are no list", file.place, "a list under `samples`")
        return InspectLog(file, document, samples or [], logged=samples is not None)
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
) -> InspectLog:
    header: Mapping[str, Any] = {}
    samples: dict[tuple[str, int], InspectSample] = {}
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
    return InspectLog(file, header, list(samples.values()), logged=bool(samples))


def log_through_inspect(file: LogFile, digest: Digest) -> InspectLog:
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
    return InspectLog(file, header, samples, logged=bool(samples))


def _sample(value: Any, where: str) -> InspectSample:
    """Reduce a summary, or a whole sample of the older form, to what counts."""
    if not isinstance(value, dict) or not isinstance(value.get("id"), str | int):
        raise wrong_shape("a sample has no id", where, "an object with id, epoch and scores")
    scores = value.get("scores")
    if scores is None and isinstance(value.get("score"), dict):  # before there were several
        scores = {"score": value["score"]}
    return InspectSample(
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
