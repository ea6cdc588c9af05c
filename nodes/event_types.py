"""The shape of every event that governance streams: one TypedDict each, checked by who reads them.

`type` tells them apart, so that a type checker narrows `event["type"] == "headwater.request"` to `Request`.
The remark beside a field goes into docs/events.md, which is made from here.
"""

from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any, Literal, NotRequired, Union, cast, get_args, get_type_hints

# pydantic reads typing's own TypedDict only from Python 3.12 on.
from typing_extensions import TypedDict

Tag = Annotated[int, "a message's number"]
Tokens = Annotated[int, "tokens"]
Tags = Annotated[list[int], "numbers of messages"]


class Lines(TypedDict):
    """The lines of the window, in tokens of input."""

    window: int
    usable: int
    offload: int
    compact: int
    exhausted: int


class Intake(TypedDict):
    """New messages were archived and numbered."""

    type: Literal["headwater.intake"]
    session: str
    first: Tag
    last: Tag


class Arrival(TypedDict):
    """A result over the arrival limit became an artifact before any model saw it."""

    type: Literal["headwater.arrival"]
    session: str
    tag: Tag
    tool: str | None
    artifact: Annotated[str, "the path that `file_read` takes"]
    chars: Annotated[int, "characters as they came"]


class Watermark(TypedDict):
    """The window was measured, and the step's way chosen."""

    type: Literal["headwater.watermark"]
    session: str
    estimate: Annotated[int, "tokens of the next request, calibrated"]
    level: Literal["NORMAL", "OFFLOAD", "COMPACT", "EXHAUSTED"]
    route: Literal["agent", "offload", "summarize", "reclaim", "halt"]
    lines: Annotated[Lines, "`window`, `usable`, `offload`, `compact`, `exhausted`, in tokens"]


class Offload(TypedDict):
    """Edits that had waited were applied."""

    type: Literal["headwater.offload"]
    session: str
    tags: Tags
    reason: Annotated[str, "why now, in a word or a few"]
    kind: Annotated[str, "the pass: `execute` or `fold`"]


class OffloadFailed(TypedDict):
    """A text could not be written; its message stays as it is."""

    type: Literal["headwater.offload_failed"]
    session: str
    tag: Tag
    error: str


class Summarize(TypedDict):
    """History was told as compartments and left the tail; it stays in the archive."""

    type: Literal["headwater.summarize"]
    session: str
    first: Tag
    last: Tag
    tokens: Annotated[int, "tokens of the messages told"]
    shown: Annotated[int, "tokens they took in the window"]
    compartments: Annotated[int, "how many they became"]
    sources: Annotated[list[str], "who told each: `model` or `digest`"]
    rejected: Annotated[list[str], "why answers were not taken"]
    ahead: Annotated[bool, "a background run had told it: no call was made now"]
    calls: Annotated[int, "calls of a summarizer"]
    spent: Annotated[int, "tokens of these calls"]
    folded: Annotated[bool, "the baseline was rebuilt with it"]


class Reclaim(TypedDict):
    """The emergency path took edits at once."""

    type: Literal["headwater.reclaim"]
    session: str
    tags: Tags
    deep: Annotated[bool, "the second time in this step: down to the bone"]


class NothingFreed(TypedDict):
    """A remedy was tried and found nothing that it may take out; the next one follows."""

    type: Literal["headwater.nothing_freed"]
    session: str
    remedy: str
    reason: str


class Request(TypedDict):
    """The main model was called and has answered."""

    type: Literal["headwater.request"]
    session: str
    tokens: Annotated[int, "tokens of the messages sent, as counted"]
    usage: Annotated[dict[str, Any], "`usage_metadata` of the answer; empty where none was reported"]
    kind: Annotated[Literal["defer", "execute", "fold"], "the pass"]


