"""From the log to the request: `render(frame, messages)`, a pure function (M1, M11).

Reads the tail from left to right; what a message looks like depends only on what stands before it, so
a log that grows gives a request that grows. Tool calls and their results (an arc) always come whole:
a call without a result gets one that says so, a result without a call becomes a user's note.
"""

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolCall,
    ToolMessage,
)

from headwater.window.face import (
    assistant_face,
    human_face,
    safe,
    tool_face,
    valid_calls,
)
from headwater.window.frame import Frame
from headwater.window.marks import tag_of
from headwater.window.tokens import count_message

CONTINUE = "(continue)"
START = "(session start)"
NO_RESULT = "(no result: this call was not answered)"
SYNTHETIC = "headwater_synthetic"
_PORTABLE_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")


class Texts(NamedTuple):
    """The texts that a frame names: system prompt, contract of leading system messages, m[0] and m[1]."""

    system: str = ""
    contract: str = ""
    baseline: str = ""
    delta: str = ""


def render(frame: Frame, messages: Sequence[BaseMessage], texts: Texts | None = None) -> list[BaseMessage]:
    """The request for a frame and its messages.

    Args:
        frame: The frozen render state.
        messages: The log's tail, numbered (`marks.stamp`); what lies at or before the boundary is not shown.
        texts: The texts the frame names.

    Returns:
        One system message (where there is any system text), then messages of which the first is a
        user's; tool calls paired; no content empty.
    """
    head = render_head(texts or Texts())
    renderer = Renderer(frame, has_head=any(isinstance(m, HumanMessage) for m in head))
    for message in messages:
        renderer.feed(message)
    return [*head, *(shown.message for shown in renderer.shown), *renderer.finish()]


def render_head(texts: Texts) -> list[BaseMessage]:
    """The system message and the two synthetic user messages m[0] and m[1], those that have text."""
    head: list[BaseMessage] = []
    system = "\n\n".join(safe(t) for t in (texts.system, texts.contract) if t.strip())
    if system:
        head.append(SystemMessage(content=system))
    for text in (texts.baseline, texts.delta):
        if text:
            head.append(HumanMessage(content=safe(text), additional_kwargs={SYNTHETIC: True}))
    return head


class Shown(NamedTuple):
    """One message of the request: what it is made from (tag, 0 = made up) and what it weighs (tokens)."""

    message: BaseMessage
    tag: int
    tokens: int


Memo = dict[object, tuple[BaseMessage, Shown]]
"""Messages shown before and what they were made from; a tag may name another message on another branch."""


class Renderer:
    """The state of reading a log from left to right.

    `frame` may be exchanged between messages, as long as it says the same of what was read.
    """

    def __init__(self, frame: Frame, *, has_head: bool, memo: Memo | None = None) -> None:
        self.shown: list[Shown] = []
        self.frame = frame
        self._hidden = max(frame.boundary, frame.lead)
        self._has_head = has_head
        self._memo: Memo = {} if memo is None else memo
        self._ids: set[str] = set()
        self._open: list[tuple[str | None, str]] = []
        self._late: list[ToolMessage] = []

    def feed(self, message: BaseMessage) -> None:
        """Read the next message of the log."""
        tag = tag_of(message)
        if self.hides(tag):
            return
        if isinstance(message, ToolMessage):
            self._feed_result(message, tag)
            return
        self._close_arc()
        if isinstance(message, AIMessage):
            self._feed_assistant(message, tag)
        else:
            self._show_human(message, tag)

    def hides(self, tag: int) -> bool:
        """Whether a tag stands before the tail: told by a compartment, or part of the contract."""
        return 0 < tag <= self._hidden

    def finish(self) -> list[BaseMessage]:
        """What a request needs after the last message so far; not kept, the log may go on."""
        rest: list[BaseMessage] = [ToolMessage(content=NO_RESULT, tool_call_id=new) for _, new in self._open]
        rest += [self._stranger(message) for message in self._late]
        if not rest and (not self.shown or isinstance(self.shown[-1].message, AIMessage)):
            rest.append(HumanMessage(content=CONTINUE if self.shown or self._has_head else START))
        return rest

    def _feed_assistant(self, message: AIMessage, tag: int) -> None:
        if not self.shown and not self._has_head:
            self._show(HumanMessage(content=START))
        if self.shown and isinstance(self.shown[-1].message, AIMessage):
            self._show(HumanMessage(content=CONTINUE))
        calls: list[ToolCall] = []
        self._open = []
        for position, call in enumerate(valid_calls(message)):
            new = self._portable(call["id"], tag, position)
            self._open.append((call["id"], new))
            calls.append({**call, "id": new})
        edit = self.frame.edits.get(tag)
        key = (tag, message.id, edit, tuple(new for _, new in self._open))
        self._show_memo(key, message, lambda: assistant_face(message, tag, edit, calls))

    def _feed_result(self, message: ToolMessage, tag: int) -> None:
        position = self._asked_at(message.tool_call_id)
        if position is None:
            self._late.append(message)
        else:
            _, new = self._open.pop(position)
            edit, hint = self.frame.edits.get(tag), self.frame.hints.get(tag, "")
            key = (tag, message.id, edit, new, hint)
            self._show_memo(key, message, lambda: tool_face(message, tag, edit, new, hint))
        # An arc that is complete is closed at once, so that what comes later only ever follows it.
        if not self._open:
            self._close_arc()

    def _asked_at(self, call_id: str | None) -> int | None:
        """Which open call a result answers; of equal ids the first, for results come in order."""
        return next((at for at, (old, _) in enumerate(self._open) if (old or "") == (call_id or "")), None)

    def _close_arc(self) -> None:
        for _, new in self._open:
            self._show(ToolMessage(content=NO_RESULT, tool_call_id=new))
        self._open = []
        for message in self._late:
            self._show(self._stranger(message))
        self._late = []

    def _show_human(self, message: BaseMessage, tag: int) -> None:
        hint = self.frame.hints.get(tag, "")
        edit = self.frame.edits.get(tag)
        self._show_memo((tag, message.id, edit, hint), message, lambda: human_face(message, tag, edit, hint))

    def _stranger(self, message: ToolMessage) -> HumanMessage:
        """A result that answers no open call, as a note that a provider accepts."""
        tag = tag_of(message)
        edit = self.frame.edits.get(tag)
        face = tool_face(message, tag, edit, "none", self.frame.hints.get(tag, ""))
        note = f"[late result of {face.name or 'a tool'}]"
        if isinstance(face.content, str):
            return HumanMessage(content=f"{note} {face.content}", id=message.id)
        return HumanMessage(content=[{"type": "text", "text": note}, *face.content], id=message.id)

    def _portable(self, call_id: str | None, tag: int, position: int) -> str:
        """An id that is unique in the request and that every provider accepts."""
        new = call_id or ""
        if new in self._ids or not _PORTABLE_ID.fullmatch(new):
            new, count = f"call-{tag}-{position}", len(self._ids)
            while new in self._ids:
                new, count = f"call-{tag}-{position}-{count}", count + 1
        self._ids.add(new)
        return new

    def _show_memo(self, key: object, source: BaseMessage, make: Callable[[], BaseMessage]) -> None:
        known = self._memo.get(key)
        if known is not None and (known[0] is source or known[0] == source):
            self.shown.append(known[1])
            return
        message = make()
        shown = Shown(message, tag_of(source), count_message(message))
        if shown.tag:
            self._memo[key] = source, shown
        self.shown.append(shown)

    def _show(self, message: BaseMessage) -> None:
        self.shown.append(Shown(message, 0, count_message(message)))
