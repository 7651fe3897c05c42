"""The one layout of data that all models read: names, dims, dtypes, and the test of both.

======================== ========= ============== ==============================================
name                     dim       dtype          meaning
======================== ========= ============== ==============================================
agent, task, family      own dim   str            labels (coordinates), each one once
agent_index, task_index  cell      int64          position of the cell's agent and task
attempts, successes      cell      int64          1 <= attempts, 0 <= successes <= attempts
score                    cell      float64        mean score, where a threshold judged (optional)
family_index             task      int64          position of the task's family
source                   task      str            suite that the task comes from; "" unknown
human_minutes            task      float64        time a person takes, minutes; NaN unknown
minutes_kind             task      str            how the time is known (baseline, ...); ""
task_weight              task      float64        1 / sqrt(number of tasks in the family)
release_date             agent     datetime64[ns] day of release; NaT unknown
timing_task_index        timing    int64          task of a timed human attempt (optional)
timing_minutes           timing    float64        its duration, minutes
timing_success           timing    int64          1 where the person succeeded, else 0
unscored_agent_index     unscored  int64          agent of records not simply scored (optional)
unscored_task_index      unscored  int64          their task
unscored_status          unscored  str            what became of them: one of STATUSES but scored
unscored_records         unscored  int64          how many, at least 1
unscored_counted_as      unscored  str            failure, missing (no attempt) or as_scored
======================== ========= ============== ==============================================

Only pairs of agent and task with at least one attempt have a cell; cells are sorted by
(agent_index, task_index). A task or an agent without attempts stays as a label. Rows of `unscored`
are sorted by agent, task, status and what they count as; those that count as failure or as_scored
are among the attempts of their cell.
"""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches

import numpy as np
import xarray as xr

from measurebayes.errors import InputError, did_you_mean, listed, shown

LABELS = ("agent", "task", "family")
# variable -> (dim, kind of dtype)
ESTIMATE, WINDOW = "estimate", "window"
MINUTES_KINDS = ("baseline", ESTIMATE, WINDOW)  # those that models tell apart; others are allowed
BASELINES = "baselines"  # on task, optional: number of timed attempts that its minutes average
VARIABLES = {
    "agent_index": ("cell", "i8"),
    "task_index": ("cell", "i8"),
    "attempts": ("cell", "i8"),
    "successes": ("cell", "i8"),
    "family_index": ("task", "i8"),
    "source": ("task", "U"),
    "human_minutes": ("task", "f8"),
    "minutes_kind": ("task", "U"),
    "task_weight": ("task", "f8"),
    "release_date": ("agent", "M8[ns]"),
}
TIMING = {
    "timing_task_index": ("timing", "i8"),
    "timing_minutes": ("timing", "f8"),
    "timing_success": ("timing", "i8"),
}
UNSCORED = {
    "unscored_agent_index": ("unscored", "i8"),
    "unscored_task_index": ("unscored", "i8"),
    "unscored_status": ("unscored", "U"),
    "unscored_records": ("unscored", "i8"),
    "unscored_counted_as": ("unscored", "U"),
}
# What can become of a record, in the order in which tables show it
STATUSES = ("scored", "errored", "limit", "refused", "not_attempted", "not_administered")
COUNTED_AS = ("failure", "missing", "as_scored")
# variable -> the labels that its numbers point to
POINTERS = {
    "agent_index": "agent",
    "task_index": "task",
    "family_index": "family",
    "timing_task_index": "task",
    "unscored_agent_index": "agent",
    "unscored_task_index": "task",
}
SCORE = "score"  # of cells
MAX_COUNT = 2**31 - 1  # keeps every sum of counts far inside int64
_MAX_NAME = 200  # of a variable, bytes; netCDF holds 256
EACH_TASK_ITS_OWN = "each task its own"


