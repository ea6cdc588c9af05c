"""The lines hold: order of remedies, halt, overflow, and what stays in sight whatever leaves."""

import json
import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver

from headwater import Memory, WindowPolicy, build_agent
from headwater.lab.provider import ModelSpec, Refuse, Reply, Request, StrictProvider, ToolCall, overflow_at
from headwater.nodes.agent import OverflowUnresolved
from headwater.window import count_text
from tests.graph.world import (
    UNCACHED,
    WINDOW,
    Event,
    Recorder,
    body,
    calls_then,
    clean_run,
    client,
    config,
    inspector,
    kinds,
    last_text,
    of,
    results,
    says,
    shown,
    turns_of,
    watch,
)

TIGHT = WindowPolicy(window=WINDOW, offload=0.3, compact=0.42, background=False)
wires = pytest.mark.parametrize("wire", ["openai", "anthropic"])


def steps(events: list[Event]) -> Iterator[list[Event]]:
    """Events cut at each request."""
    step: list[Event] = []
    for event in events:
        step.append(event)
        if event["type"] == "headwater.request":
            yield step
            step = []
    yield step


def talk(request: Request) -> Reply:
    """A long answer to anything, nothing in it to offload."""
    number = sum(row["role"] == "user" for row in request.messages)
    return Reply(" ".join(f"Part {i} of answer {number} says that the valve is fine." for i in range(25)))


@pytest.mark.parametrize("language", ["en", "zh"])
def test_m7_exhausted_stops_with_a_clear_message_and_no_request(memory: Memory, language: str) -> None:
    """M7: nothing is sent, the user is told how much, why, and what to do, in their language."""
    text = {
        "en": " ".join(f"Requirement {i} is that part {i} must fit." for i in range(800)),
        "zh": "".join(f"第{i}条要求：部件{i}必须合适。" for i in range(800)),
    }[language]
    with StrictProvider(calls_then(0), window=WINDOW) as provider:
        agent = build_agent(provider.openai(), memory=memory, policy=WindowPolicy(window=WINDOW))
        events = watch(agent, says(text), config())
        state = agent.invoke(says(text), config("u"))
        assert provider.totals().requests == 0
    (stopped,) = of(events, "halt")
    said = last_text(state)
    assert f"{WINDOW:,}" in said
    assert "WindowPolicy(window=...)" in said
    assert f"{stopped['estimate']:,}" in said
    assert ("没有发送任何请求" if language == "zh" else "No request was sent") in said
    assert memory.archive.get("t", 1).content == text, "nothing is lost"


def test_m7_a_halted_session_goes_on_in_a_larger_window(memory: Memory) -> None:
    text = " ".join(f"Requirement {i} is that part {i} must fit." for i in range(800))
    saver = InMemorySaver()
    with StrictProvider(calls_then(0, "Understood."), window=64_000) as provider:
        small = build_agent(
            provider.openai(), memory=memory, checkpointer=saver, policy=WindowPolicy(window=WINDOW)
        )
        assert "Stopped" in last_text(small.invoke(says(text), config()))
        large = build_agent(
            provider.openai(), memory=memory, checkpointer=saver, policy=WindowPolicy(window=64_000)
        )
        assert last_text(large.invoke(says("Go on."), config())) == "Understood."
        clean_run(provider)


@pytest.mark.parametrize("words", [400, 200])
def test_m8_c7_offload_comes_strictly_before_summarise(memory: Memory, words: int) -> None:
    """M8: in no step does a summary come before what could be offloaded, and it never comes where offloading
    alone got under the line.
    """
    with StrictProvider(turns_of(40), window=WINDOW) as provider:
        agent = build_agent(
            provider.openai(),
            tools=[inspector(words)],
            policy=TIGHT,
            memory=memory,
            checkpointer=InMemorySaver(),
        )
        events = []
        for number in range(24):
            events += watch(agent, says(f"Order {number}."), config())
        clean_run(provider)
    told = 0
    for step in steps(events):
        names = kinds(step)
        if "summarize" not in names:
            continue
        told += 1
        at = names.index("summarize")
        judged = step[at - 1]
        assert judged["type"] == "headwater.watermark"
        assert judged["estimate"] >= judged["lines"]["compact"], "offloading alone was enough"
        if "offload" in names:
            assert names.index("offload") < at
    assert told >= 2


