"""The page itself: templates filled with escaped values, written in one step."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from measurebayes.errors import InputError
from measurebayes.report import text
from measurebayes.report.need import need

_LINK = re.compile(r"(?P<url>https?://[^\s<>\"]+)|\b(?:doi:\s?)?(?P<id>10\.\d{4,9}/[^\s<>\"]+)")
_TRAILING = ".,;:)]}'"


def linked(value: Any) -> Any:
    """Escape a text and make links of the DOIs and web addresses in it.

    Only addresses that begin with http:// or https:// and DOIs become links.
    """
    from markupsafe import Markup, escape

    words = text.shown(value)
    parts, at = [], 0
    for match in _LINK.finditer(words):
        found = match["url"] or match["id"]
        kept = found.rstrip(_TRAILING)
        target = kept if match["url"] else f"https://doi.org/{kept}"
        end = match.end() - (len(found) - len(kept))
        parts += [
            escape(words[at : match.start()]),
            Markup('<a href="{}" rel="noreferrer">{}</a>').format(
                target, words[match.start() : end]
            ),
        ]
        at = end
    parts.append(escape(words[at:]))
    return Markup("").join(parts)


def named(value: Any) -> Any:
    """Mark up a name: escaped, apart from the direction of the text around it, broken at marks."""
    from markupsafe import Markup, escape

    parts = re.split(r"(?<=[/_.:-])(?=[^/_.:-])", text.shown(value))
    return Markup('<bdi class="name">{}</bdi>').format(Markup("<wbr>").join(map(escape, parts)))


def render(context: dict[str, Any]) -> str:
    """Return the page as HTML.

    Raises
    ------
    MeasureBayesError
        Jinja2 is not installed.
    """
    need("jinja2", why="writing a report")
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("measurebayes.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        shown=text.shown,
        number=text.number,
        share=text.share,
        duration=text.duration,
        linked=linked,
        named=named,
        words=lambda name: str(name).replace("_", " "),
    )
    environment.globals.update(
        interval=text.interval, unit_of=text.unit_of, is_time=text.is_time, time_of=text.time_of
    )
    return environment.get_template("report.html").render(context)


def writable(path: str | Path) -> Path:
    """Return the path of the page, before the work of making it.

    Raises
    ------
    InputError
        `path` is a folder, or its folder doesn't exist.
    """
    path = Path(path)
    if path.is_dir() or not path.parent.is_dir():
        found = f"{path} is a folder" if path.is_dir() else f"there is no folder {path.parent}"
        raise InputError(
            found,
            where="path",
            expected="the name of the HTML file to write, in a folder that exists",
            remedy="write to report.html, or make the folder first",
        )
    return path


def write(path: Path, content: str) -> Path:
    """Write the page so that `path` holds the old or the new one, never a part."""
    from measurebayes.data.store import replaced

    with replaced(path) as partial:
        partial.write_text(content, encoding="utf-8", newline="\n")
    return path
