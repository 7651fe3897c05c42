"""docs/data.md holds the tables that the readers declare, and every message it quotes exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from measurebayes import data
from measurebayes.data import schema
from measurebayes.data.readers import READERS

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "data.md").read_text(encoding="utf-8")


def tables(reader):
    """The columns and options of a reader in Markdown."""
    lines = ["| column | required | meaning |", "|---|---|---|"]
    lines += [f"| `{c.name}` | {c.required} | {c.meaning} |" for c in reader.columns]
    lines += ["", "| option | default | meaning |", "|---|---|---|"]
    for option in reader.options:
        choices = f" ({', '.join(map(repr, option.choices))})" if option.choices else ""
        lines.append(f"| `{option.name}` | `{option.default!r}` | {option.meaning}{choices} |")
    return "\n".join(lines)


@pytest.mark.parametrize("name", READERS)
def test_reader_tables(name):
    reader = READERS[name]
    assert f"### {name}: {reader.title}" in PAGE
    assert tables(reader) in PAGE, f"docs/data.md should hold:\n\n{tables(reader)}"


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
    for name in data.__all__:
        assert re.search(rf"\b{name}\b", PAGE), name
