"""The context tools: what left the window comes back, page by page, byte for byte; and nobody else's."""

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langchain_core.messages import HumanMessage, ToolMessage

from headwater.nodes.context_tools import context_tools
from headwater.nodes.engine import Engine
from headwater.nodes.read_back import EXPAND_TOKENS
from headwater.window.policy import WindowPolicy
from headwater.window.tokens import count_text
from tests.nodes.bench import WINDOW, engine, text


def use(made: Engine, name: str, session: str = "s", **args: object) -> str:
    """Call a tool as the model would; an error comes back as text."""
    (tool,) = (t for t in context_tools(made) if t.name == name)
    call = {"name": name, "args": {**args}, "id": "x", "type": "tool_call"}
    if name in ("ctx_expand", "ctx_search", "ctx_reduce", "ctx_memory"):
        call["args"] = {**args, "state": {"frame": {"session": session}}}
    answer = tool.invoke(call)
    assert isinstance(answer, ToolMessage)
    return str(answer.content)


def pages(made: Engine, name: str) -> list[str]:
    """Every page of an artifact, following what each page says."""
    got: list[str] = []
    args: dict[str, Any] = {}
    for _ in range(500):
        shown = use(made, "file_read", path=name, **args)
        more = re.search(r"\n⟪[^⟫]*go on with (offset|char_offset)=(\d+)⟫$", shown)
        got.append(shown[: more.start()] if more else shown)
        if more is None:
            return got
        args = {more[1]: int(more[2])}
    raise AssertionError("paging does not end")


def test_m10_file_read_gives_the_bytes_back(tmp_path: Path) -> None:
    """M10: a text over many pages; the pages together are the text, each within the page's cap."""
    made = engine(tmp_path)
    long = text(1, 6_000)
    got = pages(made, made.memory.artifacts.put(long))
    assert len(got) > 2
    assert "\n".join(got) == long or "".join(got) == long
    assert all(count_text(page) <= 0.15 * WINDOW + 60 for page in got)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.text(alphabet=st.characters(codec="utf-8", exclude_characters="⟪⟫"), min_size=1, max_size=400),
    st.integers(1, 30),
)
def test_m10_characters_of_any_kind_come_back_by_offset(tmp_path: Path, piece: str, times: int) -> None:
    """M10: by character, whatever the text: Chinese, emoji, carriage returns, no line end at all."""
    made = engine(tmp_path, WindowPolicy(window=1_024))
    whole = piece * times
    name = made.memory.artifacts.put(whole)
    got, at = "", 0
    for _ in range(2_000):
        shown = use(made, "file_read", path=name, char_offset=at)
        more = re.search(r"\n⟪[^⟫]*go on with char_offset=(\d+)⟫$", shown)
        got += shown[: more.start()] if more else shown
        if more is None:
            break
        at = int(more[1])
    assert got == whole


def test_m10_ctx_expand_gives_the_messages_back(tmp_path: Path) -> None:
    made = engine(tmp_path)
    said = [text(i, 60) for i in range(5)]
    made.memory.archive.append("s", [HumanMessage(t) for t in said])
    shown = use(made, "ctx_expand", tags="2-3,5")
    assert [t in shown for t in said] == [False, True, True, False, True]
    assert re.findall(r"§(\d)§ human", shown) == ["2", "3", "5"]


def test_m10_a_range_over_the_cap_says_how_to_go_on_and_loses_none(tmp_path: Path) -> None:
    """What does not fit is named in full: following the hints gives every message of the range."""
    made = engine(tmp_path)
    made.memory.archive.append(
        "s", [HumanMessage(f"message number {i}. " + text(i, 200)) for i in range(1, 13)]
    )
    seen: list[str] = []
    tags: str | None = "1-4,7,9-12"
    while tags:
        shown = use(made, "ctx_expand", tags=tags)
        seen += re.findall(r"message number (\d+)\.", shown)
        more = re.search(r'go on with ctx_expand\(tags="([\d,]+)"\)', shown)
        tags = more[1] if more else None
    assert seen == ["1", "2", "3", "4", "7", "9", "10", "11", "12"]


