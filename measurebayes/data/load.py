"""Load records from a bundled name, a file or a DataFrame, whatever their format."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import xarray as xr

from measurebayes.data.catalogue import BUNDLED
from measurebayes.data.connect import with_note
from measurebayes.data.join import join
from measurebayes.data.provenance import sha256
from measurebayes.data.readers import READERS, Reader
from measurebayes.data.readers.base import delimiter_of, parsed_mapping
from measurebayes.data.schema import storable, validate
from measurebayes.data.source import Source, file_source, frame_source
from measurebayes.data.store import open_saved
from measurebayes.data.unrecognised import unrecognised
from measurebayes.errors import InputError, did_you_mean, listed, shown

if TYPE_CHECKING:
    Loadable = str | os.PathLike[str] | pd.DataFrame | xr.Dataset

_PROVENANCE = ("title", "source", "licence", "citation")


def load(path_or_name: Loadable, /, reader: str | None = None, **reader_options: Any) -> xr.Dataset:
    """Load records of attempts into the one layout that all models read.

    Parameters
    ----------
    path_or_name : str, path, pandas.DataFrame or xarray.Dataset
        Name of a bundled data set (`measurebayes.data.bundled_names()`), path of a file of
        records or of a netCDF file written by `measurebayes.data.save`; a folder, a pattern such as
        "logs/*.eval" or a zip archive of logs; a long or wide DataFrame, or a Dataset, which is
        only checked.
    reader : str, optional
        Format, one of `measurebayes.data.READERS`. Told from the content where None.
    **reader_options
        Options of the reader (see docs/data.md), and for any reader `name`, `title`, `source`,
        `licence` and `citation`, which are stored with the data, and what `measurebayes.join`
        takes: `tasks`, `agents`, `families` (tables), `family` (a rule), `unmatched` and
        `conflicts`.

    Returns
    -------
    xarray.Dataset
        Dims cell, agent, task, family and, where people were timed, timing; see
        measurebayes.data.schema. Human times are in minutes.

    Raises
    ------
    InputError
        Saying what was found, where, what was expected, and what to type next.

    Examples
    --------
    >>> import measurebayes as mb
    >>> runs = mb.load("metr-th1.1")
    >>> int(runs["attempts"].sum())
    27119
    """
    joins = _joins(reader_options)
    dataset = _read(path_or_name, reader, reader_options)
    return with_note(join(dataset, **joins) if joins else dataset)


def _read(path_or_name: Loadable, reader: str | None, options: dict[str, Any]) -> xr.Dataset:
    if isinstance(path_or_name, xr.Dataset):
        _no_options(reader, options, "a Dataset")
        return validate(path_or_name)
    if isinstance(path_or_name, str) and path_or_name in BUNDLED:
        _no_options(reader, options, f"the bundled data {path_or_name!r}")
        return BUNDLED[path_or_name]()
    about = {key: storable(str(options.pop(key))) for key in _about(options)}
    source = _source(path_or_name, options)
    if source.kind == "netcdf":
        _no_options(reader, options, "a netCDF file written by measurebayes")
        return open_saved(source.file).assign_attrs(about)
    chosen = _named(reader) if reader is not None else _recognised(source, options)
    dataset = chosen.read(source, chosen.complete(_with_family_column(chosen, options)))
    attributes = _attributes(source, chosen, about)
    if source.files and dataset.attrs.get("sha256"):  # readers of logs say what they have read
        attributes["sha256"] = dataset.attrs["sha256"]
    return dataset.assign_attrs(attributes)


def _joins(options: dict[str, Any]) -> dict[str, Any]:
    """Take the arguments of `join` out of the options; a column of families is the reader's."""
    names = ["tasks", "agents", "families", "unmatched", "conflicts"]
    if not str(options.get("family", "")).startswith("column:"):
        names.append("family")
    taken = {name: options.pop(name) for name in names if name in options}
    return {name: value for name, value in taken.items() if value is not None}


def _with_family_column(reader: Reader, options: Mapping[str, Any]) -> dict[str, Any]:
    """Options for a reader that knows families as a column under a mapping of names."""
    known = {option.name for option in reader.options}
    if "family" not in options or "family" in known or "columns" not in known:
        return dict(options)
    left = {name: value for name, value in options.items() if name != "family"}
    column = str(options["family"]).removeprefix("column:")
    return left | {"columns": {**parsed_mapping(left.get("columns")), "family": column}}


def _about(options: Mapping[str, Any]) -> list[str]:
    return [key for key in ("name", *_PROVENANCE) if options.get(key) is not None]


def _no_options(reader: str | None, options: Mapping[str, Any], what: str) -> None:
    given = [*([f"reader={reader!r}"] if reader is not None else []), *options]
    if given:
        raise InputError(
            f"{what} is read as it is, but {listed(given)} was given",
            where="load",
            expected="no reader and no reader options",
            remedy="leave them out; to read a file of that name, write its path: ./NAME",
        )


def _source(path_or_name: Any, options: Mapping[str, Any]) -> Source:
    if isinstance(path_or_name, pd.DataFrame):
        return frame_source(path_or_name)
    if not isinstance(path_or_name, str | os.PathLike):
        raise InputError(
            f"the records are a {type(path_or_name).__name__}",
            where="load",
            expected="a bundled name, a path, a pandas.DataFrame or an xarray.Dataset",
            remedy="pandas.DataFrame(records) makes a table of a list of records",
        )
    if not str(path_or_name):
        raise InputError(
            "the path is empty",
            where="load",
            expected="a bundled name, or a path to a file of records or a folder of logs",
            remedy="check the variable that it comes from; '.' is the folder that you are in",
            code="F101",
        )
    delimiter = delimiter_of(options) if "delimiter" in options else ","
    return file_source(Path(path_or_name), delimiter)


def _named(reader: str) -> Reader:
    if not isinstance(reader, str) or reader not in READERS:
        raise InputError(
            f"there is no reader {shown(reader)}",
            where="argument reader",
            expected=f"one of: {', '.join(READERS)}",
            remedy=did_you_mean(str(reader), READERS)
            or "leave it out: it is told from the content",
        )
    return READERS[reader]


def _recognised(source: Source, options: Mapping[str, Any]) -> Reader:
    fitting = [reader for reader in READERS.values() if reader.recognises(source)]
    # A mapping of names says what is meant: readers without those columns don't.
    mapped = set(parsed_mapping(options.get("columns")))
    found = [
        reader
        for reader in fitting
        if "columns" not in {option.name for option in reader.options}
        or mapped <= {column.name for column in reader.columns}
    ]
    if not found and not mapped <= {column.name for column in READERS["long"].columns}:
        found = fitting  # the mapping has a name that is nowhere known: its reader says so
    if len(found) == 1:
        return found[0]
    # A header with some of a long table's names, or with a mapping of names, is meant as one; its
    # reader says best what is missing.
    long_names = {"task", "success", "successes", "attempts"} & set(source.names)
    is_table = source.kind in ("csv", "parquet", "frame")
    if is_table and not found and ("columns" in options or long_names):
        return READERS["long"]
    raise unrecognised(source, found)


def _attributes(source: Source, reader: Reader, about: Mapping[str, str]) -> dict[str, str]:
    attributes = dict.fromkeys(_PROVENANCE, "")
    name = storable(source.path.name if source.path else source.name)
    attributes |= {
        "name": name,
        "source": name,
        "sha256": sha256([source.path]) if source.path and source.path.is_file() else "",
        "reader": reader.name,
    }
    return attributes | dict(about)