def test_m8_no_summary_where_offloading_is_enough(memory: Memory) -> None:
    """M8: 20 results of 1,100 tokens through an 8k window: offloaded one after another, not one summary."""
    with StrictProvider(calls_then(12), window=WINDOW) as provider:
        agent = build_agent(
            provider.openai(), tools=[inspector(700)], policy=WindowPolicy(window=WINDOW), memory=memory
        )
        events = watch(agent, says("Inspect."), config())
        clean_run(provider)
    assert len(of(events, "offload")) >= 3
    assert of(events, "summarize") == []


def test_m5_large_results_go_to_disk_at_the_offload_line(memory: Memory) -> None:
    """M5: below the line nothing moves; from the line on results are on disk, the estimate below it."""
    with StrictProvider(calls_then(8), window=WINDOW) as provider:
        agent = build_agent(
            provider.openai(), tools=[inspector(700)], policy=WindowPolicy(window=WINDOW), memory=memory
        )
        events = watch(agent, says("Inspect."), config())
    for before, event in pairwise(events):
        if event["type"] == "headwater.offload":
            assert before["estimate"] >= before["lines"]["offload"]
            assert event["tags"]
    assert len(list((memory.root / "artifacts").rglob("*.txt"))) >= len(of(events, "offload"))


def test_m6_old_history_is_summarised_at_the_compact_line(memory: Memory) -> None:
    """M6: talk without results can only be summarised; the newest messages stay as they are."""
    asked = Recorder(talk)
    with StrictProvider(asked, window=WINDOW) as provider:
        agent = build_agent(
            provider.openai(), memory=memory, policy=WindowPolicy(window=WINDOW), checkpointer=InMemorySaver()
        )
        events = []
        for number in range(16):
            events += watch(agent, says(f"Question {number}?"), config())
        clean_run(provider)
    told = of(events, "summarize")
    assert told
    assert "§31§ Question 15?" in shown(asked.requests[-1])
    before = [e for e in events if e["type"] == "headwater.watermark" and e["route"] == "summarize"]
    assert all(e["level"] in ("COMPACT", "EXHAUSTED") for e in before)


def test_never_summarise_leaves_it_to_reclaim(memory: Memory) -> None:
    with StrictProvider(turns_of(40), window=WINDOW) as provider:
        policy = WindowPolicy(window=WINDOW, offload=0.3, compact=0.42, summarise="never")
        agent = build_agent(
            provider.openai(),
            tools=[inspector(400)],
            policy=policy,
            memory=memory,
            checkpointer=InMemorySaver(),
        )
        events = []
        for number in range(20):
            events += watch(agent, says(f"Order {number}."), config())
        clean_run(provider)
    assert of(events, "summarize") == []


def test_m3_m4_every_estimate_sent_leaves_the_reserve(memory: Memory) -> None:
    """M3, M4, E3: no request that was sent came within the output reserve of the window."""
    with StrictProvider(turns_of(30), window=WINDOW) as provider:
        agent = build_agent(
            provider.openai(max_tokens=1_500),
            tools=[inspector(400)],
            policy=WindowPolicy(window=WINDOW),
            memory=memory,
            checkpointer=InMemorySaver(),
        )
        for number in range(15):
            agent.invoke(says(f"Order {number}."), config())
        clean_run(provider)
        assert max(x.input_tokens for x in provider.requests) <= WINDOW - 1_500


def test_the_requests_output_cap_is_reserved_in_full(memory: Memory) -> None:
    """E3: a client that always asks for 4,096 tokens (Anthropic's default) keeps them free."""
    with StrictProvider(talk, window=WINDOW) as provider:
        agent = build_agent(
            provider.anthropic(max_tokens=4_096),
            memory=memory,
            policy=WindowPolicy(window=WINDOW),
            checkpointer=InMemorySaver(),
        )
        for number in range(12):
            agent.invoke(says(f"Question {number}?"), config())
        clean_run(provider)


def test_case_13_the_window_is_checked_before_every_call_of_a_tool_loop(memory: Memory) -> None:
    """Case 13: one user turn, 30 calls of 1.5k tokens, window 49,152, threshold 0.35."""
    with StrictProvider(calls_then(30), window=49_152) as provider:
        policy = WindowPolicy(window=49_152, offload=0.35, compact=0.5, exhausted=0.9)
        agent = build_agent(provider.openai(), tools=[inspector(1_000)], policy=policy, memory=memory)
        events = watch(agent, says("Inspect all."), config())
        clean_run(provider)
    names = kinds(events)
    assert names.count("request") == 31
    before = [names[:i].count("watermark") for i, name in enumerate(names) if name == "request"]
    assert all(b > a for a, b in zip([0, *before], before, strict=False)), "a watermark before each request"
    assert of(events, "offload")


