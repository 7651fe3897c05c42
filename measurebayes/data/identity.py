"""Which records are attempts of whom: copies, scorers, filters, settings and runs.

An attempt is one record of (agent, task, scorer, filter, run, epoch). Where the records leave open
which of several are meant, nothing is merged: the message lists them and names the argument that
chooses.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from measurebayes.data.options import name_list, name_pairs
from measurebayes.data.schema import STATUSES
from measurebayes.errors import InputError, cut, did_you_mean, listed, shown

if TYPE_CHECKING:
    from measurebayes.data.runs import Run

_SCORED = STATUSES.index("scored")
_KEY = ["run", "task", "scorer", "filter", "epoch"]
_LISTED = 5
_DIGITS = re.compile(r"(\d+)")


def natural(text: str) -> list[tuple[int, int, str]]:
    """Key for sorting in which numbers inside text count as numbers: q2 before q10."""
    parts = _DIGITS.split(text)
    key = [(0, int(p[:4000]), "") if p.isascii() and p.isdigit() else (1, 0, p) for p in parts if p]
    return [*key, (-1, 0, text)]  # what ends comes first; 01 and 1 differ


def _repeated(table: pd.DataFrame, columns: Sequence[str]) -> np.ndarray:
    """Tell which rows, (row,), repeat an earlier one in these columns of whole numbers from 0.

    One number for each row is faster to compare than several columns.
    """
    key, size = np.zeros(len(table), dtype=np.int64), 1
    for name in columns:
        values = table[name].to_numpy(dtype=np.int64)
        span = int(values.max(initial=0)) + 1
        size *= span
        key = key * span + values
    if size >= 2**63:
        return table.duplicated(list(columns)).to_numpy()
    return pd.Series(key).duplicated().to_numpy()


class Records:
    """Records of many runs as whole numbers, narrowed step by step to attempts.

    Parameters
    ----------
    name : str
        What messages call the source.
    table : pandas.DataFrame
        One row a record: run, task, epoch, scorer, filter, status, value; whole numbers.
    headers : sequence of Run
        The runs, without their records.
    dropped : dict
        Number of records left out, by reason; it is added to.
    """

    def __init__(
        self, name: str, table: pd.DataFrame, headers: Sequence[Run], dropped: dict[str, int]
    ) -> None:
        self.name = name
        self.table = table
        self.headers = headers
        self.dropped = dropped
        self._suites = sorted({run.suite for run in headers})
        position = {suite: at for at, suite in enumerate(self._suites)}
        self._suite_of_run = np.array([position[run.suite] for run in headers], dtype=np.int64)
        self._apart: dict[str, set[int]] = {"scorer": set(), "filter": set()}

    def _suite(self) -> np.ndarray:
        return np.asarray(self._suite_of_run[self.table["run"].to_numpy()])

    def _drop(self, keep: np.ndarray, reason: str) -> None:
        left_out = int(keep.size - keep.sum())
        if left_out:
            self.dropped[reason] = self.dropped.get(reason, 0) + left_out
            self.table = self.table[keep].reset_index(drop=True)

    # ----- copies

    def merge_copies(self, tasks: Sequence[str]) -> None:
        """Make one run of runs that say that they are the same, where their records agree."""
        self._refuse_twice(tasks)
        first: dict[tuple[Any, ...], int] = {}
        keys = [
            (run.identity, run.suite, tuple(sorted(run.settings.items()))) for run in self.headers
        ]
        same = np.array([first.setdefault(key, at) for at, key in enumerate(keys)])
        if len(first) == len(keys):
            return
        places = self.table["run"].to_numpy()
        self.table = self.table.assign(run=same[places].astype("int32"))
        again = _repeated(self.table, _KEY)
        equal = _repeated(self.table, [*_KEY, "status", "value"])
        if (again & ~equal).any():
            row = self.table[again & ~equal].iloc[0]
            one, other = self.headers[int(row["run"])], self.headers[places[row.name]]
            raise InputError(
                f"two records of the run {shown(one.identity)} differ, at the task "
                f"{shown(tasks[int(row['task'])])}",
                where=f"{one.place} and {other.place}",
                expected="copies of one run to agree",
                remedy="leave one of the two out",
            )
        self._drop(~again, "copies of a run")

    def _refuse_twice(self, tasks: Sequence[str]) -> None:
        again = _repeated(self.table, _KEY)
        if again.any():
            row = self.table[again].iloc[0]
            run = self.headers[int(row["run"])]
            raise InputError(
                f"{int(again.sum())} records stand twice in one run: {shown(run.identity)} has "
                f"the task {shown(tasks[int(row['task'])])}, epoch {int(row['epoch'])}, again",
                where=run.place,
                expected="one record for each task, epoch, scorer and filter of a run",
                remedy="remove the copies; repeated attempts have an epoch each",
            )

    def check_once(self, tasks: Sequence[str]) -> None:
        """Refuse what has become one and the same attempt by the choices that were made."""
        self._refuse_twice(tasks)

    # ----- scorers and filters

    def choose(self, kind: str, names: Sequence[str], option: Any) -> None:
        """Keep the chosen scorer (or filter) of each suite, or all of them apart."""
        suite = self._suite()
        code = self.table[kind].to_numpy()
        own = (self.table["status"] == _SCORED).to_numpy() | (code != 0)
        present = pd.DataFrame({"suite": suite[own], "code": code[own]}).value_counts().sort_index()
        of_suite: dict[int, list[int]] = {}
        for at, found in present.index:
            of_suite.setdefault(int(at), []).append(int(found))
        wanted = _wanted(option, kind, names, self._suites, self.name)
        kept: dict[int, list[int]] = {}
        open_suites = []
        for at, codes in of_suite.items():
            chosen = wanted(self._suites[at])
            if len(codes) == 1 or chosen == "all":
                kept[at] = codes
                continue
            kept[at] = [c for c in codes if names[c] in chosen]
            if len(kept[at]) != 1:
                open_suites.append(at)
        if open_suites:
            raise self._open_choice(kind, names, {at: of_suite[at] for at in open_suites}, present)
        if not own.all() or kept != of_suite:  # else every record stays as it is
            self._keep(kind, kept, own, suite)
        self._apart[kind] = {at for at, codes in kept.items() if len(codes) > 1}

    def _keep(
        self, kind: str, kept: Mapping[int, list[int]], own: np.ndarray, suite: np.ndarray
    ) -> None:
        """Narrow the table; records that no scorer judged go to each that the run has."""
        table = self.table.assign(_own=own, _suite=suite)
        of_run = table[own].groupby("run")[kind].unique()
        pairs = pd.DataFrame(
            [(at, code) for at, codes in kept.items() for code in codes], columns=["_suite", kind]
        ).astype("int32")
        judged = table[own].merge(pairs, on=["_suite", kind])
        rest = table[~own].drop(columns=kind)
        targets = []
        for run in rest["run"].unique().tolist():
            codes = kept.get(int(self._suite_of_run[run]), [0])
            if run in of_run.index:
                codes = [code for code in codes if code in of_run[run]]
            targets += [(run, code) for code in codes]
        spread = rest.merge(pd.DataFrame(targets, columns=["run", kind]).astype("int32"), on="run")
        lost = int(own.sum()) - len(judged) + len(rest) - rest["run"].isin(spread["run"]).sum()
        if lost:
            reason = f"other {kind}s"
            self.dropped[reason] = self.dropped.get(reason, 0) + int(lost)
        self.table = pd.concat([judged, spread], ignore_index=True)[[*_KEY, "status", "value"]]

    def _open_choice(
        self, kind: str, names: Sequence[str], suites: Mapping[int, list[int]], present: pd.Series
    ) -> InputError:
        said = []
        for at, codes in list(suites.items())[:_LISTED]:
            each = [f"{cut(names[c]) or '(unnamed)'} ({present[at, c]} records)" for c in codes]
            said.append(f"{shown(self._suites[at])} has {', '.join(each)}")
        more = f"; and {len(suites) - _LISTED} more suites" if len(suites) > _LISTED else ""
        example = names[next(iter(suites.values()))[0]]
        plain = [suite for at, suite in enumerate(self._suites) if at not in suites]
        other = f", or suite={plain[0]!r} to leave this suite out" if plain else ""
        return InputError(
            f"records of one suite have more than one {kind}: {'; '.join(said)}{more}",
            where=self.name,
            expected=f"one {kind} for each suite: two scores of an answer aren't two attempts",
            remedy=f"{kind}={shown(example)} (or another of them), {kind}='all' to keep them apart "
            f"as different tasks{other}",
        )

    def task_labels(
        self, tasks: Sequence[str], scorers: Sequence[str], filters: Sequence[str]
    ) -> tuple[list[str], np.ndarray]:
        """Labels of tasks, with the scorer or filter that sets them apart, and each row's."""
        table = self.table
        suite = self._suite()
        marks = {}
        for kind in ("scorer", "filter"):
            apart = np.isin(suite, list(self._apart[kind]))
            marks[kind] = np.where(apart, table[kind].to_numpy(), -1)
        frame = pd.DataFrame({"task": table["task"].to_numpy(), **marks})
        distinct = frame.drop_duplicates().reset_index(drop=True)
        labels = []
        for task, scorer, filtered in distinct.itertuples(index=False):
            label = str(tasks[task])
            for code, names in ((scorer, scorers), (filtered, filters)):
                label += f" [{names[code] or 'unnamed'}]" if code >= 0 else ""
            labels.append(label)
        position = frame.merge(distinct.assign(_at=distinct.index), how="left")["_at"]
        return labels, position.to_numpy()

    # ----- agents

    def agents(self, agent_from: Sequence[str]) -> list[str]:
        """Label of each run's agent."""
        used = set(self.table["run"].unique().tolist())
        settings = [{**run.settings, "run": run.identity} for run in self.headers]
        if agent_from:
            known = {"model", "run"}.union(*settings)
            if unknown := [name for name in agent_from if name not in known]:
                raise InputError(
                    f"the runs have no setting {listed(unknown)}",
                    where=f"{self.name}, option agent_from",
                    expected=f"names among: {', '.join(sorted(known))}",
                    remedy=did_you_mean(unknown[0], known) or "agent_from='model'",
                )
            return self._labels_from(settings, agent_from)
        # What every suite sets for itself (a solver, a limit) tells agents apart within it alone.
        by_model: dict[tuple[str, str], list[dict[str, str]]] = {}
        for at in sorted(used):
            run = self.headers[at]
            own = {name: value for name, value in run.settings.items() if value}
            shared = {name: own[name] for name in own if name not in run.of_suite}
            for suite, compared in (("", shared), (run.suite, own)):
                of_model = by_model.setdefault((own.get("model", ""), suite), [])
                if compared not in of_model:
                    of_model.append(compared)
        several: dict[str, list[dict[str, str]]] = {}
        for (model, _), found in by_model.items():
            if len(found) > 1:
                several.setdefault(model, found)
        if several:
            raise self._open_settings(several)
        return [_agent_label(one, ["model"]) for one in settings]

    def _labels_from(
        self, settings: Sequence[Mapping[str, str]], agent_from: Sequence[str]
    ) -> list[str]:
        labels = [_agent_label(one, agent_from) for one in settings]
        of_label: dict[str, tuple[str, ...]] = {}
        for label, one in zip(labels, settings, strict=True):
            parts = tuple(one.get(name, "") for name in agent_from)
            if of_label.setdefault(label, parts) != parts:
                raise InputError(
                    f"two agents would have the label {shown(label)}: {listed(of_label[label])}; "
                    f"and {listed(parts)}",
                    where=f"{self.name}, option agent_from",
                    expected="labels that tell agents apart",
                    remedy="rename a model, or leave a setting out of agent_from",
                )
        return labels

    def _open_settings(self, several: Mapping[str, list[dict[str, str]]]) -> InputError:
        said, differing = [], []
        for model, found in sorted(several.items(), key=lambda pair: natural(pair[0])):
            differ = sorted({k for one in found for k in one if len({o.get(k) for o in found}) > 1})
            differing += [name for name in differ if name not in differing]
            each = [f"{k} {listed(sorted({o.get(k, '') for o in found}))}" for k in differ]
            said.append(f"{shown(model)} ({'; '.join(each)})")
        rest = f" and {len(said) - _LISTED} more" if len(said) > _LISTED else ""
        return InputError(
            f"models were run with several settings: {', '.join(said[:_LISTED])}{rest}",
            where=self.name,
            expected="one agent for each name: a model with other settings is another agent",
            remedy=f"agent_from={','.join(['model', *differing])!r} makes agents of them; "
            "agent_from='model' merges them",
        )

    # ----- runs

    def choose_runs(self, agent_of_run: Sequence[str], option: str | None) -> None:
        """Settle what several runs of one agent at the same tasks are."""
        names, agent = np.unique(np.asarray(agent_of_run, dtype=object), return_inverse=True)
        pair = agent * len(self._suites) + self._suite_of_run  # (run,) agent and suite
        run = self.table["run"].to_numpy()
        columns = ["task", "scorer", "filter"]
        frame = self.table[columns].assign(agent=agent[run], run=run)
        frame = frame[~_repeated(frame, [*columns, "agent", "run"])]
        twice = frame.duplicated([*columns, "agent"], keep=False).to_numpy()
        pairs = np.unique(pair[frame["run"].to_numpy()[twice]])
        if option == "all" or not pairs.size:
            return
        runs_of = {int(p): np.unique(run[pair[run] == p]).tolist() for p in pairs}
        if option is None:
            raise self._open_runs(names, runs_of)
        keep = np.ones(run.size, dtype=bool)
        for at, found in runs_of.items():
            keep &= (pair[run] != at) | (run == self._latest(found))
        self._drop(keep, "earlier runs")

    def _open_runs(self, names: np.ndarray, runs_of: Mapping[int, list[int]]) -> InputError:
        size = len(self._suites)
        said = [
            f"{cut(names[at // size])} ({len(found)} runs at {cut(self._suites[at % size])})"
            for at, found in runs_of.items()
        ]
        rest = f" and {len(said) - _LISTED} more" if len(said) > _LISTED else ""
        return InputError(
            f"agents have several runs at the same tasks: {', '.join(said[:_LISTED])}{rest}",
            where=self.name,
            expected="a decision what they are: more attempts of one agent, or other agents",
            remedy="runs='all' (all are attempts of the same agent), runs='latest' (the others "
            "are left out and counted), or agent_from='model,run' (each run is an agent)",
        )

    def _latest(self, runs: Sequence[int]) -> int:
        times = {run: _time(self.headers[run].created) for run in runs}
        known = [time for time in times.values() if time is not None]
        latest = [run for run in runs if known and times[run] == max(known)]
        if len(known) < len(runs) or len(latest) != 1:
            places = [
                f"{self.headers[run].identity}: {self.headers[run].created or 'no time'}"
                for run in runs
            ]
            raise InputError(
                f"it can't be told which run is the latest: {listed(places)}",
                where=self.name,
                expected="a time of creation for each run, all different",
                remedy="runs='all', or tell their times (in a hub's table: the column created)",
            )
        return latest[0]