class Overflow(TypedDict):
    """The provider refused the request as too long, or cut it without a word; it goes out smaller."""

    type: Literal["headwater.overflow"]
    session: str
    limit: Annotated[int | None, "tokens, as the refusal states; what prompts are cut to without a word"]
    requested: Annotated[int | None, "tokens, as the refusal states; what was expected where it was cut"]
    attempt: Annotated[int, "from 0"]


class WindowLarger(TypedDict):
    """A full answer came to more input than the assumed window: that may be set larger."""

    type: Literal["headwater.window_larger"]
    session: str
    assumed: Annotated[int, "tokens of the window that is assumed"]
    reported: Annotated[int, "input tokens that the provider charged"]


class Malformed(TypedDict):
    """Tool calls could not be read; they are asked for once more."""

    type: Literal["headwater.malformed"]
    session: str
    calls: int


class Delegate(TypedDict):
    """A sub-agent begins."""

    type: Literal["headwater.delegate"]
    session: Annotated[str, "the sub-agent's"]
    parent: Annotated[str, "the session that delegates"]
    agent: str
    brief: Annotated[str, "its first 200 characters"]
    background: Annotated[bool, "nobody waits for it"]


class Concluded(TypedDict):
    """A sub-agent has come back with its conclusion."""

    type: Literal["headwater.conclusion"]
    session: Annotated[str, "the sub-agent's"]
    parent: str
    status: Annotated[str, "`done`, `partial`, `failed`, `refused` or `cancelled`"]
    usage: Annotated[dict[str, float], "steps, tokens, cost"]
    reason: Annotated[str, "why it is not `done`"]


class Remember(TypedDict):
    """Facts of the round were written."""

    type: Literal["headwater.remember"]
    session: str
    written: int
    refused: int


class RememberFailed(TypedDict):
    """The store could not be written; the facts wait for the next round."""

    type: Literal["headwater.remember_failed"]
    session: str
    error: str


class FactRefused(TypedDict):
    """A fact was not taken: a secret, an injected block, or no fact at all."""

    type: Literal["headwater.fact_refused"]
    session: str
    reason: str


class Fold(TypedDict):
    """The `recall` node has rebuilt the baseline."""

    type: Literal["headwater.fold"]
    session: str
    folds: Annotated[int, "in this session so far"]


class HistorianStarted(TypedDict):
    """A background run begins to tell the oldest tail."""

    type: Literal["headwater.historian_started"]
    session: str
    trigger: Annotated[str, "what made it due"]
    first: Tag
    last: Tag


class HistorianTold(TypedDict):
    """A background run has ended; what it told waits for a pass that breaks the prefix anyway."""

    type: Literal["headwater.historian_told"]
    session: str
    trigger: str
    first: Tag
    last: Tag
    rows: Annotated[list[int], "ids of the compartments"]
    calls: int
    spent: Tokens
    rejected: list[str]


class HistorianFailed(TypedDict):
    """A background run told nothing, or not all; the digest serves until the next."""

    type: Literal["headwater.historian_failed"]
    session: str
    reason: str
    failures: NotRequired[Annotated[int, "in a row"]]
    trigger: NotRequired[str]
    first: NotRequired[Tag]
    last: NotRequired[Tag]
    rows: NotRequired[list[int]]
    calls: NotRequired[int]
    spent: NotRequired[Tokens]
    rejected: NotRequired[list[str]]


class HistorianAwaited(TypedDict):
    """A step at COMPACT waits for the run that is under way."""

    type: Literal["headwater.historian_awaited"]
    session: str


class TextLost(TypedDict):
    """A text of the frame was lost or damaged on disk; it was told again from the archive."""

    type: Literal["headwater.text_lost"]
    session: str
    error: str


class LogRestored(TypedDict):
    """The archive lacked the session's newest messages; what the state holds of them was put back."""

    type: Literal["headwater.log_restored"]
    session: str
    restored: Annotated[list[list[int]], "numbers whose messages were put back, as [first, last]"]
    lost: Annotated[list[list[int]], "numbers whose messages are not here, as [first, last]"]
    artifacts: Annotated[list[str], "offloaded texts that were written again"]
    missing: Annotated[list[str], "offloaded texts that a message names and that are not here"]


