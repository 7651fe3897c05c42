"""Readers of records, one file a format; each declares its columns and options in tables."""

from measurebayes.data.readers import hub, inspect_log, long, metr, pyirt, wide
from measurebayes.data.readers.base import Column, Option, Reader

# In the order in which they are asked whether they recognise a file.
READERS: dict[str, Reader] = {
    module.READER.name: module.READER for module in (long, hub, wide, metr, pyirt, inspect_log)
}

__all__ = ["READERS", "Column", "Option", "Reader"]