def _agent_label(settings: Mapping[str, str], names: Sequence[str]) -> str:
    parts = [(name, settings.get(name, "")) for name in names]
    model = settings.get("model", "") if "model" in names else ""
    rest = [f"{name}={value}" for name, value in parts if name != "model" and value]
    if not model:
        return ", ".join(rest) or "unnamed"
    return f"{model} [{', '.join(rest)}]" if rest else model


def _wanted(
    option: Any, kind: str, names: Sequence[str], suites: Sequence[str], where: str
) -> Callable[[str], Any]:
    """Give the function from a suite to the names that are kept there, or "all"."""
    if option is None:
        return lambda suite: ()
    if isinstance(option, str) and option == "all":
        return lambda suite: "all"
    if isinstance(option, str) and "=" in option and option not in names:
        option = name_pairs(option, kind, "SUITE=NAME", f"SUITE={names[-1] or 'NAME'}")
    if isinstance(option, Mapping):
        table = {str(suite): str(name) for suite, name in option.items()}
        _check_known(table.values(), {*names, "all"}, kind, where)
        _check_known(table, suites, f"{kind}: suite", where)
        return lambda suite: "all" if table.get(suite) == "all" else (table.get(suite),)
    if isinstance(option, str):
        # a name may hold a comma itself
        chosen = [option] if option in names else [part.strip() for part in option.split(",")]
    else:
        chosen = name_list(option)
    _check_known(chosen, names, kind, where)
    return lambda suite: chosen


def _check_known(given: Any, known: Any, what: str, where: str) -> None:
    if unknown := [name for name in given if name not in known]:
        raise InputError(
            f"the records have no {what.rpartition(' ')[2]} {listed(unknown)}",
            where=f"{where}, option {what.partition(':')[0]}",
            expected=f"names among: {listed([name for name in known if name], 12)}",
            remedy=did_you_mean(unknown[0], known),
        )


def _time(text: str) -> datetime.datetime | None:
    try:
        time = datetime.datetime.fromisoformat(text)
    except ValueError:
        return None
    return time if time.tzinfo else time.replace(tzinfo=datetime.UTC)
