"""Each disease is found in a session made to have it, and not in its healthy twin."""

import re
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage

from headwater.lab.diagnosis import DISEASES, diagnose
from headwater.lab.diagnosis_zh import in_chinese
from headwater.lab.diseases import Finding, squeeze_out
from headwater.lab.replay import replay
from headwater.lab.sent_requests import Part
from headwater.lab.sessions import Session, load_session
from headwater.lab.story import Input, Story
from headwater.lab.usage import usage_of
from headwater.window import WindowPolicy

SHARED = Path(__file__).parents[2].parent / "shared" / "data" / "sessions"
RULE = "Never touch the file infra/prod.yaml."
_FIGURE = re.compile(r"\d[\d,.]*%?")
REGEL = "绝对不要修改 infra/prod.yaml 这个文件。"


def filler(tokens: int, salt: str = "x") -> str:
    return " ".join(f"{salt}{i % 97}" for i in range(tokens // 3))


def made(*rows: Any, usage: dict[int, dict[str, int]] | None = None, pace: float = 10.0) -> Session:
    """A session of messages; a row (message, meta) has its meta."""
    messages = [row[0] if isinstance(row, tuple) else row for row in rows]
    metas = [row[1] if isinstance(row, tuple) else {} for row in rows]
    used: list[dict[str, Any] | None] = [(usage or {}).get(i) for i in range(len(rows))]
    return Session("made", messages, [i * pace for i in range(len(rows))], used, [], metas)


def call(number: int, text: str, path: str = "a.py") -> list[Any]:
    made_call = {"name": "read", "args": {"path": path}, "id": f"c{number}", "type": "tool_call"}
    return [AIMessage("", tool_calls=[made_call]), ToolMessage(text, tool_call_id=f"c{number}", name="read")]


def says_the_same(finding: Finding) -> bool:
    """Whether the Chinese words of a finding hold its English figures, and no others."""
    said = in_chinese(finding)
    here, there = (
        {f.rstrip(",.") for f in _FIGURE.findall(text)} for text in (finding.evidence, said.evidence)
    )
    return here == there and all(re.search("[\u4e00-\u9fff]", text) for text in said)


def of(findings: list[Finding], disease: str) -> list[Finding]:
    assert [f for f in findings if not says_the_same(f)] == []
    return [f for f in findings if f.disease == disease]


def summarised(summary: str, rule: str) -> Session:
    told = (HumanMessage(summary), {"compact_summary": True})
    return made(
        HumanMessage(f"Tidy up. {rule}"),
        *call(1, "one"),
        *call(2, "two"),
        told,
        *call(3, "three"),
        AIMessage("ok"),
    )


@pytest.mark.parametrize("rule", [RULE, REGEL])
def test_e20_amnesia_is_found_where_a_summary_dropped_a_rule_and_not_where_it_kept_it(rule: str) -> None:
    [found] = of(diagnose(summarised("We tidied up.", rule)), "amnesia")
    assert found.step == 3
    assert found.detail["pin"] is True
    assert found.detail["left"] == 2
    assert "infra/prod.yaml" in found.evidence
    assert "pin it" in found.remedy
    assert of(diagnose(summarised(f"We tidied up. {rule}", rule)), "amnesia") == []


def test_e20_a_name_is_missed_only_where_it_is_used_again() -> None:
    told = (HumanMessage("We set things up."), {"compact_summary": True})
    start = [HumanMessage("The service listens on db-east-7.internal:5433."), *call(1, "one"), told]
    used = made(*start, AIMessage("I connect to db-east-7.internal:5433 now."))
    [found] = of(diagnose(used), "amnesia")
    assert (found.step, found.detail["pin"]) == (2, False)
    assert "once important" in found.remedy
    assert of(diagnose(made(*start, AIMessage("Done."))), "amnesia") == []


def placed(*, middle: bool) -> Session:
    rule, document = HumanMessage(RULE), HumanMessage(filler(30_000, "doc"))
    head = [document, rule] if middle else [rule, document]
    return made(
        SystemMessage("Be brief."),
        *head,
        *call(1, filler(30_000, "r")),
        *call(2, "b"),
        *call(3, "c"),
        AIMessage("ok"),
    )


def test_e21_myopia_is_found_in_the_middle_third_and_not_at_an_end() -> None:
    [found] = of(diagnose(placed(middle=True)), "myopia")
    assert found.step == 2
    before, behind = found.detail["before"], found.detail["behind"]
    assert isinstance(before, int)
    assert isinstance(behind, int)
    assert min(before, behind) > (before + behind) / 3
    # Never "a bigger window" (E21).
    assert "bigger window makes it worse" in found.remedy
    assert of(diagnose(placed(middle=False)), "myopia") == []


def test_e22_squeeze_out_is_found_where_the_input_takes_the_answers_room() -> None:
    session = made(
        HumanMessage("Go."), *call(1, filler(24_000)), (AIMessage("cut"), {"stop_reason": "max_tokens"})
    )
    [found] = of(diagnose(session, window=20_000), "squeeze-out")
    assert found.step == 2
    assert found.detail["cut"] == 1
    assert of(diagnose(session, window=64_000), "squeeze-out") == []


def test_e22_lost_tool_definitions_are_a_squeeze_out() -> None:
    parts = (Part("tools", "a tool", 500), Part("tail", "hello", 5))
    full = Input(1, 0, (0, 1), AIMessage("a"), window=10_000)
    bare = Input(2, 1, (1,), AIMessage("b"), window=10_000)
    [found] = squeeze_out(Story("s", parts, (full, bare), (), (), reserve=100))
    assert (found.step, found.detail["before"]) == (2, 500)
    assert list(squeeze_out(Story("s", parts, (full, full), (), (), reserve=100))) == []


def cached(*reads: int, pace: float = 10.0) -> Session:
    rows: list[Any] = [HumanMessage("Go.")]
    usage = {}
    for number, read in enumerate(reads):
        usage[len(rows)] = {
            "input_tokens": 0,
            "cache_read_input_tokens": read,
            "cache_creation_input_tokens": 20_000 + 1_000 * number - read,
        }
        rows += call(number, f"result {number}", f"{number}.py")
    return made(*rows, usage=usage, pace=pace)


def test_cache_faults_have_their_price_and_a_warm_prefix_has_none() -> None:
    [found] = of(diagnose(cached(0, 20_000, 5_000, 22_000)), "cache fault")
    assert found.step == 3
    assert found.detail["why"] == "edit"
    # 16,000 tokens at 1.25 instead of 0.1.
    assert found.price == pytest.approx(16_000 * 1.15)
    assert of(diagnose(cached(0, 20_000, 21_000, 22_000)), "cache fault") == []


def test_a_cold_gap_is_told_apart_from_an_edit() -> None:
    found = of(diagnose(cached(0, 0, pace=400.0)), "cache fault")
    assert [f.detail["why"] for f in found] == ["cold gap"]


def test_repeat_work_is_a_call_made_again_after_its_result_left() -> None:
    text = filler(600, "line")
    told = (HumanMessage("We read a.py."), {"compact_summary": True})
    start = HumanMessage("Go.")
    [found] = of(diagnose(made(start, *call(1, text), told, *call(2, text), AIMessage("ok"))), "repeat work")
    assert found.step == 2
    assert "a.py" in found.evidence
    assert of(diagnose(made(start, *call(1, text), *call(2, text), AIMessage("ok"))), "repeat work") == []
    other = made(start, *call(1, text), told, *call(2, filler(600, "changed")), AIMessage("ok"))
    assert of(diagnose(other), "repeat work") == []


def test_garbage_is_carried_and_never_used() -> None:
    rows = [HumanMessage("Go."), *call(1, filler(9_000, "needle_one_"))]
    rest = [row for n in range(2, 8) for row in call(n, f"small {n}", f"{n}.py")]
    [found] = of(diagnose(made(*rows, *rest, AIMessage("Done."))), "garbage")
    assert found.detail["results"] == 1
    assert found.price > 0
    assert of(diagnose(made(*rows, *rest, AIMessage("It says needle_one_42."))), "garbage") == []


def test_e23_a_replay_is_diagnosed_by_what_was_really_sent() -> None:
    rows: list[Any] = [HumanMessage(f"Tidy up. {RULE}")]
    for n in range(40):
        rows += call(n, filler(700, f"w{n}_"), f"{n}.py")
    session = made(*rows, AIMessage("ok"))
    report = replay(session, WindowPolicy(window=8_000))
    assert report.events["headwater.offload"] > 0
    # The rule is pinned, so it is in every request; the reserve is kept.
    assert of(diagnose(report), "amnesia") == []
    assert of(diagnose(report), "squeeze-out") == []


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (
            {"input_tokens": 5, "cache_read_input_tokens": 90, "cache_creation_input_tokens": 10},
            (105, 90, 10),
        ),
        ({"input_tokens": 100, "cached_input_tokens": 80, "output_tokens": 3}, (100, 80, 20)),
        ({"input": 7, "output": 1, "cacheRead": 50, "cacheWrite": 3}, (60, 50, 3)),
        ({"input": 7, "output": 1, "cache": {"read": 50, "write": 3}}, (60, 50, 3)),
        ({"prompt_tokens": 70, "cache_read_input_tokens": 64}, (70, 64, 6)),
        ({"prompt_tokens": 70, "prompt_tokens_details": {"cached_tokens": 64}}, (70, 64, 6)),
        ({"input_tokens": 9, "input_token_details": {"cache_read": 4, "cache_creation": 2}}, (9, 4, 2)),
    ],
)
def test_usage_of_every_provider_is_read_in_one_form(
    raw: dict[str, Any], expected: tuple[int, int, int]
) -> None:
    assert usage_of(raw) == expected


@pytest.mark.skipif(not SHARED.exists(), reason="needs ../shared")
def test_every_recorded_session_can_be_diagnosed() -> None:
    paths = sorted(SHARED.glob("*/*.jsonl"))[::7]
    every = [found for path in paths for found in diagnose(load_session(path))]
    assert [f for f in every if not says_the_same(f)] == []
    # Long sessions that nobody governs: most that is looked for is there.
    assert len({found.disease for found in every}) >= len(DISEASES) // 2
    for found in every:
        assert found.disease in DISEASES
        assert found.step >= 1
        assert found.evidence
        assert found.remedy
