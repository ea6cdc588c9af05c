"""What a scripted model says: replies, the view of the request they are picked from, and faults to inject."""

import json
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from langchain_core.messages import AIMessage

from headwater.lab.sessions import Session


@dataclass(frozen=True)
class ToolCall:
    """One call a scripted reply makes.

    `args` is an object, or a string that goes out as it is (so a script can send broken JSON). Without an
    `id` the server gives one.
    """

    name: str
    args: dict[str, Any] | str
    id: str | None = None

    def raw(self) -> str:
        """The arguments as they stand on the wire."""
        return self.args if isinstance(self.args, str) else json.dumps(self.args, ensure_ascii=False)


@dataclass(frozen=True)
class Reply:
    """One assistant message. `finish` takes either provider's word for it; `delay` is in seconds."""

    text: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    thinking: str = ""
    finish: str | None = None
    delay: float = 0


@dataclass(frozen=True)
class Request:
    """A request in one shape for all wires, computed only where a script looks.

    `messages` rows are `{role, text, tool_calls, tool_call_id}` (and `thinking` on assistant rows); roles are
    user, assistant, tool and, where a wire lets it through, system. `index` counts answered requests from 0.
    """

    wire: str
    model: str
    raw: dict[str, Any]
    index: int
    read: Callable[[dict[str, Any]], tuple[str, list[dict[str, Any]], list[str]]] = field(repr=False)
    purpose: str = ""

    @cached_property
    def _view(self) -> tuple[str, list[dict[str, Any]], list[str]]:
        return self.read(self.raw)

    @property
    def system(self) -> str:
        """The system prompt's text."""
        return self._view[0]

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The conversation without the system prompt."""
        return self._view[1]

    @property
    def tools(self) -> list[str]:
        """Names of the tools that were offered."""
        return self._view[2]


Script = Callable[[Request], Reply]


class ScriptExhausted(Exception):
    """More requests came than the script has replies; the server answers 500 with this text."""


class Refuse(Exception):
    """A script raises this to have the server answer with `status` and `body` (dict: sent as JSON)."""

    def __init__(self, status: int, body: dict[str, Any] | str) -> None:
        super().__init__(f"refused with status {status!r}")
        self.status = status
        self.body = body


class Overflow(Exception):
    """A script raises this for the provider's own overflow refusal.

    Args:
        limit: The window to state, in tokens; None for the model's.
        requested: The size to state, in tokens; None for what was counted, or one over the limit.
    """

    def __init__(self, limit: int | None = None, requested: int | None = None) -> None:
        super().__init__(f"overflow: limit {limit!r}, requested {requested!r}")
        self.limit = limit
        self.requested = requested


class Disconnect(Exception):
    """A script raises this to begin `reply` and cut the connection after `after` events (0: at once).

    Without streaming the body is cut in its middle.

    Args:
        reply: What it began to say.
        after: Events that are sent.
        error: Body of an error event that ends the stream instead of the cut; without streaming it is cut.
    """

    def __init__(self, reply: Reply, after: int = 2, error: dict[str, Any] | None = None) -> None:
        super().__init__(f"connection cut after {after!r} events")
        self.reply = reply
        self.after = after
        self.error = error


def play(replies: Sequence[Reply]) -> Script:
    """A script that gives the replies in order, one a request, whichever wire or model asks."""
    rest = iter(tuple(replies))
    total = len(replies)
    lock = threading.Lock()

    def script(request: Request) -> Reply:
        with lock:
            reply = next(rest, None)
        if reply is None:
            raise ScriptExhausted(f"the script has {total!r} replies and all are used; add one, or ask less")
        return reply

    return script


def by_model(scripts: Mapping[str, Script | Sequence[Reply]]) -> Script:
    """A script of scripts, picked by the request's model name (main model, summariser, sub-agents)."""
    chosen = {name: script if callable(script) else play(script) for name, script in scripts.items()}

    def script(request: Request) -> Reply:
        if request.model not in chosen:
            raise ScriptExhausted(f"no script for model {request.model!r}; there are {sorted(chosen)!r}")
        return chosen[request.model](request)

    return script


def overflow_at(
    script: Script | Sequence[Reply],
    calls: Collection[int],
    limit: int | None = None,
    requested: int | None = None,
) -> Script:
    """The same script, but the calls with these numbers (from 0) are refused as overflows, no reply used."""
    inner = script if callable(script) else play(script)
    count = 0
    lock = threading.Lock()

    def wrapped(request: Request) -> Reply:
        nonlocal count
        with lock:
            number, count = count, count + 1
        if number in calls:
            raise Overflow(limit, requested)
        return inner(request)

    return wrapped


def slow(script: Script | Sequence[Reply], seconds: float) -> Script:
    """The same script, every reply late by `seconds`."""
    inner = script if callable(script) else play(script)

    def wrapped(request: Request) -> Reply:
        return replace(inner(request), delay=seconds)

    return wrapped


def recorded(session: Session, *, thinking: bool = True) -> tuple[Reply, ...]:
    """The session's assistant messages in order, oddities and all, to be played as the model."""
    replies = []
    for message in session.messages:
        if not isinstance(message, AIMessage):
            continue
        calls = tuple(ToolCall(c["name"], dict(c["args"]), c["id"]) for c in message.tool_calls)
        broken = tuple(
            ToolCall(c["name"] or "", c["args"] or "", c["id"]) for c in message.invalid_tool_calls
        )
        reasoning = str(message.additional_kwargs.get("reasoning_content", "")) if thinking else ""
        replies.append(Reply(str(message.text), calls + broken, reasoning))
    return tuple(replies)
