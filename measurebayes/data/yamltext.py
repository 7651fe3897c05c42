"""YAML that others wrote: mappings, lists and plain text, without tags, anchors or objects.

PyYAML's parser gives the marks of the text; nothing is constructed but dict, list and str, so that
no tag can make an object and no alias can make a small file large.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from measurebayes.errors import InputError, shown

MAX_DEPTH = 20


def parse(text: bytes, where: str) -> Any:
    """Parse one YAML document; every scalar stays text, and null is None.

    Parameters
    ----------
    text : bytes
        UTF-8.
    where : str
        Place for messages.

    Raises
    ------
    InputError
        Where the text is no whole YAML document, or has what data don't need.
    """
    try:
        import yaml
    except ImportError:
        raise InputError(
            "PyYAML is not installed",
            where=where,
            expected="the package pyyaml, to read YAML",
            remedy="pip install 'measurebayes[yaml]'",
        ) from None
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        return _Builder(where).document(yaml.parse(text.decode("utf-8-sig"), Loader=loader))
    except UnicodeDecodeError as error:
        raise InputError(
            f"the text is not UTF-8: byte 0x{text[error.start]:02x} at {error.start}",
            where=where,
            expected="YAML in UTF-8",
            remedy="convert it: iconv -f latin1 -t utf-8 FILE > NEW",
        ) from None
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(
            f"the text is not complete YAML: {' '.join(str(error).split())[:150]}",
            where=where,
            expected="one YAML document",
            remedy="copy the file anew, or check it with a YAML linter",
        ) from None


class _Builder:
    """Dicts, lists and text from the marks of a YAML text."""

    def __init__(self, where: str) -> None:
        self.where = where

    def document(self, events: Iterator[Any]) -> Any:
        import yaml

        marks = iter(events)
        skipped = (yaml.StreamStartEvent, yaml.DocumentStartEvent)
        for mark in marks:
            if isinstance(mark, skipped):
                continue
            if isinstance(mark, yaml.StreamEndEvent):
                raise self._refused("it is empty", mark)
            value = self._value(mark, marks, 0)
            break
        for mark in marks:
            if isinstance(mark, yaml.DocumentStartEvent):
                raise self._refused("it holds more than one document", mark)
        return value

    def _value(self, mark: Any, marks: Iterator[Any], depth: int) -> Any:
        import yaml

        if isinstance(mark, yaml.AliasEvent) or getattr(mark, "anchor", None):
            raise self._refused("it has an anchor or an alias", mark)
        if depth > MAX_DEPTH:
            raise self._refused(f"it is nested more than {MAX_DEPTH} levels deep", mark)
        if getattr(mark, "tag", None):
            raise self._refused(f"it has the tag {shown(mark.tag)}", mark)
        if isinstance(mark, yaml.ScalarEvent):
            null = mark.style is None and mark.value in ("", "~", "null", "Null", "NULL")
            return None if null else mark.value
        if isinstance(mark, yaml.SequenceStartEvent):
            return [
                self._value(one, marks, depth + 1) for one in self._until(marks, "SequenceEndEvent")
            ]
        return self._mapping(marks, depth)

    def _mapping(self, marks: Iterator[Any], depth: int) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for mark in self._until(marks, "MappingEndEvent"):
            key = self._value(mark, marks, depth + 1)
            if not isinstance(key, str):
                raise self._refused("a key is no text", mark)
            if key in result:
                raise self._refused(f"the key {shown(key)} stands twice in one mapping", mark)
            result[key] = self._value(next(marks), marks, depth + 1)
        return result

    def _until(self, marks: Iterator[Any], end: str) -> Iterator[Any]:
        for mark in marks:
            if type(mark).__name__ == end:
                return
            yield mark

    def _refused(self, what: str, mark: Any) -> InputError:
        line = mark.start_mark.line + 1 if mark.start_mark else 1
        return InputError(
            f"the YAML can't be used: {what}",
            where=f"{self.where}, line {line}",
            expected="one document of mappings, lists and plain text, each key once",
            remedy="write the file anew without it",
        )
