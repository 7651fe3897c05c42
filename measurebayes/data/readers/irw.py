"""Long tables of persons, items and responses, as the Item Response Warehouse publishes them.

Source of the format: the IRW data standard, https://itemresponsewarehouse.org/standard.html.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from measurebayes.data import scores, values
from measurebayes.data.build import Attribute, CellCounts, build_dataset
from measurebayes.data.files import path_exists
from measurebayes.data.join import join
from measurebayes.data.readers.base import (
    COLUMNS,
    DELIMITER,
    STRIP,
    Column,
    Option,
    Reader,
    check_table,
    check_unread,
    delimiter_of,
    mapped_names,
    name_list,
    truth,
)
from measurebayes.data.runs import THRESHOLD
from measurebayes.data.schema import STATUSES
from measurebayes.data.source import Source, file_source, frame_source
from measurebayes.data.statuses import POLICY, SCORED, StatusCounts, status_code
from measurebayes.data.tables import Batch, check_unique_names, read_batches
from measurebayes.data.values import MISSING, Encoded, Labels
from measurebayes.errors import InputError, did_you_mean, listed, shown

TABLE = (
    Column("id", "yes", "the person (or what else is measured): the agent"),
    Column("item", "yes", "the item: the task"),
    Column("resp", "yes", "the response: 0 or 1; other numbers need `threshold`, letters `key`"),
    Column("item_family", "no", "testlet, passage or other group of items: the family"),
    Column("status", "no", "what became of the record; blank: scored where there is a response"),
    Column("wave", "no", "occasion of a person measured several times; for `agent_from`"),
    Column("rater", "no", "who gave the score; for `task_from`"),
    Column("trial", "no", "number of the trial; not read"),
    Column("rt", "no", "time of the response, seconds; not read"),
    Column("date", "no", "time at which the response was given; not read"),
    Column("treat", "no", "treatment of a trial with persons; not read"),
    Column("cluster_id", "no", "group of the person; not read"),
    Column("cov_*", "no", "property of the person; for `covariates`"),
    Column("itemcov_*", "no", "property of the item; for `covariates`"),
    Column("Qmatrix*", "no", "skill that the item needs; not read"),
)
OPTIONS = (
    Option("agent_from", "id", 'columns that make up an agent: "id,wave" makes one of each wave'),
    Option("task_from", "item", 'columns that make up a task: "item,rater" keeps raters apart'),
    Option(
        "duplicates",
        "error",
        "what several rows of one agent and task are: an error, or attempts",
        ("error", "attempts"),
    ),
    Option(
        "key",
        None,
        "right answers, where responses are letters: a mapping from items, text such as "
        '"q1=A,q2=C", or a table (path or DataFrame) with columns item and key',
    ),
    Option("family", None, '"column:NAME": another column than item_family names the families'),
    Option("covariates", None, 'columns cov_* and itemcov_* to keep: names, or "*" for all'),
    POLICY,
    THRESHOLD,
    COLUMNS,
    Option("ignore", None, 'columns to leave unread: names, or "*" for all that are not known'),
    STRIP,
    DELIMITER,
)
_KNOWN = [column.name for column in TABLE if not column.name.endswith("*")]
_PREFIXES = tuple(column.name[:-1] for column in TABLE if column.name.endswith("*"))
_REQUIRED = ("id", "item", "resp")
_NOT_ATTEMPTED = STATUSES.index("not_attempted")


def recognises(source: Source) -> bool:
    """Tell whether the header has the required columns, by their exact names."""
    return source.kind in ("csv", "parquet", "frame") and set(_REQUIRED) <= set(source.names)


def read(source: Source, options: Mapping[str, Any]) -> xr.Dataset:
    """Read a table of responses; see TABLE and OPTIONS."""
    check_table(source)
    check_unique_names(source)
    names = mapped_names(source, _KNOWN, options["columns"])
    if options["family"]:
        names["item_family"] = str(options["family"]).removeprefix("column:")
    if lacking := [name for name in _REQUIRED if name not in names]:
        raise InputError(
            f"the table has no column {listed(lacking)}",
            where=f"{source.name}, header",
            expected=f"columns {', '.join(_REQUIRED)}; the file has: {listed(source.names, 12)}",
            remedy=did_you_mean(lacking[0], source.names)
            or f"name them: columns={{{lacking[0]!r}: 'ITS NAME'}}",
        )
    unread = [n for n in source.names if n not in names.values() and not n.startswith(_PREFIXES)]
    ignored = name_list(options["ignore"], source.names)
    check_unread(
        f"{source.name}, header",
        unread,
        _KNOWN,
        names,
        ignored,
        "properties of persons have names that begin with cov_, of items with itemcov_",
    )
    _check_family(source, names)
    covariates = _covariates(source, options["covariates"])
    parts = {key: _parts(source, names, options[key], key) for key in ("agent_from", "task_from")}
    read_too = [name for name in ("item_family", "status") if name in names]
    used = dict.fromkeys(["id", "item", "resp", *read_too, *chain(*parts.values())])
    names = {name: names[name] for name in used} | {name: name for name in covariates}
    responses = _Responses(source.name, names, parts, covariates, options)
    for batch in read_batches(source, list(names.values()), delimiter_of(options)):
        responses.add({name: batch[column] for name, column in names.items()})
    return responses.dataset()


def _parts(source: Source, names: Mapping[str, str], option: Any, key: str) -> list[str]:
    chosen = name_list(option)
    if unknown := [name for name in chosen if name not in names]:
        raise InputError(
            f"the table has no column {listed(unknown)}",
            where=f"{source.name}, option {key}",
            expected=f"columns among: {', '.join(names)}",
            remedy=did_you_mean(unknown[0], names),
        )
    return chosen or ["id" if key == "agent_from" else "item"]


def _check_family(source: Source, names: Mapping[str, str]) -> None:
    name = names.get("item_family")
    if name is not None and name not in source.names:
        raise InputError(
            f"the table has no column {shown(name)}",
            where=f"{source.name}, option family",
            expected=f"a column of the file: {listed(source.names, 12)}",
            remedy=did_you_mean(name, source.names),
        )


def _covariates(source: Source, option: Any) -> list[str]:
    offered = [name for name in source.names if name.startswith(("cov_", "itemcov_"))]
    chosen = name_list(option, offered)
    if chosen == ["*"]:
        return offered
    if unknown := [name for name in chosen if name not in offered]:
        raise InputError(
            f"there is no covariate {listed(unknown)}",
            where=f"{source.name}, option covariates",
            expected=f"columns whose names begin with cov_ or itemcov_: {listed(offered, 12)}",
            remedy=did_you_mean(unknown[0], offered) or "join tables: agents=..., tasks=...",
        )
    return chosen


class _Responses:
    """What has been read so far of one table."""

    def __init__(
        self,
        name: str,
        names: Mapping[str, str],
        parts: Mapping[str, list[str]],
        covariates: Sequence[str],
        options: Mapping[str, Any],
    ) -> None:
        self.name = name
        self.parts = parts
        strip = truth(options["strip"], "strip")
        self.label = lambda value: values.label(value, strip)
        self.optional = lambda value: values.optional_label(value, strip)
        self.agents, self.tasks = Labels(self.label), Labels(self.label)
        self.family = Attribute("item_family") if "item_family" in names else None
        self.covariates = {name: Attribute(name) for name in covariates}
        self.statuses = StatusCounts(options["policy"], scores_beside="status" in names)
        self.threshold = scores.threshold_of(options["threshold"])
        self.key = right_answers(options["key"])
        self.attempts_alike = options["duplicates"] == "attempts"
        self.cells = CellCounts()
        self.odd: dict[Any, int] = {}  # responses that are no success and no failure
        self.rows = 0

    def add(self, batch: Batch) -> None:
        agent = self._owner(batch, "agent_from", self.agents)
        task = self._owner(batch, "task_from", self.tasks)
        if self.family:
            families = values.parse_distinct(batch["item_family"], self.optional)
            self.family.add(task, batch["item_family"].indices, families)
        for name, attribute in self.covariates.items():
            owner = agent if name.startswith("cov_") else task
            plain = [None if values.is_blank(value) else value for value in batch[name].values]
            attribute.add(owner, batch[name].indices, plain)
        success, blank = self._success(batch)
        status = np.where(blank, _NOT_ATTEMPTED, SCORED)
        if "status" in batch:
            given = values.parse(batch["status"], status_code, np.int64)
            status = np.where((given == MISSING) | ((given == SCORED) & blank), status, given)
        place = batch.get("status", batch["resp"]).place
        outcome = self.statuses.add(agent, task, status, success, place)
        odd = (success == MISSING) & ~blank & self.statuses.stands(status)
        self._note(batch["resp"], odd)
        kept = outcome != MISSING
        ones = np.ones(int(kept.sum()), np.int64)
        self.cells.add(agent[kept], task[kept], outcome[kept], ones)
        self.rows += agent.size

    def _owner(self, batch: Batch, key: str, labels: Labels) -> np.ndarray:
        """Positions of the agents or tasks, whose labels may be made of several columns."""
        first, *others = self.parts[key]
        if not others:
            return labels.encode(batch[first])
        code = batch[first].indices
        for name in others:
            code = code * len(batch[name].values) + batch[name].indices
        position, _ = pd.factorize(code)  # in order of first appearance
        _, row = np.unique(position, return_index=True)
        texts = []
        for at in row.tolist():
            told = {n: batch[n].values[batch[n].indices[at]] for n in (first, *others)}
            marks = [f"{n}={told[n]}" for n in others if not values.is_blank(told[n])]
            texts.append(f"{told[first]} [{', '.join(marks)}]" if marks else told[first])
        return labels.encode(Encoded(texts, position, batch[first].place))

    def _success(self, batch: Batch) -> tuple[np.ndarray, np.ndarray]:
        """0, 1 or MISSING for each row, and whether its response is blank."""
        resp = batch["resp"]
        blank = np.array([values.is_blank(value) for value in resp.values], dtype=bool)
        if self.key:
            return self._by_key(batch), blank[resp.indices]
        found = [MISSING if values.is_blank(v) else self._one(v) for v in resp.values]
        return np.asarray(found, dtype=np.int64)[resp.indices], blank[resp.indices]

    def _one(self, value: Any) -> int:
        score = scores.number(value)
        if np.isnan(score) or scores.is_letter(value):
            return MISSING
        if self.threshold is not None and not scores.is_mark(value):
            return int(score >= self.threshold)
        return int(score) if score in (0.0, 1.0) else MISSING

    def _by_key(self, batch: Batch) -> np.ndarray:
        resp, item = batch["resp"], batch["item"]
        pair = item.indices * len(resp.values) + resp.indices
        _, row, position = np.unique(pair, return_index=True, return_inverse=True)
        answers = [resp.values[resp.indices[at]] for at in row]
        items = [str(item.values[item.indices[at]]) for at in row]
        if unknown := [name for name in items if name not in self.key]:
            raise InputError(
                f"the key has no answer for {listed(sorted(set(unknown)))}",
                where=f"{self.name}, option key",
                expected="the right answer of each item",
                remedy="complete the key, or leave those items out",
            )
        marks = scores.by_key(answers, [self.key[name] for name in items])
        codes = [{"C": 1, "I": 0}.get(mark or "", MISSING) for mark in marks]
        return np.asarray(codes, dtype=np.int64)[position]

    def _note(self, resp: Encoded, odd: np.ndarray) -> None:
        if odd.any():
            number = np.bincount(resp.indices[odd], minlength=len(resp.values))
            for at in np.flatnonzero(number).tolist():
                value = resp.values[at]
                self.odd[value] = self.odd.get(value, 0) + int(number[at])

    def dataset(self) -> xr.Dataset:
        if not self.rows:
            raise InputError(
                "the table has a header but no row",
                where=self.name,
                expected="at least one response",
                remedy="check that whatever wrote the file has finished",
            )
        if self.odd:
            self._refuse_odd()
        agents, tasks, cells = self.agents.names, self.tasks.names, self.cells.table()
        unscored = self.statuses.table(agents, self.name)
        if not self.attempts_alike:
            self._check_duplicates(cells)
        families = None
        if self.family:
            families = self.family.resolve(tasks, lambda told: told == "", "", self.name)
        dataset = build_dataset(
            agents,
            tasks,
            cells,
            attrs={"name": self.name, **self.statuses.attributes(unscored)},
            families=families,
            unscored=unscored,
        )
        return self._with_covariates(dataset)

    def _refuse_odd(self) -> None:
        distinct = [*self.odd, 1]
        number = np.array([*self.odd.values(), self.rows - sum(self.odd.values())])
        where = f"{self.name}, column 'resp'"
        if any(map(scores.is_letter, distinct)):  # marks in logs of Inspect, but here answers
            texts = [at for at, value in enumerate(distinct) if isinstance(value, str)]
            raise scores.unreadable_scores(distinct, number, texts, where)
        scores.outcomes(distinct, number, self.threshold, where)

    def _with_covariates(self, dataset: xr.Dataset) -> xr.Dataset:
        for key, prefix in (("agent", "cov_"), ("task", "itemcov_")):
            labels = dataset[key].values.tolist()
            own = {n: a for n, a in self.covariates.items() if n.startswith(prefix)}
            told = {
                n: a.resolve(labels, lambda v: v is None, None, self.name) for n, a in own.items()
            }
            if told:
                frame = pd.DataFrame({key: labels, **told})
                dataset = join(dataset, **{f"{key}s": frame}, unmatched="ignore")  # type: ignore[arg-type]
        return dataset

    def _check_duplicates(self, cells: pd.DataFrame) -> None:
        twice = cells[cells["rows"] > 1]
        if len(twice):
            first = twice.iloc[0]
            agent = self.agents.names[int(first["agent_index"])]
            task = self.tasks.names[int(first["task_index"])]
            raise InputError(
                f"{len(twice)} pairs of person and item have several rows, such as "
                f"{shown(agent)} at {shown(task)} ({int(first['rows'])} rows)",
                where=self.name,
                expected="one response of a person to an item",
                remedy="duplicates='attempts' where they are repeated attempts; "
                "agent_from='id,wave' makes an agent of each occasion, task_from='item,rater' a "
                "task of each rater",
            )


def right_answers(option: Any) -> dict[str, Any]:
    """Parse the option `key`: item -> right answer."""
    if option is None:
        return {}
    if isinstance(option, Mapping):
        return {str(item): answer for item, answer in option.items()}
    answers: dict[str, Any] = {}
    if isinstance(option, str) and "=" in option and not path_exists(Path(option)):
        for item, _, answer in (part.partition("=") for part in option.split(",")):
            _add_answer(answers, item.strip(), answer.strip(), "option key")
        return answers
    if not isinstance(option, str | os.PathLike | pd.DataFrame):
        raise InputError(
            f"the key is a {type(option).__name__}",
            where="option key",
            expected="a mapping from items, text, a path or a pandas.DataFrame",
            remedy="key='q1=A,q2=C'",
        )
    source = frame_source(option) if isinstance(option, pd.DataFrame) else file_source(Path(option))
    if lacking := [name for name in ("item", "key") if name not in source.names]:
        raise InputError(
            f"the key has no column {listed(lacking)}",
            where=f"{source.name}, header",
            expected="columns item and key: the right answer of each item",
            remedy=did_you_mean(lacking[0], source.names) or "key='q1=A,q2=C'",
        )
    for batch in read_batches(source, ["item", "key"]):
        items = values.parse(batch["item"], values.label, object)
        told = np.array(batch["key"].values, dtype=object)[batch["key"].indices]
        for item, answer in zip(items.tolist(), told.tolist(), strict=True):
            _add_answer(answers, item, answer, source.name)
    return answers


def _add_answer(answers: dict[str, Any], item: str, answer: Any, where: str) -> None:
    if answers.setdefault(item, answer) != answer:
        raise InputError(
            f"the key has two answers for {shown(item)}: {listed([answers[item], answer])}",
            where=where,
            expected="one right answer for each item",
            remedy="remove one of them",
        )


READER = Reader(
    name="irw",
    title="Long table of responses in the Item Response Warehouse's format (CSV, Parquet or "
    "DataFrame): id, item, resp",
    columns=TABLE,
    options=OPTIONS,
    recognises=recognises,
    read=read,
)
