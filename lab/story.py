"""The real input of every step, of a recorded session or of a replay (E23): what a diagnosis reads."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, SystemMessage, ToolMessage

from headwater.lab.recording import Session
from headwater.lab.replay import ReplayReport
from headwater.lab.sent_requests import Part
from headwater.lab.usage import Usage, usage_of
from headwater.window.prices import Prices
from headwater.window.prose import said_in
from headwater.window.tokens import count_message

_COMPACTED = frozenset({"compacted", "context_compacted", "compaction", "compact_boundary"})
_BLOCK = {"system": "contract", "tool": "observations"}


@dataclass(frozen=True)
class Input:
    """What one model call was sent, and what it answered.

    Attributes:
        step: From 1.
        row: The answer's row in the session.
        parts: Which of the story's parts, in order.
        reply: The answer.
        at: Seconds, None where nothing was recorded.
        usage: As reported by the provider, None where nothing was.
        window: The model's, in tokens; None where it is not known.
        ended: The provider's word for why the answer ended.
        moves: What governance did before it.
    """

    step: int
    row: int
    parts: tuple[int, ...]
    reply: AIMessage
    at: float | None = None
    usage: Usage | None = None
    window: int | None = None
    ended: str = ""
    moves: tuple[str, ...] = ()


@dataclass(frozen=True)
class Story:
    """A session's inputs, step by step.

    `said` is `messages` without what a program put in a user's mouth: skills, reminders, summaries.
    """

    name: str
    parts: tuple[Part, ...]
    inputs: tuple[Input, ...]
    messages: tuple[BaseMessage, ...]
    said: tuple[BaseMessage, ...]
    prices: Prices = field(default_factory=Prices)
    reserve: int | None = None

    def tokens(self, step: Input) -> int:
        """Tokens of an input: as reported, else as counted."""
        counted = sum(self.parts[p].tokens for p in step.parts)
        return step.usage.input if step.usage and step.usage.input else counted


def story_of(source: Session | ReplayReport, *, window: int | None = None) -> Story:
    """The inputs of a recorded session, or of a replay.

    Of a recorded session the input is the whole log up to the answer, from the last compaction on; `window`
    is its model's, where the recording does not say.
    """
    if isinstance(source, ReplayReport):
        return _replayed(source)
    return _recorded(source, window)


def _recorded(session: Session, window: int | None) -> Story:
    parts = [_part(message) for message in session.messages]
    inputs: list[Input] = []
    head = [i for i, m in enumerate(session.messages) if isinstance(m, SystemMessage)][:1]
    head = head if head == [0] else []
    start = 0
    for row, message in enumerate(session.messages):
        meta = session.meta[row] if session.meta else {}
        happened = {str(e.get("event")) for e in meta.get("events_before") or [] if isinstance(e, dict)}
        if meta.get("compact_summary") or happened & _COMPACTED:
            start = row
        if isinstance(message, AIMessage):
            known = meta.get("context_window")
            inputs.append(
                Input(
                    step=len(inputs) + 1,
                    row=row,
                    parts=(*(h for h in head if h < start), *range(start, row)),
                    reply=message,
                    at=session.times[row],
                    usage=usage_of(session.usage[row]),
                    window=window or (known if isinstance(known, int) else None),
                    ended=str(meta.get("stop_reason") or ""),
                )
            )
    return Story(session.name, tuple(parts), tuple(inputs), tuple(session.messages), _said(session))


def _replayed(report: ReplayReport) -> Story:
    account, session = report.account, report.session
    assert account is not None
    assert session is not None
    index = {digest: number for number, digest in enumerate(account.sent.parts)}
    rows = [i for i, m in enumerate(session.messages) if isinstance(m, AIMessage)]
    inputs = []
    for step, row in zip(account.steps, rows, strict=False):
        sent = account.sent.requests[step.number - 1]
        reply = session.messages[row]
        assert isinstance(reply, AIMessage)
        inputs.append(
            Input(
                step=step.number,
                row=row,
                parts=tuple(index[digest] for digest in sent.parts),
                reply=reply,
                at=step.at,
                usage=Usage(sent.total, sent.cached, sent.written),
                window=report.window,
                moves=step.moves,
            )
        )
    reserve = account.lines.window - account.lines.usable if account.lines else None
    parts = tuple(account.sent.parts.values())
    messages = tuple(session.messages)
    return Story(report.name, parts, tuple(inputs), messages, _said(session), account.prices, reserve)


def _said(session: Session) -> tuple[BaseMessage, ...]:
    metas: Sequence[Mapping[str, Any]] = session.meta or [{}] * len(session.messages)
    pairs = zip(session.messages, metas, strict=True)
    return tuple(m for m, meta in pairs if not (meta.get("is_meta") or meta.get("compact_summary")))


def _part(message: BaseMessage) -> Part:
    text = "\n".join([said_in(message), *said_in_calls(message)])
    return Part(_BLOCK.get(message.type, "tail"), text, count_message(message))


def said_in_calls(message: BaseMessage) -> list[str]:
    """What a message's calls say, as plain text."""
    calls = message.tool_calls if isinstance(message, AIMessage) else []
    return [f"{call['name']} {_plain(call['args'])}" for call in calls]


def _plain(value: Any) -> str:
    if isinstance(value, Mapping):
        return " ".join(_plain(v) for v in value.values())
    if isinstance(value, (list, tuple)):
        return " ".join(map(_plain, value))
    return str(value)


def results_of(messages: Sequence[BaseMessage]) -> dict[str, ToolMessage]:
    """Each call's first result."""
    found: dict[str, ToolMessage] = {}
    for message in messages:
        if isinstance(message, ToolMessage):
            found.setdefault(message.tool_call_id, message)
    return found
