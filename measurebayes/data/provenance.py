"""Where data come from: checksums of files, and a fingerprint of what is in a dataset."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import IO

import numpy as np
import xarray as xr

from measurebayes.data.schema import check_is_dataset

_BLOCK = 1 << 20
_SEAL = b"\nmeasurebayes sha256 "
_SEAL_BYTES = len(_SEAL) + 64 + 1


def sha256(paths: Iterable[Path]) -> str:
    """SHA-256 of one file's bytes, or of several files' bytes in the given order, hexadecimal."""
    digest = hashlib.sha256()
    for path in paths:
        with path.open("rb") as file:
            _update(digest, file, path.stat().st_size)
    return digest.hexdigest()


def _update(digest: hashlib._Hash, file: IO[bytes], size: int) -> None:
    while size > 0 and (block := file.read(min(size, _BLOCK))):
        digest.update(block)
        size -= len(block)


def seal(path: Path) -> None:
    """Append to a file the SHA-256 of its bytes.

    Libraries for HDF5 and netCDF ignore what follows the end that the file itself states, and
    some damaged files crash them; the seal lets `seal_holds` find out before they are asked.
    """
    line = _SEAL + sha256([path]).encode() + b"\n"
    with path.open("ab") as file:
        file.write(line)


def seal_holds(path: Path) -> bool | None:
    """Tell whether a file's bytes are those that were sealed; None where it has no seal."""
    content = path.stat().st_size - _SEAL_BYTES
    if content < 0:
        return None
    digest = hashlib.sha256()
    with path.open("rb") as file:
        file.seek(content)
        line = file.read()
        if not line.startswith(_SEAL):
            return None
        file.seek(0, os.SEEK_SET)
        _update(digest, file, content)
    return line[len(_SEAL) :].strip() == digest.hexdigest().encode()


def fingerprint(dataset: xr.Dataset) -> str:
    """SHA-256 over labels and arrays of a dataset, hexadecimal; attributes don't count.

    Two datasets have the same fingerprint exactly where all variables and labels are equal,
    whatever file they come from and however wide NumPy stores their text.
    """
    check_is_dataset(dataset)
    digest = hashlib.sha256()
    for name in sorted(map(str, dataset.variables)):
        variable = dataset[name]
        values = np.asarray(variable.values)
        digest.update(
            json.dumps([name, list(map(str, variable.dims)), list(values.shape)]).encode()
        )
        if values.dtype.kind in "UOT":
            digest.update(json.dumps([str(value) for value in values.tolist()]).encode())
        elif values.dtype.kind == "M":
            digest.update(values.astype("datetime64[ns]").astype("<i8").tobytes())
        else:
            plain = values.astype(values.dtype.newbyteorder("<"), order="C", copy=False)
            digest.update(plain.reshape(-1).view(np.uint8))  # no copy: cells may be many
    return digest.hexdigest()
