"""Looks that all figures share, and a figure as one piece of HTML.

Figures are drawn 5 inches wide with 11 point text. At the width of a phone (about 358 CSS pixels
inside the margins) the text is then 11 pixels high, on a wide page larger.
"""

from __future__ import annotations

import functools
import hashlib
import io
import re
import warnings
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from measurebayes.report.need import need

# Okabe and Ito's palette, which people with any common colour blindness can tell apart
# (doi:10.1038/nmeth.1618); every colour also comes with its own shape or line.
INK, GREY, PALE = "#1b1b1b", "#595959", "#d0d0d0"
BLUE, VERMILION, GREEN, PURPLE = "#0072B2", "#D55E00", "#00755A", "#A8467E"
COLOURS = (BLUE, VERMILION, GREEN, PURPLE)
STYLES = ("-", "--", "-.", ":")

WIDTH = 5.0  # inches
FONT = 11.0  # points
ROW = 0.26  # inches, height of a labelled row

_SVG = "http://www.w3.org/2000/svg"
_XLINK = "http://www.w3.org/1999/xlink"


@functools.cache
def _figure_class() -> type:
    from matplotlib.figure import Figure

    class ReportFigure(Figure):
        """A matplotlib Figure that notebooks show without pyplot's help."""

        def _repr_svg_(self) -> str:
            return to_svg(self, "")

    return ReportFigure


def new_figure(height: float, rows: int = 1, columns: int = 1, **kwargs: Any) -> tuple[Any, Any]:
    """Make a figure and its axes without pyplot, so that no global state changes.

    Parameters
    ----------
    height : float
        Inches; the width is the same for all.
    rows, columns : int
        Number of axes.
    **kwargs
        Further arguments of ``Figure.subplots``.

    Returns
    -------
    Figure, ndarray of Axes
        Axes of shape (rows, columns).

    Raises
    ------
    MeasureBayesError
        matplotlib is not installed.
    """
    need("matplotlib", why="drawing a figure")
    figure = _figure_class()(figsize=(WIDTH, height), facecolor="white", layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False, **kwargs)
    for panel in axes.flat:
        dress(panel)
    return figure, axes


def dress(panel: Any) -> None:
    """Give axes the common look: quiet frame, light grid along x, fonts of one size."""
    panel.tick_params(labelsize=FONT, color=GREY, labelcolor=INK)
    panel.spines[["top", "right"]].set_visible(False)
    panel.spines[["left", "bottom"]].set_color(GREY)
    panel.grid(axis="x", color="#e6e6e6", linewidth=0.8)
    panel.set_axisbelow(True)


def label(panel: Any, x: str = "", y: str = "", title: str = "") -> None:
    """Label axes. Names may hold dollars and backslashes, so mathematics is never parsed."""
    for setter, text in ((panel.set_xlabel, x), (panel.set_ylabel, y)):
        if text:
            setter(text, fontsize=FONT, color=INK, parse_math=False)
    if title:
        panel.set_title(title, fontsize=FONT, color=INK, loc="left", parse_math=False)


def legend(figure: Any, panel: Any, columns: int = 3) -> None:
    """Explain the artists of a panel above all panels, where nothing is hidden or cut."""
    handles, labels = panel.get_legend_handles_labels()
    box = figure.legend(
        handles,
        labels,
        loc="outside upper left",
        ncols=columns,
        fontsize=FONT - 1,
        frameon=False,
        handlelength=1.6,
        columnspacing=1.2,
    )
    for text in box.get_texts():
        text.set_parse_math(False)


@contextmanager
def quiet_fonts() -> Iterator[None]:
    """Keep matplotlib from warning of letters that its own fonts lack: the reader's have them."""
    with warnings.catch_warnings():
        for message in (r"Glyph \d+", r"Matplotlib currently does not support"):
            warnings.filterwarnings("ignore", message=message, category=UserWarning)
        yield


def to_svg(figure: Any, alternative: str) -> str:
    """Return a figure as an ``<svg>`` element for an HTML page.

    Text stays text, so that it can be read aloud, searched and shown in the reader's fonts. The
    element has no size of its own (style sheets decide) and ids that no other figure has.

    Parameters
    ----------
    figure : matplotlib.figure.Figure
    alternative : str
        What the figure shows, for those who can't see it.
    """
    import matplotlib as mpl

    buffer = io.BytesIO()
    # The SVG writer reads these two from rcParams only; rc_context puts them back.
    with quiet_fonts(), mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "measurebayes"}):
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    return _inline(buffer.getvalue().decode("utf-8"), alternative)


def _inline(document: str, alternative: str) -> str:
    root = ElementTree.fromstring(re.sub(r"<!DOCTYPE[^>]*>", "", document))
    prefix = "f" + hashlib.sha256((alternative + document).encode()).hexdigest()[:8]
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag in {f"{{{_SVG}}}metadata", f"{{{_SVG}}}style"}:
                parent.remove(child)
    for element in root.iter():
        _rewrite(element, prefix)
    for name in ("width", "height", "version"):
        root.attrib.pop(name, None)
    root.set("role", "img")
    root.set("aria-label", alternative)
    ElementTree.register_namespace("", _SVG)
    return ElementTree.tostring(root, encoding="unicode")


def _rewrite(element: Any, prefix: str) -> None:
    """Make ids unique, links plain and coordinates short in one element."""
    link = element.attrib.pop(f"{{{_XLINK}}}href", None)
    if link is not None:
        element.set("href", link)
    for name, value in list(element.attrib.items()):
        if name == "id":
            value = f"{prefix}-{value}"
        elif name == "href":
            value = value.replace("#", f"#{prefix}-")
        elif "url(#" in value:
            value = value.replace("url(#", f"url(#{prefix}-")
        elif name in {"d", "x", "y", "width", "height", "transform"}:
            value = re.sub(r"\d+\.\d{3,}", lambda m: f"{float(m[0]):.2f}", " ".join(value.split()))
        element.set(name, value)
