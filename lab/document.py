"""A file as JSON: one value, one value a line, or one behind the other."""

import io
import json
import zipfile
import zlib
from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

_GZIP, _ZIP = b"\x1f\x8b", b"PK\x03\x04"
_DECODER = json.JSONDecoder()
_BETWEEN = " \t\r\n,\x00"


@dataclass(frozen=True)
class Document:
    """What stands in a file.

    Attributes:
        path: The file.
        value: The whole file as one JSON value, or None where it is none.
        lines: Each line that is JSON, with its number from 1; or each value, with the line it begins in.
        broken: Each line that is not, with its number, the parser's word for it and its first bytes.
        error: Why the whole is not one JSON value; "" where it is.
    """

    path: Path
    value: Any = None
    lines: list[tuple[int, Any]] = field(default_factory=list)
    broken: list[tuple[int, str, str]] = field(default_factory=list)
    error: str = ""

    @cached_property
    def events(self) -> list[dict[str, Any]]:
        """The objects of a JSONL file, or of a JSON array of objects; empty for any other file."""
        found = self.value if isinstance(self.value, list) else [value for _, value in self.lines]
        return [value for value in found if isinstance(value, dict)]

    def text(self, line: int) -> str:
        """The first characters of a line, to be quoted."""
        return repr(_bytes(self.path).split(b"\n")[line - 1][:80])


def text_in(path: Path) -> str:
    """A file's text, unpacked; bytes that are none are shown as such.

    Raises:
        OSError: The file cannot be read.
    """
    return _bytes(path).decode("utf-8", "replace")


def read_document(path: Path) -> Document:
    """Read a file, packed by gzip or zip or not; nothing about it is assumed.

    Raises:
        OSError: The file cannot be read.
    """
    data = _bytes(path)
    try:
        value, error = json.loads(data), ""
    except (ValueError, RecursionError) as why:
        value, error = None, str(why)
    if value is not None and data.strip().count(b"\n"):
        # One value over many lines has none a line.
        return Document(path, value)
    lines: list[tuple[int, Any]] = []
    broken: list[tuple[int, str, str]] = []
    # Split on the byte: str.splitlines would also cut at U+2028 inside a JSON string.
    for number, line in enumerate(data.split(b"\n"), 1):
        if not line.strip(b" \t\r\x00"):
            continue
        try:
            lines.append((number, json.loads(line)))
        except (ValueError, RecursionError) as why:
            broken.append((number, str(why), repr(line[:80])))
    if broken and broken[0][0] == 1 and (values := list(_in_a_row(data))):
        return Document(path, None, values, [], error)
    return Document(path, value, lines, broken, error)


def _bytes(path: Path) -> bytes:
    """A file's text in UTF-8 without a mark; bytes that are none stay as they are."""
    data = path.read_bytes()
    if data.startswith(_GZIP):
        data = _unpacked(data)
    elif data.startswith(_ZIP):
        data = _only_file(data)
    if data.startswith((BOM_UTF16_LE, BOM_UTF16_BE)):
        return data.decode("utf-16", "replace").encode()
    return data.removeprefix(BOM_UTF8)


def _unpacked(data: bytes) -> bytes:
    """What a file packed by gzip holds; of one that is cut, what comes before the cut."""
    out = bytearray()
    while data.startswith(_GZIP):
        member = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
        try:
            out += member.decompress(data)
        except zlib.error:
            break
        data = member.unused_data
    return bytes(out) or data


def _only_file(data: bytes) -> bytes:
    """The one file in an archive; of several the one that is JSON by its name, if it is the only one."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            names = [name for name in archive.namelist() if not name.endswith("/")]
            named = [name for name in names if name.endswith((".json", ".jsonl"))]
            only = names if len(names) == 1 else named
            return archive.read(only[0]) if len(only) == 1 else data
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, EOFError):
        return data


def _in_a_row(data: bytes) -> Iterator[tuple[int, Any]]:
    """Objects one behind the other, laid out over lines or parted by commas; none where one is broken."""
    text = data.decode("utf-8", "replace").rstrip(_BETWEEN)
    at, line = 0, 1
    values = []
    while at < len(text):
        try:
            value, end = _DECODER.raw_decode(text, at)
        except (ValueError, RecursionError):
            return
        values.append((line, value))
        behind = end
        while behind < len(text) and text[behind] in _BETWEEN:
            behind += 1
        line += text.count("\n", at, behind)
        at = behind
    yield from values
