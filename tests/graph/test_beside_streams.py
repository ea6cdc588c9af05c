"""What an agent with governance streams, and where it is taken up again: nothing twice, each fork valid."""

import asyncio
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver

from headwater.lab.provider import Refuse, Reply, Request, StrictProvider
from headwater.memory import Memory
from headwater.nodes.event_types import event_of
from headwater.window.marks import tag_of
from tests.graph.beside import WAYS, agent_beside, asked, messages_of, streamed
from tests.graph.hosts import numbered_once
from tests.graph.world import (
    WINDOW,
    Recorder,
    clean_run,
    client,
    config,
    echo,
    inspector,
    memory_in,
    of,
    pieces_of,
    says,
    turns_of,
)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("wire", ["openai", "anthropic"])
def test_all_modes_of_a_stream_show_each_thing_once(wire: str, way: str, memory: Memory) -> None:
    """Through offloads and summaries; with a summariser, whose words are nobody's answer."""
    with StrictProvider(turns_of(14), window=WINDOW) as provider:
        agent = agent_beside(client(provider, wire, max_tokens=500), memory, [], tools=[inspector(400)])
        known: set[str] = set()
        events: list[Any] = []
        for number in range(14):
            parts = asked(agent, f"Check {number}.", way, mode=["messages", "updates", "custom", "values"])
            shown = [m for mode, part in parts if mode == "messages" for m in [part[0]]]
            answers = [m for m in shown if isinstance(m, AIMessageChunk | AIMessage)]
            said = "".join(str(m.text) for m in answers)
            assert said.count("Done with this one.") == 1
            results = Counter(m.id for m in shown if isinstance(m, ToolMessage))
            assert set(results.values()) == {1}
            # What was shown in an earlier round is not shown again because governance has numbered it.
            assert not known & {str(m.id) for m in shown}
            known |= {str(m.id) for m in shown}
            assert {m.type for m in shown} <= {"AIMessageChunk", "ai", "tool"}
            events += [part for mode, part in parts if mode == "custom"]
            for mode, part in parts:
                if mode == "updates":
                    assert not {k for k in part if k.startswith("headwater.")}
            final = [part for mode, part in parts if mode == "values"][-1]
            numbered_once(final["messages"])
        clean_run(provider)
    for event in events:
        event_of(event)
    assert {"headwater.request", "headwater.watermark", "headwater.summarize"} <= {e["type"] for e in events}
    assert len(of(events, "request")) == 28


def test_the_channels_of_governance_are_no_part_of_the_agents_answer(memory: Memory) -> None:
    with StrictProvider([Reply("Yes.")], window=WINDOW) as provider:
        agent = agent_beside(provider.openai(), memory, [])
        assert set(agent.invoke(says("Are you there?"), config())) == {"messages"}


def history(agent: Any) -> list[Any]:
    return list(agent.get_state_history(config()))


@pytest.mark.parametrize("way", WAYS)
def test_m25_a_fork_from_an_earlier_checkpoint_goes_on_validly_on_the_trunks_prefix(
    way: str, tmp_path: Path
) -> None:
    """Every place at which the model was to be asked is a place to go on from."""
    script = Recorder(turns_of(60))
    with (
        memory_in(tmp_path / "m") as memory,
        SqliteSaver.from_conn_string(str(tmp_path / "c.sqlite")) as file,
        StrictProvider(script, window=WINDOW, keep_raw=True) as provider,
    ):
        saver = InMemorySaver() if way == "async" else file
        agent = agent_beside(
            provider.openai(max_tokens=500), memory, [], tools=[inspector(300)], checkpointer=saver
        )
        for number in range(10):
            asked(agent, f"Check {number}.", way)
        trunk = messages_of(agent)
        places = [s for s in history(agent) if s.next == ("model",)]
        assert len(places) == 20
        tried = 0
        for place in places[::3]:
            before = place.values["messages"]
            exchanges = [x for x in provider.requests if x.status == 200]
            was = next((x for x in exchanges[:20] if _asks(x, before[-1])), None)
            streamed(agent, None, way, config=place.config)
            now = provider.requests[len(exchanges)]
            clean_run(provider)
            if was is not None:
                # What the trunk had sent from there, to the byte: the fork's first request is cached whole.
                assert pieces_of(now) == pieces_of(was)
                assert now.cached_tokens == now.input_tokens
                tried += 1
            numbered_once(messages_of(agent))
        assert tried >= 4
        # And on from the trunk's last state, as if nothing had been.
        last = next(s for s in history(agent) if s.values.get("messages") == trunk)
        streamed(agent, says("And now?"), way, config=last.config)
        clean_run(provider)
        numbered_once(messages_of(agent))


def _asks(exchange: Any, newest: BaseMessage) -> bool:
    """Whether a request ends with this message."""
    row = json.loads(exchange.raw)["messages"][-1]
    if isinstance(newest, ToolMessage):
        return bool(row.get("tool_call_id") == newest.tool_call_id)
    return bool(row["role"] == "user") and str(row["content"]).endswith(str(newest.content))


@pytest.mark.parametrize("way", WAYS)
def test_two_forks_of_one_checkpoint_do_not_see_one_another(way: str, memory: Memory) -> None:
    script = Recorder(echo)
    with StrictProvider(script, window=WINDOW) as provider:
        agent = agent_beside(provider.openai(), memory, [])
        asked(agent, "Hello.", way)
        place = agent.get_state(config()).config
        for word in ("heron", "otter"):
            streamed(agent, says(f"Never say {word}."), way, config=place)
            texts = [str(row["text"]) for row in script.requests[-1].messages]
            other = "otter" if word == "heron" else "heron"
            assert not any(other in text for text in texts)
            numbered_once(messages_of(agent))
        asked(agent, "Go on.", way)
        assert provider.violations == []
    seen = "\n".join(str(row["text"]) for row in script.requests[-1].messages)
    assert "otter" in seen
    assert "heron" not in seen


def test_a_call_that_failed_is_not_taken_up_in_another_state(memory: Memory) -> None:
    """Same thread or another, same newest message: what was edited in between is what is sent."""
    down = True

    def script(request: Request) -> Reply:
        if down:
            raise Refuse(503, {"error": {"message": "down", "type": "server_error"}})
        return Reply("\n".join(str(row["text"]) for row in request.messages if row["role"] == "user"))

    with StrictProvider(script, window=WINDOW) as provider:
        agent: Any = agent_beside(provider.openai(), memory, [])
        first = {"messages": [{"role": "user", "content": "The code is 1234.", "id": "a"}]}
        second = {"role": "user", "content": "What is the code?", "id": "b"}
        given = {"messages": [*first["messages"], second]}
        with pytest.raises(Exception, match="down"):
            agent.invoke(given, config())
        down = False
        edited = {"messages": [{"role": "user", "content": "The code is 5678.", "id": "a"}, second]}
        other = agent.invoke(edited, config("u"))
        assert "5678" in other["messages"][-1].text
        assert "1234" not in other["messages"][-1].text
        assert agent.get_state(config("u")).values["headwater_frame"]["session"] == "u"
        agent.update_state(config(), {"messages": edited["messages"][:1]})
        again = asyncio.run(agent.ainvoke(None, config()))
    assert "5678" in again["messages"][-1].text
    assert "1234" not in again["messages"][-1].text
    assert [tag_of(m) for m in again["messages"]] == sorted({tag_of(m) for m in again["messages"]})
