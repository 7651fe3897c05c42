"""Datasets as netCDF files: written all or not at all, and checked when they are read."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pandas as pd
import xarray as xr

from measurebayes.data.files import check_utf8_path
from measurebayes.data.provenance import seal, seal_holds
from measurebayes.data.schema import validate
from measurebayes.errors import InputError


def save(dataset: xr.Dataset, path: str | os.PathLike[str]) -> Path:
    """Write a dataset to a netCDF file.

    The file is written beside its place and then moved there, so `path` holds either what it held
    before or the whole dataset.

    Parameters
    ----------
    dataset : xarray.Dataset
        Data in the schema of measurebayes.data.schema.
    path : str or path
        Where to write; an existing file is replaced.

    Returns
    -------
    pathlib.Path
        The path.

    Raises
    ------
    InputError
        Where the data break the schema or the file can't be written.
    """
    validate(dataset)
    path = Path(path)
    content = dataset.drop_encoding()
    with replaced(path) as partial:
        content.to_netcdf(partial, engine="netcdf4", format="NETCDF4")
        seal(partial)
    return path


@contextmanager
def replaced(path: Path) -> Iterator[Path]:
    """Give a temporary file beside `path`, and move it there when the block ends without error.

    Raises
    ------
    InputError
        Where the file can't be written.
    """
    path = Path(os.path.realpath(path))  # through a link, not in its place
    check_utf8_path(path)
    if path.exists() and not path.is_file():
        raise InputError(
            f"{str(path)!r} is no regular file",
            where=str(path),
            expected="a new name, or a file to replace",
            remedy="name another file",
        )
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
        os.close(handle)
        partial = Path(name)
        try:
            partial.chmod(0o666 & ~_umask())  # mkstemp gives rights to the owner alone
            yield partial
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)
    except OSError as error:
        full = error.errno == errno.ENOSPC
        raise InputError(
            f"the file can't be written: {error.strerror or error}",
            where=str(path),
            remedy="make room on the disk, or choose a folder on another one"
            if full
            else "choose a folder that exists, that you may write to, with room on its disk",
        ) from error
    except RuntimeError as error:
        if not str(error).startswith("NetCDF: "):  # what netCDF4 makes of errors of the disk
            raise
        raise InputError(
            f"the file can't be written: {error}",
            where=str(path),
            remedy="make room on the disk (df .), or choose a folder on another one",
        ) from error


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def open_saved(path: Path) -> xr.Dataset:
    """Read a dataset written by `save`.

    Raises
    ------
    InputError
        Where the file is damaged, or holds something else than data of measurebayes.
    """
    remedy = "make it anew: measurebayes load RECORDS -o " + path.name
    if seal_holds(path) is False:
        raise InputError(
            "the file is damaged: its bytes don't match the checksum that was saved with them",
            where=str(path),
            expected="a file as it was written by measurebayes load",
            remedy=remedy,
        )
    try:
        with xr.open_dataset(path, engine="netcdf4", decode_times=True) as file:
            dataset = file.load()
    # netCDF4 and xarray report damaged files by any of these
    except (OSError, ValueError, TypeError, RuntimeError, LookupError, AttributeError) as error:
        raise InputError(
            f"the file can't be read as netCDF ({type(error).__name__}: {str(error)[:120]})",
            where=str(path),
            expected="a file written by measurebayes load",
            remedy=remedy,
        ) from error
    if "model_sha256" in dataset.attrs:
        raise InputError(
            "the file holds a fit, not data",
            where=str(path),
            expected="a file written by measurebayes load",
            remedy="measurebayes.open(path) opens a fit; its group 'data' holds the data",
        )
    return validate(as_made(dataset))


def as_made(dataset: xr.Dataset) -> xr.Dataset:
    """Give text and dates the dtypes that they had before they were written to netCDF."""
    dataset = dataset.drop_encoding()
    for name in dataset.variables:
        variable = dataset[name].variable
        if variable.dtype.kind in "OT":
            # an empty array of objects has no width to take over
            text = np.asarray(variable.values.tolist(), dtype=str).reshape(variable.shape)
            dataset[name] = (variable.dims, text, variable.attrs)
        elif variable.dtype.kind == "M":
            dataset[name] = (variable.dims, variable.values.astype("M8[ns]"), variable.attrs)
    return dataset


def write_csv(table: pd.DataFrame, path: Path, index: bool = False) -> None:
    """Write a table to a CSV file, whole or not at all; raises what `replaced` does."""
    with replaced(path) as partial:
        table.to_csv(partial, index=index)