def label_problem(label: str) -> str | None:
    """Say what is wrong with a label of an agent, task or family; None where it is usable."""
    if not label.strip():
        return "is blank"
    if label != label.strip():
        return "has leading or trailing blanks"
    if any(ord(character) < 32 or ord(character) == 127 for character in label):
        return "contains a control character"
    if any(0xD800 <= ord(character) <= 0xDFFF for character in label):
        return "contains half of a surrogate pair, which is not a character"
    return None


def name_problem(name: str) -> str | None:
    """Say why netCDF can't hold a variable of this name; None where it can."""
    if problem := label_problem(name):
        return problem
    if "/" in name:
        return "holds a slash"
    if name[0].isascii() and not (name[0].isalnum() or name[0] == "_"):
        return "begins with a punctuation mark"
    return f"is longer than {_MAX_NAME} bytes" if len(name.encode()) > _MAX_NAME else None


def storable(text: str) -> str:
    """Give text that a file can hold: names of files may have half a character, which none can."""
    return text.encode("utf-8", "backslashreplace").decode()


def check_is_dataset(dataset: object) -> None:
    """Raise InputError where something is no dataset at all."""
    if not isinstance(dataset, xr.Dataset):
        raise InputError(
            f"the data are a {type(dataset).__name__}",
            expected="an xarray.Dataset in the schema of measurebayes",
            remedy="measurebayes.load(...) makes one from a file, a DataFrame or a bundled name",
        )


def check_layout(dataset: xr.Dataset) -> None:
    """Raise InputError where something is no dataset with the variables of the schema."""
    check_is_dataset(dataset)
    for name, (dim, dtype) in VARIABLES.items():
        _check_variable(dataset, name, dim, dtype)
    for name in LABELS:
        _check_labels(dataset, name)


def validate(dataset: xr.Dataset) -> xr.Dataset:
    """Check that a dataset keeps the rules of the schema.

    Parameters
    ----------
    dataset : xarray.Dataset
        Data in the layout described in this module.

    Returns
    -------
    xarray.Dataset
        The same object.

    Raises
    ------
    InputError
        Naming the variable, what is wrong with it, and what was expected.
    """
    check_layout(dataset)
    has_timing = any(name in dataset for name in TIMING)
    has_unscored = any(name in dataset for name in UNSCORED)
    wanted = (TIMING if has_timing else {}) | (UNSCORED if has_unscored else {})
    for name, (dim, dtype) in wanted.items():
        _check_variable(dataset, name, dim, dtype)
    for name, target in POINTERS.items():
        if name in dataset:
            _check(
                name,
                lambda x, n=dataset.sizes[target]: (x >= 0) & (x < n),  # type: ignore[misc]
                dataset,
                f"positions along {target}, 0 to {dataset.sizes[target] - 1}",
            )
    _check_cells(dataset)
    _check_values(dataset, has_timing)
    if has_unscored:
        _check_unscored(dataset)
    _check_attributes(dataset)
    return dataset


def _check_variable(dataset: xr.Dataset, name: str, dim: str, dtype: str) -> None:
    expected = f"a variable {name!r} of dim ({dim},) and dtype {dtype}"
    if name not in dataset:
        raise InputError(
            f"the data have no variable {name!r}",
            expected=expected,
            remedy=did_you_mean(name, map(str, dataset.variables))
            or "load the data with measurebayes.load(...)",
        )
    variable = dataset[name]
    right_dtype = variable.dtype.kind == "U" if dtype == "U" else variable.dtype == np.dtype(dtype)
    if variable.dims != (dim,) or not right_dtype:
        raise InputError(
            f"it has dims {variable.dims} and dtype {variable.dtype}",
            where=f"variable {name!r}",
            expected=expected,
            remedy=f"convert it with .astype({dtype!r}) or load the data anew",
        )


