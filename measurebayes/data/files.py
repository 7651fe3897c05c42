"""Files of logs: one file, a folder, a glob pattern or a zip archive, seen as one list."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import io
import itertools
import os
import re
import stat
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from functools import cached_property
from pathlib import Path
from typing import IO

from measurebayes.data import archive, jsontext
from measurebayes.data.lines import MAX_LINE
from measurebayes.data.problems import problem
from measurebayes.errors import InputError, shown

SUFFIXES = (".eval", ".json", ".jsonl", ".json.gz", ".jsonl.gz")
HEAD_BYTES = 1 << 20
MAX_DOCUMENT = 2048 << 20  # a file that is parsed as a whole
MAX_FILES = 200_000
_ZIP = (b"PK\x03\x04", b"PK\x05\x06")
_GZIP = b"\x1f\x8b"
_WILD = "*?["


class LogFile:
    """A file on the disk or in an archive.

    Parameters
    ----------
    name : str
        Path below what was given, with "/" between; formats that pair files use it.
    place : str
        What messages call it.
    open_bytes : callable
        Opens it for reading bytes.
    packed : int
        Its size as it is stored, bytes.
    path : pathlib.Path, optional
        Where it lies on the disk; None in an archive.
    """

    def __init__(
        self,
        name: str,
        place: str,
        open_bytes: Callable[[], AbstractContextManager[IO[bytes]]],
        packed: int,
        path: Path | None = None,
    ) -> None:
        self.name = name
        self.place = place
        self.packed = packed
        self.path = path
        self._open_bytes = open_bytes

    @property
    def folder(self) -> str:
        """Path of its folder; "" at the top."""
        return self.name.rpartition("/")[0]

    @cached_property
    def _start(self) -> bytes:
        try:
            with self._open_bytes() as file:
                return file.read(4)
        except OSError as error:
            raise InputError(f"the file can't be opened: {error}", where=self.place) from None

    @property
    def is_zip(self) -> bool:
        """Whether it is a zip archive."""
        return self._start.startswith(_ZIP)

    @cached_property
    def _sniffed(self) -> tuple[frozenset[str], InputError | None]:
        if self.is_zip:
            return frozenset(), None
        with self.opened() as file:
            head = file.read(HEAD_BYTES)
        if head.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] not in (b"{", b"["):
            return frozenset(), InputError(
                "the file is neither JSON in UTF-8 nor a zip archive"
                if head.strip()
                else "the file is empty",
                where=self.place,
                expected="a log",
                remedy="remove it, or convert it to UTF-8; an empty or cut one: copy it anew",
                code="F103" if head.strip() else "F102",
            )
        keys, error = jsontext.first_keys(head, self.place)
        return frozenset(keys), error if len(head) < HEAD_BYTES else None

    @property
    def keys(self) -> frozenset[str]:
        """Keys of the first JSON object in it, as far as its beginning tells."""
        return self._sniffed[0]

    @property
    def fault(self) -> InputError | None:
        """Why it can't be told what the file is, if so; then it may be a log that is damaged."""
        return self._sniffed[1]

    @contextlib.contextmanager
    def opened(self) -> Iterator[IO[bytes]]:
        """Open it for reading, unpacked; what the disk and gzip report becomes InputError."""
        try:
            with self._open_bytes() as file:
                if self._start.startswith(_GZIP):
                    with gzip.GzipFile(fileobj=file) as unpacked:
                        yield unpacked  # type: ignore[misc]
                else:
                    yield file
        except (OSError, EOFError, zlib.error) as error:
            raise InputError(
                f"the file can't be read to its end: {error}",
                where=self.place,
                expected="a whole file",
                remedy="copy it anew",
                code="F105",
            ) from None

    def content(self) -> bytes:
        """All bytes of it, unpacked."""
        limit = MAX_DOCUMENT
        if self._start.startswith(_GZIP):
            limit = max(archive.MAX_SMALL, min(archive.MAX_RATIO * self.packed, limit))
        with self.opened() as file:
            content = file.read(limit + 1)
        if len(content) > limit:
            raise InputError(
                f"the file holds more than {limit // archive.MIB} MiB",
                where=self.place,
                expected="a log of less, as one JSON document",
                remedy="split it, or let its harness write a format for large logs (.eval, .jsonl)",
            )
        if not content.removeprefix(b"\xef\xbb\xbf").strip():
            raise InputError(
                "the file is empty",
                where=self.place,
                expected="a log",
                remedy="check that whatever wrote the file has finished, or remove it",
            )
        return content

    def lines(self, digest: Digest) -> Iterator[tuple[int, bytes]]:
        """Yield number and bytes of each line that is not blank."""
        total = hashlib.sha256()
        limit = archive.MAX_SMALL + archive.MAX_RATIO * self.packed
        with self.opened() as file:
            number = 0
            while line := file.readline(MAX_LINE):
                number += 1
                total.update(line)
                limit -= len(line)
                if limit < 0 or len(line) == MAX_LINE:
                    raise InputError(
                        "the line is too long" if limit >= 0 else "the file unpacks to too much",
                        where=f"{self.place}, line {number}",
                        expected=f"lines of less than {MAX_LINE // archive.MIB} MiB",
                        remedy="leave this file out",
                    )
                if line.strip():
                    yield number, line
        digest.add_digest(total.digest())


