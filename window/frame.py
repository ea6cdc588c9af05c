"""The frame: everything that decides how a session's log is seen, and nothing of the log itself."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from typing import Any, NamedTuple

from headwater.window.calibration import Meter
from headwater.window.cut_prompts import Reports

VERSION = 1
_OWN_CHANNEL = ("edits", "hints")


class FrameTooNew(ValueError):
    """A frame written by a newer program; reading it could lose what the program added."""


class Edit(StrEnum):
    """What the frame does to a tag. Queued first, applied on a busting pass, frozen once applied.

    OFFLOAD puts a stub in place of a tool result, or of the long arguments of a tool call; STRIP takes
    reasoning out; SKELETON and DROP leave one line, a function of the tag alone. CLOSE does to an assistant
    message what OFFLOAD does and ends its tool round, where a provider would ask for the reasoning otherwise.
    """

    OFFLOAD = "offload"
    STRIP = "strip"
    SKELETON = "skeleton"
    DROP = "drop"
    CLOSE = "close"


class Pass(StrEnum):
    """How a request relates to the one before it (G10-G13).

    DEFER moves nothing; EXECUTE applies edits from one position on and may re-render the delta;
    FOLD rebuilds the baseline and drains the queue.
    """

    DEFER = "defer"
    EXECUTE = "execute"
    FOLD = "fold"


class Pin(NamedTuple):
    """One line of the task note (E14, E15): verbatim in every request, never summarised (E16).

    `tag` is the message it stands in: until that message has left the tail it is in sight there.
    """

    kind: str
    text: str
    tag: int
    source: str = "user"


class Pending(NamedTuple):
    """An edit that waits: what it does, the tokens it frees, and the warm request since which it waits."""

    edit: Edit
    gain: int
    since: int


@dataclass(frozen=True)
class Frame:
    """The frozen render state of one session.

    Attributes:
        session: The archive's name of the session.
        boundary: Last tag told by compartments; what stands after it is the tail.
        told: Ids of the compartments that tell it: a branch of the same session has others.
        folded: The boundary at the last fold; compartments and pins after it stand in the delta.
        baseline, delta: Artifact names of the rendered m[0] and m[1]; "" where there is none.
        contract: Artifact name of the leading system messages' text; `lead` is the last of their tags.
        edits: Applied edits by tag; frozen. Kept in a channel of their own, as are
        hints: overlays by tag, decided once, shown behind their message.
        pins: The task note, in order of occurrence.
        task: Tag of the newest user message; once it is told, m[0] or m[1] shows it verbatim (C2).
        pending: Edits that wait, by tag.
        reduce: Tags the model asked to let go of; they wait here until they have left the zone (G9).
        zone: Last tag that has been looked at for edits: it left the protected zone.
        sent: Last tag the model has seen.
        asked: Clock of the last request, in seconds; None before the first.
        warm: Number of warm requests so far; the clock of the rent.
        size: Tokens of the last request as estimated, for the price of moving it.
        answered: `View.prefix` of the last request; another one since means that its prefix has moved.
        identity: Digest of model, system prompt and tools; another one means FOLD.
        head: Digest of all that stood before the tail in the last request; kept for models that bind their
            reasoning to it.
        language: The user's language, "en" or "zh".
        scale: Reported ÷ estimated input tokens of this model (0.8-3.0).
        meter: What was last reported, and what had been counted for it.
        reports: Whether what is reported still grows with what is sent; see `cut_prompts`.
        revision: Digest of all edits and folds so far; equal revisions render equal prefixes.
        folds, busts: Counters.
        spent: Tokens governance has spent on models of its own.
        remembered: Last tag whose pins have been written as facts.
    """

    session: str = ""
    boundary: int = 0
    told: tuple[int, ...] = ()
    folded: int = 0
    baseline: str = ""
    delta: str = ""
    contract: str = ""
    lead: int = 0
    edits: Mapping[int, str] = field(default_factory=dict)
    hints: Mapping[int, str] = field(default_factory=dict)
    pins: tuple[Pin, ...] = ()
    task: int = 0
    pending: Mapping[int, Pending] = field(default_factory=dict)
    reduce: tuple[int, ...] = ()
    zone: int = 0
    sent: int = 0
    asked: float | None = None
    warm: int = 0
    size: int = 0
    answered: str = ""
    identity: str = ""
    head: str = ""
    language: str = "en"
    scale: float = 1.0
    meter: Meter = field(default_factory=Meter)
    reports: Reports = field(default_factory=Reports)
    revision: str = ""
    folds: int = 0
    busts: int = 0
    spent: int = 0
    remembered: int = 0

    def to_state(self) -> dict[str, Any]:
        """Plain values for a checkpoint, without edits and hints; no class of ours is needed to read it."""
        data = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in _OWN_CHANNEL}
        data["told"] = list(self.told)
        data["reduce"] = list(self.reduce)
        data["meter"] = list(self.meter)
        data["reports"] = list(self.reports)
        data["pins"] = [list(pin) for pin in self.pins]
        data["pending"] = {tag: [str(p.edit), p.gain, p.since] for tag, p in self.pending.items()}
        return {"v": VERSION, **data}

    @classmethod
    def from_state(
        cls,
        data: Mapping[str, Any] | None,
        edits: Mapping[int, str] | None = None,
        hints: Mapping[int, str] | None = None,
    ) -> "Frame":
        """Read what `to_state` wrote.

        Raises:
            FrameTooNew: The frame was written by a newer program.
        """
        if not data:
            return cls(edits=edits or {}, hints=hints or {})
        if data.get("v", VERSION) > VERSION:
            raise FrameTooNew(
                f"this session's frame has version {data['v']!r}, this program reads {VERSION}; "
                "upgrade headwater"
            )
        known = {f.name for f in fields(cls)}
        values = {k: v for k, v in data.items() if k in known}
        values["told"] = tuple(data.get("told", ()))
        values["reduce"] = tuple(data.get("reduce", ()))
        values["meter"] = Meter(*data.get("meter", ()))
        values["reports"] = Reports(*data.get("reports", ()))
        values["pins"] = tuple(Pin(*pin) for pin in data.get("pins", ()))
        values["pending"] = {
            int(tag): Pending(Edit(edit), gain, since)
            for tag, (edit, gain, since) in data.get("pending", {}).items()
        }
        return cls(**values, edits=edits or {}, hints=hints or {})

    def with_(self, **changes: Any) -> "Frame":
        """A copy with some values changed."""
        return replace(self, **changes)
