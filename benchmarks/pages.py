"""Keeps what a benchmark measured, and puts it between two markers of a page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def stored(file: Path) -> dict[str, dict[str, Any]]:
    """Return the results of a file: by part and name; empty where there is no file."""
    return json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}


def keep(file: Path, part: str, name: str, value: Any) -> None:
    """Add one result to a file, which is always whole."""
    found = stored(file)
    found.setdefault(part, {})[name] = value
    new = file.with_suffix(".new")
    new.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    new.replace(file)


def put(page: Path, name: str, text: str) -> None:
    """Replace what stands between ``<!-- name: begin -->`` and ``<!-- name: end -->``."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    content = page.read_text(encoding="utf-8")
    if content.count(begin) != 1 or content.count(end) != 1:
        raise SystemExit(f"{page} lacks the markers {begin} and {end}")
    before, rest = content.split(begin)
    after = rest.split(end)[1]
    page.write_text(f"{before}{begin}\n{text}\n{end}{after}", encoding="utf-8")