class Digest:
    """SHA-256 over what was read, whatever the order and the names of the files."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def add(self, content: bytes) -> bytes:
        """Add the content of a file or of a part of it, and give it back."""
        self._parts.append(hashlib.sha256(content).digest())
        return content

    def add_digest(self, part: bytes) -> None:
        """Add the SHA-256 of something that was read in pieces."""
        self._parts.append(part)

    def hexdigest(self) -> str:
        """SHA-256 of the sorted digests of the parts; of the one part where there is one."""
        if len(self._parts) == 1:
            return self._parts[0].hex()
        return hashlib.sha256(b"".join(sorted(self._parts))).hexdigest()


def is_pattern(path: Path) -> bool:
    """Tell whether a path is a glob pattern rather than the name of a file."""
    return _wild(str(path)) and not path_exists(path)


def _wild(text: str) -> bool:
    return any(mark in text for mark in _WILD)


def path_exists(path: Path) -> bool:
    """Tell whether there is such a file; text that can be no path is none."""
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def check_utf8_path(path: Path) -> None:
    """Refuse a path that Arrow and netCDF can't be told: one whose bytes are not UTF-8."""
    if any("\ud800" <= character <= "\udfff" for character in str(path)):
        raise InputError(
            "the name of the file is not UTF-8",
            where=ascii(str(path)),
            expected="a path in UTF-8",
            remedy="rename the file or its folder",
        )


def single(path: Path) -> LogFile:
    """Make the list element for one file that a user named."""
    return _on_disk(path, path.name)


def in_folder(folder: Path) -> list[LogFile]:
    """All files in a folder and its subfolders that may be logs, sorted by name.

    Raises
    ------
    InputError
        Where the folder can't be read, or there is a symbolic link in it.
    """
    found = [_on_disk(path, path.relative_to(folder).as_posix()) for path in _walk(folder)]
    return sorted(found, key=lambda file: file.name)


def matching(pattern: Path) -> list[LogFile]:
    """All files that a glob pattern matches, and those in folders that it matches."""
    fixed = len(list(itertools.takewhile(lambda part: not _wild(part), pattern.parts)))
    named = sorted(_matches(Path(*pattern.parts[:fixed]), pattern.parts[fixed:]))
    if not named:
        raise InputError(
            "no file fits the pattern",
            where=str(pattern),
            expected="a pattern such as logs/*.eval or logs/**/*.json",
            remedy="put the pattern in quotes, and check it: ls PATTERN",
        )
    files: dict[Path, None] = {}
    for path in named:
        # what the user spelt out may be a link; what the pattern found may not
        found = (path, *list(path.parents)[: len(path.parts) - fixed - 1])
        if links := [one for one in found if one.is_symlink()]:
            problem(_link(links[-1]))
            continue
        files |= dict.fromkeys(_walk(path) if path.is_dir() else [path])
    # a pattern such as logs/* finds other files beside the logs, as a folder has them
    return [_on_disk(path, path.as_posix()) for path in files if path.name.endswith(SUFFIXES)]


