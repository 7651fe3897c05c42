"""What became of each record, and what a record without a score of its own counts as."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from measurebayes.data.options import Option
from measurebayes.data.problems import is_noting, problem
from measurebayes.data.schema import COUNTED_AS, STATUSES
from measurebayes.data.values import MISSING, BadValueError, is_blank
from measurebayes.errors import InputError, did_you_mean, listed, shown

POLICY = Option(
    "policy",
    None,
    "what records count as that errored, hit a limit, were refused or not attempted: failure, "
    "missing (no attempt), as_scored (their score stands), or one for each status: a mapping, or "
    'text such as "errored=missing,limit=failure". Needed where such records occur',
)
SCORED = STATUSES.index("scored")
NOT_ADMINISTERED = STATUSES.index("not_administered")
_UNDECIDED = -1
_AS_SCORED = COUNTED_AS.index("as_scored")
_FAILURE = COUNTED_AS.index("failure")
# Words that tables and logs use, beside the names in STATUSES themselves
_WORDS = {
    "scored": "scored success completed complete ok",
    "errored": "error exception crashed failed_to_run",
    "limit": "limit_reached token_limit time_limit message_limit cost_limit usagelimits timeout",
    "refused": "refusal abstained no_answer content_filter",
    "not_attempted": "skipped cancelled canceled",
}
_STATUS_OF = {word: status for status, words in _WORDS.items() for word in words.split()}
_STATUS_OF |= {status: status for status in STATUSES}


def status_code(value: Any) -> int:
    """Parse a status as a table writes it: its position in STATUSES; a blank gives MISSING."""
    if is_blank(value):
        return MISSING
    word = str(value).strip().casefold().replace(" ", "_").replace("-", "_")
    if word not in _STATUS_OF:
        raise BadValueError("is no known status", f"one of: {', '.join(STATUSES)}")
    return STATUSES.index(_STATUS_OF[word])


def parse_policy(policy: Any) -> dict[str, str]:
    """Parse the option `policy`.

    Parameters
    ----------
    policy : str or mapping, optional
        "failure", "missing" or "as_scored" for every status, or one for each: a mapping from
        statuses, or text such as "errored=missing,limit=failure".

    Returns
    -------
    dict
        Status -> what it counts as. A record that was not administered is missing unless its own
        name says otherwise: nobody fails a task that they were not given.

    Raises
    ------
    InputError
        Naming what is no status or no such decision.
    """
    decided = {"not_administered": "missing"}
    if policy is None:
        return decided
    if isinstance(policy, str) and "=" not in policy:
        word = _decision(policy.strip())
        return {**dict.fromkeys(STATUSES[1:], word), **decided}
    for status, word in _pairs(policy):
        if status not in STATUSES[1:]:
            raise InputError(
                f"the policy names {shown(status)}",
                where="option policy",
                expected=f"statuses among: {', '.join(STATUSES[1:])}",
                remedy=did_you_mean(status, STATUSES[1:])
                or "policy='missing', or one for each status: "
                "policy='errored=missing,limit=failure'",
            )
        decided[status] = _decision(word)
    return decided


def _pairs(policy: Any) -> list[tuple[str, str]]:
    if isinstance(policy, Mapping):
        return [(str(status), str(word)) for status, word in policy.items()]
    parts = [part.partition("=") for part in str(policy).split(",")]
    pairs = [(status.strip(), word.strip()) for status, _, word in parts]
    named = [status for status, _ in pairs]
    if twice := [status for status in dict.fromkeys(named) if named.count(status) > 1]:
        raise InputError(
            f"the policy names {listed(twice)} twice",
            where="option policy",
            expected="one decision for each status",
            remedy="policy='errored=missing,limit=failure'",
        )
    return pairs


def _decision(word: str) -> str:
    if word not in COUNTED_AS:
        raise InputError(
            f"the policy is {shown(word)}",
            where="option policy",
            expected=f"one of {', '.join(COUNTED_AS)}, or one for each status",
            remedy=did_you_mean(word, COUNTED_AS)
            or "policy='failure', policy='missing' or policy='errored=missing,limit=failure'",
        )
    return word


def policy_text(policy: Any) -> str:
    """Write a policy in one way, whatever way it was given in; "" for none."""
    if policy is None or (isinstance(policy, str) and "=" not in policy):
        return policy.strip() if policy else ""
    decided = parse_policy(policy)
    named = {status for status, _ in _pairs(policy)}
    return ",".join(f"{status}={decided[status]}" for status in STATUSES if status in named)


class StatusCounts:
    """Counts of records by agent, task and status, and the policy that says what they count as.

    Parameters
    ----------
    policy : str or mapping, optional
        See `parse_policy`.
    scores_beside : bool
        Whether records of other statuses than scored hold scores, so that messages offer
        "as_scored".
    """

    def __init__(self, policy: Any, scores_beside: bool = False) -> None:
        self.policy = policy_text(policy)
        decided = parse_policy(policy)
        self._counted_as = np.array(
            [COUNTED_AS.index(decided[s]) if s in decided else _UNDECIDED for s in STATUSES]
        )
        self.scores_beside = scores_beside
        self._parts: list[pd.DataFrame] = []
        self._scored = 0
        self._pending = 0
        self._first = ""
        self._without_score = 0

    def add(
        self,
        agent: np.ndarray,
        task: np.ndarray,
        status: np.ndarray,
        success: np.ndarray,
        first_place: Any = None,
        attempts: np.ndarray | None = None,
    ) -> np.ndarray:
        """Count rows and say what each counts as.

        Parameters
        ----------
        agent, task, status : numpy.ndarray
            (row,) positions, those of `status` in STATUSES.
        success : numpy.ndarray
            (row,) 0, 1 or MISSING.
        first_place : callable, optional
            Words for the place of a row, for the message about a status without a decision.
        attempts : numpy.ndarray, optional
            (row,) number of attempts of each scored row; 1 where None.

        Returns
        -------
        numpy.ndarray
            (row,) 0, 1, or MISSING where the row is no attempt.
        """
        other = status != SCORED
        self._scored += int((~other).sum() if attempts is None else attempts[~other].sum())
        if not other.any():
            return success
        counted = self._counted_as[status]
        undecided = np.flatnonzero(other & (counted == _UNDECIDED))
        if not self._first and first_place and undecided.size:
            self._first = first_place(int(undecided[0]))
        if first_place and undecided.size and is_noting():
            _note_undecided(undecided, status, first_place)
        standing = other & (counted == _AS_SCORED)
        self._without_score += int((standing & (success == MISSING)).sum())
        frame = pd.DataFrame(
            {"agent_index": agent, "task_index": task, "status": status, "counted_as": counted}
        )[other]
        self._parts.append(frame.value_counts(sort=False).rename("records").reset_index())
        self._pending += len(self._parts[-1])
        if self._pending > 1_000_000:
            self._parts, self._pending = [self._grouped()], 0
        lost = other & (counted != _AS_SCORED)
        return np.where(lost, np.where(counted == _FAILURE, 0, MISSING), success)

    def stands(self, status: np.ndarray) -> np.ndarray:
        """(row,) whether the score of a record with each status counts."""
        return (status == SCORED) | (self._counted_as[status] == _AS_SCORED)

    def _grouped(self) -> pd.DataFrame:
        keys = ["agent_index", "task_index", "status", "counted_as"]
        if not self._parts:
            return pd.DataFrame({name: np.empty(0, np.int64) for name in [*keys, "records"]})
        return pd.concat(self._parts).groupby(keys, as_index=False)[["records"]].sum()

    def table(self, agents: list[str], where: str) -> pd.DataFrame:
        """Make the argument `unscored` of build_dataset, sorted.

        Raises
        ------
        InputError
            Where the policy leaves a status open that occurs, with the counts by agent.
        """
        table = self._grouped()
        undecided = table[table["counted_as"] == _UNDECIDED]
        if len(undecided):
            raise self._open(undecided, agents, where)
        if self._without_score:
            raise InputError(
                f"{self._without_score} of the records that the policy counts as_scored have no "
                "score",
                where=where,
                expected="a score in each of them",
                remedy="policy='failure', policy='missing', or one for each status: "
                "policy='errored=missing,limit=as_scored'",
            )
        return table.assign(
            status=np.asarray(STATUSES)[table["status"]],
            counted_as=np.asarray(COUNTED_AS)[table["counted_as"]],
        )

    def _open(self, undecided: pd.DataFrame, agents: list[str], where: str) -> InputError:
        total = self._scored + sum(int(part["records"].sum()) for part in self._parts)
        parts = []
        for code in sorted(undecided["status"].unique().tolist()):
            group = undecided[undecided["status"] == code]
            by_agent = group.groupby("agent_index")["records"].sum().sort_values(ascending=False)
            pairs = zip(by_agent.index.tolist(), by_agent.tolist(), strict=True)
            names = [_Plain(f"{agents[agent]}: {n}") for agent, n in pairs]
            parts.append(f"{int(by_agent.sum())} {STATUSES[code]} ({listed(names)})")
        words = [STATUSES[int(code)] for code in sorted(undecided["status"].unique())]
        each = ",".join(f"{word}=missing" for word in words)
        scored = ", policy='as_scored' (their score stands)" if self.scores_beside else ""
        return InputError(
            f"{int(undecided['records'].sum())} of {total} records did not end as scored: "
            + "; ".join(parts),
            where=f"{self._first} (the first)" if self._first else where,
            expected="a decision what they count as: a failure, or no attempt at all",
            remedy=f"policy='failure', policy='missing' (not an attempt; counted apart){scored}, "
            f"or one for each status: policy={each!r}",
        )

    def attributes(self, table: pd.DataFrame) -> dict[str, Any]:
        """Make the attributes policy, status_counts and dropped of a dataset from its `table`."""
        missing = table[table["counted_as"] == "missing"]
        return {
            "policy": self.policy,
            "status_counts": {"scored": self._scored, **_by_status(table)},
            "dropped": _by_status(missing),
        }


def statuses_by_agent(dataset: xr.Dataset) -> pd.DataFrame:
    """Count the records of each agent by what became of them.

    Parameters
    ----------
    dataset : xarray.Dataset
        Data in the schema of measurebayes.data.schema.

    Returns
    -------
    pandas.DataFrame
        One row an agent, in the order of the labels, index `agent`; columns: those of STATUSES
        that occur, scored always. Scored are attempts that are no other record counted as one.
    """
    agents = dataset["agent"].values
    scored = np.zeros(agents.size, dtype=np.int64)
    np.add.at(scored, dataset["agent_index"].values, dataset["attempts"].values)
    columns = {}
    if "unscored_records" in dataset:
        agent, number = (dataset[f"unscored_{n}"].values for n in ("agent_index", "records"))
        attempted = dataset["unscored_counted_as"].values != "missing"
        np.subtract.at(scored, agent[attempted], number[attempted])
        for status in STATUSES[1:]:
            own = dataset["unscored_status"].values == status
            if own.any():
                columns[status] = np.zeros_like(scored)
                np.add.at(columns[status], agent[own], number[own])
    return pd.DataFrame({"scored": scored, **columns}, index=pd.Index(agents, name="agent"))


def counted_as(dataset: xr.Dataset) -> dict[str, dict[str, int]]:
    """What the records of each status count as: status -> decision -> number of records."""
    found: dict[str, dict[str, int]] = {}
    if "unscored_records" in dataset:
        number = dataset["unscored_records"].values
        for status in STATUSES[1:]:
            for decision in COUNTED_AS:
                own = dataset["unscored_status"].values == status
                own &= dataset["unscored_counted_as"].values == decision
                if own.any():
                    found.setdefault(status, {})[decision] = int(number[own].sum())
    return found


def counted_attributes(dataset: xr.Dataset) -> dict[str, str]:
    """Attributes status_counts and dropped of a part of data, counted anew where they can be.

    Counts by other names than those of STATUSES are of the records that were read, and stay.
    """
    if "scored" not in json.loads(dataset.attrs.get("status_counts", "{}")):
        return {}
    totals = statuses_by_agent(dataset).sum()
    missing = {status: n["missing"] for status, n in counted_as(dataset).items() if "missing" in n}
    result = {}
    for name, found in (("status_counts", totals.to_dict()), ("dropped", missing)):
        if name in dataset.attrs:
            old = json.loads(dataset.attrs[name])
            kept = {reason: n for reason, n in old.items() if reason not in STATUSES}
            new = {status: int(n) for status, n in found.items() if n}
            result[name] = json.dumps({**kept, **new} if name == "dropped" else {**new, **kept})
    return result


def _by_status(table: pd.DataFrame) -> dict[str, int]:
    found = {status: table["records"][table["status"] == status].sum() for status in STATUSES}
    return {status: int(number) for status, number in found.items() if number}


def _note_undecided(rows: np.ndarray, status: np.ndarray, place: Callable[[int], str]) -> None:
    """Give the linter the places of records that the policy leaves open."""
    for code in np.unique(status[rows]).tolist():
        error = InputError(
            f"records ended as {STATUSES[code]}",
            expected="a decision what they count as",
            remedy=f"policy='{STATUSES[code]}=missing' or policy='{STATUSES[code]}=failure'",
            code="S501",
        )
        problem(error, rows[status[rows] == code], place)


class _Plain(str):
    """Text that messages list without quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)
