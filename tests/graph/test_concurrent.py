"""One session in several hands: two runs at once, a run that stops half-way, one that goes on, one that goes
back, and forks. The frame fits its messages, and no branch ever sees what another has said.
"""

import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver

from headwater import Memory, WindowPolicy, build_agent
from headwater.graph import sessions as s
from headwater.graph.build import engine_of
from headwater.lab.provider import Reply, Request, StrictProvider, ToolCall
from headwater.nodes.recall import compartments
from headwater.window.frame import Frame
from headwater.window.marks import tag_of
from tests.graph.world import WINDOW, Agent, Recorder, config, inspector, says, shown

POLICY = WindowPolicy(window=WINDOW, offload=0.3, compact=0.42, keep_messages=2, keep_tags=2)
PROBE = "Look it up: "


class Hands:
    """An agent whose model answers at length, and looks up what it is asked to look up."""

    def __init__(self, provider: StrictProvider, memory: Memory, asked: Recorder) -> None:
        self.memory, self.asked, self.provider = memory, asked, provider
        self.agent: Agent = build_agent(
            provider.openai(),
            tools=[inspector(60)],
            policy=POLICY,
            memory=memory,
            checkpointer=InMemorySaver(),
            clock=lambda: 0.0,
        )

    def say(self, text: str, at: RunnableConfig | None = None, **run: Any) -> RunnableConfig:
        """One round; the config of the checkpoint that it ended with."""
        at = at or config()
        self.agent.invoke(says(text), at, **run)
        newest: RunnableConfig = self.agent.get_state(config(at["configurable"]["thread_id"])).config
        return newest

    def talk(self, word: str, rounds: int, at: RunnableConfig | None = None) -> RunnableConfig:
        """Rounds that all have one word in them, and in their answers."""
        at = at or config()
        for number in range(rounds):
            at = self.say(f"Tell me of {word} {number}.", at)
        return at

    def finds(self, call: str, at: RunnableConfig) -> str:
        """What a call of a context tool gives the model on a branch."""
        self.say(PROBE + call, at)
        row = next(row for row in reversed(self.asked.requests[-1].messages) if row["role"] == "tool")
        return str(row["text"])

    def opens(self, words: str, at: RunnableConfig) -> str:
        """What a branch is shown of the first message in its log that has these words, opened by number."""
        session = self.values(at)["frame"]["session"]
        log = self.memory.archive.read(session, 1, self.memory.archive.last(session))
        tag = next((tag for tag, m in log if words in str(m.content)), None)
        return "" if tag is None else self.finds(f"ctx_expand {tag}", at)

    def values(self, at: RunnableConfig) -> Mapping[str, Any]:
        """The state at a checkpoint, checked: its frame says nothing that its messages contradict."""
        values: Mapping[str, Any] = self.agent.get_state(at).values
        frame = Frame.from_state(values["frame"], values.get("edits"), values.get("hints"))
        tags = [tag for m in values["messages"] if (tag := tag_of(m))]
        assert tags == sorted(set(tags))
        assert all(tag > frame.boundary for tag in tags)
        assert set(frame.edits) | set(frame.pending) <= set(tags)
        told = compartments(engine_of(self.agent), frame)
        assert len(told) == len(frame.told)
        assert not told or told[-1].last == frame.boundary
        return values

    def history(self, at: RunnableConfig) -> str:
        """The told history that a branch's frame names."""
        values = self.values(at)
        told = compartments(engine_of(self.agent), Frame.from_state(values["frame"]))
        return "\n".join(part.p1 for part in told)


def script(request: Request) -> Reply:
    """Half a page about the newest order; a look-up where one is asked for."""
    last = request.messages[-1]
    if last["role"] == "tool":
        return Reply("I see.")
    text = str(last["text"])
    if PROBE in text:
        name, _, value = text.partition(PROBE)[2].strip().partition(" ")
        return Reply("", (ToolCall(name, {"tags" if name == "ctx_expand" else "query": value}),))
    word = text.partition("Tell me of ")[2].split(".")[0] or "nothing"
    return Reply(" ".join(f"Part {i} of {word} is well." for i in range(90)))


@pytest.fixture
def hands(tmp_path: Path, memory: Memory) -> Iterator[Hands]:
    asked = Recorder(script)
    with StrictProvider(asked, window=WINDOW) as provider:
        yield Hands(provider, memory, asked)
        assert provider.violations == []
        assert provider.totals().over_window == 0


def own_lines(found: str) -> str:
    """What a search names as the session's own."""
    return "\n".join(line for line in found.splitlines() if " of another session: " not in line)