def _matches(base: Path, wild: tuple[str, ...]) -> Iterator[Path]:
    """Yield what fits a pattern below a folder; ** doesn't follow links, which may lead round."""
    if not base.is_dir():
        return
    if "**" in wild:
        # those before the ** may be any; a link below them could lead round for ever
        above = wild[: wild.index("**")]
        for top in _matches(base, above) if above else [base]:
            for folder, _, names in top.walk(follow_symlinks=False):  # links are names of files
                for path in (folder / name for name in names if not name.startswith(".")):
                    if path.is_symlink() and path.is_dir():
                        problem(_link(path))
    hidden = any(part.startswith(".") for part in wild)
    try:
        for path in base.glob("/".join(wild)):
            below = path.parts[len(base.parts) :]
            if hidden or not any(part.startswith(".") for part in below):
                yield path
    except (OSError, ValueError, re.error) as error:
        raise InputError(f"the pattern can't be used: {error}", where=str(base)) from None


def _walk(folder: Path) -> Iterable[Path]:
    found: list[Path] = []
    pending = [folder]
    while pending:
        try:
            with os.scandir(pending.pop()) as entries:
                inside = [entry for entry in entries if not entry.name.startswith(".")]
        except OSError as error:
            raise InputError(f"the folder can't be read: {error}", where=str(folder)) from None
        for entry in inside:
            path = Path(entry.path)
            if entry.is_symlink():
                problem(_link(path))
            elif entry.is_dir():
                pending.append(path)
            elif entry.name.endswith(SUFFIXES):
                if not entry.is_file():
                    raise no_file(path)
                found.append(path)
        if len(found) > MAX_FILES:
            raise InputError(
                f"the folder holds more than {MAX_FILES} logs",
                where=str(folder),
                expected="a folder of logs",
                remedy="name a part of it",
            )
    return found


def no_file(path: Path) -> InputError:
    """Error for a pipe or a device, which can be read once only, or never ends."""
    return InputError(
        "it is no file, but a pipe or a device",
        where=str(path),
        expected="a file: it is read more than once",
        remedy="write what comes out of it to a file first, or move it away from the logs",
    )


def _link(path: Path) -> InputError:
    return InputError(
        "there is a symbolic link among the logs",
        where=str(path),
        expected="files and folders (a link may lead anywhere, or to a log that is here already)",
        remedy="copy the file that it points to, or name its path itself",
        code="F108",
    )


def _on_disk(path: Path, name: str) -> LogFile:
    def open_bytes() -> AbstractContextManager[IO[bytes]]:
        return path.open("rb")

    try:
        found = path.stat()
    except OSError as error:
        raise InputError(f"the file can't be opened: {error}", where=str(path)) from None
    if not stat.S_ISREG(found.st_mode):
        raise no_file(path)
    return LogFile(name, str(path), open_bytes, found.st_size, path)


def in_archive(outer: LogFile) -> list[LogFile]:
    """All members of a zip archive that may be logs, sorted by name."""
    with outer.opened() as file, archive.opened_archive(file, outer.place) as opened:
        members = {
            member.filename: member.file_size
            for member in opened.infolist()
            if member.filename.endswith(SUFFIXES)
            and not any(part.startswith((".", "__MACOSX")) for part in member.filename.split("/"))
        }
        again = [
            name for name, n in Counter(opened.namelist()).items() if n > 1 and name in members
        ]
    if again:
        raise archive.unsafe(f"the archive has {shown(again[0])} twice", outer.place)
    return [_in_archive(outer, name, size) for name, size in sorted(members.items())]


def _in_archive(outer: LogFile, name: str, size: int) -> LogFile:
    place = f"{outer.place}, member {name}"

    @contextlib.contextmanager
    def open_bytes() -> Iterator[IO[bytes]]:
        with outer.opened() as file, archive.opened_archive(file, outer.place) as opened:
            yield io.BytesIO(archive.member_bytes(opened, opened.getinfo(name), place))

    return LogFile(name, place, open_bytes, size)