def _check_labels(dataset: xr.Dataset, name: str) -> None:
    where = f"labels {name!r}"
    if name not in dataset.coords or dataset[name].dims != (name,):
        raise InputError(
            f"the data have no labels {name!r}",
            expected=f"a coordinate {name!r} of dim ({name},) and dtype str",
            remedy="load the data with measurebayes.load(...)",
        )
    if dataset[name].dtype.kind != "U":
        raise InputError(
            f"the labels have dtype {dataset[name].dtype}",
            where=where,
            expected="plain str (numpy dtype U)",
            remedy=f"np.asarray(dataset[{name!r}], dtype=str)",
        )
    labels = dataset[name].values.tolist()
    if len(set(labels)) < len(labels):
        seen: set[str] = set()
        twice = [label for label in labels if label in seen or seen.add(label)]  # type: ignore[func-returns-value]
        raise InputError(
            f"labels stand more than once: {listed(twice)}",
            where=where,
            expected="each label once",
        )
    for label in labels:
        if problem := label_problem(label):
            raise InputError(f"the label {shown(label)} {problem}", where=where)


def _check(
    name: str, holds: Callable[[np.ndarray], np.ndarray], dataset: xr.Dataset, expected: str
) -> None:
    values = dataset[name].values
    bad = np.flatnonzero(~holds(values))
    if bad.size:
        raise InputError(
            f"{bad.size} of {values.size} values are out of range: {listed(values[bad].tolist())}",
            where=f"variable {name!r}, first at position {bad[0]}",
            expected=expected,
        )


def _check_cells(dataset: xr.Dataset) -> None:
    _check("attempts", lambda x: x >= 1, dataset, "at least 1 (a cell that was not run has no row)")
    _check("attempts", lambda x: x <= MAX_COUNT, dataset, f"at most {MAX_COUNT}")
    _check(
        "successes",
        lambda x: (x >= 0) & (x <= dataset["attempts"].values),
        dataset,
        "0 to the attempts of the cell",
    )
    keys = dataset["agent_index"].values * dataset.sizes["task"] + dataset["task_index"].values
    if np.any(np.diff(keys) <= 0):
        at = int(np.flatnonzero(np.diff(keys) <= 0)[0]) + 1
        raise InputError(
            "the cells are not sorted by (agent_index, task_index), or one stands twice",
            where=f"cell {at}",
            expected="one cell for a pair of agent and task, sorted",
            remedy="add up or sort the cells, or load the data anew",
        )


def _check_values(dataset: xr.Dataset, has_timing: bool) -> None:
    positive = "positive and finite"
    _check(
        "human_minutes",
        lambda x: np.isnan(x) | ((x > 0) & np.isfinite(x)),
        dataset,
        f"{positive}, or NaN for unknown",
    )
    _check("task_weight", lambda x: (x > 0) & np.isfinite(x), dataset, positive)
    _check_minutes_kind(dataset["minutes_kind"].values)
    if BASELINES in dataset:
        _check_baselines(dataset)
    if has_timing:
        _check("timing_minutes", lambda x: (x > 0) & np.isfinite(x), dataset, positive)
        _check("timing_success", lambda x: (x == 0) | (x == 1), dataset, "0 or 1")


def _check_minutes_kind(kinds: np.ndarray) -> None:
    """Refuse slips of the pen: a model would take a misspelt estimate for a timing."""
    for kind in sorted(set(kinds.tolist()) - set(MINUTES_KINDS)):
        if near := get_close_matches(kind.strip().lower(), MINUTES_KINDS, 1, cutoff=0.8):
            raise InputError(
                f"{int((kinds == kind).sum())} tasks have the minutes_kind {shown(kind)}",
                where="variable 'minutes_kind'",
                expected=f"{', '.join(MINUTES_KINDS)}, or a word of its own",
                remedy=f"write {near[0]!r}",
            )


def _check_baselines(dataset: xr.Dataset) -> None:
    """The number of timed attempts that a task's minutes average is optional."""
    given = dataset[BASELINES]
    if given.dims != ("task",) or given.dtype.kind not in "iuf":
        raise InputError(
            f"it has dims {given.dims} and dtype {given.dtype}",
            where=f"variable {BASELINES!r}",
            expected="numbers of dim (task,): how many timed attempts human_minutes average",
        )
    _check(BASELINES, lambda x: np.isnan(x) | (x >= 1), dataset, "at least 1, or NaN for unknown")