def test_m10_a_message_over_the_cap_goes_on_in_file_read(tmp_path: Path) -> None:
    made = engine(tmp_path)
    long = "".join(f"{i:06d}" for i in range(9_000))
    made.memory.archive.append("s", [HumanMessage(long)])
    shown = use(made, "ctx_expand", tags="1")
    assert count_text(shown) < 0.2 * WINDOW
    more = re.search(r'file_read\(path="([^"]+)", char_offset=(\d+)\)', shown)
    assert more
    assert made.memory.artifacts.read_text(more[1])[int(more[2]) :] == long[int(more[2]) :]
    assert use(made, "file_read", path=more[1], char_offset=int(more[2])).startswith(
        long[int(more[2]) :][:500]
    )


def test_g24_pages_are_capped_at_15k_tokens_even_in_a_huge_window(tmp_path: Path) -> None:
    made = engine(tmp_path, WindowPolicy(window=1_000_000))
    made.memory.archive.append("s", [HumanMessage(text(i, 2_000)) for i in range(12)])
    shown = use(made, "ctx_expand", tags="1-12")
    assert count_text(shown) <= EXPAND_TOKENS + 100


@pytest.mark.parametrize(
    ("tags", "said"),
    [("9", "§1§ to §2§"), ("x", "'3-5,8'"), ("2-1", "backwards"), ("", "no tag"), ("1-99999", "1,000")],
)
def test_bad_tags_are_explained(tmp_path: Path, tags: str, said: str) -> None:
    made = engine(tmp_path)
    made.memory.archive.append("s", [HumanMessage("a"), HumanMessage("b")])
    assert said in use(made, "ctx_expand", tags=tags)


@pytest.mark.parametrize(
    "path", ["../x", "/etc/passwd", "artifacts/ab/../../x", "", "artifacts/zz/zz.txt", "a\n"]
)
def test_case_64_a_path_outside_is_refused_in_words(tmp_path: Path, path: str) -> None:
    assert "artifact" in use(engine(tmp_path), "file_read", path=path)


def test_a_session_that_is_not_ones_own_stays_closed(tmp_path: Path) -> None:
    made = engine(tmp_path)
    made.memory.archive.append("s", [HumanMessage("mine")])
    made.memory.archive.append("s/3.1", [HumanMessage("my child's")])
    made.memory.archive.append("s2", [HumanMessage("a secret")])
    assert "my child's" in _expand_of(made, "s/3.1")
    for other in ("s2", "S", "s/../s2", "other"):
        assert "a secret" not in _expand_of(made, other)


def _expand_of(made: Engine, other: str) -> str:
    (tool,) = (t for t in context_tools(made) if t.name == "ctx_expand")
    args = {"tags": "1", "session": other, "state": {"frame": {"session": "s"}}}
    answer = tool.invoke({"name": "ctx_expand", "args": args, "id": "x", "type": "tool_call"})
    return str(answer.content)


def test_g28_search_finds_in_facts_and_in_the_history(tmp_path: Path) -> None:
    made = engine(tmp_path)
    made.memory.archive.append("s", [HumanMessage("The turbine is in hall 7."), HumanMessage("Nothing.")])
    use(made, "ctx_memory", action="write", content="The turbine needs oil weekly.", category="CONSTRAINTS")
    found = use(made, "ctx_search", query="turbine")
    assert "fact [CONSTRAINTS] The turbine needs oil weekly." in found
    assert "§1§" in found
    assert "hall 7" in found
    assert "try other words" in use(made, "ctx_search", query="zebra")


def test_c12_memory_write_survives_the_process_and_wrong_input_is_explained(tmp_path: Path) -> None:
    """C12: written by the agent, read by another engine on the same folder."""
    made = engine(tmp_path)
    assert "Remembered (CONFIG_VALUES)" in use(
        made, "ctx_memory", action="write", content="The port is 9001.", category="CONFIG_VALUES"
    )
    assert "NONSENSE" in use(made, "ctx_memory", action="write", content="x", category="NONSENSE")
    made.memory.close()
    assert "[CONFIG_VALUES] The port is 9001." in use(engine(tmp_path), "ctx_memory", action="list")


def test_the_model_is_not_shown_what_the_graph_puts_in(tmp_path: Path) -> None:
    for tool in context_tools(engine(tmp_path)):
        shown = tool.tool_call_schema.model_json_schema()["properties"]  # type: ignore[union-attr]
        assert not {"state", "config"} & shown.keys()
