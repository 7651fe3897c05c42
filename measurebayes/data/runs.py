"""Runs of evaluations as logs tell them, and how they become one dataset.

Every reader of logs yields `Run` objects; `dataset_of_runs` decides, for all formats alike, which
records are attempts of which agent at which task, and counts what isn't.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from measurebayes.data import identity, scores, values
from measurebayes.data.build import CellCounts, build_dataset
from measurebayes.data.options import STRIP, Option, name_list, truth
from measurebayes.data.schema import SCORE, STATUSES
from measurebayes.data.statuses import POLICY, SCORED, StatusCounts
from measurebayes.data.values import BadValueError, Encoded
from measurebayes.errors import InputError, did_you_mean, listed, shown

THRESHOLD = Option(
    "threshold", None, "a score of at least this number is a success; needed for other scores than "
    "0 and 1",
)  # fmt: skip
RUN_OPTIONS = (
    Option("suite", None, "the benchmarks (suites) to read: names; all where None"),
    Option(
        "scorer",
        None,
        "which scorer counts where a suite has several: its name (or names, or a mapping from "
        'suites), or "all": kept apart, as tasks `TASK [SCORER]`',
    ),
    Option("filter", None, "the same for several filters of one answer"),
    Option(
        "runs",
        None,
        "what several runs of one agent at the same tasks are: all, attempts alike; or latest, the "
        "others left out and counted",
        ("all", "latest"),
    ),
    Option(
        "agent_from",
        None,
        'what the label of an agent is made of: "model" and names of settings, or "run"; '
        'needed where one model was run with several settings. "model" alone merges them',
    ),
    POLICY,
    THRESHOLD,
    Option("family", None, '"column:NAME": a metadata column of the records names the family'),
    STRIP,
)


Column = Sequence[Any] | Encoded


@dataclass(frozen=True)
class Run:
    """One evaluation run as a log tells it: one agent, one suite, any number of records.

    Parameters
    ----------
    place : str
        File and member that it stands in, for messages; it is not kept with the data.
    identity : str
        What the log itself says that sets the run apart, never the name of a file.
    created : str
        ISO time, "" where unknown.
    settings : mapping
        "model", and what else sets agents apart: solver, reasoning_effort, temperature.
    suite : str
        The benchmark, which becomes `source` of its tasks.
    records : mapping
        Columns of equal length, one row a record: "task" (label, unique over suites), "epoch"
        (whole numbers), "scorer" ("" none), "filter" (optional), "status" (out of
        measurebayes.data.schema.STATUSES), "value" (the score as it stands there), and
        "metadata.NAME" for families. A record without a score and with the scorer "" belongs to
        every scorer that the run has. A column may also be `measurebayes.data.values.Encoded`.
    of_suite : frozenset of str
        Names of settings that a suite may set for itself, such as a solver: they tell agents apart
        only where runs of one suite differ in them.
    """

    place: str
    identity: str
    created: str
    settings: Mapping[str, str]
    suite: str
    records: Mapping[str, Column]
    of_suite: frozenset[str] = frozenset()


def dataset_of_runs(runs: Iterable[Run], options: Mapping[str, Any], name: str) -> xr.Dataset:
    """Turn runs into a dataset; they are read one by one and only numbers of them are kept.

    Parameters
    ----------
    runs : iterable of Run
    options : mapping
        RUN_OPTIONS, complete.
    name : str
        What messages call the source.

    Returns
    -------
    xarray.Dataset
        Agents and tasks in natural order, so that the order and names of files don't matter.

    Raises
    ------
    InputError
        Where it is open which records are attempts of whom, or what they count as.
    """
    collected = _Collected(name, options)
    for run in runs:
        collected.add(run)
    return collected.dataset()


def _distinct(column: Column) -> tuple[np.ndarray, list[Any]]:
    """(row,) positions in the distinct values that occur, and these, in order of appearance."""
    if isinstance(column, Encoded):
        codes, used = pd.factorize(column.indices)
        return codes, [column.values[at] for at in used.tolist()]
    series = np.empty(len(column), dtype=object)
    series[:] = column
    codes, distinct = pd.factorize(series, use_na_sentinel=False)
    return codes, distinct.tolist()


def _truths_as_words(column: Column) -> Column:
    """Scores with true and false in words, because True and 1 are equal and count otherwise."""
    words = {True: "true", False: "false"}
    if isinstance(column, Encoded):
        told = [words[bool(v)] if isinstance(v, bool | np.bool_) else v for v in column.values]
        return replace(column, values=told)
    return [words[bool(v)] if isinstance(v, bool | np.bool_) else v for v in column]


def _plain_values(column: Column) -> Sequence[Any]:
    if isinstance(column, Encoded):
        return [column.values[at] for at in column.indices.tolist()]
    return column


class _Codes:
    """Whole numbers for values, in order of first appearance."""

    def __init__(self) -> None:
        self.positions: dict[Any, int] = {}

    def encode(self, column: Column) -> np.ndarray:
        """(row,) positions of the values of a column."""
        codes, distinct = _distinct(column)
        known = self.positions
        own = [known.setdefault(value, len(known)) for value in distinct]
        return np.asarray(own, dtype=np.int64)[codes]

    @property
    def names(self) -> list[Any]:
        return list(self.positions)


class _Collected:
    """The records of all runs as whole numbers, until all that they say is known."""

    def __init__(self, name: str, options: Mapping[str, Any]) -> None:
        self.name = name
        self.options = options
        self.suite = options["suite"]
        self.strip = truth(options["strip"], "strip")
        self.tasks, self.values = _Codes(), _Codes()
        self.scorers, self.filters = _Codes(), _Codes()
        self.headers: list[Run] = []
        self.parts: list[pd.DataFrame] = []
        self.passed_over: dict[str, int] = {}  # suites that were not asked for: records
        self.dropped: dict[str, int] = {}
        family = str(options["family"] or "")
        self.family = f"metadata.{family.removeprefix('column:')}" * family.startswith("column:")
        self.family_of: dict[int, set[str]] = {}
        self.suite_of: dict[int, str] = {}  # of each task

    def add(self, run: Run) -> None:
        size = len(run.records["task"])
        if self.suite and run.suite not in name_list(self.suite, (run.suite,)):
            self.passed_over[run.suite] = self.passed_over.get(run.suite, 0) + size
            return
        blank = np.zeros(size, dtype=np.int64)
        self.scorers.encode([""]), self.filters.encode([""])  # "" is number 0
        of = run.records
        part = {
            "run": np.full(size, len(self.headers)),
            "task": self.tasks.encode(of["task"]),
            "epoch": np.asarray(of.get("epoch", blank + 1), dtype=np.int64),
            "scorer": self.scorers.encode(of["scorer"]) if "scorer" in of else blank,
            "filter": self.filters.encode(of["filter"]) if "filter" in of else blank,
            "status": _status_positions(of["status"]),
            "value": self.values.encode(_truths_as_words(of["value"])),
        }
        self._check_suites(np.unique(part["task"]).tolist(), run)
        self.parts.append(pd.DataFrame(part).astype("int32"))
        self.headers.append(replace(run, records={}))
        if self.family and self.family in of:
            column = of[self.family]
            pairs = zip(part["task"].tolist(), _plain_values(column), strict=True)
            for task, family in set(pairs):
                if not values.is_blank(family):
                    self.family_of.setdefault(task, set()).add(str(family))

    def _check_suites(self, tasks: list[int], run: Run) -> None:
        """Refuse a label that two suites have: item b/c of suite a is not item c of a/b."""
        for task in tasks:
            if self.suite_of.setdefault(task, run.suite) != run.suite:
                raise InputError(
                    f"two suites have a task of the label {shown(self.tasks.names[task])}: "
                    f"{listed([self.suite_of[task], run.suite])}",
                    where=run.place,
                    expected="labels, SUITE/ITEM, that are different tasks where suites differ",
                    remedy=f"suite={run.suite!r} reads one of them; or rename a suite",
                )

    def dataset(self) -> xr.Dataset:
        self._check_something()
        records = pd.concat(self.parts, ignore_index=True)
        no_answer = [at for at, v in enumerate(self.values.names) if scores.no_answer(v)]
        silent = (records["status"] == SCORED) & records["value"].isin(no_answer)
        records.loc[silent, "status"] = STATUSES.index("refused")
        frame = identity.Records(self.name, records, self.headers, self.dropped)
        frame.merge_copies(self.tasks.names)
        for kind, names in (("scorer", self.scorers.names), ("filter", self.filters.names)):
            frame.choose(kind, names, self.options[kind])
        agent_of_run = frame.agents(name_list(self.options["agent_from"]))
        if self.strip:  # before runs of one agent are looked for
            agent_of_run = [" ".join(label.split()) for label in agent_of_run]
        frame.choose_runs(agent_of_run, self.options["runs"])
        frame.check_once(self.tasks.names)
        return self._built(frame, agent_of_run)

    def _check_something(self) -> None:
        if self.passed_over:
            self.dropped["other suites"] = sum(self.passed_over.values())
        known = {*self.passed_over, *(run.suite for run in self.headers)}
        if unknown := [name for name in name_list(self.suite, known) if name not in known]:
            raise InputError(
                f"no record is of the suite {listed(unknown)}",
                where=f"{self.name}, option suite",
                expected=f"suites among: {listed(sorted(known), 12)}",
                remedy=did_you_mean(unknown[0], known) or f"suite={min(known, default='NAME')!r}",
            )
        if not self.parts or not sum(map(len, self.parts)):
            raise InputError(
                "there is no record of an attempt",
                where=self.name,
                expected="at least one run with samples",
                remedy="check that the runs have finished and were logged with their samples",
            )

    def _built(self, frame: identity.Records, agent_of_run: list[str]) -> xr.Dataset:
        records = frame.table
        agents, agent = _sorted_labels(
            [agent_of_run[run] for run in range(len(self.headers))],
            records["run"].to_numpy(),
            self._label,
        )
        labels, task_key = frame.task_labels(
            self.tasks.names, self.scorers.names, self.filters.names
        )
        tasks, task = _sorted_labels(labels, task_key, self._label)
        if len(tasks) < len(labels):
            raise InputError(
                "labels of tasks differ only in blanks, or in the scorer that they end with",
                where=self.name,
                expected="each task by one label",
                remedy="leave out the option strip; choose one scorer",
            )
        statuses = StatusCounts(self.options["policy"])
        status = records["status"].to_numpy()
        outcome = statuses.add(agent, task, status, self._success(records, statuses))
        unscored = statuses.table(agents, self.name)
        counted = outcome != values.MISSING
        cells = CellCounts()
        cells.add(agent[counted], task[counted], outcome[counted], np.ones(counted.sum(), np.int64))
        attributes = statuses.attributes(unscored)
        attributes["dropped"] = {**dict(sorted(self.dropped.items())), **attributes["dropped"]}
        dataset = build_dataset(
            agents,
            tasks,
            cells.table(),
            attrs={"name": self.name, **attributes, **self._settings(frame, agent_of_run)},
            families=self._families(records["task"].to_numpy(), task, tasks),
            sources=self._sources(records["run"].to_numpy(), task, tasks),
            unscored=unscored,
        )
        if scores.threshold_of(self.options["threshold"]) is None:
            return dataset
        each = np.array([scores.number(value) for value in self.values.names])
        pair = agent * len(tasks) + task
        mean = scores.mean_by_cell(pair, each[records["value"].to_numpy()], outcome)
        return dataset.assign({SCORE: ("cell", mean)})

    def _success(self, records: pd.DataFrame, statuses: StatusCounts) -> np.ndarray:
        """0, 1 or MISSING for each record; scores of records that don't count aren't judged."""
        status, code = records["status"].to_numpy(), records["value"].to_numpy()
        distinct = self.values.names
        empty = np.array([values.is_blank(value) for value in distinct], dtype=bool)[code]
        other = status != SCORED
        statuses.scores_beside = bool((other & ~empty).any())
        judged = statuses.stands(status) & ~(empty & other)
        used = np.bincount(code[judged], minlength=len(distinct))
        threshold = scores.threshold_of(self.options["threshold"])
        outcome = scores.outcomes(distinct, used, threshold, self.name)
        return np.where(judged, outcome[code], values.MISSING)

    def _label(self, text: Any) -> str:
        if self.strip:
            text = " ".join(str(text).split())
        try:
            return values.label(text)
        except BadValueError as error:
            raise InputError(
                f"the label {shown(text)} {error.problem}",
                where=self.name,
                expected=error.expected,
                remedy="strip=True makes every run of blanks, tabs and line ends one blank",
            ) from None

    def _families(self, base: np.ndarray, task: np.ndarray, tasks: list[str]) -> list[str] | None:
        if not self.family:
            return None
        if not self.family_of:
            raise InputError(
                f"no record has the metadata {self.family.removeprefix('metadata.')!r}",
                where=f"{self.name}, option family",
                expected="the name of a metadata column of the records",
                remedy="leave the option out, or name another column",
            )
        if several := [t for t, found in self.family_of.items() if len(found) > 1]:
            raise InputError(
                f"records disagree about the family of {len(several)} tasks: "
                f"{shown(self.tasks.names[several[0]])} has "
                f"{listed(sorted(self.family_of[several[0]]))}",
                where=f"{self.name}, metadata {self.family.removeprefix('metadata.')!r}",
                expected="one family for each task",
                remedy="name another column, or give a table: families=...",
            )
        family = {t: next(iter(found)) for t, found in self.family_of.items()}
        result = [""] * len(tasks)
        for new, old in set(zip(task.tolist(), base.tolist(), strict=True)):
            result[new] = self._label(family[old]) if old in family else ""
        return result

    def _sources(self, run: np.ndarray, task: np.ndarray, tasks: list[str]) -> list[str]:
        result = [""] * len(tasks)
        pairs = pd.DataFrame({"run": run, "task": task}).drop_duplicates("task")
        for at, of in zip(pairs["run"].tolist(), pairs["task"].tolist(), strict=True):
            result[of] = self._label(self.headers[at].suite) if self.headers[at].suite else ""
        return result

    def _settings(self, frame: identity.Records, agent_of_run: list[str]) -> dict[str, str]:
        """Settings of each agent, as far as its runs have them in common, as JSON text."""
        common: dict[str, dict[str, str]] = {}
        for run in frame.table["run"].unique().tolist():
            own = {k: str(v) for k, v in self.headers[run].settings.items() if str(v)}
            label = self._label(agent_of_run[run])
            known = common.setdefault(label, own)
            common[label] = {k: v for k, v in known.items() if own.get(k) == v}
        return {"agent_settings": json.dumps(common, sort_keys=True)}


def _status_positions(column: Column) -> np.ndarray:
    codes, names = _distinct(column)
    unknown = [name for name in names if name not in STATUSES]
    if unknown:
        raise ValueError(f"a reader gives records the status {unknown or None}")
    return np.asarray([STATUSES.index(name) for name in names], dtype=np.int64)[codes]


def _sorted_labels(
    names: Sequence[Any], position: np.ndarray, label: Any
) -> tuple[list[str], np.ndarray]:
    """Labels of the names in use, in natural order, and the new position of each row."""
    used = np.unique(position)
    own = [label(names[at]) for at in used.tolist()]
    ordered = sorted(set(own), key=identity.natural)
    place = {text: at for at, text in enumerate(ordered)}
    new = np.array([place[text] for text in own], dtype=np.int64)
    return ordered, new[np.searchsorted(used, position)]
