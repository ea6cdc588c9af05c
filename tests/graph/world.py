"""What the graph's tests share: a memory without weights to load, tools that return a known number of words,
and scripts that decide from what the request shows, as a model would.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, tool
from langgraph.graph.state import CompiledStateGraph

from headwater.lab.prefix_cache import canonical
from headwater.lab.provider import Exchange, Reply, Request, StrictProvider, ToolCall
from headwater.memory import Memory
from headwater.memory.words import LexicalIndex
from headwater.window.policy import WindowPolicy
from headwater.window.prices import Prices

WINDOW = 8_192
UNCACHED = Prices.uncached()
TIGHT = WindowPolicy(window=WINDOW, offload=0.3, compact=0.42)
"""Lines so low that a few rounds reach them."""
IN_LINE = replace(TIGHT, background=False)
"""The same, with history told by the step that needs the room, so that each run does the same."""

Event = dict[str, Any]
Agent = CompiledStateGraph[Any, Any, Any, Any]
Script = Callable[[Request], Reply]


def memory_in(root: Path, **kw: Any) -> Memory:
    """A memory whose facts are looked up by words only: nothing to load, nothing to train."""
    return Memory(root, index=LexicalIndex(root / "by_words.sqlite"), repository=False, **kw)


def body(number: int, words: int = 700) -> str:
    """A result of about 1.6 tokens a word, different for each number, with a fact in its middle."""
    lines = [f"line {number}-{i}: checked part {i} of unit {number}, all is well" for i in range(words // 10)]
    lines[len(lines) // 2 : len(lines) // 2] = [f"KEY unit {number} listens on port {9_000 + number}"]
    return "\n".join(lines)


def inspector(words: int = 700, name: str = "inspect") -> BaseTool:
    """A tool of one number whose result is `body`."""

    def run(number: int) -> str:
        """Inspect one unit."""
        return body(number, words)

    made: BaseTool = tool(name)(run)
    return made


def config(thread: str = "t", **more: Any) -> RunnableConfig:
    """The config of a thread."""
    return {"configurable": {"thread_id": thread, **more}, "recursion_limit": 2_000}


def says(text: str) -> dict[str, Any]:
    """A user's message as input."""
    return {"messages": [("user", text)]}


def calls_then(count: int, answer: str = "All done.", name: str = "inspect", each: int = 1) -> Script:
    """A model that calls the tool `count` times, `each` in a message, then answers."""
    made = 0

    def script(request: Request) -> Reply:
        nonlocal made
        if made >= count:
            return Reply(answer)
        batch = tuple(ToolCall(name, {"number": made + i}) for i in range(min(each, count - made)))
        made += len(batch)
        return Reply("", batch)

    return script


def turns_of(count: int, answer: str = "Done with this one.") -> Script:
    """A model that calls the tool once and answers, `count` times over."""
    served = 0

    def script(request: Request) -> Reply:
        nonlocal served
        served += 1
        if served > 2 * count:
            return Reply("Nothing left.")
        return Reply("", (ToolCall("inspect", {"number": served // 2}),)) if served % 2 else Reply(answer)

    return script


def echo(request: Request) -> Reply:
    """Says back the newest user's words, so that each turn's answer is its own."""
    words = [row["text"] for row in request.messages if row["role"] == "user"][-1]
    return Reply(f"You said: {words.split(' ', 1)[-1]}")


def delegating(child: Script, *calls: ToolCall, answer: str = "Done.") -> Script:
    """A lead that makes these calls, by default to one scout, then answers; a scout is told "You scout"."""
    made = calls or (ToolCall("delegate", {"agent": "scout", "brief": "look"}),)

    def script(request: Request) -> Reply:
        if "You scout" in request.system:
            return child(request)
        return Reply(answer) if any(row["role"] == "tool" for row in request.messages) else Reply("", made)

    return script


def watch(agent: Agent, inputs: Any, conf: RunnableConfig, **kw: Any) -> list[Event]:
    """Run, and return the governance events in order."""
    return list(agent.stream(inputs, conf, stream_mode="custom", **kw))


def kinds(events: Sequence[Event]) -> list[str]:
    """The types of events, without the prefix."""
    return [str(event["type"]).removeprefix("headwater.") for event in events]


def of(events: Sequence[Event], kind: str) -> list[Event]:
    """Events of one type."""
    return [event for event in events if event["type"] == f"headwater.{kind}"]


def client(provider: StrictProvider, wire: str, **kw: Any) -> BaseChatModel:
    """The real client of a wire."""
    made: BaseChatModel = getattr(provider, wire)(**kw)
    return made


def shown(request: Request) -> str:
    """All text of a request, system prompt first."""
    rows = [request.system]
    for row in request.messages:
        rows.append(str(row.get("text", "")))
        rows += [f"{call['name']}({call['args']})" for call in row.get("tool_calls") or []]
    return "\n".join(rows)


def clean_run(provider: StrictProvider) -> None:
    """No rule broken, nothing over the window."""
    totals = provider.totals()
    assert provider.violations == []
    assert totals.over_window == 0
    assert totals.refused == 0


def results(messages: Sequence[BaseMessage]) -> Iterator[ToolMessage]:
    """The tool results among messages."""
    return (m for m in messages if isinstance(m, ToolMessage))


def last_text(state: dict[str, Any]) -> str:
    """The text of the newest assistant message."""
    return next(str(m.text) for m in reversed(state["messages"]) if isinstance(m, AIMessage))


class Recorder:
    """A script that keeps the requests it was asked with."""

    def __init__(self, inner: Script) -> None:
        self.inner = inner
        self.requests: list[Request] = []

    def __call__(self, request: Request) -> Reply:
        self.requests.append(request)
        return self.inner(request)


def extra(count: int) -> Iterator[BaseTool]:
    """Tools that nobody calls: another set of tools is another prefix."""
    for number in range(count):

        def idle(number: int = number) -> str:
            """Do nothing."""
            return str(number)

        yield tool(f"idle_{number}")(idle)


def pieces_of(exchange: Exchange) -> tuple[bytes, ...]:
    """A request as the provider's cache sees it: tools, then message after message, in bytes."""
    raw = json.loads(exchange.raw or b"{}")
    return tuple(canonical(part) for part in [*(raw.get("tools") or []), *raw["messages"]])
