"""The window of one session in this process: `render`, done once a message instead of once a request.

A view gives the same bytes as `render(frame, messages)`; it only remembers what it has read. Where frame
or log do not continue what it knows (a pass, a fork, a restart) it reads again from the start.
"""

import json
from collections.abc import Sequence

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage

from headwater.window.face import argument_tokens, gain_of, text_of
from headwater.window.frame import Edit, Frame, Pending
from headwater.window.images import images_in, images_to_hide
from headwater.window.marks import tag_of
from headwater.window.policy import WindowPolicy
from headwater.window.providers import DEFAULT, Provider
from headwater.window.reasoning import may_strip, reasoning_tokens
from headwater.window.render import Memo, Renderer, Texts, render_head
from headwater.window.schedule import Item
from headwater.window.stubs import is_only_stub
from headwater.window.tokens import count_message, count_text

# What these tools return or take is governance itself: a note, a page somebody asked for just now.
EXEMPT_CALLS = frozenset({"ctx_note", "ctx_reduce", "ctx_memory"})
# What these return lies in the archive already, under another tag or name: no second copy, no second stub.
PAGE_CALLS = frozenset({"file_read", "ctx_expand", "ctx_search"})


class View:
    """What one session's window holds, message by message, with its weight in tokens."""

    def __init__(self, provider: Provider = DEFAULT) -> None:
        self._provider = provider
        self._images = 0
        self._key: tuple[object, ...] = ()
        self._log: Sequence[BaseMessage] = ()
        self._source: list[BaseMessage] = []
        self._memo: Memo = {}
        self._reset(Frame(), Texts())

    def _reset(self, frame: Frame, texts: Texts) -> None:
        self.head: list[BaseMessage] = render_head(texts, self._provider)
        self.head_tokens: int = sum(count_message(m) for m in self.head)
        self._renderer = Renderer(
            frame,
            has_head=any(m.type == "human" for m in self.head),
            memo=self._memo,
            provider=self._provider,
            hidden_images=images_to_hide(self._images, self._provider.images),
        )
        self._source = []
        self._sent = list(self.head)
        self._tokens = self.head_tokens
        self._starts: dict[int, int] = {}
        self._by_tag: dict[int, BaseMessage] = {}
        self._order: list[int] = []
        self._latest_call: dict[str, int] = {}
        self._calls: dict[str, list[tuple[str, str]]] = {}
        self._superseded: set[int] = set()

    def sync(self, frame: Frame, messages: Sequence[BaseMessage], texts: Texts) -> None:
        """Bring the view up to the frame and the log; costs what is new."""
        key = (frame.session, frame.revision, frame.boundary, frame.lead, texts)
        known = len(self._source)
        # Lists compare by identity first: a log that only grew costs a pointer a message.
        same = messages is self._log and known == len(messages)
        continues = key == self._key and (same or self._source == messages[:known])
        if not continues:
            self._key = key
            if len(self._memo) > 4 * len(messages) + 64:
                self._memo.clear()
            self._reset(frame, texts)
            known = 0
        self._renderer.frame = frame
        fresh = messages[known:]
        if self._provider.images is not None and self._see_images(frame, messages, known):
            self._reset(frame, texts)
            fresh = messages
        for message in fresh:
            self._read(message)
        self._source.extend(fresh)
        self._log = messages

    def _see_images(self, frame: Frame, messages: Sequence[BaseMessage], known: int) -> bool:
        """Count the images of new messages; whether another number of the oldest must now be hidden."""
        shown = (m for m in messages[known:] if not self._renderer.hides(tag_of(m)))
        self._images = (self._images if known else 0) + sum(map(images_in, shown))
        return images_to_hide(self._images, self._provider.images) != self._renderer.hidden_images

    def request(self) -> list[BaseMessage]:
        """The request as it stands."""
        return [*self._sent, *self._renderer.finish()]

    @property
    def tokens(self) -> int:
        """Tokens of the request, tool schemas not included."""
        return self._tokens + sum(count_message(m) for m in self._renderer.finish())

    @property
    def hidden_images(self) -> int:
        """How many of the oldest images are not shown."""
        return self._renderer.hidden_images

    def prefix(self, frame: Frame) -> str:
        """What tells whether anything has moved: the frame's revision, and how many images are not shown."""
        return f"{frame.revision}/{self.hidden_images}" if self.hidden_images else frame.revision

    @property
    def last(self) -> int:
        """The newest tag in the tail; 0 when it is empty."""
        return self._order[-1] if self._order else 0

    @property
    def tags(self) -> Sequence[int]:
        """Tags of the tail, oldest first."""
        return self._order

    def message(self, tag: int) -> BaseMessage:
        """The raw message of a tag in the tail."""
        return self._by_tag[tag]

    def start(self, tag: int) -> int:
        """Tokens of the request before a tag."""
        return self._starts[tag]

    def span(self, first: int, last: int) -> int:
        """Tokens of the request from one tag of the tail to another, both included."""
        after = self._tags_after(last)
        return (self._starts[after[0]] if after else self._tokens) - self._starts[first]

    def protected(self, policy: WindowPolicy, window: int, room: int | None = None) -> int:
        """The first protected tag: the zone's messages and tags, cut where it would weigh too much.

        The zone takes at most half of `room`, the tokens that what always stands leaves before the first
        line: a zone that reaches the lines by itself would have every step told in summaries. The newest arc
        is always inside, whatever it weighs.
        """
        limit = policy.zone(window) if room is None else min(policy.zone(window), room // 2)
        keep = max(policy.keep_messages, policy.keep_tags)
        first = self.last + 1
        for tag in reversed(self._order[-keep:]):
            if self._tokens - self._starts[tag] > limit and first <= self.last:
                break
            first = tag
        return min(first, self.latest_arc())

    def latest_arc(self) -> int:
        """The tag with which the newest arc begins (its assistant message); the newest tag without one."""
        for tag in reversed(self._order):
            if not isinstance(self._by_tag[tag], ToolMessage):
                return tag
        return self.last

    def candidates(
        self, frame: Frame, policy: WindowPolicy, window: int, room: int | None = None
    ) -> tuple[dict[int, Pending], int]:
        """Edits of the tags that have left the zone since the frame looked, and how far that was."""
        end = min(self.protected(policy, window, room), frame.sent + 1)
        found: dict[int, Pending] = {}
        zone = frame.zone
        for tag in self._tags_after(frame.zone):
            if tag >= end:
                break
            zone = tag
            edit = self._edit_for(tag, policy)
            gain = gain_of(self._by_tag[tag], tag, edit) if edit else 0
            if edit and gain > 0 and tag not in frame.edits:
                found[tag] = Pending(edit, gain, frame.warm)
        for tag in [t for t in self._superseded if t <= zone]:
            self._superseded.discard(tag)
            waiting = frame.pending.get(tag) or found.get(tag)
            gain = gain_of(self._by_tag[tag], tag, Edit.DROP)
            if gain > 0 and tag not in frame.edits:
                found[tag] = Pending(Edit.DROP, gain, waiting.since if waiting else frame.warm)
        for tag in frame.reduce:
            if tag < end and tag in self._by_tag and tag not in frame.edits:
                waiting = frame.pending.get(tag)
                gain = gain_of(self._by_tag[tag], tag, Edit.DROP)
                if gain > 0:
                    found[tag] = Pending(Edit.DROP, gain, waiting.since if waiting else frame.warm)
        return found, zone

    def items(self, frame: Frame) -> list[Item]:
        """The frame's pending edits with their positions, in order; those not in the tail left out."""
        return [
            Item(tag, p.edit, self._starts[tag], p.gain, frame.warm - p.since)
            for tag, p in sorted(frame.pending.items())
            if tag in self._starts and tag not in frame.edits
        ]

    def _tags_after(self, tag: int) -> Sequence[int]:
        """Tags of the tail after `tag`; walks back from the end, so it costs what it returns."""
        count = 0
        for known in reversed(self._order):
            if known <= tag:
                break
            count += 1
        return self._order[len(self._order) - count :]

    def _edit_for(self, tag: int, policy: WindowPolicy) -> Edit | None:
        message = self._by_tag[tag]
        if isinstance(message, ToolMessage):
            text = text_of(message)
            if message.name in EXEMPT_CALLS or is_only_stub(text):
                return None
            # No text has more tokens than three times its characters, so short ones need no count.
            heavy = len(text) * 3 >= policy.min_result and count_text(text) >= policy.min_result
            if not heavy:
                return None
            return Edit.DROP if message.name in PAGE_CALLS else Edit.OFFLOAD
        if isinstance(message, AIMessage):
            exempt = any(call["name"] in EXEMPT_CALLS for call in message.tool_calls)
            if not exempt and message.tool_calls and argument_tokens(message) >= policy.min_arguments:
                return Edit.OFFLOAD
            return Edit.STRIP if reasoning_tokens(message) and may_strip(message, self._provider) else None
        return None

    def _read(self, message: BaseMessage) -> None:
        tag = tag_of(message)
        if self._renderer.hides(tag):
            return
        self._renderer.feed(message)
        before = self._tokens
        shown = self._renderer.shown
        for new in shown[len(self._sent) - len(self.head) :]:
            self._sent.append(new.message)
            self._tokens += new.tokens
        if tag and shown and shown[-1].tag == tag:
            before = self._tokens - shown[-1].tokens
        if tag:
            self._starts[tag] = before
            self._by_tag[tag] = message
            self._order.append(tag)
            self._note_repeat(message, tag)

    def _note_repeat(self, message: BaseMessage, tag: int) -> None:
        """Superseded results: the same tool called again with the same arguments, without an error (C4)."""
        if isinstance(message, AIMessage):
            # Ids repeat, across turns and within one; results answer the newest turn, in its order.
            self._calls = {}
            for call in message.tool_calls:
                args = json.dumps(call["args"], sort_keys=True, ensure_ascii=False, default=str)
                self._calls.setdefault(call["id"] or "", []).append((call["name"], args))
        elif isinstance(message, ToolMessage):
            waiting = self._calls.get(message.tool_call_id)
            if not waiting:
                return
            known = waiting.pop(0)
            if message.status == "error" or known[0] in EXEMPT_CALLS:
                return
            key = "\n".join(known)
            older = self._latest_call.get(key)
            if older is not None:
                self._superseded.add(older)
            self._latest_call[key] = tag
