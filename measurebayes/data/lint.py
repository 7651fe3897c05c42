"""All problems of a table or a set of logs at once, each with its code, place and severity."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Any

import xarray as xr

from measurebayes.data.lint_codes import CODES, ERROR, NOTE, WARNING
from measurebayes.data.lint_structure import structure_problems
from measurebayes.data.load import load
from measurebayes.data.problems import STAND_IN, Problem, noting
from measurebayes.data.schema import STATUSES
from measurebayes.errors import InputError

if TYPE_CHECKING:
    from measurebayes.data.load import Loadable

_SEVERITIES = (ERROR, WARNING, NOTE)

# Options that settle what loading refuses to guess: where an error's remedy names one that isn't
# given, the linter notes the error, takes the value here, and reads on.
_DECISIONS: dict[str, tuple[str, Any]] = {
    "ignore": ("T202", "*"),
    "scorer": ("I401", "all"),
    "filter": ("I402", "all"),
    "agent_from": ("I404", None),  # as the remedy says
    "runs": ("I403", "all"),
    "duplicates": ("I405", None),
    "policy": ("S501", "missing"),
    "threshold": ("V304", 0.5),
}
_GIVEN = re.compile(r"\b(\w+)=(\[[^\]]*\]|'[^']*')")
# Places of wrong arguments; a path may hold these words too.
_USAGE = re.compile(
    r"(?:^|, )(?:reader options|options of the reader '\w+'|option \w+|arguments of join"
    r"|arguments? '?\w+'?)$"
)

# Code of an error that has none, by the module that raised it
_BY_MODULE = {
    "archive": "F108", "jsontext": "F105", "files": "F105", "source": "F105", "tables": "F105",
    "logs": "F105", "load": "F107", "unrecognised": "F107", "scores": "V304", "statuses": "S501",
    "identity": "I406",
    "inspect_log": "F105", "inspect_files": "F105", "lm_eval": "F105", "helm": "F105",
    "every_eval_ever": "F105", "metr_yaml": "F105", "yamltext": "F105", "runs": "F102",
    "values": "V302", "covariates": "V302", "join": "J703", "schema": "R901", "build": "R901",
}  # fmt: skip


@dataclass(frozen=True)
class Finding:
    """One problem.

    Parameters
    ----------
    code : str
        Its kind; docs/lint.md describes each.
    severity : str
        "error", "warning" or "note".
    problem : str
        What was found.
    places : tuple of str
        Where: file, line and column, or labels; the first hundred.
    count : int
        Number of places.
    expected, remedy : str
        What was expected, and what to do.
    """

    code: str
    severity: str
    problem: str
    places: tuple[str, ...]
    count: int
    expected: str
    remedy: str


@dataclass(frozen=True)
class LintResult:
    """What the linter found.

    Parameters
    ----------
    findings : tuple of Finding
        Errors first, then warnings, then notes.
    dataset : xarray.Dataset or None
        The data as far as they could be read, for a look; not to be used where there are errors.
    taken : dict
        Options that the linter took itself to read on, where decisions are open.
    """

    findings: tuple[Finding, ...]
    dataset: xr.Dataset | None = None
    taken: Mapping[str, Any] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether there is no error."""
        return not self.number(ERROR)

    def number(self, severity: str) -> int:
        """Number of findings of one severity."""
        return sum(finding.severity == severity for finding in self.findings)

    def as_dict(self) -> dict[str, Any]:
        """All findings, as JSON can hold them."""
        return {
            "ok": self.ok,
            **{f"{severity}s": self.number(severity) for severity in _SEVERITIES},
            "taken": dict(self.taken),
            "findings": [
                {**vars(finding), "title": CODES[finding.code].title} for finding in self.findings
            ],
        }


