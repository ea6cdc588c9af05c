"""From the log to the request: `render(frame, messages)`, a pure function (M1, M11).

Reads the tail from left to right; what a message looks like depends only on what stands before it, so
a log that grows gives a request that grows. Tool calls and their results (an arc) always come whole:
a call without a result gets one that says so, a result without a call becomes a user's note.

The provider's row decides what else stands where: where two user messages may not meet, or a user may not
follow a tool result, an assistant's one-word bridge stands between. To merge them would change a message that
was sent before; a bridge only ever follows.
"""

import hashlib
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
from headwater.window.frame import Edit, Frame
from headwater.window.images import hide_images, images_in, images_to_hide, split_images
from headwater.window.marks import tag_of
from headwater.window.providers import DEFAULT, Provider
from headwater.window.tokens import count_message

CONTINUE = "(continue)"
START = "(session start)"
NO_RESULT = "(no result: this call was not answered)"
SYNTHETIC = "headwater_synthetic"
BRIDGE = "(noted)"
_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


class Texts(NamedTuple):
    """The texts that a frame names: system prompt, contract of leading system messages, m[0] and m[1]."""

    system: str = ""
    contract: str = ""
    baseline: str = ""
    delta: str = ""


def render(
    frame: Frame, messages: Sequence[BaseMessage], texts: Texts | None = None, provider: Provider = DEFAULT
) -> list[BaseMessage]:
    """The request for a frame and its messages.

    Args:
        frame: The frozen render state.
        messages: The log's tail, numbered (`marks.stamp`); what lies at or before the boundary is not shown.
        texts: The texts the frame names.
        provider: The row of the provider it goes to.

    Returns:
        One system message (where there is any system text), then messages of which the first is a
        user's; tool calls paired; no content empty; as the provider's row has it.
    """
    head = render_head(texts or Texts(), provider)
    tail = [m for m in messages if not 0 < tag_of(m) <= max(frame.boundary, frame.lead)]
    renderer = Renderer(
        frame,
        has_head=any(isinstance(m, HumanMessage) for m in head),
        provider=provider,
        hidden_images=images_to_hide(sum(map(images_in, tail)), provider.images),
    )
    for message in tail:
        renderer.feed(message)
    return [*head, *(shown.message for shown in renderer.shown), *renderer.finish()]


