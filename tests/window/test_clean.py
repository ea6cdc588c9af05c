"""Tool output cleaned and condensed: what goes, what must stay, and how fast."""

import inspect
import json
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from headwater.window import clean as module
from headwater.window.clean import BLANK, clean, condense
from headwater.window.tokens import count_text
from tests.growth import LINEAR, growth

SHARED = Path(__file__).parents[2].parent / "shared"
OUTPUTS = SHARED / "data" / "tool_outputs"

BARS = "".join(
    f"Downloading {i}% [{'=' * (i // 10)}{' ' * (10 - i // 10)}] {i}.2 MB/s\n" for i in range(0, 101, 5)
)


@pytest.mark.parametrize(
    ("raw", "cleaned"),
    [
        ("\x1b[31mred\x1b[0m plain", "red plain"),
        ("\x1b[1;32;40mok\x1b[K\x1b[2J", "ok"),
        ("\x1b]0;title\x07hi \x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "hi link"),
        ("\x1b(Btext\x1b7\x1b8", "text"),
        ("\x9b31mred\x9b0m", "red"),
        ("\x1b]unfinished\nnext", "unfinished\nnext"),
        ("10%\r50%\r100%\ndone", "100%\ndone"),
        ("Downloading 1%\rDownloading 2%\rdone", "done"),
        ("正在下载 1%\r正在下载 100%\n完成", "正在下载 100%\n完成"),
        ("working\r\x1b[K", "working"),
        ("one\r\ntwo\r\r\nthree", "one\ntwo\nthree"),
        ("one\rtwo apples\rthree more things\rfour", "one\ntwo apples\nthree more things\nfour"),
        ("abc\b\b\bxyz", "xyz"),
        ("N\bNA\bAM\bME\bE", "NAME"),
        ("_\bb_\bo_\bl_\bd", "bold"),
        ("|\b/\b-\b\\\b done", " done"),
        ("50%\b\b\b", "50%"),
        ("a\0b\x07c\x7f", "abc"),
        ("page one\x0cpage two", "page one\npage two"),
        ("a\udcb2b", "a\ufffdb"),
        ("x  \ny\t\n", "x\ny\n"),
        ("a\n\n\n\n\n\nb", "a\n\n\nb"),
        ("", ""),
        ("\0\x1b[0m", BLANK),
        (" \n\t\n", BLANK),
    ],
)
def test_e13_what_a_terminal_hides_goes(raw: str, cleaned: str) -> None:
    assert clean(raw) == cleaned
    assert clean(cleaned) == cleaned


def test_e13_repeated_lines_are_told_once_with_their_number() -> None:
    assert clean("start\n" + "connection refused, retrying\n" * 50 + "end\n") == (
        "start\nconnection refused, retrying\n… previous line repeated 49 times\nend\n"
    )
    assert clean("连接被拒绝，正在重试，请稍候。\n" * 40).startswith(
        "连接被拒绝，正在重试，请稍候。\n… previous line repeated 39 times"
    )


def test_e13_progress_lines_keep_the_first_and_the_last() -> None:
    assert clean(BARS).split("\n") == [
        "Downloading 0% [          ] 0.2 MB/s",
        "… 19 similar progress lines left out",
        "Downloading 100% [==========] 100.2 MB/s",
        "",
    ]
    chinese = "".join(f"下载进度 {i}% ({i}/100)\n" for i in range(100))
    assert (
        clean(chinese) == "下载进度 0% (0/100)\n… 98 similar progress lines left out\n下载进度 99% (99/100)\n"
    )


@pytest.mark.parametrize(
    "text",
    [
        "alpha 80%\nbeta 90%\ngamma 95%\ndelta 96%\n",
        "row 1 80%\nrow 2 90%\nrow 3 95%\nrow 4 96%\nrow 5 97%\n",
        "Total 2/10\nTotal 1/10\nTotal 5/10\nTotal 3/10\n",
        "id,n\n1,2\n3,4\n5,6\n7,8\n9,10\n",
        "    }\n    }\n  }\n}\n",
        "| a | b |\n|---|---|\n| 1 | 2 |\n",
        "@@ -1,3 +1,3 @@\n-old line\n+new line\n same\n",
        "\tindented\n        deeper\n",
        "2025-06-20 INFO served 1 request\n2025-06-20 INFO served 2 request\n" * 3,
        "Zażółć gęślą jaźń — “quotes” … ✓ 🎉\n中文，标点。\n",
        json.dumps({"a": [1, 1, 1, 1], "b": {"c": None}}, indent=2),
        inspect.getsource(module),
    ],
)
def test_e13_what_means_something_stays(text: str) -> None:
    assert clean(text) == text


@given(
    st.lists(
        st.sampled_from(
            [
                *(
                    "a",
                    "a b\n",
                    "same line of text\n",
                    "50% [====]\n",
                    "51% [=====]\n",
                    "Download 5/9 3MB/s\n",
                ),
                *(
                    "\n",
                    "\n\n",
                    "\r",
                    "\r\n",
                    "\b",
                    "\x1b",
                    "[31m",
                    "\x1b[0m",
                    "\x1b]",
                    "\x07",
                    "\0",
                    " ",
                    "\t",
                ),
                *(
                    "… previous line repeated 3 times\n",
                    "… 3 similar progress lines left out\n",
                    "\ud800",
                    "\x85",
                ),
                *("错误\n", "下载 5%\n", "x" * 50 + "\n", "\u2028", "\x9b", "\x0c", "\x1c"),
            ]
        ),
        max_size=60,
    ).map("".join)
)
@example("same line of text\n" * 4 + "… previous line repeated 3 times\n" * 2)
@example("\x1b\x1b[31m[31mx")
@settings(max_examples=600, deadline=None)
def test_e13_cleaning_twice_is_cleaning_once_and_never_empties(text: str) -> None:
    cleaned = clean(text)
    assert clean(cleaned) == cleaned
    assert bool(cleaned) == bool(text)
    cleaned.encode("utf-8")


@given(st.text(st.characters(codec=None), max_size=300))
@settings(max_examples=300, deadline=None)
def test_e13_any_text_is_cleaned(text: str) -> None:
    cleaned = clean(text)
    assert clean(cleaned) == cleaned
    assert bool(cleaned) == bool(text)
    assert not set(cleaned) & {"\x1b", "\r", "\b", "\0"}


@pytest.mark.parametrize(
    "unit",
    [
        "2025 [INFO] 12/34 served\n",
        "50%\r",
        "\n",
        "a\n",
        "a\b",
        "\b",
        "ab\b\b",
        "\x1b[31m",
        "\x1b]",
        "\x1b[1",
        " ",
        "x",
        "Downloading 50% [=====    ] 3MB/s\n",
        "a b\n\tc",
        "\x1b]x\n",
        "a\r",
    ],
)
def test_e13_cleaning_is_linear(unit: str) -> None:
    many = unit * (2_000_000 // len(unit))
    assert growth(clean, many[: len(many) // 10], many, runs=2) < 10 * LINEAR


def log(lines: int) -> str:
    noise = [
        f"2025-06-20T10:{i // 60 % 60:02}:{i % 60:02}Z INFO request {i} served in {i % 90} ms"
        for i in range(lines)
    ]
    noise[lines // 2] = "2025-06-20T10:30:00Z ERROR connection to db-7 lost: timeout after 30 s"
    noise[lines // 3] = "警告：磁盘空间不足"
    return "\n".join(noise)


def test_e13_condensing_keeps_head_tail_and_errors_within_500_tokens() -> None:
    text = log(160)
    assert 3_000 < count_text(text) < 6_000
    short = condense(text)
    assert count_text(short) <= 500
    lines = text.split("\n")
    assert short.startswith(lines[0])
    assert short.endswith(lines[-1])
    assert "connection to db-7 lost" in short
    assert "磁盘空间不足" in short
    assert condense(text) == short


def test_e13_gaps_say_how_many_lines_are_missing() -> None:
    text = log(400)
    short = condense(text).split("\n")
    gone = sum(int(line.split()[1]) for line in short if line.startswith("… "))
    assert gone + sum(not line.startswith("… ") for line in short) == 400


def test_e13_a_short_text_is_itself() -> None:
    assert condense("line one\nline two") == "line one\nline two"
    assert condense("") == ""


def test_e13_a_repeated_error_does_not_crowd_out_another() -> None:
    text = "\n".join(
        [*(f"ERROR 10:{i:04} worker {i} failed to start" for i in range(900)), "panic: lost quorum", "end"]
    )
    middle = text.split("\n")
    middle.insert(450, "FATAL: certificate expired")
    assert "certificate expired" in condense("\n".join(middle))


@pytest.mark.parametrize("limit", [1, 3, 30, 120, 500])
@pytest.mark.parametrize(
    "text",
    [
        "x" * 100_000,
        "错误" * 50_000,
        "a\n" * 100_000,
        "你好世界，" * 5_000,
        log(2_000),
        "\n" * 5_000,
        "word " * 9_000,
    ],
    ids=lambda text: repr(text[:6]),
)
def test_e13_condensed_never_exceeds_the_limit(text: str, limit: int) -> None:
    short = condense(text, limit)
    assert short
    assert count_text(short) <= limit


@given(st.text(max_size=3_000), st.integers(1, 200))
@settings(max_examples=100, deadline=None)
def test_e13_condensed_any_text_is_within_any_limit(text: str, limit: int) -> None:
    short = condense(text, limit)
    assert count_text(short) <= limit
    assert bool(short) == bool(text)


def test_e13_condensing_refuses_a_limit_of_nothing() -> None:
    with pytest.raises(ValueError, match="limit_tokens=0"):
        condense("text", 0)


@pytest.mark.skipif(not OUTPUTS.exists(), reason="needs ../shared")
def test_e13_real_tool_outputs() -> None:
    files = sorted(OUTPUTS.iterdir())
    assert files
    for file in files:
        text = file.read_text(encoding="utf-8", errors="surrogateescape")
        cleaned = clean(text)
        assert growth(clean, text, text * 3, runs=1) < 3 * LINEAR, file.name
        assert clean(cleaned) == cleaned
        # Logs without escapes and progress: every distinct line stays.
        assert {line.rstrip() for line in text.split("\n")} <= {*cleaned.split("\n"), ""}
        short = condense(cleaned)
        assert count_text(short) <= 500
        assert short.split("\n")[0][:100] == cleaned[:100]