def _check_unscored(dataset: xr.Dataset) -> None:
    _check("unscored_records", lambda x: x >= 1, dataset, "at least 1")
    for name, words in (("unscored_status", STATUSES[1:]), ("unscored_counted_as", COUNTED_AS)):
        _check(name, lambda x, w=words: np.isin(x, w), dataset, f"one of: {', '.join(words)}")  # type: ignore[misc]
    keys = unscored_keys(dataset)
    if np.any(np.diff(keys) <= 0):
        at = int(np.flatnonzero(np.diff(keys) <= 0)[0]) + 1
        raise InputError(
            "the rows of unscored records are not sorted by agent, task, status and what they "
            "count as, or one stands twice",
            where=f"row {at} of dim unscored",
            expected="one row for each of these, sorted",
            remedy="add up or sort the rows, or load the data anew",
        )
    _check_counted(dataset)


def _check_counted(dataset: xr.Dataset) -> None:
    """Records that count as failure or as_scored must be among the attempts of their cell."""
    size = dataset.sizes["task"]
    cells = dataset["agent_index"].values * size + dataset["task_index"].values
    counted = dataset["unscored_counted_as"].values != "missing"
    pair = (dataset["unscored_agent_index"] * size + dataset["unscored_task_index"]).values[counted]
    known = np.isin(pair, cells)
    total = np.zeros(cells.size, dtype=np.int64)
    at = np.searchsorted(cells, pair[known])
    np.add.at(total, at, dataset["unscored_records"].values[counted][known])
    wrong = int((~known).sum() + (total > dataset["attempts"].values).sum())
    if wrong:
        raise InputError(
            f"for {wrong} pairs of agent and task more records count as attempts than the cell has",
            where="dim unscored",
            expected="records that count as failure or as_scored among the attempts of their cell",
            remedy="load the data anew",
        )


def unscored_keys(dataset: xr.Dataset) -> np.ndarray:
    """One whole number for each row of dim unscored, (unscored,): their order and identity."""
    keys = dataset["unscored_agent_index"].values * dataset.sizes["task"]
    keys = keys + dataset["unscored_task_index"].values
    for name, words in (("unscored_status", STATUSES), ("unscored_counted_as", COUNTED_AS)):
        position = np.select([dataset[name].values == word for word in words], range(len(words)))
        keys = keys * len(words) + position
    return np.asarray(keys)


def _check_attributes(dataset: xr.Dataset) -> None:
    for name, value in dataset.attrs.items():
        if isinstance(value, bool) or not isinstance(value, str | int | float | np.number):
            raise InputError(
                f"it is a {type(value).__name__}",
                where=f"attribute {name!r}",
                expected="str, int or float (netCDF holds nothing else)",
                remedy="store it as JSON text",
            )
        if isinstance(value, str) and storable(value) != value:
            raise InputError(
                "it contains half of a surrogate pair, which is not a character",
                where=f"attribute {name!r}",
                expected="text",
                remedy="take it off",
            )


def validate_for_fit(dataset: xr.Dataset) -> xr.Dataset:
    """Check that a dataset is valid and that a model of agents and tasks can be fitted to it.

    Parameters
    ----------
    dataset : xarray.Dataset
        Data in the schema of this module.

    Returns
    -------
    xarray.Dataset
        The same object.

    Raises
    ------
    InputError
        Where the schema is broken, or fewer than two agents or two tasks have attempts.
    """
    validate(dataset)
    for kind in ("agent", "task"):
        number = np.unique(dataset[f"{kind}_index"].values).size
        if number < 2:
            raise InputError(
                f"attempts by {number} {kind}{'' if number == 1 else 's'} only",
                where=str(dataset.attrs.get("name", "the data")),
                expected=f"at least 2 {kind}s with attempts: abilities and difficulties are "
                "known only relative to each other",
                remedy="add records of other agents and tasks, or place a new agent on a fit that "
                "exists: measurebayes.score(runs, fit)",
            )
    return dataset
