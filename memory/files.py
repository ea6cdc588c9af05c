"""A text a page at a time, by line and by character: the pages together are the text, exactly."""

from __future__ import annotations

import re
from typing import NamedTuple

_LINE = re.compile(r"[^\n]*\n|[^\n]+")


class Page(NamedTuple):
    """A piece of a text, and where the next piece starts."""

    text: str
    next_line: int | None
    """The line (0-based) to go on from, None at the end of the text or when the page ends inside a line."""
    next_char: int | None
    """The character (0-based) to go on from, None at the end of the text. Always set when there is more."""
    total_lines: int
    total_chars: int


def page(
    text: str, *, offset: int = 0, limit: int = 200, char_offset: int | None = None, max_chars: int = 16_000
) -> Page:
    r"""The page that starts at a line, or at a character when `char_offset` is given.

    A line ends with "\n", which belongs to it; "\r" is text like any other. A page holds whole lines as far
    as `max_chars` lets it; a line longer than that is cut, and `next_char` says where to go on.

    Args:
        text: The whole text.
        offset: First line, 0-based.
        limit: Most lines.
        char_offset: First character, 0-based; `offset` is then not looked at.
        max_chars: Most characters.

    Raises:
        ValueError: A negative offset, or a limit below 1.

    >>> page("a\nb\nc", limit=2)
    Page(text='a\nb\n', next_line=2, next_char=4, total_lines=3, total_chars=5)
    """
    if offset < 0 or (char_offset or 0) < 0 or limit < 1 or max_chars < 1:
        raise ValueError(
            f"offset={offset!r} and char_offset={char_offset!r} must be 0 or more, "
            f"limit={limit!r} and max_chars={max_chars!r} at least 1"
        )
    total_lines = text.count("\n") + (not text.endswith("\n") if text else 0)
    start = _line_start(text, offset) if char_offset is None else min(char_offset, len(text))
    end = _page_end(text, start, limit, max_chars)
    at_line_start = end == 0 or text[end - 1] == "\n"
    more = end < len(text)
    next_line = text.count("\n", 0, end) if more and at_line_start else None
    return Page(text[start:end], next_line, end if more else None, total_lines, len(text))


def decode_text(data: bytes) -> tuple[str, str]:
    """Bytes as text, and the encoding that fitted: utf-8, gb18030 (GBK with it) or latin-1. Never raises.

    >>> decode_text("中文内容".encode("gbk"))
    ('中文内容', 'gb18030')
    """
    for encoding in ("utf-8", "gb18030"):
        try:
            text = data.decode(encoding)
        except UnicodeDecodeError:
            continue
        if encoding == "utf-8" or _reads_like_chinese(text):
            return text, encoding
    return data.decode("latin-1"), "latin-1"


def _reads_like_chinese(text: str) -> bool:
    # Most byte strings happen to be valid gb18030; characters of everyday use are what tells text from
    # chance.
    wide = [c for c in text if ord(c) > 0x7F][:4_000]
    common = sum(_in_gb2312(c) for c in wide)
    return common >= 0.9 * len(wide)


def _in_gb2312(character: str) -> bool:
    try:
        return bool(character.encode("gb2312"))
    except UnicodeEncodeError:
        return False


def _line_start(text: str, line: int) -> int:
    at = 0
    for _ in range(line):
        found = text.find("\n", at)
        if found < 0:
            return len(text)
        at = found + 1
    return at


def _page_end(text: str, start: int, limit: int, max_chars: int) -> int:
    end = start
    for count, line in enumerate(_LINE.finditer(text, start)):
        if count == limit:
            break
        if line.end() - start > max_chars:
            return end if end > start else start + max_chars
        end = line.end()
    return end