def lint(path_or_name: Loadable, /, reader: str | None = None, **reader_options: Any) -> LintResult:
    """Find every problem of a table, a set of logs or a dataset.

    It reads as `load` does, but goes on after a problem: a value that can't be used is noted and
    passed over, a broken line or file left out, a decision that is open (a scorer, a policy) noted
    and taken in some way. Then it looks at what was read: scale, labels, statuses.

    Parameters
    ----------
    path_or_name : str, path, pandas.DataFrame or xarray.Dataset
        As for `load`.
    reader : str, optional
        As for `load`.
    **reader_options
        As for `load`.

    Returns
    -------
    LintResult

    Raises
    ------
    InputError
        Where the path doesn't exist or an argument is wrong; problems of the data are findings.

    Examples
    --------
    >>> import measurebayes as mb, pandas as pd
    >>> table = pd.DataFrame({"agent": ["a", "b "], "task": ["t", "u"], "success": [1, 2]})
    >>> [finding.code for finding in mb.lint(table).findings if finding.severity == "error"]
    ['V301', 'V302']
    """
    options = dict(reader_options)
    problems: list[Problem] = []
    dataset: xr.Dataset | None = None
    settled: list[InputError] = []
    for _ in range(len(_DECISIONS) + 1):
        with noting() as noted, warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            try:
                dataset = load(path_or_name, reader, **dict(options))
                failure = None
            except InputError as error:
                failure = error
        problems += noted  # a later reading finds most of it again
        if failure is None:
            break
        _refuse_wrong_usage(failure, not settled)
        settled.append(failure)
        if not _settle(failure, options):
            break
    problems, rows = _without_open(problems)
    for refusal in settled:
        same = rows if refusal.code == "S501" and rows else [_as_problem(refusal)]
        places = tuple(dict.fromkeys(place for one in same for place in one.places))
        problems.append(Problem(_coded(refusal), places, sum(one.count for one in same)))
    taken = {name: value for name, value in options.items() if name not in reader_options}
    if dataset is not None:
        problems += structure_problems(dataset, STATUSES if "policy" in taken else ())
    return LintResult(tuple(_findings(problems)), dataset, taken)


def _refuse_wrong_usage(error: InputError, first: bool) -> None:
    if error.code == "F101" or (first and _USAGE.search(error.where or "")):
        raise error


def _settle(error: InputError, options: dict[str, Any]) -> bool:
    """Take a decision that the error asks for; tell whether there was one."""
    remedy = error.remedy or ""
    offered = dict(reversed(_GIVEN.findall(remedy)))  # the first of several
    named = [name for name in re.findall(r"\b(\w+)=", remedy) if name in _DECISIONS]
    for name in named:
        if name not in options or (name == "policy" and options[name] != "missing"):
            code, value = _DECISIONS[name]
            if value is None:
                value = ast.literal_eval(offered[name]) if name in offered else None
            if value is not None:
                error.code = error.code or code
                options[name] = value
                return True
    return False


def _without_open(problems: Sequence[Problem]) -> tuple[list[Problem], list[Problem]]:
    """Take out the rows of open statuses, each once: they become one problem with the total."""
    rows: dict[tuple[str, tuple[str, ...]], Problem] = {}
    others = []
    for one in problems:
        if one.error.code == "S501":
            rows.setdefault((one.error.found, one.places), one)
        else:
            others.append(one)
    return others, list(rows.values())


def _coded(error: InputError) -> InputError:
    error.code = error.code or _BY_MODULE.get(_origin(error.__traceback__), "R901")
    return error


def _as_problem(error: InputError) -> Problem:
    return Problem(_coded(error), (error.where,) if error.where else (), 1)


def _origin(traceback: TracebackType | None) -> str:
    """Name of the innermost module of the data layer that an error passed."""
    found = ""
    while traceback is not None:
        module = str(traceback.tb_frame.f_globals.get("__name__", ""))
        if module.startswith("measurebayes.data."):
            found = module.rpartition(".")[2]
        traceback = traceback.tb_next
    return found


def _findings(problems: Sequence[Problem]) -> list[Finding]:
    """Make findings of problems: equal ones of several batches are one; sorted by severity."""
    merged: dict[tuple[str, str], list[Problem]] = {}
    seen: set[tuple[str, str, tuple[str, ...]]] = set()
    for one in problems:
        same_again = (one.error.code, one.error.found, one.places)
        if same_again in seen:
            continue
        seen.add(same_again)
        if STAND_IN not in one.error.found:
            code = one.error.code or _BY_MODULE.get(_origin(one.error.__traceback__), "R901")
            key = (code, one.error.found)
            if key[0].startswith("V"):
                key = (code, f"{one.error.found}, {_column(one.error.where)}")
            merged.setdefault(key, []).append(one)
    found = []
    for (code, _), same in merged.items():
        error = same[0].error
        places = dict.fromkeys(place for one in same for place in one.places)
        found.append(
            Finding(
                code,
                CODES[code].severity,
                error.found,
                tuple(places)[:100],
                sum(one.count for one in same),
                error.expected or "",
                error.remedy or "",
            )
        )
    order = list(CODES)
    return sorted(found, key=lambda one: (_SEVERITIES.index(one.severity), order.index(one.code)))


def _column(where: str | None) -> str:
    """Column that a place names, so that one bad value in two columns is two findings."""
    return (where or "").rpartition("column ")[2]
