"""Pages by line and by character: together they are the file, exactly."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.memory.files import decode_text, page

TEXTS = st.text(st.sampled_from("ab\n\r \udcb2中😀\0\u2028\x0c"), max_size=200)


def all_pages(text: str, limit: int, max_chars: int) -> list[str]:
    found, at = [], 0
    while True:
        piece = page(text, char_offset=at, limit=limit, max_chars=max_chars)
        found.append(piece.text)
        if piece.next_char is None:
            return found
        assert piece.next_char > at
        at = piece.next_char


@given(text=TEXTS, limit=st.integers(1, 5), max_chars=st.integers(1, 20))
def test_case_61_the_pages_together_are_the_file(text: str, limit: int, max_chars: int) -> None:
    pages = all_pages(text, limit, max_chars)
    assert "".join(pages) == text
    assert all(len(p) <= max_chars and p.count("\n") <= limit for p in pages)


@given(text=TEXTS, limit=st.integers(1, 5))
def test_case_61_paging_by_line_alone_skips_nothing(text: str, limit: int) -> None:
    found, line = "", 0
    while True:
        piece = page(text, offset=line, limit=limit)
        found += piece.text
        assert piece.total_lines == len(text.split("\n")) - (text.endswith("\n") or not text)
        if piece.next_line is None:
            break
        assert piece.next_line == line + limit
        line = piece.next_line
    assert found == text


def test_case_61_a_page_after_a_long_line_skips_nothing() -> None:
    text = "\n".join(["l1", "x" * 15_000, "important", "l4"])
    first = page(text, limit=3)
    second = page(text, offset=first.next_line or 0, limit=3)
    assert first.text + second.text == text
    assert (first.next_line, second.next_line, second.next_char) == (3, None, None)


def test_case_62_one_long_line_is_reached_to_its_end() -> None:
    text = "".join(chr(ord("a") + n % 26) for n in range(200_000))
    first = page(text)
    assert len(first.text) == 16_000
    assert (first.next_line, first.next_char, first.total_lines) == (None, 16_000, 1)
    assert "".join(all_pages(text, 200, 16_000)) == text


def test_a_page_inside_a_line_says_where_to_go_on() -> None:
    text = "short\n" + "x" * 30_000 + "\nend"
    assert page(text) == ("short\n", 1, 6, 3, 30_010)
    inside = page(text, offset=1)
    assert (len(inside.text), inside.next_line, inside.next_char) == (16_000, None, 16_006)


def test_crlf_is_kept_byte_for_byte() -> None:
    assert page("a\r\nb\r\n", limit=1).text == "a\r\n"


def test_beyond_the_end_is_an_empty_last_page() -> None:
    assert page("a\n", offset=9) == ("", None, None, 1, 2)
    assert page("", char_offset=5) == ("", None, None, 0, 0)


@pytest.mark.parametrize("bad", [{"offset": -1}, {"limit": 0}, {"char_offset": -1}, {"max_chars": 0}])
def test_wrong_ranges_are_refused(bad: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="must be 0 or more"):
        page("a", **bad)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ("中文 text".encode(), ("中文 text", "utf-8")),
        ("第一章：总则。".encode("gbk"), ("第一章：总则。", "gb18030")),
        (b"na\xefve", ("naïve", "latin-1")),
        (b"", ("", "utf-8")),
        (b"\xff\xfe\x00", ("ÿþ\0", "latin-1")),
    ],
)
def test_case_65_bytes_of_unknown_encoding_become_text(data: bytes, expected: tuple[str, str]) -> None:
    assert decode_text(data) == expected


@given(data=st.binary())
def test_case_65_decoding_never_raises(data: bytes) -> None:
    assert isinstance(decode_text(data)[0], str)
