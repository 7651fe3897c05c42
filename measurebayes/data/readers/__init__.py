"""Readers of records, one file a format; each declares its columns and options in tables."""

from measurebayes.data.readers import (
    every_eval_ever,
    helm,
    hub,
    inspect_log,
    irw,
    lm_eval,
    long,
    metr,
    metr_yaml,
    pyirt,
    wide,
)
from measurebayes.data.readers.base import Column, Option, Reader

# In the order in which they are asked whether they recognise a file.
_ALL = (
    long,
    hub,
    irw,
    wide,
    metr,
    pyirt,
    inspect_log,
    lm_eval,
    helm,
    every_eval_ever,
    metr_yaml,
)
READERS: dict[str, Reader] = {module.READER.name: module.READER for module in _ALL}

__all__ = ["READERS", "Column", "Option", "Reader"]
