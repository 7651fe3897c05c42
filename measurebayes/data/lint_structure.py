"""What the linter looks for in data that were read: scale, labels, statuses, what tells nothing."""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections.abc import Container, Iterator, Sequence

import numpy as np
import xarray as xr

from measurebayes.data.connect import pieces, unconnected
from measurebayes.data.problems import MAX_PLACES, STAND_IN, Problem
from measurebayes.errors import InputError, listed, shown

_FEW_TASKS = 5
_MANY_OPEN = 0.05  # share of an agent's records
_SAME_CELLS = 20  # fewer equal cells may be chance
_PUNCTUATION = re.compile(r"[\s_\-./:]+")


def structure_problems(runs: xr.Dataset, undecided: Container[str] = ()) -> Iterator[Problem]:
    """Find what is wrong or worth knowing in valid data.

    Parameters
    ----------
    runs : xarray.Dataset
        Data in the schema of measurebayes.data.schema. Labels that only stand in for unusable ones
        are passed over.
    undecided : container of str
        Statuses of which nobody has said yet what they count as.

    Yields
    ------
    Problem
    """
    yield from _scale(runs)
    for kind in ("agent", "task"):
        yield from _look_alikes(kind, runs[kind].values.tolist())
        yield from _without_attempts(runs, kind)
    yield from _same_results(runs)
    yield from _statuses(runs)
    yield from _left_out(runs, undecided)
    yield from _uninformative(runs)
    yield from _known_in_part(runs)


def _of(code: str, found: str, places: Sequence[str], expected: str, remedy: str) -> Problem:
    error = InputError(found, ", ".join(places[:3]) or None, expected, remedy, code)
    return Problem(error, tuple(places[:MAX_PLACES]), max(1, len(places)))


def _places(kind: str, labels: Sequence[str]) -> list[str]:
    return [f"{kind} {shown(label)}" for label in labels]


def _of_all(
    labels: Sequence[str], runs: xr.Dataset, kind: str, one: str = "has", several: str = "have"
) -> str:
    """Words such as "1 of 5 agents has"."""
    verb = one if len(labels) == 1 else several
    return f"{len(labels)} of {runs.sizes[kind]} {kind}s {verb}"


def _real(labels: Sequence[str]) -> list[str]:
    return [label for label in labels if not label.startswith(STAND_IN)]


def _scale(runs: xr.Dataset) -> Iterator[Problem]:
    found = pieces(runs)
    found = [piece for piece in found if _real(piece.agents) and _real(piece.tasks)]
    name = str(runs.attrs.get("name", "the data"))
    if len(found) > 1:
        error = unconnected(found, name)
        error.code = "C601"
        error.found = f"agents and tasks fall into {len(found)} pieces"  # the places name them
        places = [f"piece {number}: {piece}" for number, piece in enumerate(found, start=1)]
        yield Problem(error, tuple(places[:MAX_PLACES]), len(found))
    for kind in ("agent", "task"):
        number = np.unique(runs[f"{kind}_index"].values).size
        if number < 2:
            yield _of(
                "C604",
                f"attempts by {number} {kind} only"
                if kind == "agent"
                else f"attempts at {number} task only",
                [name],
                f"at least 2 {kind}s",
                "add records of others",
            )


def _look_alikes(kind: str, labels: Sequence[str]) -> Iterator[Problem]:
    groups: dict[str, list[str]] = {}
    for label in _real(labels):
        bare = _PUNCTUATION.sub("", unicodedata.normalize("NFKC", label).casefold())
        groups.setdefault(bare, []).append(label)
    for group in groups.values():
        if len(group) > 1:
            yield _of(
                "C602",
                f"{kind}s have labels that look alike: {listed(group)}",
                _places(kind, group),
                "labels that differ in more than case, blanks and punctuation",
                "give them one label where they are the same",
            )


def _totals(runs: xr.Dataset, kind: str, name: str) -> np.ndarray:
    totals = np.zeros(runs.sizes[kind], dtype=np.int64)
    np.add.at(totals, runs[f"{kind}_index"].values, runs[name].values)
    return totals


def _without_attempts(runs: xr.Dataset, kind: str) -> Iterator[Problem]:
    none = runs[kind].values[_totals(runs, kind, "attempts") == 0].tolist()
    if none := _real(none):
        yield _of(
            "C603",
            f"{_of_all(none, runs, kind)} no attempt: {listed(none)}",
            _places(kind, none),
            "an attempt, or no label",
            "a fit knows nothing of them but the prior; measurebayes.subset(runs) drops them",
        )


