"""Where data come from: checksums of files, and a fingerprint of what is in a dataset."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import xarray as xr

_BLOCK = 1 << 20


def sha256(paths: Iterable[Path]) -> str:
    """SHA-256 of one file's bytes, or of several files' bytes in the given order, hexadecimal."""
    digest = hashlib.sha256()
    for path in paths:
        with path.open("rb") as file:
            while block := file.read(_BLOCK):
                digest.update(block)
    return digest.hexdigest()


def fingerprint(dataset: xr.Dataset) -> str:
    """SHA-256 over labels and arrays of a dataset, hexadecimal; attributes don't count.

    Two datasets have the same fingerprint exactly where all variables and labels are equal,
    whatever file they come from and however wide NumPy stores their text.
    """
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
            digest.update(values.astype(values.dtype.newbyteorder("<")).tobytes())
    return digest.hexdigest()