def test_case_16_reported_usage_moves_the_estimate_before_the_next_call(memory: Memory) -> None:
    """Case 16: the provider counts 1.6 times what we count; the second request is sized by its count."""
    text = "x y z " * 300

    def script(request: Request) -> Reply:
        return Reply("ok") if len(request.messages) > 6 else Reply("", (ToolCall("inspect", {"number": 1}),))

    with StrictProvider(script, window=WINDOW) as provider:
        agent = build_agent(
            provider.openai(), tools=[inspector(200)], policy=WindowPolicy(window=WINDOW), memory=memory
        )
        events = watch(agent, says(text), config())
    asked, estimates = of(events, "request"), of(events, "watermark")
    for request, estimate in zip(asked[1:], estimates[1:], strict=False):
        assert estimate["estimate"] >= 0.95 * request["usage"]["input_tokens"]


@wires
def test_case_20_no_usage_in_the_stream_still_triggers(memory: Memory, wire: str) -> None:
    """Case 20: chunks without usage; the own count is used and the lines act."""
    with StrictProvider(calls_then(8), window=WINDOW) as provider:
        agent = build_agent(
            client(provider, wire, stream_usage=False, streaming=True, max_tokens=1_000),
            tools=[inspector(700)],
            policy=WindowPolicy(window=WINDOW),
            memory=memory,
        )
        events = watch(agent, says("Inspect."), config())
        clean_run(provider)
    assert of(events, "offload")


@wires
def test_m17_only_a_providers_error_proves_an_overflow(memory: Memory, wire: str) -> None:
    """M17, M20: the window is assumed four times too large; the refusal is survived in the same turn."""
    with StrictProvider(lambda r: script(r), window=6_000) as provider:
        script = calls_then(10, each=5)
        agent = build_agent(
            client(provider, wire, max_tokens=500),
            tools=[inspector(700)],
            policy=WindowPolicy(window=24_000, keep_tokens=1_000),
            memory=memory,
        )
        events = watch(agent, says("Inspect."), config())
        script = calls_then(10, each=5)
        state = agent.invoke(says("Inspect."), config("u"))
        assert provider.violations == []
        assert provider.totals().over_window >= 1
    assert of(events, "overflow")
    assert last_text(state) == "All done."


def test_m20_the_guard_offloads_the_one_oversized_part_and_the_turn_goes_on(memory: Memory) -> None:
    """M20: of three results only the largest leaves; the others and the talk stay; no user is asked."""

    @tool
    def get(size: int) -> str:
        """Get so many words."""
        return body(size, size)

    plan = iter(
        [Reply("", tuple(ToolCall("get", {"size": n}) for n in (60, 2_000, 80))), Reply("I have them.")]
    )
    asked = Recorder(overflow_at(lambda request: next(plan), {1}, limit=3_000))
    with StrictProvider(asked, window=32_000) as provider:
        agent = build_agent(provider.openai(), tools=[get], policy=WindowPolicy(window=32_000), memory=memory)
        events = watch(agent, says("Get three."), config())
        assert [x.status for x in provider.requests] == [200, 400, 200]
    rows = [row["text"] for row in asked.requests[-1].messages if row["role"] == "tool"]
    assert [("⟦stored artifacts" in row) for row in rows] == [False, True, False]
    name = re.search(r"artifacts/\S+", rows[1])
    assert name
    assert memory.artifacts.read_text(name[0]) == body(2_000, 2_000)
    assert kinds(events).count("overflow") == 1


@wires
def test_m19_the_same_bytes_are_never_sent_twice_after_an_overflow(memory: Memory, wire: str) -> None:
    """M19, case 58: always refused; each try is smaller, at most 4 tries, and the error says what to do."""

    def script(request: Request) -> Reply:
        if any(row["role"] == "tool" for row in request.messages):
            raise_overflow()
        return Reply("", tuple(ToolCall("inspect", {"number": i}) for i in range(8)))

    def raise_overflow() -> None:
        raise Refuse(400, {"type": "error", "error": {"type": "invalid_request_error", "message": MESSAGE}})

    MESSAGE = "prompt is too long: 210000 tokens > 200000 maximum"
    with StrictProvider(script, window=200_000, keep_raw=True) as provider:
        agent = build_agent(
            client(provider, wire, max_tokens=500),
            tools=[inspector(600)],
            policy=WindowPolicy(window=200_000),
            memory=memory,
        )
        with pytest.raises(OverflowUnresolved, match="nothing is lost"):
            agent.invoke(says("Inspect."), config())
        refused = [x for x in provider.requests if x.status == 400]
    raws = [x.raw for x in refused]
    assert len(set(raws)) == len(raws)
    assert 2 <= len(raws) <= 4
    assert [len(raw or b"") for raw in raws] == sorted((len(raw or b"") for raw in raws), reverse=True)