def render_head(texts: Texts, provider: Provider = DEFAULT) -> list[BaseMessage]:
    """The system message and the two synthetic user messages m[0] and m[1], those that have text."""
    head: list[BaseMessage] = []
    system = "\n\n".join(safe(t) for t in (texts.system, texts.contract) if t.strip())
    if system:
        head.append(SystemMessage(content=system))
    for text in (texts.baseline, texts.delta):
        if text:
            if provider.alternate and head and isinstance(head[-1], HumanMessage):
                head.append(AIMessage(content=BRIDGE))
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

    def __init__(
        self,
        frame: Frame,
        *,
        has_head: bool,
        memo: Memo | None = None,
        provider: Provider = DEFAULT,
        hidden_images: int = 0,
    ) -> None:
        self.shown: list[Shown] = []
        self.frame = frame
        self.hidden_images = hidden_images
        self._provider = provider
        self._id_shape = re.compile(provider.ids.pattern)
        self._passed_images = 0
        self._pictures: list[BaseMessage] = []
        self._closes = False
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
        rest: list[BaseMessage] = []
        last = self.shown[-1].message if self.shown else None
        for message in self._owed():
            rest += [*self._between(last, message), message]
            last = message
        if not rest and (last is None or isinstance(last, AIMessage)):
            closing = HumanMessage(content=CONTINUE if last is not None or self._has_head else START)
            rest += [*self._between(last, closing), closing]
        return rest

    def _end_of_round(self) -> list[BaseMessage]:
        """An answer and a word from the user, where the round must be over for its reasoning to go."""
        return [AIMessage(content=BRIDGE), HumanMessage(content=CONTINUE)] if self._closes else []

    def _owed(self) -> list[BaseMessage]:
        """What an arc still needs to be closed: results for open calls, then late results and images."""
        results = [ToolMessage(content=NO_RESULT, tool_call_id=new) for _, new in self._open]
        return [*results, *map(self._stranger, self._late), *self._pictures, *self._end_of_round()]

    def _between(self, last: BaseMessage | None, new: BaseMessage) -> list[BaseMessage]:
        """The bridge that must stand before a user message, where the provider wants one."""
        if not isinstance(new, HumanMessage):
            return []
        if last is None:
            met = self._has_head and self._provider.alternate
        else:
            met = (self._provider.alternate and isinstance(last, HumanMessage)) or (
                self._provider.bridge and isinstance(last, ToolMessage)
            )
        return [AIMessage(content=BRIDGE)] if met else []

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
        self._closes = edit == Edit.CLOSE and bool(self._open)
        key = (tag, message.id, edit, tuple(new for _, new in self._open))
        self._show_memo(key, message, lambda: assistant_face(message, tag, edit, calls, self._provider))

    def _feed_result(self, message: ToolMessage, tag: int) -> None:
        position = self._asked_at(message.tool_call_id)
        if position is None:
            self._late.append(message)
        else:
            _, new = self._open.pop(position)
            edit, hint = self.frame.edits.get(tag), self.frame.hints.get(tag, "")
            hidden = self._hidden_of(message)
            key = (tag, message.id, edit, new, hint, hidden)
            self._show_memo(key, message, lambda: self._result_face(message, tag, edit, new, hint, hidden))
            self._keep_pictures(message, edit, hidden)
        # An arc that is complete is closed at once, so that what comes later only ever follows it.
        if not self._open:
            self._close_arc()

    def _asked_at(self, call_id: str | None) -> int | None:
        """Which open call a result answers; of equal ids the first, for results come in order."""
        return next((at for at, (old, _) in enumerate(self._open) if (old or "") == (call_id or "")), None)

    def _result_face(
        self, message: ToolMessage, tag: int, edit: str | None, new: str, hint: str, hidden: int
    ) -> ToolMessage:
        face = tool_face(hide_images(message, hidden), tag, edit, new, hint)
        if self._provider.tool_images or isinstance(face.content, str):
            return face
        return face.model_copy(update={"content": split_images(face.content)[0]})

    def _keep_pictures(self, message: ToolMessage, edit: str | None, hidden: int) -> None:
        """Images that this provider takes from a user only are shown behind the arc."""
        if self._provider.tool_images or edit or isinstance(message.content, str):
            return
        images = split_images(hide_images(message, hidden).content)[1]
        if images:
            name = message.name or "a tool"
            note = {"type": "text", "text": f"[image from the result of {name} in §{tag_of(message)}§]"}
            self._pictures.append(HumanMessage(content=[note, *images]))

    def _hidden_of(self, message: BaseMessage) -> int:
        """How many of a message's images are among the oldest that are not shown."""
        count = images_in(message)
        if not count:
            return 0
        hidden = max(0, min(count, self.hidden_images - self._passed_images))
        self._passed_images += count
        return hidden

    def _close_arc(self) -> None:
        for message in self._owed():
            self._show(message)
        self._open, self._late, self._pictures, self._closes = [], [], [], False

    def _show_human(self, message: BaseMessage, tag: int) -> None:
        hint, hidden = self.frame.hints.get(tag, ""), self._hidden_of(message)
        edit = self.frame.edits.get(tag)
        key = (tag, message.id, edit, hint, hidden)
        self._show_memo(key, message, lambda: human_face(hide_images(message, hidden), tag, edit, hint))

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
        """An id that is unique in the request and that the provider accepts; the same at each rendering."""
        new, length = call_id or "", self._provider.ids.length
        count = 0
        while new in self._ids or not self._id_shape.fullmatch(new):
            seed = f"call-{tag}-{position}" + (f"-{len(self._ids) + count - 1}" if count else "")
            new, count = (_short_id(f"{call_id}/{seed}", length) if length else seed), count + 1
        self._ids.add(new)
        return new

    def _show_memo(self, key: object, source: BaseMessage, make: Callable[[], BaseMessage]) -> None:
        known = self._memo.get(key)
        if known is not None and (known[0] is source or known[0] == source):
            self._add(known[1])
            return
        message = make()
        shown = Shown(message, tag_of(source), count_message(message))
        if shown.tag:
            self._memo[key] = source, shown
        self._add(shown)

    def _show(self, message: BaseMessage) -> None:
        self._add(Shown(message, 0, count_message(message)))

    def _add(self, shown: Shown) -> None:
        last = self.shown[-1].message if self.shown else None
        for bridge in self._between(last, shown.message):
            self.shown.append(Shown(bridge, 0, count_message(bridge)))
        self.shown.append(shown)


def _short_id(seed: str, length: int) -> str:
    """Letters and digits that stand for a longer id."""
    number = int.from_bytes(hashlib.sha256(seed.encode("utf-8", "surrogatepass")).digest()[:12], "big")
    digits = []
    for _ in range(length):
        number, digit = divmod(number, len(_DIGITS))
        digits.append(_DIGITS[digit])
    return "".join(digits)
