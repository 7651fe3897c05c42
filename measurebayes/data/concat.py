"""Put several datasets together: equal labels are one agent, one task, one family."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from measurebayes.data.build import family_positions, task_weights
from measurebayes.data.connect import with_note
from measurebayes.data.join import blank, joined_of, known_families, unknown
from measurebayes.data.provenance import fingerprint
from measurebayes.data.schema import (
    COUNTED_AS,
    EACH_TASK_ITS_OWN,
    LABELS,
    POINTERS,
    SCORE,
    STATUSES,
    TIMING,
    UNSCORED,
    validate,
)
from measurebayes.data.statuses import counted_attributes
from measurebayes.errors import InputError, did_you_mean, listed, shown

_DUPLICATES = ("error", "sum", "first", "last")
_SHARED = ("both", "agents", "tasks")
# Attributes that are counts by reason as JSON text, and add up.
_COUNTS = ("status_counts", "dropped")


def concat(
    datasets: Sequence[xr.Dataset] | Mapping[str, xr.Dataset],
    duplicates: str = "error",
    shared: str = "both",
    name: str | None = None,
) -> xr.Dataset:
    """Put several datasets together.

    Parameters
    ----------
    datasets : sequence or mapping of xarray.Dataset
        Data in the schema of measurebayes.data.schema; the keys of a mapping are their names.
    duplicates : {"error", "sum", "first", "last"}
        What a pair of agent and task with attempts in several datasets is: an error; other
        attempts, to add up; or the same attempts, of which the first or the last dataset's stand.
    shared : {"both", "agents", "tasks"}
        Which labels mean the same in all datasets. Labels of the other kind get the name of their
        dataset and a slash in front, so that equal ones stay apart: "agents" links suites by the
        agents that took them, "tasks" links groups of agents by the tasks that they were given.
    name : str, optional
        Name of the result; by default the names joined by " + ".

    Returns
    -------
    xarray.Dataset
        Labels stand in the order of the datasets. Where the result falls into pieces without a
        common scale, the attribute `unconnected` names them.

    Raises
    ------
    InputError
        Where a pair stands in several datasets and `duplicates` is "error", datasets are copies
        of each other, or they disagree about a property of an agent or a task.

    Examples
    --------
    >>> import measurebayes as mb
    >>> runs = mb.load("metr-th1.1")
    >>> halves = [mb.subset(runs, source=source) for source in ("HCAST", "SWAA")]
    >>> mb.concat(halves).sizes["agent"] == runs.sizes["agent"]
    True
    """
    parts = _named(datasets)
    _check_choice("duplicates", duplicates, _DUPLICATES)
    _check_choice("shared", shared, _SHARED)
    for part in parts.values():
        validate(part)
    _check_copies(parts)
    apart = {"agents": ("task", "family"), "tasks": ("agent",)}.get(shared, ())
    renamed = [_with_prefix(part, key, apart) for key, part in parts.items()]
    labels = {dim: _union([part[dim].values for part in renamed]) for dim in ("agent", "task")}
    places = [{dim: _places(part, dim, labels[dim]) for dim in labels} for part in renamed]
    cells, stays = _cells(list(parts), renamed, places, labels, duplicates)
    variables: dict[str, Any] = {str(name): ("cell", cells[name].to_numpy()) for name in cells}
    for dim in labels:
        variables |= _properties(list(parts), renamed, places, dim, labels[dim])
    families = _merged(
        list(parts), [known_families(part) for part in renamed], places, "task", labels, "family"
    )
    family_names, family_index = family_positions(labels["task"].tolist(), families.tolist())
    variables["family_index"] = ("task", family_index)
    variables["task_weight"] = ("task", task_weights(family_index))
    variables |= _lists(renamed, places, stays)
    coords = {**labels, "family": np.asarray(family_names, dtype=str)}
    result = xr.Dataset(variables, coords, _attributes(parts, name, bool((families != "").any())))
    validate(result)
    return with_note(result.assign_attrs(counted_attributes(result)))


def _check_choice(name: str, value: str, choices: Sequence[str]) -> None:
    if value not in choices:
        raise InputError(
            f"it is {shown(value)}",
            where=f"argument {name!r}",
            expected=f"one of {listed(choices)}",
            remedy=did_you_mean(str(value), choices),
        )


def _named(datasets: Any) -> dict[str, xr.Dataset]:
    if isinstance(datasets, Mapping):
        parts = {str(key): part for key, part in datasets.items()}
    elif isinstance(datasets, Sequence) and not isinstance(datasets, str):
        parts = {}
        for number, part in enumerate(datasets, start=1):
            own = part.attrs.get("name", "") if isinstance(part, xr.Dataset) else ""
            parts[own if own and own not in parts else f"dataset {number}"] = part
    else:
        parts = {}
    if not parts:
        raise InputError(
            f"the datasets are a {type(datasets).__name__}"
            + (" without any" if isinstance(datasets, Sequence | Mapping) else ""),
            where="argument 'datasets'",
            expected="a list of datasets, or a mapping from names to them",
            remedy="measurebayes.concat([runs, more_runs])",
        )
    return parts


def _check_copies(parts: Mapping[str, xr.Dataset]) -> None:
    first_of: dict[str, str] = {}
    for key, part in parts.items():
        before = first_of.setdefault(fingerprint(part), key)
        if before != key:
            raise InputError(
                f"{shown(before)} and {shown(key)} hold the same data",
                where="argument 'datasets'",
                expected="different datasets",
                remedy="leave the copy out",
            )


def _with_prefix(part: xr.Dataset, key: str, dims: Sequence[str]) -> xr.Dataset:
    if not dims:
        return part
    new = {dim: [f"{key}/{label}" for label in part[dim].values.tolist()] for dim in dims}
    return part.assign_coords({dim: (dim, np.asarray(new[dim], dtype=str)) for dim in dims})


def _union(labels: Sequence[np.ndarray]) -> np.ndarray:
    """All labels, (label,), in order of first appearance."""
    together = dict.fromkeys(label for part in labels for label in part.tolist())
    return np.asarray(list(together), dtype=str)


def _places(part: xr.Dataset, dim: str, labels: np.ndarray) -> np.ndarray:
    position = {label: place for place, label in enumerate(labels.tolist())}
    return np.array([position[label] for label in part[dim].values.tolist()], dtype=np.int64)


def _cells(
    names: Sequence[str],
    parts: Sequence[xr.Dataset],
    places: Sequence[Mapping[str, np.ndarray]],
    labels: Mapping[str, np.ndarray],
    duplicates: str,
) -> tuple[pd.DataFrame, list[np.ndarray]]:
    """Cells of the result, and which rows of `unscored` of each dataset stay."""
    columns = ["agent_index", "task_index", "attempts", "successes"]
    if all(SCORE in part for part in parts):  # a mean that some lack is none of the whole
        columns.append(SCORE)
    cells = _rows(parts, places, columns)
    unscored = _rows(parts, places, ("unscored_agent_index", "unscored_task_index"))
    pair = ["agent_index", "task_index"]
    owners = pd.concat([cells[[*pair, "part"]], unscored[[*pair, "part"]]]).drop_duplicates()
    twice = owners.duplicated(pair, keep=False)
    if twice.any() and duplicates == "error":
        raise _duplicate_error(names, owners[twice], labels)
    if duplicates in ("first", "last"):  # the rows are in the order of the datasets
        owners = owners.drop_duplicates(pair, keep="first" if duplicates == "first" else "last")
    cells = cells.merge(owners)
    if SCORE in columns:
        cells[SCORE] *= cells["attempts"]
    cells = cells.groupby(pair, as_index=False)[columns[2:]].sum()
    if SCORE in columns:
        cells[SCORE] /= cells["attempts"]
    kept = unscored.merge(owners, how="left", indicator=True)["_merge"].eq("both").to_numpy()
    number = unscored["part"].to_numpy()
    stays = [kept[number == part] for part in range(len(parts))]
    types = {name: np.float64 if name == SCORE else np.int64 for name in columns}
    return cells.sort_values(pair)[columns].astype(types), stays


def _rows(
    parts: Sequence[xr.Dataset],
    places: Sequence[Mapping[str, np.ndarray]],
    columns: Sequence[str],
) -> pd.DataFrame:
    """Rows of all datasets with positions in the result, and the number of their dataset."""
    tables = [pd.DataFrame({name: np.empty(0, np.int64) for name in (*columns, "part")})]
    for number, (part, place) in enumerate(zip(parts, places, strict=True)):
        if columns[0] in part:
            moved = {name: _moved(part[name].values, place, POINTERS.get(name)) for name in columns}
            tables.append(pd.DataFrame(moved).assign(part=number))
    table = pd.concat(tables, ignore_index=True)
    return table.rename(columns=lambda name: name.removeprefix("unscored_"))


def _moved(values: np.ndarray, place: Mapping[str, np.ndarray], target: str | None) -> np.ndarray:
    return place[target][values] if target else values


def _duplicate_error(
    names: Sequence[str], twice: pd.DataFrame, labels: Mapping[str, np.ndarray]
) -> InputError:
    found: dict[tuple[int, int], list[str]] = {}
    for agent, task, part in twice[["agent_index", "task_index", "part"]].to_numpy().tolist():
        found.setdefault((agent, task), []).append(names[part])
    pairs = sorted(found)
    examples = [
        f"{labels['agent'][pair[0]]} at {labels['task'][pair[1]]} ({' and '.join(found[pair])})"
        for pair in pairs[:5]
    ]
    more = f" and {len(pairs) - 5} more" if len(pairs) > 5 else ""
    return InputError(
        f"{len(pairs)} pairs of agent and task have attempts in several datasets: "
        f"{', '.join(map(shown, examples))}{more}",
        where="argument 'datasets'",
        expected="each pair in one dataset, or a decision what several are",
        remedy="duplicates='sum' (other attempts: add them up), duplicates='first' or "
        "duplicates='last' (the same attempts: keep one dataset's); shared='agents' keeps tasks "
        "of the same name apart, "
        "shared='tasks' agents",
    )


def _properties(
    names: Sequence[str],
    parts: Sequence[xr.Dataset],
    places: Sequence[Mapping[str, np.ndarray]],
    dim: str,
    labels: np.ndarray,
) -> dict[str, Any]:
    """Variables on agents or tasks, those that only some datasets have among them."""
    made_here = ("family_index", "task_weight", *LABELS)
    found = dict.fromkeys(
        str(name)
        for part in parts
        for name in part.variables
        if part[name].dims == (dim,) and name not in made_here
    )
    result: dict[str, Any] = {}
    for name in found:
        kinds = {part[name].dtype.kind for part in parts if name in part.variables}
        if len(kinds) > 1:
            raise InputError(
                f"the datasets have {name!r} as text and as numbers",
                where=f"variable {name!r}",
                expected="one type in all datasets",
                remedy="convert or rename it in one of them",
            )
        some = next(part[name].dtype for part in parts if name in part.variables)
        given = [
            part[name].values
            if name in part.variables
            else np.full(part.sizes[dim], blank(some), dtype=some if some.kind != "U" else str)
            for part in parts
        ]
        result[name] = (dim, _merged(names, given, places, dim, {dim: labels}, name))
    return result


def _merged(
    names: Sequence[str],
    given: Sequence[np.ndarray],
    places: Sequence[Mapping[str, np.ndarray]],
    dim: str,
    labels: Mapping[str, np.ndarray],
    name: str,
) -> np.ndarray:
    """One value a label; what one dataset leaves open another may say."""
    dtype = np.result_type(*given)
    result = np.full(len(labels[dim]), blank(dtype), dtype=dtype)
    origin = np.full(len(labels[dim]), -1)
    for number, (values, place) in enumerate(zip(given, places, strict=True)):
        at, known = place[dim], ~unknown(values)
        clash = known & (origin[at] >= 0) & (result[at] != values)
        if clash.any():
            first = int(np.flatnonzero(clash)[0])
            label = labels[dim][at[first]]
            raise InputError(
                f"the datasets disagree about {name} of {int(clash.sum())} {dim}s: "
                f"{shown(str(label))} has {shown(result[at[first]].item())} in "
                f"{shown(names[origin[at[first]]])} and {shown(values[first].item())} in "
                f"{shown(names[number])}",
                where=f"variable {name!r}",
                expected="the same values, or unknown ones",
                remedy=f"if they are different {dim}s, keep them apart: "
                f"shared='{'agents' if dim == 'task' else 'tasks'}'; else correct one dataset",
            )
        result[at[known]] = values[known]
        origin[at[known]] = number
    return result


def _lists(
    parts: Sequence[xr.Dataset],
    places: Sequence[Mapping[str, np.ndarray]],
    stays: Sequence[np.ndarray],
) -> dict[str, Any]:
    """Variables on further dims: timed human attempts, records that were not simply scored."""
    result = {}
    for name in TIMING:
        found = [
            _moved(part[name].values, place, POINTERS.get(name))
            for part, place in zip(parts, places, strict=True)
            if name in part
        ]
        if found:
            result[name] = ("timing", np.concatenate(found))
    tables = [pd.DataFrame()]
    for part, place, stay in zip(parts, places, stays, strict=True):
        if "unscored_records" in part:
            moved = {n: _moved(part[n].values, place, POINTERS.get(n))[stay] for n in UNSCORED}
            tables.append(pd.DataFrame(moved))
    return result | _unscored(pd.concat(tables))


def _unscored(table: pd.DataFrame) -> dict[str, Any]:
    """Add up records of the same agent, task, status and meaning, in the order of the schema."""
    if not len(table):
        return {}
    order = {"unscored_status": STATUSES, "unscored_counted_as": COUNTED_AS}
    for name, words in order.items():
        table[name] = table[name].map(words.index)
    keys = [name for name in UNSCORED if name != "unscored_records"]
    table = table.groupby(keys, as_index=False)[["unscored_records"]].sum().sort_values(keys)
    for name, words in order.items():
        table[name] = [words[place] for place in table[name]]
    return {
        name: (
            "unscored",
            np.asarray(table[name].tolist(), dtype=np.int64 if kind == "i8" else str),
        )
        for name, (_, kind) in UNSCORED.items()
    }


def _attributes(
    parts: Mapping[str, xr.Dataset], name: str | None, families_known: bool
) -> dict[str, Any]:
    all_attrs = [part.attrs for part in parts.values()]
    names = [str(part.attrs.get("name") or key) for key, part in parts.items()]
    together = {
        key: "; ".join(dict.fromkeys(str(a[key]) for a in all_attrs if a.get(key)))
        for key in ("title", "source", "licence", "citation", "reader", "policy")
    }
    sums = sorted(
        str(a.get("sha256") or fingerprint(p))
        for a, p in zip(all_attrs, parts.values(), strict=True)
    )
    attrs: dict[str, Any] = {
        **{key: text for key, text in together.items() if text or key != "policy"},
        "name": name if name is not None else " + ".join(dict.fromkeys(names)),
        "sha256": hashlib.sha256("\n".join(sums).encode()).hexdigest(),
    }
    for key in _COUNTS:
        total: Counter[str] = Counter()
        for one in all_attrs:
            total.update(json.loads(one.get(key, "{}")))
        attrs[key] = json.dumps(dict(total))
    if notes := [note for one in all_attrs for note in joined_of(one)]:
        attrs["joined"] = json.dumps(notes)
    if not families_known:
        attrs["families"] = EACH_TASK_ITS_OWN
    return attrs
