"""Progress: each remedy frees something or says why it cannot, and every step ends in a request or a halt."""

import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver

from headwater import Memory, WindowPolicy, build_agent
from headwater.lab.provider import ModelSpec, Refuse, Reply, Request, StrictProvider, ToolCall
from tests.graph.world import WINDOW, Event, clean_run, config, inspector, says, watch

REMEDIES = ("offload", "summarize", "reclaim")
LONG = " ".join(f"Part {i} is as it was." for i in range(200))
TASK = "Keep the plant running. The report must be a table with three columns."


def judged(events: Sequence[Event]) -> list[str]:
    """The remedies that acted; each left less than it found, or said why it could not."""
    acted: list[str] = []
    turns, before, remedy, told = 0, 0, "", False
    for event in events:
        name = str(event["type"]).removeprefix("headwater.")
        if name == "watermark":
            if remedy and not told:
                # A fold is made for another reason than room.
                assert event["estimate"] < before, (remedy, before, event["estimate"])
            turns, before, remedy, told = turns + 1, event["estimate"], "", False
            assert turns <= 6, "it turns round"
        elif name == "nothing_freed":
            assert event["reason"]
            remedy, told = event["remedy"], True
        elif name in REMEDIES:
            remedy, told = name, told or event.get("kind") == "fold"
            acted.append(name)
        elif name in ("request", "halt"):
            turns, remedy = 0, ""
    assert acted or any(e["type"] == "headwater.halt" for e in events)
    return acted


def calls(*words: int) -> Reply:
    """One message that calls the tool for each."""
    return Reply("", tuple(ToolCall("inspect", {"number": number}) for number in words))


def talk(request: Request) -> Reply:
    """A long answer."""
    return Reply(LONG)


def batch(request: Request) -> Reply:
    """Eight results at once, then a long answer."""
    return Reply(LONG) if request.messages[-1]["role"] == "tool" else calls(*range(8))


def loop(request: Request) -> Reply:
    """Twenty results one after the other, then an answer."""
    rows = request.messages
    newest = max(at for at, row in enumerate(rows) if row["role"] == "user")
    done = sum(row["role"] == "tool" for row in rows[newest:])
    return Reply("Done.") if done >= 20 else calls(done)


SHAPES: dict[str, tuple[Callable[[Request], Reply], list[Any]]] = {
    "talk": (talk, ["Well?"] * 8),
    "one arc": (batch, ["All at once."] * 3),
    "a tool loop": (loop, ["One by one."] * 2),
    "the user's own text": (talk, [LONG * 2, LONG * 2, LONG * 3, "Well?"]),
    "what fits in no window": (talk, [LONG * 8, "Well?"]),
    "pasted blocks": (talk, [HumanMessage([{"type": "text", "text": LONG * 2}])] * 4),
}


def refuse(request: Request) -> Reply:
    raise Refuse(500, {"error": {"message": "down", "type": "server_error"}})


TELLERS: dict[str, Callable[[Request], Reply] | None] = {
    "nobody": None,
    "good": lambda request: Reply(json.dumps({"title": "t", "p1": "All was well with the plant."})),
    "empty": lambda request: Reply(""),
    "longer": lambda request: Reply(json.dumps({"title": "t", "p1": LONG * 4})),
    "cut": lambda request: Reply(json.dumps({"title": "t", "p1": LONG}), finish="length"),
    "down": refuse,
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("teller", ["nobody", "good"])
def test_c18_case_14_each_remedy_frees_something_or_says_why_not(
    memory: Memory, shape: str, teller: str
) -> None:
    """C18, case 14: room is made before a request is refused, whatever fills the window."""
    run(memory, shape, teller, WindowPolicy(window=WINDOW, background=False))


@pytest.mark.parametrize("teller", ["empty", "longer", "cut", "down"])
def test_case_23_27_28_29_with_a_bad_summariser_too(memory: Memory, teller: str) -> None:
    """Cases 23, 25-29: whatever it answers, the loop ends; the task is pinned or in the tail, never both."""
    low = WindowPolicy(window=WINDOW, background=False, offload=0.3, compact=0.42)
    assert run(memory, "talk", teller, low).count("summarize") >= 2


@pytest.mark.parametrize("shape", ["one arc", "a tool loop", "the user's own text"])
def test_g37_without_summaries_too(memory: Memory, shape: str) -> None:
    """G37: one overflow never ruins a session: reclaim alone makes the room, step after step."""
    acted = run(memory, shape, "nobody", WindowPolicy(window=WINDOW, summarise="never", min_result=5_000))
    assert "summarize" not in acted


def run(memory: Memory, shape: str, teller: str, policy: WindowPolicy) -> list[str]:
    script, texts = SHAPES[shape]
    asked: list[Request] = []
    cheap = TELLERS[teller]

    def both(request: Request) -> Reply:
        if request.purpose == "summarizer":
            assert cheap is not None
            return cheap(request)
        asked.append(request)
        return script(request)

    with StrictProvider(both, window=WINDOW, models={"cheap": ModelSpec(64_000)}) as provider:
        agent = build_agent(
            provider.openai(),
            tools=[inspector(420)],
            policy=policy,
            memory=memory,
            checkpointer=InMemorySaver(),
            clock=lambda: 0.0,
            summarizer=provider.openai("cheap", purpose="summarizer", max_retries=0) if cheap else None,
        )
        events = []
        for text in [TASK, *texts]:
            given = says(text) if isinstance(text, str) else {"messages": [text.model_copy()]}
            events += watch(agent, given, config())
        assert provider.violations == []
        if teller in ("nobody", "good"):
            clean_run(provider)
    for request in asked:
        rows = [str(row["text"]) for row in request.messages]
        assert sum(row.count(TASK) for row in rows) >= 1, "the task is in sight, word for word"
        assert sum(row.count(f"(§1§): {TASK}") + row.startswith(f"§1§ {TASK}") for row in rows) == 1
    return judged(events)
