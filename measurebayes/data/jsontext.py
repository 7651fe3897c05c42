"""JSON that others wrote: parsed with limits, long arrays an element at a time."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from measurebayes.errors import InputError, shown

_SPACE = re.compile(r"[ \t\r\n]*")
Each = Callable[[Any], Any]


def parse(text: bytes, where: str) -> Any:
    """Parse one JSON value; NaN and Infinity become floats, for the caller to judge.

    Parameters
    ----------
    text : bytes
        UTF-8, with or without a byte order mark.
    where : str
        Place for messages.

    Raises
    ------
    InputError
        Where the text is not UTF-8, not whole, names a key twice, or is nested too deep.
    """
    scan = _Scan(text, where)
    value = scan.value()
    scan.finish()
    return value


def parse_array(text: bytes, where: str, each: Each) -> list[Any]:
    """Parse a JSON array, passing each element through `each` before the next one is made.

    So a document may be much larger than what is kept of it.
    """
    scan = _Scan(text, where)
    result = [each(element) for element in scan.elements()]
    scan.finish()
    return result


def parse_object(
    text: bytes, where: str, keep: Collection[str], each: Mapping[str, Each]
) -> dict[str, Any]:
    """Parse the members of a JSON object that are wanted.

    Parameters
    ----------
    text, where
        See `parse`.
    keep : collection of str
        Members to keep whole.
    each : mapping
        Members that are long arrays: what to make of each of their elements. Such a member that
        is no array (null) is kept as it is.

    Returns
    -------
    dict
        The members in `keep` and `each` that the object has.
    """
    scan = _Scan(text, where)
    result: dict[str, Any] = {}
    for key in scan.keys():  # noqa: SIM118 - not a mapping
        if key in result:
            raise _twice(key, where)
        if key in each and scan.next_is("["):
            result[key] = [each[key](element) for element in scan.elements()]
        else:
            value = scan.value()
            if key in keep or key in each:
                result[key] = value
    scan.finish()
    return result


def first_keys(head: bytes, where: str) -> tuple[list[str], InputError | None]:
    """Keys of the first object in the beginning of a text, and why there are no more.

    The object may stand in an array. The error is None where the object is whole.
    """
    found: list[str] = []
    try:
        scan = _Scan(head, where, cut=True)
        if scan.next_is("["):
            scan.take("[")
            if not scan.next_is("{"):
                return found, None
        for key in scan.keys():  # noqa: SIM118
            found.append(key)
            scan.value()
    except InputError as error:
        return found, error
    return found, None


class _Scan:
    """A place in a JSON text that moves forward."""

    def __init__(self, text: bytes, where: str, cut: bool = False) -> None:
        self.where = where
        self.at = 0
        try:
            self.text = text.decode("utf-8-sig", errors="ignore" if cut else "strict")
        except UnicodeDecodeError as error:
            raise _not_utf8(text, error.start, where) from None
        self._decode = json.JSONDecoder(object_pairs_hook=_unique_keys).raw_decode
        self._skip()

    def _skip(self) -> None:
        self.at = _SPACE.match(self.text, self.at).end()  # type: ignore[union-attr]

    def next_is(self, mark: str) -> bool:
        return self.text.startswith(mark, self.at)

    def take(self, mark: str) -> None:
        if not self.next_is(mark):
            found = self.text[self.at : self.at + 1]
            raise broken(
                f"{shown(found)} instead of {mark!r}" if found else f"it ends before {mark!r}",
                self.place(),
            )
        self.at += 1
        self._skip()

    def place(self) -> str:
        return f"{self.where}, character {self.at + 1}"

    def value(self) -> Any:
        try:
            value, self.at = self._decode(self.text, self.at)
        except _TwiceError as error:
            raise _twice(error.args[0], self.where) from None
        except RecursionError:
            raise InputError(
                "the JSON is nested too deep",
                where=self.place(),
                expected="a log as its harness writes it",
                remedy="leave this file out",
            ) from None
        except ValueError as error:  # broken JSON, and numbers of thousands of digits
            raise broken(str(error), self.where) from None
        self._skip()
        return value

    def elements(self) -> Iterator[Any]:
        self.take("[")
        if self.next_is("]"):
            self.take("]")
            return
        while True:
            yield self.value()
            if self.next_is("]"):
                self.take("]")
                return
            self.take(",")

    def keys(self) -> Iterator[str]:
        """Yield each key; whoever iterates reads the value before asking for the next."""
        self.take("{")
        if self.next_is("}"):
            self.take("}")
            return
        while True:
            if not self.next_is('"'):
                raise broken("a key is missing", self.place())
            key = self.value()
            self.take(":")
            yield key
            if self.next_is("}"):
                self.take("}")
                return
            self.take(",")

    def finish(self) -> None:
        if self.at < len(self.text):
            raise broken("text follows the value", self.place())


def broken(why: str, where: str) -> InputError:
    """Error for text that is not a whole JSON value."""
    return InputError(
        f"the text is not complete JSON: {why[:100]}",
        where=where,
        expected="one whole JSON value",
        remedy="copy the file anew (cut short: whatever wrote it stopped), or leave it out",
    )


def _twice(key: str, where: str) -> InputError:
    return InputError(
        f"the key {shown(key)} stands twice in one object",
        where=where,
        expected="each key once",
        remedy="remove one of the two",
    )


def _not_utf8(text: bytes, at: int, where: str) -> InputError:
    guess = " (UTF-16?)" if text[:2] in (b"\xff\xfe", b"\xfe\xff") else ""
    return InputError(
        f"the text is not UTF-8: byte 0x{text[at : at + 1].hex()} at {at}{guess}",
        where=where,
        expected="JSON in UTF-8",
        remedy="convert it: iconv -f latin1 -t utf-8 FILE > NEW",
    )


class _TwiceError(Exception):
    """A key stands twice in one JSON object."""


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) < len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise _TwiceError(key)
            seen.add(key)
    return result
