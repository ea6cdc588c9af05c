"""What a summariser may get wrong, through the whole graph: rejected, bounded, and history kept."""

import json
from collections.abc import Callable

import pytest
from langgraph.checkpoint.memory import InMemorySaver

from headwater import Memory, WindowPolicy, build_agent
from headwater.lab.provider import ModelSpec, Refuse, Reply, Request, StrictProvider
from tests.graph.world import (
    WINDOW,
    Event,
    Recorder,
    body,
    config,
    inspector,
    of,
    results,
    says,
    shown,
    turns_of,
    watch,
)

TIGHT = WindowPolicy(window=WINDOW, offload=0.3, compact=0.42, background=False)
GOOD = json.dumps({"title": "t", "p1": "The units were checked and all of them are well."})


def run(
    memory: Memory,
    cheap: Callable[[Request], Reply],
    *,
    window: int = 64_000,
    rounds: int = 12,
    policy: WindowPolicy = TIGHT,
) -> tuple[list[Event], list[Request]]:
    """Rounds under a tight window with this summariser: what was told, and what the summariser was asked."""
    inner = turns_of(400)
    asked = Recorder(lambda r: cheap(r) if r.purpose == "summarizer" else inner(r))
    with StrictProvider(asked, window=WINDOW, models={"cheap": ModelSpec(window)}) as provider:
        agent = build_agent(
            provider.openai(),
            tools=[inspector(400)],
            policy=policy,
            memory=memory,
            checkpointer=InMemorySaver(),
            summarizer=provider.openai("cheap", purpose="summarizer"),
        )
        told: list[Event] = []
        for number in range(rounds):
            told += of(
                watch(agent, says(f"Check {number}. Never open valve V-{number}."), config()), "summarize"
            )
        assert provider.violations == []
        assert all(not x.over_window for x in provider.requests if x.purpose != "summarizer")
    assert told
    log = [m.content for m in results([m for _, m in memory.archive.read("t", 1, 999)])]
    assert log == [body(i, 400) for i in range(rounds)], "history is kept whatever the summariser says"
    return told, asked.requests


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("", "empty"),
        ("null", "empty"),
        ("等等", "vague|language|JSON"),
        (json.dumps({"p1": "We checked the units, the pumps, etc."}), "vague"),
        (json.dumps({"p1": "检查了各单元、水泵之类"}), "vague|language"),
        (json.dumps({"p1": "所有单元都已检查完毕，情况正常，没有发现问题。"}), "language"),
        ("I checked everything and it is fine.", "JSON"),
    ],
)
def test_case_23_e12_a_useless_summary_is_rejected_and_tries_are_bounded(
    memory: Memory, answer: str, reason: str
) -> None:
    """Case 23, E12: asked again once with the reason; then the digest tells it, and nothing loops."""
    told, asked = run(memory, lambda request: Reply(answer))
    writers = [r for r in asked if r.purpose == "summarizer"]
    assert len(writers) == sum(e["calls"] for e in told) <= 2 * len(told)
    assert all(e["sources"] == ["digest"] for e in told)
    first = told[0]["rejected"][0]
    assert any(word in first for word in reason.split("|")), first
    assert "Rejected:" in shown(writers[1])


def test_case_25_a_span_longer_than_the_summarisers_window_is_split(memory: Memory) -> None:
    """Case 25, M12: each call that is answered fits; at most 6 calls a compaction, failed ones too."""
    late = WindowPolicy(window=WINDOW, min_result=10_000, background=False)
    told, asked = run(memory, lambda request: Reply(GOOD), window=1_900, policy=late)
    assert any(e["rejected"] for e in told), "the first call was refused as too long"
    assert all(e["calls"] <= 6 for e in told)
    assert any(e["compartments"] > 1 for e in told)
    assert sum(r.purpose == "summarizer" for r in asked) >= 2


def test_case_27_a_summary_that_is_not_smaller_is_discarded(memory: Memory) -> None:
    """Case 27: the text grows instead of shrinking; it never enters the window."""
    long = " ".join(f"Sentence {i} tells that unit {i} was looked at in great detail." for i in range(900))
    told, asked = run(memory, lambda request: Reply(json.dumps({"title": "t", "p1": long})))
    assert "not smaller" in told[0]["rejected"][0]
    assert all("Sentence 700 tells" not in shown(r) for r in asked if r.purpose != "summarizer")


def test_case_28_a_summary_cut_at_the_output_cap_is_a_failure(memory: Memory) -> None:
    """Case 28: finish_reason=length, though the JSON happens to be whole."""
    told, _ = run(memory, lambda request: Reply(GOOD, finish="length"))
    assert "truncated" in told[0]["rejected"][0]
    assert all(e["sources"] == ["digest"] for e in told)


def test_a_summariser_that_is_down_costs_no_turn(memory: Memory) -> None:
    def down(request: Request) -> Reply:
        raise Refuse(503, {"error": {"message": "overloaded", "type": "server_error"}})

    told, _ = run(memory, down)
    assert all(e["sources"] == ["digest"] for e in told)
    assert all(e["calls"] == 1 for e in told), "a broken endpoint is not asked twice in one compaction"


def test_e11_the_digest_keeps_rules_and_results_and_drops_process(memory: Memory) -> None:
    """E11: without a model what the user laid down is in the told history, "Done with this one." is not."""
    _, asked = run(memory, lambda request: Reply(""), rounds=14)
    final = shown(asked[-1])
    assert "Never open valve V-0." in final
    assert "Never open valve V-1." in final


def test_m15_partials_are_capped_and_stay_far_from_the_window(memory: Memory) -> None:
    """M15: every call carries an output cap of at most 2,048 tokens, so six partials are a sixth of 64k."""
    _, asked = run(memory, lambda request: Reply(GOOD))
    caps = [
        r.raw.get("max_completion_tokens") or r.raw.get("max_tokens")
        for r in asked
        if r.purpose == "summarizer"
    ]
    assert caps
    assert all(cap and 512 <= cap <= 2_048 for cap in caps)