class Hint(TypedDict):
    """What memory knows about a new message was put behind it, once and for good."""

    type: Literal["headwater.hint"]
    session: str
    tag: Annotated[int, "of the message"]
    tokens: Annotated[int, "of the hint"]


class HintFailed(TypedDict):
    """Memory could not be searched for a hint; the message stands without one."""

    type: Literal["headwater.hint_failed"]
    session: str
    error: str


class Reminder(TypedDict):
    """A new message asks the model, now and then, whether there is anything to remember."""

    type: Literal["headwater.reminder"]
    session: str
    tag: Annotated[int, "of the message"]
    tokens: Annotated[int, "of the reminder"]


class ClaimFailed(TypedDict):
    """It could not be written down that the session is of this project; later ones may not find it."""

    type: Literal["headwater.claim_failed"]
    session: str
    error: str


class FrameLost(TypedDict):
    """An agent within another graph could not put its frame by; its next turn begins anew."""

    type: Literal["headwater.frame_lost"]
    session: str
    error: str


class Halt(TypedDict):
    """The request cannot fit; none was sent."""

    type: Literal["headwater.halt"]
    session: str
    estimate: Annotated[int | None, "tokens"]
    report: Annotated[dict[str, int], "tokens by block, as `window_report()` gives them"]


class Spending(TypedDict):
    """What the session has used so far, the main model and governance apart; at the end of each round."""

    type: Literal["headwater.spending"]
    session: str
    steps: Annotated[int, "calls of the main model"]
    tokens: Annotated[int, "of the main model, input and output"]
    cost: Annotated[float, "of the main model, in the currency of `Prices.unit`"]
    governance: Annotated[int, "tokens of the summarizers, in line and in the background"]


Event = Union[  # noqa: UP007 - read at run time, member by member
    Intake,
    Arrival,
    Watermark,
    Offload,
    OffloadFailed,
    Summarize,
    Reclaim,
    NothingFreed,
    Request,
    Overflow,
    WindowLarger,
    Malformed,
    Delegate,
    Concluded,
    Remember,
    RememberFailed,
    FactRefused,
    Fold,
    HistorianStarted,
    HistorianTold,
    HistorianFailed,
    HistorianAwaited,
    TextLost,
    LogRestored,
    Hint,
    HintFailed,
    Reminder,
    ClaimFailed,
    FrameLost,
    Halt,
    Spending,
]


class NoSuchEvent(ValueError):
    """A streamed value that is no event of governance, or not of the shape its type has."""


def types() -> dict[str, type]:
    """The class of each event, by its `type`, in the order of the documentation."""
    return {get_args(get_type_hints(kind)["type"])[0]: kind for kind in get_args(Event)}


def event_of(data: Mapping[str, Any]) -> Event:
    """A streamed value as the event it is; everything in it is checked.

    Raises:
        NoSuchEvent: Its `type` is unknown, or a field is missing, of another type, or not in the schema.
    """
    from pydantic import ValidationError

    kind = types().get(str(data.get("type", "")))
    if kind is None:
        raise NoSuchEvent(f"{data.get('type')!r} is no event of governance; see docs/events.md")
    more = sorted(set(data) - set(get_type_hints(kind)))
    if more:
        raise NoSuchEvent(f"{data['type']!r} has no field {more[0]!r}; see docs/events.md")
    try:
        return cast(Event, _adapter(kind).validate_python(dict(data)))
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise NoSuchEvent(f"{data['type']!r} with {place} = {first['input']!r}: {first['msg']}") from error


@cache
def _adapter(kind: type) -> Any:
    from pydantic import ConfigDict, TypeAdapter, with_config

    return TypeAdapter(with_config(ConfigDict(strict=True))(kind))
