"""What readers of logs share: columns of records, settings as short text, the dataset."""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import xarray as xr

from measurebayes.data.files import Digest, LogFile
from measurebayes.data.problems import problem
from measurebayes.data.runs import Run, dataset_of_runs
from measurebayes.data.source import Source
from measurebayes.errors import InputError, shown

_SHORT = 60
MakeRuns = Callable[[Source, Mapping[str, Any], Digest, "Counter[str]"], Iterator[Run]]


def read_logs(
    source: Source,
    options: Mapping[str, Any],
    make_runs: MakeRuns,
    recognises: Callable[[Source], bool],
) -> xr.Dataset:
    """Make a dataset of the runs that a reader finds in the files of a source.

    Parameters
    ----------
    source : Source
        With files.
    options : mapping
        Complete options of the reader, RUN_OPTIONS among them.
    make_runs : callable
        Yields the runs; it is given the source, the options, a Digest to add what it reads to, and
        a Counter to add numbers of records left out to, by reason.
    recognises : callable
        Tells whether the source has such logs at all.

    Returns
    -------
    xarray.Dataset

    Raises
    ------
    InputError
        Where it has none.
    """
    if not source.files or not recognises(source):
        raise InputError(
            "there is no log of this format in it",
            where=source.name,
            expected="a file, folder, pattern or zip archive with such logs",
            remedy="choose another reader, or leave `reader` out to have it found",
        )
    for file in source.files:
        if file.fault and len(source.files) > 1:
            problem(file.fault)  # it may be a log that would else be left out in silence
    digest, dropped = Digest(), Counter[str]()
    dataset = dataset_of_runs(make_runs(source, options, digest, dropped), options, source.name)
    known = json.loads(dataset.attrs.get("dropped") or "{}")
    for reason, number in dropped.items():
        if number:
            known[reason] = known.get(reason, 0) + number
    return dataset.assign_attrs(
        sha256=digest.hexdigest(), dropped=json.dumps(dict(sorted(known.items())))
    )


def folder_remedy(file: LogFile, whose: str) -> str:
    """Words that name the folder of a file to which others belong."""
    named = f": {str(file.path.parent)!r}" if file.path else ""
    return f"give the folder as {whose} wrote it{named}"


class Rows:
    """Records of one run, column by column, as `Run` wants them.

    Parameters
    ----------
    suite : str
        Prefix of the tasks' labels.
    family : str or None
        Name of the metadata to keep for families.
    """

    def __init__(self, suite: str, options: Mapping[str, Any]) -> None:
        self.suite = suite
        family = str(options.get("family") or "")
        self.family = family.removeprefix("column:") if family.startswith("column:") else None
        names = ["task", "epoch", "scorer", "filter", "status", "value"]
        self._column = f"metadata.{self.family}" if self.family else None
        self.columns: dict[str, list[Any]] = {name: [] for name in names}
        if self._column:
            self.columns[self._column] = []

    def add(
        self,
        item: Any,
        epoch: int,
        status: str,
        value: Any,
        scorer: str = "",
        filtered: str = "",
        metadata: Any = None,
    ) -> None:
        """Add one record; `metadata` is the mapping that the family may be named in."""
        columns = self.columns
        columns["task"].append(f"{self.suite}/{item}" if self.suite else str(item))
        columns["epoch"].append(epoch)
        columns["scorer"].append(scorer)
        columns["filter"].append(filtered)
        columns["status"].append(status)
        columns["value"].append(plain(value))
        if self._column:
            columns[self._column].append(plain(mapping_of(metadata).get(self.family or "")))

    def __len__(self) -> int:
        return len(self.columns["task"])


def plain(value: Any) -> Any:
    """Give a value as it stands, or as JSON text where it is a list or an object."""
    return canonical(value) if isinstance(value, list | dict) else value


def is_nothing(value: Any) -> bool:
    """Tell whether a score is absent: null, or NaN, which harnesses write for it."""
    return value is None or (isinstance(value, float) and math.isnan(value))


def canonical(value: Any) -> str:
    """JSON text that is the same for equal values."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def short(value: Any) -> str:
    """Write a setting as short text for a label; "" for nothing.

    Long values are cut, with a checksum of the whole, so that different ones stay different.
    """
    if value is None or value in ("", [], {}):
        return ""
    text = value if isinstance(value, str) else canonical(value)
    line = " ".join(text.split())
    if line == text and len(text) <= _SHORT:
        return text
    return f"{line[: _SHORT - 12].rstrip()}... #{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def chosen(settings: Mapping[str, Any]) -> dict[str, str]:
    """The settings that say something, as short text."""
    return {name: text for name, value in settings.items() if (text := short(value))}


def content_identity(*parts: Any) -> str:
    """Identity of a run whose log names none: a checksum of what it says."""
    return hashlib.sha256(canonical(list(parts)).encode("utf-8", "replace")).hexdigest()[:16]


def text_of(value: Any, key: str, file: LogFile, required: bool = True) -> str:
    """Give a member of a log that must be text."""
    if isinstance(value, str) and (value.strip() or not required):
        return value
    if value is None and not required:
        return ""
    raise InputError(
        f"the key {key!r} is {shown(value) if value is not None else 'missing'}",
        where=file.place,
        expected="text",
        remedy="the log is damaged, or another program wrote it: leave it out",
    )


def mapping_of(value: Any) -> Mapping[str, Any]:
    """Give a member of a log that should be an object; an empty one for anything else."""
    return value if isinstance(value, dict) else {}


def objects_of(value: Any) -> list[dict[str, Any]]:
    """Give the objects in a member of a log that should be a list of them."""
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def whole(value: Any, key: str, where: str) -> int:
    """Give a member of a log that must be a whole number that int32 holds."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**31:
        return value
    raise InputError(
        f"the key {key!r} is {shown(value)}",
        where=where,
        expected="a whole number from 0",
        remedy="the log is damaged: leave it out",
    )


def wrong_shape(what: str, where: str, expected: str) -> InputError:
    """Error for JSON that has another shape than the format."""
    return InputError(
        what,
        where=where,
        expected=expected,
        remedy="the log is damaged, or another program wrote it: leave it out",
    )
