"""Words and numbers for readers: names made safe to show, digits, units."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterable
from typing import Any

# Units of the variables that models may have (DESIGN: log2 minutes are the time scale).
UNITS = {
    "ability": "logits",
    "ability_sd": "logits",
    "difficulty": "logits",
    "difficulty_mean": "logits",
    "difficulty_sd": "logits",
    "discrimination": "logits per logit",
    "log_discrimination_sd": "natural logarithms",
    "guessing": "probability",
    "testlet_effect": "logits",
    "testlet_sd": "logits",
    "testlet_scale": "logits",
    "family_loading": "logits per logit",
    "log_family_loading_sd": "natural logarithms",
    "easiness": "logits",
    "easiness_mean": "logits",
    "easiness_sd": "logits",
    "task_effect": "logits",
    "task_sd": "logits",
    "intercept": "logits",
    "slope": "logits per doubling of human time",
    "length_slope": "logits per doubling of human time",
    "log2_minutes": "log2 minutes",
    "timing_sd": "log2 minutes",
    "log2_horizon": "log2 minutes",
    "log2_horizon_mean": "log2 minutes",
    "log2_horizon_sd": "log2 minutes",
    "steepness": "logits per doubling of human time",
    "log_steepness_mean": "natural logarithms",
    "log_steepness_sd": "natural logarithms",
    "log_shape_mean": "natural logarithms",
    "log_shape_sd": "natural logarithms",
    "level": "logits",
    "size": "logits",
    "family_sd": "logits",
    "family_effect": "logits",
    "lapse": "probability",
    "length_mean": "log2 minutes",
    "length_sd": "log2 minutes",
    "family_length": "log2 minutes",
    "family_length_sd": "log2 minutes",
    "estimate_sd": "log2 minutes",
    "estimate_bias": "log2 minutes",
    "trend": "log2 minutes",
    "rate": "doublings a year",
    "rate_before": "doublings a year",
    "rate_after": "doublings a year",
    "bend": "doublings a year",
    "curvature": "doublings a year, squared",
    "gain": "doublings",
    "duration": "years",
    "change": "years from the middle of the releases",
}
# Where one name means different things in two models.
OWN_UNITS = {("horizon_trend", "level"): "log2 minutes"}
UNKNOWN = "\u2013"
_PICTURES = {"\n": "\u21b5", "\r": "\u21b5", "\t": "\u21e5"}
_BIDI_CONTROLS = set("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def shown(value: Any) -> str:
    """Return a name so that every character of it can be seen and none acts on the page.

    A newline is shown as ↵ and a tab as ⇥; other control characters, marks that reverse the
    direction of writing and characters that no document may hold become �. HTML is not escaped
    here: the templates do that.
    """
    return "".join(map(_shown_character, str(value)))


def _shown_character(character: str) -> str:
    code = ord(character)
    if character in _PICTURES:
        return _PICTURES[character]
    noncharacter = (code & 0xFFFE) == 0xFFFE or 0xFDD0 <= code <= 0xFDEF
    if character in _BIDI_CONTROLS or noncharacter:
        return "\ufffd"
    if unicodedata.category(character) in {"Cc", "Cs", "Zl", "Zp"}:
        return "\ufffd"
    return character


def short(value: Any, width: int, head: float = 0.5) -> str:
    """Return a shown name of at most `width` columns: the middle is cut, as ends tell most.

    Wide East Asian characters and emoji count as two columns. `head` is the share of the columns
    that goes to the beginning.
    """
    text = shown(value)
    if columns(text) <= width:
        return text
    front = _take(text, math.ceil((width - 1) * head))
    back = _take(text[::-1], width - 1 - columns(front))[::-1]
    return f"{front}…{back}"


def shortened(names: Iterable[Any], width: int) -> list[str]:
    """Shorten names so that different names stay different where any cut allows it."""
    full = [str(name) for name in names]
    labels = [short(name, width, 0.7) for name in full]
    for head in (0.85, 1.0, 0.5, 0.3, 0.15, 0.0):
        owners: dict[str, set[str]] = {}
        for name, text in zip(full, labels, strict=True):
            owners.setdefault(text, set()).add(name)
        clash = {text for text, those in owners.items() if len(those) > 1}
        if not clash:
            break
        labels = [
            short(name, width, head) if text in clash else text
            for name, text in zip(full, labels, strict=True)
        ]
    return labels


_BREAKS = re.compile(r"[ /_]|(?<=[^ ])-|[.:](?!\d)|(?<!\d)[.:]")


def folded(value: Any, width: int) -> str:
    """Return a shown name on at most two lines of `width` columns."""
    text = short(value, 2 * width)
    first = _take(text, width)
    rest = text[len(first) :]
    if not rest:
        return text
    # A break after a blank, slash or the like reads better than one inside a word or a number.
    ends = [found.end() for found in _BREAKS.finditer(text)]
    at = max((end for end in ends if end <= len(first)), default=0)
    if at > width // 3 and columns(text[at:]) <= width:
        first, rest = text[:at], text[at:]
    return f"{first.rstrip()}\n{rest}"


def columns(text: str) -> float:
    """Return about how many letters of common width are as wide as a text."""
    return sum(_column(character) for character in text)


def _column(character: str) -> float:
    if unicodedata.combining(character):
        return 0.0
    if unicodedata.east_asian_width(character) in "WF":
        return 2.0
    return 1.6 if character in "mwMW@%" else 1.0


def _take(text: str, width: float) -> str:
    used, count = 0.0, 0
    for character in text:
        used += _column(character)
        if used > width:
            break
        count += 1
    return text[:count]


def number(value: Any, digits: int = 2) -> str:
    """Format a number with a fixed number of decimals, a true minus sign and thousands marked."""
    if value is None or not math.isfinite(float(value)):
        return UNKNOWN
    text = f"{float(value):,.{digits}f}".replace(",", "\u202f")
    if text.startswith("-"):
        # -0.00 is a rounding remnant, not a sign that a reader should see.
        text = "\u2212" + text[1:] if re.search("[1-9]", text) else text[1:]
    return text


def interval(low: Any, high: Any, digits: int = 2) -> str:
    """Format an interval as ``low to high``."""
    return f"{number(low, digits)} to {number(high, digits)}"


def share(value: Any) -> str:
    """Format a proportion as a whole percentage; only exact ones become 0 % and 100 %."""
    if value is None or not math.isfinite(float(value)):
        return UNKNOWN
    value = float(value)
    if 0 < value < 0.005:
        return "<\u202f1\u202f%"
    if 0.995 < value < 1:
        return ">\u202f99\u202f%"
    return f"{value * 100:.0f}\u202f%"


TIME_UNITS = {"s": 1 / 60, "min": 1.0, "h": 60.0}  # none longer: is a day of 8 hours or of 24?


def duration(minutes: Any, like: Any = None) -> str:
    """Format a duration given in minutes: ``4 s``, ``2.5 min``, ``16 h``, ``2e+07 h``.

    `like` is another duration in minutes whose unit is taken, so that a row has one unit, unless
    the number would be hard to read: under 0.1, or 1000 and more.
    """
    if minutes is None or not math.isfinite(float(minutes)):
        return UNKNOWN
    minutes = float(minutes)
    if like is not None and 0.001 <= like < math.inf:
        unit = "s" if like < 1 else "min" if like < 60 else "h"
        value = minutes / TIME_UNITS[unit]
        if 0.1 <= value < 1000:
            return f"{_two_digits(value) if value >= 1 else format(value, '.2g')}\u202f{unit}"
    if minutes < 0.001:
        return f"{minutes * 60:.1g}\u202fs"
    if minutes < 1:
        return f"{_two_digits(minutes * 60)}\u202fs"
    if minutes < 60:
        return f"{_two_digits(minutes)}\u202fmin"
    hours = minutes / 60
    return f"{_two_digits(hours) if hours < 1e6 else format(hours, '.0e')}\u202fh"


def horizon_time(minutes: Any, like: Any = None) -> str:
    """Format a horizon in minutes as `duration` does; it may be 0 or infinite."""
    if minutes in (0.0, math.inf):
        return "0" if minutes == 0.0 else "infinite"
    return duration(minutes, like)


def is_time(variable: str) -> bool:
    """Whether a variable is the log2 of a time in minutes (and not, say, a spread of such)."""
    unit = UNITS.get(variable)
    return unit == "log2 minutes" and variable.startswith("log2_") and variable[-3:] != "_sd"


def time_of(log2_minutes: Any) -> str:
    """Format a time given as the log2 of its minutes."""
    return duration(2.0 ** float(log2_minutes) if log2_minutes < 1000 else math.inf)


def times(low: Any, high: Any) -> str:
    """Format an interval of times given as the log2 of their minutes."""
    return f"{time_of(low)} to {time_of(high)}"


def _two_digits(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0") if value < 10 else f"{value:,.0f}"


def unit_of(variable: str, model: str = "") -> str:
    """Return the unit of a variable of a model, or an empty string where it is not known."""
    return OWN_UNITS.get((model, variable), UNITS.get(variable, ""))
