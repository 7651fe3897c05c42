"""Records of attempts: one schema, readers, bundled data, checks, provenance.

>>> from measurebayes import data
>>> runs = data.load("metr-th1.1")
>>> data.summarise(runs)["never_solved"]
13
"""

from measurebayes.data.catalogue import bundled_names
from measurebayes.data.concat import concat
from measurebayes.data.connect import check_connected, pieces
from measurebayes.data.join import join
from measurebayes.data.lint import lint
from measurebayes.data.load import load
from measurebayes.data.provenance import fingerprint
from measurebayes.data.readers import READERS
from measurebayes.data.schema import validate, validate_for_fit
from measurebayes.data.selection import subset
from measurebayes.data.store import save
from measurebayes.data.summary import summarise

__all__ = [
    "READERS",
    "bundled_names",
    "check_connected",
    "concat",
    "fingerprint",
    "join",
    "lint",
    "load",
    "pieces",
    "save",
    "subset",
    "summarise",
    "validate",
    "validate_for_fit",
]
