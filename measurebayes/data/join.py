"""Give agents and tasks properties from tables, and tasks their families by a rule."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from measurebayes.data.build import family_positions, task_weights
from measurebayes.data.covariates import KNOWN, Covariates, Table, read_covariates
from measurebayes.data.problems import is_noting, problem
from measurebayes.data.schema import EACH_TASK_ITS_OWN, validate
from measurebayes.errors import InputError, did_you_mean, listed, shown

_LISTED = 20  # unmatched labels that a message names
_UNMATCHED = ("warn", "error", "ignore")
_CONFLICTS = ("error", "data", "table")


def join(
    runs: xr.Dataset,
    tasks: Table | None = None,
    agents: Table | None = None,
    families: Table | None = None,
    family: str | None = None,
    unmatched: str = "warn",
    conflicts: str = "error",
) -> xr.Dataset:
    """Add properties of tasks and agents to data.

    Parameters
    ----------
    runs : xarray.Dataset
        Data in the schema of measurebayes.data.schema.
    tasks : path or pandas.DataFrame, optional
        CSV, Parquet or DataFrame with a column task and any of human_minutes (minutes),
        minutes_kind, source and family; any other column becomes a variable on the dim task,
        float64 where all its values are numbers and else str.
    agents : path or pandas.DataFrame, optional
        The same with a column agent and release_date (ISO dates).
    families : path or pandas.DataFrame, optional
        Table with columns task and family; no other column is read.
    family : str, optional
        Rule that gives tasks their families anew: "prefix:SEP", the text before the first SEP in
        the label, such as "prefix:/".
    unmatched : {"warn", "error", "ignore"}
        What labels without a row and rows without a label are.
    conflicts : {"error", "data", "table"}
        Whose value stands where the data know another one than the table.

    Returns
    -------
    xarray.Dataset
        New data; the attribute `joined` says how many labels were matched.

    Raises
    ------
    InputError
        Where a table can't be read, no label of it is in the data, or values disagree.

    Examples
    --------
    >>> import measurebayes as mb, pandas as pd
    >>> runs = mb.load("metr-th1.1")
    >>> table = pd.DataFrame({"agent": ["o1-preview"], "price": [2.5]})
    >>> joined = mb.join(runs, agents=table, unmatched="ignore")
    >>> float(joined["price"].sel(agent="o1-preview"))
    2.5
    """
    validate(runs)
    _check_choice("unmatched", unmatched, _UNMATCHED)
    _check_choice("conflicts", conflicts, _CONFLICTS)
    if family is not None:
        if families is not None:
            raise InputError(
                "both family and families are given",
                where="arguments of join",
                expected="a rule for families, or a table of them",
                remedy="leave one of them out",
            )
        runs = _families_by_rule(runs, family)
    if families is not None:
        runs = _joined(runs, read_covariates(families, "task", ["family"]), unmatched, conflicts)
    for key, table in (("task", tasks), ("agent", agents)):
        if table is not None:
            runs = _joined(runs, read_covariates(table, key), unmatched, conflicts)
    return validate(runs)


def _check_choice(name: str, value: str, choices: Sequence[str]) -> None:
    if value not in choices:
        raise InputError(
            f"it is {shown(value)}",
            where=f"argument {name!r}",
            expected=f"one of {listed(choices)}",
            remedy=did_you_mean(str(value), choices),
        )


def prefix_separator(rule: str) -> str | None:
    """Separator of the rule "prefix:SEP"; None for another rule."""
    kind, _, separator = str(rule).partition(":")
    return separator if kind == "prefix" and separator else None


def _families_by_rule(runs: xr.Dataset, rule: str) -> xr.Dataset:
    separator = prefix_separator(rule)
    if separator is None:
        raise InputError(
            f"the rule for families is {shown(rule)}",
            where="argument 'family'",
            expected="prefix:SEP, the text before the first SEP in the label of the task",
            remedy="family='prefix:/' makes 'algebra' the family of 'algebra/17'; a table: "
            "families='families.csv'",
        )
    labels = runs["task"].values.tolist()
    parts = [label.partition(separator) for label in labels]
    named = [head.strip() if found else "" for head, found, _ in parts]
    if not any(named):
        raise InputError(
            f"no task has {shown(separator)} after other text",
            where="argument 'family'",
            expected=f"tasks such as {'family' + separator + 'name'!r}; there are {listed(labels)}",
            remedy="name the text that stands after the family",
        )
    return _with_families(runs, named)


def _with_families(runs: xr.Dataset, named: Sequence[str]) -> xr.Dataset:
    """Data with other families; "" for a task that is its own."""
    labels, index = family_positions(runs["task"].values.tolist(), list(named))
    left = runs.drop_vars(["family_index", "task_weight"]).drop_dims("family")
    attrs = {name: value for name, value in runs.attrs.items() if name != "families"}
    if not any(named):
        attrs["families"] = EACH_TASK_ITS_OWN
    variables = {
        "family_index": ("task", index),
        "task_weight": ("task", task_weights(index)),
    }
    coords = {"family": ("family", np.asarray(labels, dtype=str))}
    result = left.assign(variables).assign_coords(coords)
    result.attrs = attrs
    return result


def _joined(runs: xr.Dataset, table: Covariates, unmatched: str, conflicts: str) -> xr.Dataset:
    labels = runs[table.key].values.tolist()
    row_of = {label: row for row, label in enumerate(table.labels)}
    rows = np.array([row_of.get(label, -1) for label in labels], dtype=np.int64)
    lacking = [label for label, row in zip(labels, rows, strict=True) if row < 0]
    known = set(labels)
    unused = [label for label in table.labels if label not in known]
    _report_unmatched(table, labels, lacking, unused, unmatched)
    for name, column in table.columns.items():
        runs = _with_column(runs, table, name, column, rows, conflicts)
    note = {
        "by": table.key,
        "columns": list(table.columns),
        "matched": len(labels) - len(lacking),
        "labels_without_row": len(lacking),
        "rows_without_label": len(unused),
        "sha256": table.sha256,
    }
    before = json.loads(runs.attrs.get("joined", "[]"))
    return runs.assign_attrs(joined=json.dumps([*before, note]))


def _report_unmatched(
    table: Covariates,
    labels: Sequence[str],
    lacking: Sequence[str],
    unused: Sequence[str],
    unmatched: str,
) -> None:
    key = table.key
    if is_noting():
        _note_unmatched(table, labels, lacking, unused)
        return
    nothing = len(lacking) == len(labels)
    if nothing or (unmatched == "error" and (lacking or unused)):
        raise InputError(
            _unmatched_text(table, labels, lacking, unused),
            where=f"{table.name}, column {key!r}",
            expected=f"the labels that the data have, such as {listed(labels, 3)}",
            remedy=did_you_mean(unused[0], labels) if unused else f"add rows for these {key}s",
        )
    if unmatched == "warn" and (lacking or unused):
        text = _unmatched_text(table, labels, lacking, unused)
        warnings.warn(f"{table.name}: {text}", UserWarning, stacklevel=4)


def _note_unmatched(
    table: Covariates, labels: Sequence[str], lacking: Sequence[str], unused: Sequence[str]
) -> None:
    key = table.key
    code = "J702" if len(lacking) == len(labels) else "J701"
    for found, what in (
        (lacking, f"{len(lacking)} of {len(labels)} {key}s of the data have no row in the table"),
        (unused, f"{len(unused)} of {len(table.labels)} rows are of no {key} of the data"),
    ):
        if found:
            problem(
                InputError(
                    what, table.name, f"a row for each {key}", "correct the labels", code=code
                ),
                range(len(found)),
                lambda at, f=found: f"{table.name}, {key} {shown(f[at])}",  # type: ignore[misc]
            )


def _unmatched_text(
    table: Covariates, labels: Sequence[str], lacking: Sequence[str], unused: Sequence[str]
) -> str:
    parts = []
    if lacking:
        parts.append(
            f"{len(lacking)} of {len(labels)} {table.key}s of the data have no row: "
            f"{listed(lacking, _LISTED)}"
        )
    if unused:
        parts.append(
            f"{len(unused)} of {len(table.labels)} rows are of no {table.key} of the data: "
            f"{listed(unused, _LISTED)}"
        )
    return "; ".join(parts)


def _with_column(
    runs: xr.Dataset,
    table: Covariates,
    name: str,
    column: np.ndarray,
    rows: np.ndarray,
    conflicts: str,
) -> xr.Dataset:
    given = np.where(rows >= 0, column[rows], blank(column.dtype))
    before = _before(runs, table, name, given.dtype)
    if before is None:
        return runs.assign({name: (table.key, given)})
    both = ~unknown(before) & ~unknown(given) & (before != given)
    if both.any() and conflicts == "error":
        labels = runs[table.key].values
        first = int(np.flatnonzero(both)[0])
        error = InputError(
            f"data and table disagree about {name} of {int(both.sum())} {table.key}s: "
            f"{shown(str(labels[first]))} has {shown(before[first].item())} in the data and "
            f"{shown(given[first].item())} in the table",
            where=f"{table.name}, column {name!r}",
            expected="the same values, or blanks",
            remedy="say whose value stands: measurebayes.join(runs, ..., conflicts='table') or "
            "conflicts='data'",
            code="J703",
        )
        at = np.flatnonzero(both)
        problem(error, at, lambda row: f"{table.name}, {table.key} {shown(str(labels[row]))}")
    first_choice, other = (before, given) if conflicts == "data" else (given, before)
    values = np.where(unknown(first_choice), other, first_choice)
    if name == "family":
        return _with_families(runs, values.tolist())
    return runs.assign({name: (table.key, values)})


def _before(runs: xr.Dataset, table: Covariates, name: str, dtype: Any) -> np.ndarray | None:
    """Values that the data have already; None where they have no such variable."""
    if name == "family":
        return known_families(runs)
    if name not in runs.variables:
        return None
    if runs[name].dims != (table.key,) or runs[name].dtype.kind != dtype.kind:
        raise InputError(
            f"the data have another variable {name!r}: dims {runs[name].dims}, "
            f"dtype {runs[name].dtype}",
            where=f"{table.name}, column {name!r}",
            expected=f"a name that is free, or values of dims ({table.key!r},) of the same type",
            remedy="rename the column",
        )
    return np.asarray(runs[name].values)


def known_families(runs: xr.Dataset) -> np.ndarray:
    """Family of each task, (task,) str; "" where the task is its own."""
    tasks = runs["task"].values
    families = runs["family"].values[runs["family_index"].values]
    alone = np.bincount(runs["family_index"].values)[runs["family_index"].values] == 1
    own = alone & (families == tasks)
    return np.where(own | ("families" in runs.attrs), "", families)


def blank(dtype: Any) -> Any:
    """Value that stands for unknown in an array of this dtype."""
    return {"M": np.datetime64("NaT", "ns"), "U": ""}.get(np.dtype(dtype).kind, np.nan)


def unknown(values: np.ndarray) -> np.ndarray:
    """Tell which values stand for unknown."""
    if values.dtype.kind == "U":
        return np.asarray(values == "")
    return np.isnat(values) if values.dtype.kind == "M" else np.isnan(values)


def is_covariate(name: str, variable: xr.Variable) -> bool:
    """Tell whether a variable is a property that came from a table of the user's."""
    own = variable.dims in (("task",), ("agent",)) and name not in ("agent", "task")
    return own and name not in (*KNOWN["task"], *KNOWN["agent"], "family_index", "task_weight")


def joined_of(attrs: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Notes of earlier joins."""
    return list(json.loads(attrs.get("joined", "[]")))
