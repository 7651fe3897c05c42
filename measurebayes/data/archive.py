"""Zip archives from others, read with limits: nothing is unpacked onto the disk."""

from __future__ import annotations

import contextlib
import io
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterator
from typing import IO

from measurebayes.errors import InputError, shown

MIB = 1 << 20
MAX_RATIO = 300  # text that a harness writes packs 5 to 100 times smaller
MAX_SMALL = 64 * MIB  # what may come out of a member whatever its ratio
MAX_MEMBER = 2048 * MIB
MAX_MEMBERS = 1_000_000
_BLOCK = 1 << 20
_ZSTANDARD = 93
_LINK = stat.S_IFLNK >> 12
_LOCAL_HEADER = struct.Struct("<4s22xHH")


@contextlib.contextmanager
def opened_archive(file: IO[bytes], where: str) -> Iterator[zipfile.ZipFile]:
    """Open a zip archive, after a look at the names and sizes that it states.

    Raises
    ------
    InputError
        Where the archive is damaged or cut short, or a member is encrypted, a symbolic link, or
        has a name that leaves the archive; and where one turns out so while it is read.
    """
    try:
        with zipfile.ZipFile(file) as archive:
            members = archive.infolist()
            if len(members) > MAX_MEMBERS:
                raise unsafe(f"the archive has {len(members)} members", where)
            for member in members:
                _check_name(member, where)
            yield archive
    # zipfile meets damaged archives with most of these
    except (
        zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError, ValueError,
        OverflowError, KeyError, RuntimeError, MemoryError, struct.error,
    ) as error:  # fmt: skip
        if isinstance(error, InputError):
            raise
        raise InputError(
            f"the archive can't be read to its end: {str(error)[:100] or type(error).__name__}",
            where=where,
            expected="a whole zip archive",
            remedy="copy it anew (cut short: whatever wrote it stopped); check it: unzip -t FILE",
            code="F105",
        ) from None


def _check_name(member: zipfile.ZipInfo, where: str) -> None:
    name = member.filename.replace("\\", "/")
    if name.startswith("/") or name[1:2] == ":" or (".." in name and ".." in name.split("/")):
        raise unsafe(f"the archive has a path that leaves it: {shown(member.filename)}", where)
    if member.external_attr >> 28 == _LINK:
        raise unsafe(f"the archive has a symbolic link: {shown(member.filename)}", where)


def unsafe(what: str, where: str) -> InputError:
    """Error for an archive that no harness writes."""
    return InputError(
        what,
        where=where,
        expected="an archive of logs as a harness or `zip -r` writes it",
        remedy="unpack it yourself if you trust it, and give the folder",
        code="F108",
    )


def member_bytes(archive: zipfile.ZipFile, member: zipfile.ZipInfo, where: str) -> bytes:
    """Read one member whole, within limits on what may come out of it.

    Raises
    ------
    InputError
        Where more comes out than a log can hold for its packed size.
    """
    with _member(archive, member, where) as file:
        return _limited(file, limit_of(member), where)


def limit_of(member: zipfile.ZipInfo) -> int:
    """Number of bytes that may come out of a member."""
    return max(MAX_SMALL, min(MAX_RATIO * member.compress_size, MAX_MEMBER))


def _limited(file: IO[bytes], limit: int, where: str) -> bytes:
    blocks, size = [], 0
    while block := file.read(_BLOCK):
        size += len(block)
        if size > limit:
            raise too_large(limit, where)
        blocks.append(block)
    return b"".join(blocks)


def too_large(limit: int, where: str) -> InputError:
    """Error for a member that unpacks to too much."""
    return InputError(
        f"more than {limit // MIB} MiB come out of a member of the archive",
        where=where,
        expected=f"at most {MAX_RATIO} times its packed size, and {MAX_MEMBER // MIB} MiB",
        remedy="leave this archive out: it is damaged, or made to fill memory (a zip bomb)",
    )


@contextlib.contextmanager
def _member(archive: zipfile.ZipFile, member: zipfile.ZipInfo, where: str) -> Iterator[IO[bytes]]:
    if member.flag_bits & 0x1:
        raise unsafe(f"the member {shown(member.filename)} is encrypted", where)
    if member.file_size > limit_of(member):
        raise too_large(limit_of(member), where)
    if member.compress_type == _ZSTANDARD:
        content = _from_zstandard(_packed(archive, member, where), limit_of(member), where)
        if len(content) != member.file_size or zlib.crc32(content) != member.CRC:
            raise zipfile.BadZipFile(f"bad checksum of {member.filename!r}")
        yield io.BytesIO(content)
        return
    with archive.open(member) as file:
        yield file


def _packed(archive: zipfile.ZipFile, member: zipfile.ZipInfo, where: str) -> bytes:
    """Bytes of a member as they stand in the archive, for what zipfile can't unpack."""
    file = archive.fp
    if file is None or member.compress_size > MAX_MEMBER:
        raise too_large(MAX_MEMBER, where)
    file.seek(member.header_offset)
    start = file.read(_LOCAL_HEADER.size)
    signature, name_bytes, extra_bytes = _LOCAL_HEADER.unpack(start)
    if signature != b"PK\x03\x04":
        raise zipfile.BadZipFile(f"no header where {member.filename!r} should begin")
    file.seek(name_bytes + extra_bytes, io.SEEK_CUR)
    return file.read(member.compress_size)


def _from_zstandard(packed: bytes, limit: int, where: str) -> bytes:
    """Unpack Zstandard, which zipfile knows only from Python 3.14 on; pyarrow has it."""
    import pyarrow as pa

    try:
        with pa.CompressedInputStream(pa.BufferReader(packed), "zstd") as stream:
            return _limited(stream, limit, where)
    except pa.ArrowException as error:
        raise zipfile.BadZipFile(str(error)) from None
