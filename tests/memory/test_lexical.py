"""Tokens, queries and snippets, in English, Chinese and code."""

from __future__ import annotations

import sqlite3

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.memory.lexical import SNIPPET_CHARS, TOKENIZER, match_query, snippet, tokens

ANY_TEXT = st.text(st.characters(min_codepoint=0, max_codepoint=0x10FFFF), max_size=400)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("max_retries=3", ["max_retries", "max", "retries", "3"]),
        ("src/DbPool.py", ["src/dbpool.py", "src", "dbpool", "db", "pool", "py"]),
        ("v1.2.3", ["v1.2.3", "v1", "2", "3"]),
        ("端口5432号", ["端口", "口", "5432", "号"]),
        ("ＳＱＬ", ["sql"]),
        ("Größe", ["grösse"]),
        ("ポート", ["ポー", "ート", "ト"]),
        ("", []),
        ("… — \udcb2", []),
    ],
)
def test_tokens_of_identifiers_and_scripts(text: str, expected: list[str]) -> None:
    assert tokens(text) == expected


@given(text=ANY_TEXT)
def test_a_text_is_found_by_any_of_its_own_tokens(text: str) -> None:
    words = [word for word in tokens(text) if sqlite_keeps(word)]
    connection = sqlite3.connect(":memory:")
    try:
        connection.execute(f"""CREATE VIRTUAL TABLE t USING fts5(body, tokenize="{TOKENIZER}")""")
        connection.execute("INSERT INTO t VALUES (?)", (" ".join(tokens(text)),))
        for word in words:
            query = match_query(word)
            assert connection.execute("SELECT count(*) FROM t WHERE t MATCH ?", (query,)).fetchone() == (1,)
    finally:
        connection.close()


def sqlite_keeps(word: str) -> bool:
    """SQLite's tables of characters are older than Python's: unknown letters are no tokens."""
    return all(ord(c) < 0x250 or "\u4e00" <= c <= "\u9fa5" for c in word) and word.isalnum()


def test_common_words_count_only_alone() -> None:
    assert match_query("what is the port") == '"port"'
    assert match_query("who are you") == '"who" OR "are" OR "you"'
    assert match_query("!?") == ""


@given(text=ANY_TEXT, query=ANY_TEXT)
def test_snippets_are_short_and_printable(text: str, query: str) -> None:
    shown = snippet(text, query)
    assert len(shown) <= SNIPPET_CHARS
    shown.encode()
    assert "\n" not in shown
