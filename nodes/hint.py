"""The hint: a few words on a new user message about what memory knows and the window does not show (G29).

Decided once, when the message arrives, and frozen with it: a later request shows the same bytes, whatever has
been learnt meanwhile. It is only a pointer; `ctx_search` has the rest.
"""

from collections.abc import Sequence
from threading import Thread

from langchain_core.messages import BaseMessage, HumanMessage

from headwater.memory import Fact, StorageError
from headwater.memory.lexical import snippet
from headwater.nodes.engine import Engine
from headwater.nodes.events import emit
from headwater.window.face import text_of
from headwater.window.frame import Frame
from headwater.window.marks import tag_of
from headwater.window.tokens import count_text

THRESHOLD = 0.6
PROMPT_WIDTH = 20
FRAGMENTS = 3
FRAGMENT_CHARS = 80
TOKENS = 200
SECONDS = 3.0
"""How long a message waits for its hint; afterwards it has none."""

_QUERY_CHARS = 2_000
_CANDIDATES = 12
# The enclosing tag makes it recall: a fact that repeats it is refused.
_OPEN, _CLOSE = "<headwater-hint>", "</headwater-hint>"
_TITLE = {
    "en": "Memory may know more about this (ctx_search shows it):",
    "zh": "记忆中可能有相关内容（用 ctx_search 查看）：",
}


def hint_for(
    engine: Engine, frame: Frame, messages: Sequence[BaseMessage], fresh: Sequence[BaseMessage]
) -> tuple[int, str] | None:
    """The tag of the newest of the fresh user messages and what to show behind it; None for nothing.

    A sub-agent gets none: its brief holds what its parent found needful.

    Args:
        engine: Its facts are searched.
        frame: What the request shows beside the tail.
        messages: The live tail as it was.
        fresh: The new messages, numbered.
    """
    message = next((m for m in reversed(fresh) if isinstance(m, HumanMessage)), None)
    if message is None or engine.budget is not None:
        return None
    prompt = text_of(message).strip()
    if _width(prompt) < PROMPT_WIDTH:
        return None
    try:
        found = _searched(engine, prompt)
        shown = _in_sight(engine, frame, [*messages, *fresh]) if found else ""
    except StorageError as error:
        emit("hint_failed", session=frame.session, error=str(error))
        return None
    near = [
        (fact.content, snippet(fact.content, prompt, FRAGMENT_CHARS))
        for fact, score in found
        if score >= THRESHOLD
    ]
    new = [
        fragment
        for content, fragment in near
        if _plain(content) not in shown and _plain(fragment.strip("…")) not in shown
    ]
    text = hint_text(new, frame.language)
    if not text:
        return None
    tag = tag_of(message)
    emit("hint", session=frame.session, tag=tag, tokens=count_text(text))
    return tag, text


def hint_text(fragments: Sequence[str], language: str = "en") -> str:
    """The first three fragments that fit into 200 tokens; "" where none does."""
    title = _TITLE.get(language, _TITLE["en"])
    lines: list[str] = []
    for fragment in fragments[:FRAGMENTS]:
        text = "\n".join([_OPEN, title, *lines, f"- {fragment}", _CLOSE])
        if count_text(text) <= TOKENS:
            lines.append(f"- {fragment}")
    return "\n".join([_OPEN, title, *lines, _CLOSE]) if lines else ""


def _width(prompt: str) -> int:
    """Characters, an ideograph for two: it says as much."""
    return len(prompt) + sum(ord(c) >= 0x2E80 for c in prompt)


def _searched(engine: Engine, prompt: str) -> list[tuple[Fact, float]]:
    """What the facts answer within three seconds; nothing after them.

    Raises:
        StorageError: The facts cannot be read.
    """
    facts = engine.memory.facts
    if facts.empty:
        return []
    found: list[tuple[Fact, float]] = []
    failed: list[StorageError] = []

    def search() -> None:
        try:
            found.extend(facts.search(prompt[:_QUERY_CHARS], _CANDIDATES))
        except StorageError as error:
            failed.append(error)

    # A thread cannot be stopped: a search that is late goes on and warms the index for the next message.
    # A daemon: one that hangs does not keep a program from ending.
    thread = Thread(target=search, name="headwater-hint", daemon=True)
    thread.start()
    thread.join(SECONDS)
    if failed:
        raise failed[0]
    return [] if thread.is_alive() else found


def _in_sight(engine: Engine, frame: Frame, messages: Sequence[BaseMessage]) -> str:
    """All that the request shows already: both blocks, the tail, and earlier hints."""
    texts = engine.texts(frame)
    kept = [text_of(m) for m in messages if tag_of(m) > frame.boundary and tag_of(m) not in frame.edits]
    return "\n".join(map(_plain, [*texts, *kept, *frame.hints.values()]))


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())