def test_m21_another_400_is_raised_and_edits_nothing(memory: Memory) -> None:
    """M21: a bare 400 about a parameter is the caller's to see; history is as it was."""

    def script(request: Request) -> Reply:
        raise Refuse(400, {"error": {"message": "Invalid value: 'temperature' must be 1", "type": "x"}})

    with StrictProvider(script, window=WINDOW) as provider:
        agent = build_agent(provider.openai(), memory=memory, checkpointer=InMemorySaver())
        with pytest.raises(Exception, match="temperature"):
            agent.invoke(says("Hi"), config())
        assert provider.totals().requests == 1
    assert not agent.get_state(config()).values.get("edits")


def test_case_58_the_guard_is_reset_by_success(memory: Memory) -> None:
    """Case 58: overflow, success, overflow: each is survived on its own."""
    script = overflow_at(calls_then(6), {2, 4, 6}, limit=20_000)
    with StrictProvider(script, window=64_000) as provider:
        agent = build_agent(
            provider.openai(), tools=[inspector(900)], policy=WindowPolicy(window=64_000), memory=memory
        )
        state = agent.invoke(says("Inspect."), config())
    assert last_text(state) == "All done."


def test_case_24_one_giant_result_becomes_a_stub_first(memory: Memory) -> None:
    """Case 24: a result of 1.9M characters in a window of 500k: stubbed on arrival, its pair intact."""
    giant = "".join(f"row {i}: value {i * 7}\n" for i in range(90_000))

    @tool
    def dump(number: int) -> str:
        """Dump the table."""
        return giant

    asked = Recorder(calls_then(1, name="dump"))
    with StrictProvider(asked, window=500_000) as provider:
        agent = build_agent(
            provider.openai(), tools=[dump], policy=WindowPolicy(window=500_000), memory=memory
        )
        events = watch(agent, says("Dump."), config())
        clean_run(provider)
        assert provider.requests[-1].input_tokens < 3_000
    assert of(events, "summarize") == []
    assert memory.artifacts.read_text(of(events, "arrival")[0]["artifact"]) == giant
    (log,) = results([m for _, m in memory.archive.read("t", 1, 9)])
    assert log.content == giant


def test_g32_at_exhausted_the_deep_cleanup_comes_at_once(memory: Memory) -> None:
    """G32: one arc jumps from NORMAL over 95%; room is made in the same step, and the request goes out."""

    @tool
    def get(size: int) -> str:
        """Get so many words."""
        return body(size, size)

    plan = [Reply("", tuple(ToolCall("get", {"size": 700 + i}) for i in range(5))), Reply("Seen.")]
    with StrictProvider(plan, window=WINDOW) as provider:
        agent = build_agent(provider.openai(), tools=[get], policy=WindowPolicy(window=WINDOW), memory=memory)
        events = watch(agent, says("Get five."), config())
        clean_run(provider)
    levels = [e["level"] for e in of(events, "watermark")]
    assert levels[1] == "EXHAUSTED"
    assert of(events, "reclaim")
    assert of(events, "halt") == []
    log = [m.content for m in results([m for _, m in memory.archive.read("t", 1, 99)])]
    assert log == [body(700 + i, 700 + i) for i in range(5)]


def test_e14_e15_e16_c2_pins_are_verbatim_in_every_request(memory: Memory) -> None:
    """E14-E16, C2: goal, constraint, exclusion, decision and note, in each request across ten compactions."""
    pinned = [
        "Bring the plant back to full pressure by Friday.",
        "Never open valve V-113.",
        "We already tried replacing the filter, it did not help.",
        "We decided to use the backup line B2.",
    ]
    asked = Recorder(turns_of(400))
    with StrictProvider(asked, window=WINDOW) as provider:
        agent = build_agent(
            provider.openai(),
            tools=[inspector(400)],
            policy=TIGHT,
            memory=memory,
            checkpointer=InMemorySaver(),
        )
        told = len(of(watch(agent, says(pinned[0]), config()), "summarize"))
        for sentence in pinned[1:]:
            told += len(of(watch(agent, says(sentence), config()), "summarize"))
        since = len(asked.requests)
        number = 0
        while told < 10 and number < 150:
            number += 1
            told += len(of(watch(agent, says(f"Check {number}."), config()), "summarize"))
        clean_run(provider)
    assert told >= 10
    for request in asked.requests[since:]:
        text = shown(request)
        for sentence in pinned:
            assert sentence in text, (request.index, sentence)