def _same_results(runs: xr.Dataset) -> Iterator[Problem]:
    columns = [runs[name].values for name in ("task_index", "attempts", "successes")]
    ends = np.cumsum(np.bincount(runs["agent_index"].values, minlength=runs.sizes["agent"]))
    groups: dict[bytes, list[str]] = {}
    for label, rows in zip(
        runs["agent"].values.tolist(), np.split(np.stack(columns, axis=1), ends[:-1]), strict=True
    ):
        if len(rows) >= _SAME_CELLS and np.any(rows[:, 2] < rows[:, 1]) and rows[:, 2].any():
            key = hashlib.sha256(np.ascontiguousarray(rows).tobytes()).digest()
            groups.setdefault(key, []).append(label)
    for group in groups.values():
        if len(group) > 1:
            yield _of(
                "C607",
                f"agents have the same attempts and successes at every task: {listed(group)}",
                _places("agent", group),
                "different results of different agents",
                "leave one of them out if they are the same",
            )


def _statuses(runs: xr.Dataset) -> Iterator[Problem]:
    if "unscored_records" in runs:
        unscored = np.zeros(runs.sizes["agent"], dtype=np.int64)
        asked = runs["unscored_status"].values != "not_administered"
        np.add.at(
            unscored,
            runs["unscored_agent_index"].values[asked],
            runs["unscored_records"].values[asked],
        )
        missing = np.zeros_like(unscored)
        left_out = asked & (runs["unscored_counted_as"].values == "missing")
        np.add.at(
            missing,
            runs["unscored_agent_index"].values[left_out],
            runs["unscored_records"].values[left_out],
        )
        records = _totals(runs, "agent", "attempts") + missing
        for at in np.flatnonzero(unscored >= _MANY_OPEN * records):
            if unscored[at]:
                label = str(runs["agent"].values[at])
                yield _of(
                    "S502",
                    f"{unscored[at]} of {records[at]} records of {shown(label)} are not simply "
                    "scored",
                    _places("agent", [label]),
                    "few of them, or alike for all agents",
                    "compare results under policy='failure' and policy='missing'",
                )


def _left_out(runs: xr.Dataset, undecided: Container[str]) -> Iterator[Problem]:
    for reason, number in json.loads(runs.attrs.get("dropped") or "{}").items():
        if reason not in undecided:
            yield _of(
                "S503",
                f"{number} record{'s' * (number != 1)} left out: {reason}",
                [str(runs.attrs.get("name", "the data"))],
                "",
                "measurebayes data shows all counts",
            )


def _uninformative(runs: xr.Dataset) -> Iterator[Problem]:
    attempts = _totals(runs, "task", "attempts")
    solved = _totals(runs, "task", "successes")
    for which, words in (
        ((attempts > 0) & (solved == attempts), "always"),
        ((attempts > 0) & (solved == 0), "never"),
    ):
        labels = runs["task"].values[which].tolist()
        if labels:
            yield _of(
                "C605",
                f"{_of_all(labels, runs, 'task', 'is', 'are')} {words} solved: {listed(labels)}",
                _places("task", labels),
                "",
                "keep them; leaving them out would bias difficulties",
            )
    tasks_of_agent = np.bincount(runs["agent_index"].values, minlength=runs.sizes["agent"])
    few = runs["agent"].values[(tasks_of_agent > 0) & (tasks_of_agent < _FEW_TASKS)].tolist()
    if few := _real(few):
        yield _of(
            "C606",
            f"{_of_all(few, runs, 'agent')} attempts at fewer than {_FEW_TASKS} tasks: "
            f"{listed(few)}",
            _places("agent", few),
            f"{_FEW_TASKS} tasks or more",
            "add records",
        )


def _known_in_part(runs: xr.Dataset) -> Iterator[Problem]:
    for kind, name, unknown in (
        ("task", "human_minutes", np.isnan(runs["human_minutes"].values)),
        ("agent", "release_date", np.isnat(runs["release_date"].values)),
    ):
        if unknown.any() and not unknown.all():
            labels = runs[kind].values[unknown].tolist()
            yield _of(
                "C608",
                f"{_of_all(labels, runs, kind)} no {name}: {listed(labels)}",
                _places(kind, labels),
                f"{name} of all",
                f"give a table: {kind}s=...",
            )