def apart(hands: Hands, ways: Mapping[str, RunnableConfig]) -> None:
    """Each branch knows its own word by every way there is, and no branch another's.

    A search may name what another *session* of the project holds, a fork among them, and says so in the line:
    it is never passed off as the branch's own past.
    """
    for word, at in ways.items():
        others = set(ways) - {word}
        assert f"of {word} 0" in hands.opens(f"of {word} 0", at)
        found = {
            "expand": "\n".join(hands.opens(f"of {w} ", at) for w in others),
            "history": hands.history(at),
            "request": shown(hands.asked.requests[-1]).replace(PROBE, ""),
            # Last: what a search names of other sessions is in the log from then on.
            "search": "\n".join(own_lines(hands.finds(f"ctx_search {w} part", at)) for w in (word, *others)),
        }
        assert f"of {word} " in found["search"]
        assert f"of {word}" in found["history"]
        for way, text in found.items():
            assert not [w for w in others if f"of {w} " in text], f"{word} sees another branch by {way}"


def test_c15_case_46_a_branch_of_a_thread_sees_nothing_of_another(hands: Hands) -> None:
    """Two ways on from one checkpoint, taken in turns, each told several times over."""
    start = hands.talk("common", 4)
    left = right = start
    for _ in range(4):
        left = hands.talk("left", 2, left)
        right = hands.talk("right", 2, right)
    assert len(hands.values(left)["frame"]["told"]) >= 3
    apart(hands, {"left": left, "right": right})


def test_m25_a_fork_sees_nothing_of_the_trunk_after_it_nor_the_trunk_of_the_fork(hands: Hands) -> None:
    """`graph.fork`: both go on, both are told, neither finds, opens or is shown the other's."""
    hands.talk("common", 4)
    fork = s.fork(hands.agent, "t", name="branch")
    for _ in range(3):
        hands.talk("trunk", 2)
        hands.talk("branch", 2, fork)
    apart(hands, {"trunk": config(), "branch": fork})
    assert "common" in hands.finds("ctx_search common part", fork)


def test_m25_a_fork_of_a_branch_that_went_back_has_that_branch_only(hands: Hands) -> None:
    """A fork of a thread that was taken back: the abandoned way is not in its past."""
    start = hands.talk("common", 2)
    hands.talk("left", 3, start)
    hands.talk("right", 3, start)
    fork = s.fork(hands.agent, "t", name="branch")
    hands.talk("late", 2, fork)
    text = hands.finds("ctx_search left part", fork) + hands.opens("of left 0", fork)
    assert "of left " not in text
    assert "of right " in text


@pytest.mark.parametrize("same", [True, False], ids=["from-one-checkpoint", "as-they-come"])
def test_c14_two_runs_at_once_on_one_thread_leave_a_session_that_goes_on(hands: Hands, same: bool) -> None:
    """Neither is told the other's answer; nothing that either said is lost; one of them is what goes on.

    As they come, the later one may begin from what the earlier one has written by then: its question.
    """
    start = hands.talk("common", 3)
    gate = threading.Barrier(2)
    inner = hands.asked.inner

    def together(request: Request) -> Reply:
        if "of both" in str(request.messages[-1].get("text")):
            gate.wait(60)
        return inner(request)

    hands.asked.inner = together
    at = start if same else config()
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda word: hands.say(f"Tell me of both {word}.", at), ("left", "right")))
    hands.asked.inner = inner
    log = [str(m.content) for _, m in hands.memory.archive.read("t", 1, 99)]
    for word in ("left", "right"):
        assert sum(f"Tell me of both {word}." in text for text in log) == 1
        assert sum(f"Part 1 of both {word} is well" in text for text in log) == 1
    for request in hands.asked.requests:
        text = shown(request)
        assert not any(f"of both {word} is well" in text for word in ("left", "right"))
        assert not (same and "both left" in text and "both right" in text)
    kept = next(
        w for w in ("left", "right") if f"of both {w} is well" in str(hands.values(config())["messages"])
    )
    newest = hands.talk(kept, 6)
    assert hands.values(newest)["frame"]["told"]
    other = {"left": "right", "right": "left"}[kept]
    assert f"of both {kept} is well" in hands.opens(f"of both {kept} is", newest)
    assert f"of both {other} is well" not in hands.opens(f"of both {other} is", newest)


@pytest.mark.parametrize("node", ["watermark", "agent", "tools", "summarize", "remember"])
def test_c14_a_run_that_is_stopped_anywhere_goes_on_or_is_left_behind(hands: Hands, node: str) -> None:
    """Stopped before a node: resumed it ends as if it had not been; left behind, the next input goes on."""
    hands.talk("common", 4)
    for text in (PROBE + "ctx_search common", "Tell me of resumed 1.", "Tell me of resumed 2."):
        hands.say(text, interrupt_before=[node])
        while hands.agent.get_state(config()).next:
            hands.agent.invoke(None, config())
        hands.values(config())
    hands.say("Tell me of abandoned.", interrupt_before=[node])
    newest = hands.talk("after", 4)
    hands.values(newest)
    log = [str(m.content) for _, m in hands.memory.archive.read("t", 1, 99)]
    assert sum("Part 1 of resumed 2 is well" in text for text in log) == 1
    assert [sum(text == f"Tell me of after {i}." for text in log) for i in range(4)] == [1] * 4