def test_e15_a_note_taken_by_the_agent_is_pinned_too(memory: Memory) -> None:
    """E15: `ctx_note` writes when the item arises; it outlives compactions."""
    note = {"text": "Option C is excluded: it needs a new pump.", "kind": "exclusion"}
    inner = turns_of(400)
    taken: list[int] = []

    def script(request: Request) -> Reply:
        if not taken:
            taken.append(1)
            return Reply("", (ToolCall("ctx_note", note),))
        return inner(request)

    asked = Recorder(script)
    with StrictProvider(asked, window=WINDOW) as provider:
        agent = build_agent(
            provider.openai(),
            tools=[inspector(400)],
            policy=TIGHT,
            memory=memory,
            checkpointer=InMemorySaver(),
        )
        told = 0
        for number in range(40):
            told += len(of(watch(agent, says(f"Check {number}."), config()), "summarize"))
            if told >= 2:
                break
        clean_run(provider)
    assert told >= 2
    assert all(note["text"] in shown(r) for r in asked.requests[1:])


def test_e16_the_callers_own_pins_are_in_sight_at_once_and_for_good(memory: Memory) -> None:
    asked = Recorder(turns_of(400))
    with StrictProvider(asked, window=WINDOW) as provider:
        agent = build_agent(
            provider.openai(),
            tools=[inspector(400)],
            policy=TIGHT,
            memory=memory,
            checkpointer=InMemorySaver(),
        )
        agent.invoke({**says("Check 0."), "pins": ["Budget: 400 euros."]}, config())
        told = 0
        for number in range(40):
            told += len(of(watch(agent, says(f"Check {number}."), config()), "summarize"))
            if told >= 2:
                break
        clean_run(provider)
    assert told >= 2
    assert all("Budget: 400 euros." in shown(r) for r in asked.requests)


def test_e17_the_twelve_round_database_fault(memory: Memory) -> None:
    """E17: excluded options are in sight from round 9 on, and at round 12 so is the rejected restart.

    The model proposes the first remedy that its request does not show as excluded: what it cannot see, it
    repeats.
    """
    excluded = {3: "raising max_connections", 5: "vacuuming the table", 8: "adding an index"}
    asked = Recorder(lambda request: Reply(propose(request)))

    def propose(request: Request) -> str:
        seen = shown(request)
        options = ["restarting the database", *excluded.values(), "reading the lock table"]
        proposal = next(
            o for o in options if not re.search(rf"(?:Never|did not help)[^.]*{o}|{o}[^.]*did not help", seen)
        )
        filler = " ".join(f"Log {len(request.messages)}-{i} shows nothing unusual here." for i in range(60))
        return f"I looked around. {filler} I propose {proposal}."

    with StrictProvider(asked, window=WINDOW) as provider:
        agent = build_agent(provider.openai(), policy=TIGHT, memory=memory, checkpointer=InMemorySaver())
        answers, told = [], 0
        for number in range(1, 13):
            said = f"Round {number}: what next?"
            if number == 1:
                said = "Queries hang since noon; find the cause. Never propose restarting the database."
            elif number in excluded:
                said = f"We tried {excluded[number]}, it did not help."
            told += len(of(watch(agent, says(said), config()), "summarize"))
            answers.append(last_text(agent.get_state(config()).values))
        clean_run(provider)
    assert told >= 2
    assert all(a.endswith("I propose reading the lock table.") for a in answers[8:]), answers[8:]
    assert "restarting" not in answers[11].rsplit(".", 2)[-2]


