"""A file as JSON: one value, or one value a line."""

import json
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class Document:
    """What stands in a file.

    Attributes:
        path: The file.
        value: The whole file as one JSON value, or None where it is none.
        lines: Each line that is JSON, with its number from 1.
        broken: Each line that is not, with its number and the parser's word for it.
    """

    path: Path
    value: Any = None
    lines: list[tuple[int, Any]] = field(default_factory=list)
    broken: list[tuple[int, str, str]] = field(default_factory=list)

    @cached_property
    def events(self) -> list[dict[str, Any]]:
        """The objects of a JSONL file, or of a JSON array of objects; empty for any other file."""
        found = self.value if isinstance(self.value, list) else [value for _, value in self.lines]
        return [value for value in found if isinstance(value, dict)]

    def text(self, line: int) -> str:
        """The first characters of a line, to be quoted."""
        data = self.path.read_bytes().split(b"\n")[line - 1]
        return repr(data[:80])


def read_document(path: Path) -> Document:
    """Read a file; nothing about it is assumed.

    Raises:
        OSError: The file cannot be read.
    """
    data = path.read_bytes().removeprefix(_BOM)
    try:
        value = json.loads(data)
    except ValueError:
        value = None
    lines: list[tuple[int, Any]] = []
    broken: list[tuple[int, str, str]] = []
    if value is not None and data.strip().count(b"\n"):
        # One value over many lines has none a line.
        return Document(path, value)
    # Split on the byte: str.splitlines would also cut at U+2028 inside a JSON string.
    for number, line in enumerate(data.split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            lines.append((number, json.loads(line)))
        except ValueError as error:
            broken.append((number, str(error), repr(line[:80])))
    return Document(path, value, lines, broken)
