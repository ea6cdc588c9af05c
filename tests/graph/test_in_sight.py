"""What stays in sight whatever leaves: goal, constraints, exclusions, decisions and notes."""

import json
import re
from collections.abc import Iterator

import pytest
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver

from headwater import Memory, build_agent
from headwater.lab.provider import Reply, Request, StrictProvider, ToolCall
from tests.graph.world import (
    IN_LINE,
    WINDOW,
    Recorder,
    clean_run,
    config,
    inspector,
    last_text,
    of,
    says,
    shown,
    turns_of,
    watch,
)


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
            policy=IN_LINE,
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


LAST = {"en": "## The last request so far (verbatim)", "zh": "## 到此为止的最后一个请求（原文）"}
LOSSY = {"en": "The units were checked and all of them are well.", "zh": "各个单元都检查过了，一切正常。"}
GREETING = {"en": "Hello, we look after a plant.", "zh": "你好，我们照看一座工厂。"}
ASKED = {
    "en": ["Compare odd and even units, and end with the worst.", "Now look for the one that is loudest."],
    "zh": ["比较奇数和偶数单元，最后说出最差的一个。", "现在找出声音最大的那一个。"],
}


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("summarizer", [True, False])
def test_c2_a_round_that_outlives_its_own_request_still_sees_it(
    language: str, summarizer: bool, memory: Memory
) -> None:
    """The request is told with the round's older steps, by a summarizer that says nothing of it; then comes
    the next one, and takes its place.
    """
    work: Iterator[Reply] = iter(())

    def script(request: Request) -> Reply:
        if request.purpose == "summarizer":
            return Reply(json.dumps({"title": "t", "p1": LOSSY[language]}, ensure_ascii=False))
        return next(work, Reply(LOSSY[language]))

    recorder = Recorder(script)
    with StrictProvider(recorder, window=WINDOW) as provider:
        agent = build_agent(
            provider.openai(),
            tools=[inspector(400)],
            policy=IN_LINE,
            memory=memory,
            checkpointer=InMemorySaver(),
            summarizer=provider.openai("cheap", purpose="summarizer") if summarizer else None,
        )
        watch(agent, says(GREETING[language]), config())
        for asked in ASKED[language]:
            work = (Reply("", (ToolCall("inspect", {"number": n}),)) for n in range(24))
            begun = len(recorder.requests)
            tag = agent.get_state(config()).values["frame"]["sent"] + 2
            watch(agent, says(asked), config())
            sent = [shown(r) for r in recorder.requests[begun:] if r.purpose != "summarizer"]
            assert len(sent) == 25
            assert agent.get_state(config()).values["frame"]["boundary"] > tag
            assert all(asked in text for text in sent)
            # Whatever an older block says was asked last, the newest stands behind it.
            assert sent[-1].rpartition(LAST[language])[2].startswith(f"\n§{tag}§ {asked}")
        clean_run(provider)


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
            policy=IN_LINE,
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
            policy=IN_LINE,
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
        agent = build_agent(provider.openai(), policy=IN_LINE, memory=memory, checkpointer=InMemorySaver())
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
            policy=IN_LINE,
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
