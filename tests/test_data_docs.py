"""The pages about data describe the layout, the summary, the public functions and every format."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from measurebayes import data
from measurebayes.data import schema
from measurebayes.data.readers import READERS

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
PAGE = (DOCS / "data.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", READERS)
def test_every_format_has_a_page_and_a_line_of_statuses(name):
    # tests/test_architecture.py compares the tables of the page with the reader
    assert (DOCS / "formats" / f"{name}.md").exists()
    index = (DOCS / "formats" / "README.md").read_text(encoding="utf-8")
    lines = [line for line in index.splitlines() if line.startswith(f"| {name} |")]
    assert any(line.count("|") == 2 + len(schema.STATUSES) for line in lines)


def test_schema_is_described():
    for name in (
        *schema.LABELS,
        *schema.VARIABLES,
        *schema.TIMING,
        *schema.UNSCORED,
        *schema.STATUSES,
    ):
        assert f"`{name}`" in PAGE


def test_summary_keys_are_described(metr):
    for key in data.summarise(metr):
        assert f"`{key}`" in PAGE, key


def test_public_functions_are_described():
    pages = [PAGE, *((DOCS / f"{n}.md").read_text(encoding="utf-8") for n in ("structure", "lint"))]
    for name in data.__all__:
        assert re.search(rf"\b{name}\b", "\n".join(pages)), name
