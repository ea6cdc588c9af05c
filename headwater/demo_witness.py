"""A witness of a run: what was sent, what the tools returned, and what an unmanaged run would have sent.

It listens to the models and tools themselves through LangChain's callbacks, so that its figures owe
nothing to the governance that they judge.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from threading import Lock
from typing import Any, NamedTuple
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, LLMResult

from headwater.memory import ArtifactError, Memory, PathRefused, UnknownTag
from headwater.window.clean import clean
from headwater.window.face import text_of
from headwater.window.stubs import encode
from headwater.window.tokens import count_text, count_tokens

_STORED = re.compile(r'⟦stored (artifacts/\S+) [^⟧\n]*ctx_expand\("(\d+)"\)⟧')


class Sent(NamedTuple):
    """One answered request, tokens by the provider's own usage; `session` is the root's."""

    session: str
    node: str
    tokens: int
    cached: int
    output: int


class Stub(NamedTuple):
    """A mark that stood in a request: the artifact it names and the message it stands for."""

    session: str
    artifact: str
    tag: int


class Read(NamedTuple):
    """What a check of stored bytes found: how many things, their bytes, and those that did not come back."""

    things: int
    size: int
    lost: list[str]


@dataclass(frozen=True)
class Unmanaged:
    """The same run with nothing managed: each request holds all that came before.

    Attributes:
        sent: Tokens of all requests; `written` those that no earlier request held.
        largest: Tokens of the largest request.
        requests: Number of requests; `fit` those within the window.
    """

    sent: int
    written: int
    largest: int
    requests: int
    fit: int


class Witness(BaseCallbackHandler):
    """Listens to every model and tool of a run. `on_fact` is told what the agent wants remembered."""

    raise_error = True
    run_inline = True

    def __init__(self, on_fact: Callable[[str], None] | None = None) -> None:
        self.sent: list[Sent] = []
        self.stubs: dict[Stub, None] = {}
        self.first: dict[str, str] = {}
        self.returned: dict[str, Counter[str]] = {}
        self.raw_tokens = 0
        self._on_fact = on_fact
        self._lock = Lock()
        self._asked: dict[UUID, tuple[str, str, int]] = {}
        self._running: dict[UUID, tuple[str, str]] = {}

    def on_chat_model_start(
        self,
        serialized: dict[str, Any],
        messages: list[list[BaseMessage]],
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        tags: list[str] | None = None,
        metadata: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Note what is about to be sent, and the marks in it."""
        about = metadata or {}
        session, node = str(about.get("thread_id", "")), str(about.get("langgraph_node", ""))
        texts = [text_of(message) for message in messages[0]]
        marks = [found for text in texts if "⟦stored" in text for found in _STORED.findall(text)]
        with self._lock:
            self._asked[run_id] = (session, node, count_tokens(messages[0]))
            if node == "agent":
                self.first.setdefault(session, "\n".join(texts))
                self.stubs.update(dict.fromkeys(Stub(session, name, int(tag)) for name, tag in marks))

    def on_llm_end(self, response: LLMResult, *, run_id: UUID, **kwargs: Any) -> None:
        """Note what the provider says it received; where it says nothing, the count stands."""
        generation = response.generations[0][0]
        message = generation.message if isinstance(generation, ChatGeneration) else None
        usage = message.usage_metadata if isinstance(message, AIMessage) else None
        with self._lock:
            session, node, counted = self._asked.pop(run_id)
            details = usage.get("input_token_details", {}) if usage else {}
            tokens = usage["input_tokens"] if usage else counted
            output = usage["output_tokens"] if usage else 0
            self.sent.append(Sent(session, node, tokens, details.get("cache_read") or 0, output))

    def on_tool_start(
        self,
        serialized: dict[str, Any],
        input_str: str,
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        tags: list[str] | None = None,
        metadata: dict[str, Any] | None = None,
        inputs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Note whose tool it is."""
        name = str(serialized.get("name", ""))
        with self._lock:
            self._running[run_id] = (str((metadata or {}).get("thread_id", "")), name)
        if name == "ctx_memory" and self._on_fact and (inputs or {}).get("action") == "write":
            self._on_fact(str((inputs or {}).get("content", "")))

    def on_tool_end(self, output: Any, *, run_id: UUID, **kwargs: Any) -> None:
        """Note the bytes that a tool returned."""
        with self._lock:
            session, _ = self._running.pop(run_id, ("", ""))
            if not isinstance(output, ToolMessage):
                return
            text = text_of(output)
            self.returned.setdefault(session, Counter())[_digest(text)] += 1
            self.raw_tokens += count_text(text)

    def requests(self) -> list[Sent]:
        """Answered requests of agents; those for summaries are not steps."""
        return [x for x in self.sent if x.node == "agent"]

    def read_stubs(self, memory: Memory) -> Read:
        """Read back every artifact that a mark in a request named; compare it with the archive's message."""
        lost, size = [], 0
        for stub in self.stubs:
            try:
                data = memory.artifacts.read_bytes(stub.artifact)
            except (ArtifactError, PathRefused) as error:
                lost.append(f"{stub.artifact}: {error}")
                continue
            size += len(data)
            if not any(_says(memory, name, stub.tag, data) for name in _family(memory, stub.session)):
                lost.append(f"{stub.artifact}: not what §{stub.tag}§ of {stub.session!r} says")
        return Read(len(self.stubs), size, lost)

    def read_archive(self, memory: Memory) -> Read:
        """Read back every message; each result that a tool returned must be there, byte for byte."""
        lost, size, count = [], 0, 0
        for session, returned in self.returned.items():
            archived: Counter[str] = Counter()
            for name in _family(memory, session):
                log = memory.archive.read(name, 1, memory.archive.last(name))
                if [tag for tag, _ in log] != list(range(1, len(log) + 1)):
                    lost.append(f"{name}: its tags have gaps")
                texts = [text_of(message) for _, message in log if isinstance(message, ToolMessage)]
                archived.update(map(_digest, texts))
                size += sum(len(encode(text)) for text in texts)
            count += returned.total()
            lost += [
                f"{session}: a result with digest {digest}" for digest in (returned - archived).elements()
            ]
        return Read(count, size, lost)


def _family(memory: Memory, session: str) -> list[str]:
    """A session and its sub-agents'; callbacks name the thread at the root for all of them."""
    return [name for name in memory.archive.sessions() if name == session or name.startswith(f"{session}/")]


def _says(memory: Memory, session: str, tag: int, data: bytes) -> bool:
    try:
        text = text_of(memory.archive.get(session, tag))
    except UnknownTag:
        return False
    # Tool output is cleaned on its way into the window; the archive has it as it came.
    return data in (encode(text), encode(clean(text)))


def unmanaged(memory: Memory, sessions: Mapping[str, int], window: int) -> Unmanaged:
    """What an append-only agent would have sent for the same steps.

    Args:
        memory: Whose archive holds the steps.
        sessions: Tokens of system prompt and tools, which stand in every request, by session.
        window: To count the requests that would fit.
    """
    sent = written = largest = requests = fit = 0
    for session, fixed in sessions.items():
        running, before = fixed, 0
        for _, message in memory.archive.read(session, 1, memory.archive.last(session)):
            if isinstance(message, AIMessage):
                sent += running
                written += running - before
                largest = max(largest, running)
                requests += 1
                fit += running <= window
                before = running
            running += count_tokens([message])
    return Unmanaged(sent, written, largest, requests, fit)


def _digest(text: str) -> str:
    return hashlib.sha256(encode(text)).hexdigest()