def test_c21_after_any_number_of_compactions_the_rejected_plan_stays_rejected(memory: Memory) -> None:
    """C21, C22: "plan B" and the first constraint survive; an equally old listing of 200 entries does not."""
    listing = "\n".join(f"entry-{i:03d}.log" for i in range(200))

    @tool
    def ls(path: str) -> str:
        """List."""
        return listing

    inner = turns_of(400)
    once: list[int] = []

    def script(request: Request) -> Reply:
        if not once:
            once.append(1)
            return Reply("", (ToolCall("ls", {"path": "/"}),))
        return inner(request)

    asked = Recorder(script)
    with StrictProvider(asked, window=WINDOW) as provider:
        agent = build_agent(
            provider.openai(),
            tools=[ls, inspector(400)],
            policy=TIGHT,
            memory=memory,
            checkpointer=InMemorySaver(),
        )
        told = 0
        agent.invoke(says("Do not touch config.yaml. List the logs."), config())
        agent.invoke(says("We go with plan B, plan A was rejected."), config())
        for number in range(60):
            told += len(of(watch(agent, says(f"Check {number}."), config()), "summarize"))
            if told >= 4:
                break
        clean_run(provider)
    assert told >= 4
    final = shown(asked.requests[-1])
    assert "Do not touch config.yaml." in final
    assert "We go with plan B" in final
    assert "entry-150.log" not in final


def test_e13_observations_are_cleaned_before_they_enter(memory: Memory) -> None:
    """E13: 3-4K tokens of progress and repeats arrive as at most 500; the archive has the bytes."""
    noisy = (
        "".join(f"\r\x1b[32mDownloading {i}%\x1b[0m" for i in range(300))
        + "\n"
        + "retrying…\n" * 400
        + "done: 3 files\n"
    )
    assert count_text(noisy) > 3_000

    @tool
    def fetch(number: int) -> str:
        """Fetch."""
        return noisy

    asked = Recorder(calls_then(1, name="fetch"))
    with StrictProvider(asked, window=32_000) as provider:
        agent = build_agent(
            provider.openai(), tools=[fetch], policy=WindowPolicy(window=32_000), memory=memory
        )
        agent.invoke(says("Fetch."), config())
        clean_run(provider)
    (row,) = [r["text"] for r in asked.requests[-1].messages if r["role"] == "tool"]
    assert count_text(row) <= 500
    assert "done: 3 files" in row
    (log,) = results([m for _, m in memory.archive.read("t", 1, 9)])
    assert log.content == noisy


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
            policy=TIGHT,
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


def test_a_mid_session_system_message_is_sent_as_a_users(memory: Memory) -> None:
    asked = Recorder(calls_then(0, "Yes."))
    with StrictProvider(asked, window=WINDOW) as provider:
        agent = build_agent(provider.openai(), memory=memory, system_prompt="Be brief.")
        messages: list[Any] = [
            HumanMessage("a"),
            AIMessage("b"),
            SystemMessage("mode: night"),
            HumanMessage("c"),
        ]
        agent.invoke({"messages": messages}, config())
        clean_run(provider)
    assert "[system] mode: night" in shown(asked.requests[0])


def test_a_model_switch_is_one_fold_and_nothing_is_lost(memory: Memory) -> None:
    """G12: another model means another prefix; the queue is drained in the same pass."""
    saver = InMemorySaver()
    with StrictProvider(turns_of(40), window=64_000) as provider:
        one = build_agent(
            provider.openai("one"),
            tools=[inspector(400)],
            policy=WindowPolicy(window=64_000),
            memory=memory,
            checkpointer=saver,
        )
        for number in range(14):
            one.invoke(says(f"Check {number}."), config())
        two = build_agent(
            provider.openai("two"),
            tools=[inspector(400)],
            policy=WindowPolicy(window=64_000),
            memory=memory,
            checkpointer=saver,
        )
        events = watch(two, says("Go on."), config())
        clean_run(provider)
    first = of(events, "offload")[0]
    assert (first["kind"], first["reason"]) == ("fold", "identity")
    assert len(first["tags"]) >= 4
    assert sum(e["kind"] == "fold" for e in of(events, "offload")) == 1


def test_uncached_prices_never_send_more_than_the_lines_allow(memory: Memory) -> None:
    with StrictProvider(turns_of(30), window=WINDOW) as provider:
        agent = build_agent(
            provider.openai(),
            tools=[inspector(500)],
            policy=WindowPolicy(window=WINDOW),
            memory=memory,
            prices=UNCACHED,
            checkpointer=InMemorySaver(),
        )
        for number in range(12):
            agent.invoke(says(f"Check {number}."), config())
        clean_run(provider)
        assert max(x.input_tokens for x in provider.requests) < agent_lines_exhausted()


def agent_lines_exhausted() -> int:
    return WindowPolicy(window=WINDOW).lines().exhausted
