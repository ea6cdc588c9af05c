import hashlib
import random
import re
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.window.stubs import (
    MAX_STUB_BYTES,
    argument_stub,
    artifact_name,
    dropped,
    encode,
    holds_stub,
    is_only_stub,
    is_stub,
    stored_as,
    stub,
    stub_arguments,
)

any_text = st.text(st.characters(), max_size=400)
tags = st.integers(1, 9_999_999)
values = st.recursive(
    st.one_of(any_text, st.integers(), st.none(), st.booleans()),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=8,
)


def listing(size: int) -> str:
    rng = random.Random(1)
    lines = [f"line {i}: {rng.random()}" for i in range(size // 20)]
    return "\n".join(lines)[:size]


def test_m9_80_kb_become_at_most_2_kb_with_path_and_file_read_and_first_lines() -> None:
    text = listing(80_000)
    shown = stub(7, text, preview_tokens=500)
    name = artifact_name(encode(text))
    assert len(shown.encode()) <= 2_048
    assert f'file_read("{name}")' in shown
    assert 'ctx_expand("7")' in shown
    assert "80,000 chars" in shown
    assert "\n".join(text.splitlines()[:10]) in shown


def test_m9_without_a_preview_the_first_and_the_last_line_stay() -> None:
    text = listing(80_000)
    shown = stub(7, text)
    assert shown.splitlines()[1:] == [text.splitlines()[0], "…", text.splitlines()[-1]]
    assert len(shown.encode()) < 512


@given(tags, any_text, st.integers(0, 2_000))
def test_m9_a_stub_is_at_most_2_kb_and_can_be_sent(tag: int, text: str, preview: int) -> None:
    shown = stub(tag, text * 20, preview_tokens=preview)
    assert len(shown.encode("utf-8")) <= MAX_STUB_BYTES
    assert is_stub(shown)
    assert is_only_stub(shown)


@pytest.mark.parametrize("text", ["", "\n\n", "数" * 50_000, "😀" * 9_000, "a\udcb2b", "x" * 3_000_000])
def test_m9_any_text_has_a_stub(text: str) -> None:
    for preview in (0, 500):
        shown = stub(1, text, preview_tokens=preview)
        assert len(shown.encode("utf-8")) <= MAX_STUB_BYTES
        assert is_stub(shown)


@given(tags, any_text)
def test_g35_a_stub_is_a_function_of_tag_and_content(tag: int, text: str) -> None:
    assert stub(tag, text) == stub(tag, "".join(text))
    assert argument_stub(tag, text) == argument_stub(tag, "".join(text))
    assert dropped(tag) == dropped(tag)
    assert re.findall(r"\d+", dropped(tag)) == [str(tag)] * 2


def test_g35_a_stub_is_the_same_in_another_process() -> None:
    code = "from headwater.window.stubs import stub; print(ascii(stub(3, 'x\\n' * 500, preview_tokens=50)))"
    out = {_printed(code, seed) for seed in ("1", "2")}
    assert out == {ascii(stub(3, "x\n" * 500, preview_tokens=50))}


def _printed(code: str, seed: str) -> str:
    command = [sys.executable, "-c", code]
    env = {"PYTHONHASHSEED": seed}
    return subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout.strip()


def test_g31_a_dropped_result_keeps_a_skeleton_with_its_tag() -> None:
    assert "§12§ dropped" in dropped(12)
    assert is_stub(dropped(12))


@given(st.binary(max_size=200))
def test_case_60_an_artifact_is_named_by_its_bytes_alone(data: bytes) -> None:
    digest = hashlib.sha256(data).hexdigest()
    assert artifact_name(data) == f"artifacts/{digest[:2]}/{digest[:32]}.txt"


@given(st.text(st.characters(categories=None), max_size=50))
def test_m10_every_string_survives_encoding(text: str) -> None:
    assert encode(text).decode("utf-8", "surrogatepass") == text


def test_m9_a_text_that_quotes_a_stub_is_no_stub_itself() -> None:
    quoting = "log\n" * 900 + stub(3, "x" * 900)
    assert is_stub(quoting)
    assert not is_only_stub(quoting)
    assert not is_only_stub(stub(3, "x") + "y" * 3_000)


@given(any_text)
def test_ordinary_text_is_no_stub(text: str) -> None:
    assert is_stub(text) == ("⟦stored" in text and re.search(r"⟦stored [^⟧\n]{1,300}⟧", text) is not None)
    assert not is_stub("⟦stored without an end")


def test_gh_374_a_write_whose_content_is_a_stub_is_recognised() -> None:
    long = "def f():\n    return 1\n" * 60
    for copied in (argument_stub(4, long), stub(4, long), dropped(4), "# header\n" + stub(4, long)):
        assert holds_stub({"path": "a.py", "content": copied})
        assert holds_stub({"edits": [{"new": copied}]})
    assert not holds_stub({"path": "a.py", "content": long, "n": 3, "flag": None})


def test_users_10_a_stub_in_place_of_an_argument_cannot_be_taken_for_a_value() -> None:
    args = stub_arguments(9, {"path": "a.py", "content": "x = 1\n" * 400, "lines": ["y = 2\n" * 400], "n": 3})
    assert args["path"] == "a.py"
    assert args["n"] == 3
    assert args["content"].startswith("⟦stored argument, 2,400 chars")
    assert args["lines"] == [argument_stub(9, "y = 2\n" * 400)]
    assert holds_stub(args)


@given(tags, values)
def test_g35_stubbed_arguments_keep_their_shape_and_do_not_change_again(tag: int, value: object) -> None:
    once = stub_arguments(tag, {"v": value})
    assert stub_arguments(tag, once) == once == stub_arguments(tag, {"v": value})
    assert list(once) == ["v"]
    assert type(once["v"]) is type(value)


@given(tags, any_text)
def test_m9_a_stub_names_its_artifact_and_no_other_text_does(tag: int, text: str) -> None:
    name = artifact_name(encode(text))
    assert stored_as(stub(tag, text)) == stored_as(stub(tag, text, preview_tokens=50)) == name
    assert stored_as(f"as in {stub(tag, text)}") == stored_as(dropped(tag)) == stored_as(text[:40]) == ""
