"""What a summariser may get wrong, through the whole graph: rejected, bounded, and history kept."""

import json
from collections.abc import Callable

import pytest
from langgraph.checkpoint.memory import InMemorySaver

from headwater import Memory, WindowPolicy, build_agent
from headwater.lab.provider import ModelSpec, Refuse, Reply, Request, StrictProvider
from tests.graph.world import (
    IN_LINE,
    WINDOW,
    Event,
    Recorder,
    body,
    clean_run,
    config,
    inspector,
    of,
    results,
    says,
    shown,
    turns_of,
    watch,
)

GOOD = json.dumps({"title": "t", "p1": "The units were checked and all of them are well."})


def run(
    memory: Memory,
    cheap: Callable[[Request], Reply],
    *,
    window: int = 64_000,
    rounds: int = 12,
    policy: WindowPolicy = IN_LINE,
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
    # The task note has them as well, so the told history is looked at by itself.
    told = final.partition("## What happened so far")[2].partition("### Work state")[0]
    assert "Never open valve V-0." in told
    assert "Never open valve V-1." in told
    assert "Done with this one." not in told


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


def test_case_22_the_summariser_is_asked_with_the_history(memory: Memory) -> None:
    """Case 22: what is to be summarised reaches the summariser; it is not replaced by a placeholder."""

    def cheap(request: Request) -> Reply:
        assert "line 0-1: checked part 1" in shown(request) or "Check" in shown(request)
        return Reply(json.dumps({"title": "t", "p1": "Units were checked and all is well."}))

    inner = turns_of(100)
    asked = Recorder(lambda r: cheap(r) if r.purpose == "summarizer" else inner(r))
    models = {"cheap": ModelSpec(64_000)}
    with StrictProvider(asked, window=WINDOW, models=models) as provider:
        agent = build_agent(
            provider.openai(),
            tools=[inspector(400)],
            policy=IN_LINE,
            memory=memory,
            checkpointer=InMemorySaver(),
            summarizer=provider.openai("cheap", purpose="summarizer"),
        )
        told: list[Event] = []
        for number in range(20):
            told += of(watch(agent, says(f"Check {number}."), config()), "summarize")
        clean_run(provider)
    writers = [shown(r) for r in asked.requests if r.purpose == "summarizer"]
    assert writers
    assert all("<transcript>" in text and "[1] U: Check 0." in writers[0] for text in writers)
    assert [e["calls"] for e in told] == [1] * len(told)


def test_the_summary_budget_is_a_cap_and_the_digest_serves_when_it_is_spent(memory: Memory) -> None:
    """M14: governance has tokens of its own; spent, the deterministic digest tells the rest."""
    inner = turns_of(100)
    reply = Reply(json.dumps({"title": "t", "p1": "Units were checked and all is well."}))
    models = {"cheap": ModelSpec(64_000)}
    with StrictProvider(
        lambda r: reply if r.purpose == "summarizer" else inner(r), window=WINDOW, models=models
    ) as provider:
        agent = build_agent(
            provider.openai(),
            tools=[inspector(400)],
            policy=WindowPolicy(window=WINDOW, offload=0.3, compact=0.42, governance=4_000, background=False),
            memory=memory,
            checkpointer=InMemorySaver(),
            summarizer=provider.openai("cheap", purpose="summarizer"),
        )
        told: list[Event] = []
        for number in range(40):
            told += of(watch(agent, says(f"Check {number}."), config()), "summarize")
        clean_run(provider)
    assert sum(e["spent"] for e in told) <= 4_000
    assert told[0]["sources"] == ["model"]
    assert told[-1]["sources"] == ["digest"]
