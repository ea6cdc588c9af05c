"""Compare policies on sessions: one row for each, and the cheapest that loses nothing.

A policy is written as a name of `POLICIES`, or as settings of `WindowPolicy`: `offload=0.5,keep_tags=10`;
both together as `late,arrival=4000`. `unmanaged` sends the whole log on every step, whatever the window.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from itertools import product
from types import MappingProxyType, NoneType
from typing import Any, get_args, get_type_hints

from headwater.lab.recording import Session
from headwater.lab.replay import ReplayReport, replay
from headwater.window.policy import PolicyError, WindowPolicy
from headwater.window.prices import Prices

UNMANAGED = "unmanaged"
_TRUTH = {"true": True, "1": True, "false": False, "0": False}
POLICIES: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "default": {},
        "early": {"offload": 0.5, "compact": 0.7},
        "late": {"offload": 0.8, "compact": 0.9},
        "lean": {"keep_tags": 8, "keep_tokens": 8_000, "arrival": 4_000},
        "no-summary": {"summarise": "never"},
        "cold-summary": {"summarise": "cold"},
    }
)
SWEEP: Mapping[str, Sequence[Any]] = MappingProxyType(
    {"offload": (0.5, 0.65, 0.8), "keep_tags": (8, 20), "summarise": ("line", "cold")}
)


class UnknownPolicy(ValueError):
    """A policy's text names neither a policy nor a setting; the message says which there are."""


@dataclass(frozen=True)
class Row:
    """One policy in one window, over all the sessions; the fields are sums, or the worst of a share.

    Attributes:
        cost, unmanaged: In uncached input tokens.
        input, cached, new, cold, edit: Tokens.
        in_sight: Share of the facts that stand in the last requests.
        governance_ms: The largest p95 of the sessions.
    """

    policy: str
    window: int
    sessions: int
    steps: int
    input: int
    cached: int
    new: int
    cold: int
    edit: int
    cost: float
    unmanaged: float
    facts: int
    in_sight: float
    lost: int
    refused: int
    violations: int
    summary_tokens: int
    checkpoint_bytes: int
    governance_ms: float

    @property
    def ratio(self) -> float:
        """Cost as a share of unmanaged."""
        return self.cost / self.unmanaged if self.unmanaged else 1.0

    @property
    def sound(self) -> bool:
        """Whether nothing was lost, refused or invalid."""
        return not (self.lost or self.refused or self.violations)

    def to_dict(self) -> dict[str, Any]:
        """As JSON."""
        return {**asdict(self), "ratio": self.ratio}


def parse_policy(text: str, window: int) -> WindowPolicy:
    """A policy from its text, in a window.

    Raises:
        UnknownPolicy: A name or setting that there is not.
        PolicyError: A value that cannot be.
    """
    settings: dict[str, Any] = {}
    types = {f.name: f.type for f in fields(WindowPolicy)}
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        name, equals, value = part.partition("=")
        if not equals and name in POLICIES:
            settings |= POLICIES[name]
        elif equals and name in types and name != "window":
            settings[name] = _value(name, value)
        else:
            raise UnknownPolicy(
                f"{part!r} is no policy; there are {', '.join((*POLICIES, UNMANAGED))}, "
                f"and the settings {', '.join(n for n in types if n != 'window')} as NAME=VALUE"
            )
    return WindowPolicy(window=window, **settings)


def _value(name: str, text: str) -> Any:
    kind = get_type_hints(WindowPolicy)[name]
    kinds = get_args(kind) or (kind,)
    if text.lower() == "none" and NoneType in kinds:
        return None
    if bool in kinds:
        if text.lower() not in _TRUTH:
            raise UnknownPolicy(f"{name}={text!r} is neither true nor false")
        return _TRUTH[text.lower()]
    if float not in kinds and int not in kinds:
        return text
    try:
        return float(text) if float in kinds else int(text)
    except ValueError:
        raise UnknownPolicy(f"{name}={text!r} is not a number") from None


def compare(
    sessions: Sequence[Session], policies: Iterable[str], windows: Sequence[int], prices: Prices
) -> Iterator[tuple[Row, list[ReplayReport]]]:
    """Replay every session under every policy in every window; a row as soon as it is known."""
    asked = list(policies)
    for window in windows:
        for text in asked:
            if text == UNMANAGED:
                continue
            policy = parse_policy(text, window)
            reports = [replay(session, policy, prices) for session in sessions]
            row = row_of(text, window, reports)
            yield row, reports
            if UNMANAGED in asked:
                asked.remove(UNMANAGED)
                yield _unmanaged(row), []


def sweep(sessions: Sequence[Session], windows: Sequence[int], prices: Prices) -> Iterator[Row]:
    """A row for every policy of the grid `SWEEP`; those that cannot be are left out."""
    for values in product(*SWEEP.values()):
        text = ",".join(f"{name}={value}" for name, value in zip(SWEEP, values, strict=True))
        try:
            for window in windows:
                parse_policy(text, window)
        except PolicyError:
            continue
        for row, _ in compare(sessions, [text], windows, prices):
            yield row


def cheapest(rows: Iterable[Row], in_sight: float) -> Row | None:
    """The cheapest row that is sound and keeps the share in sight; None where none does."""
    return min((r for r in rows if r.sound and r.in_sight >= in_sight), key=lambda r: r.cost, default=None)


def row_of(policy: str, window: int, reports: Sequence[ReplayReport]) -> Row:
    """The sums over the reports of one policy."""
    accounts = [r.account for r in reports if r.account]
    facts = sum(r.survived.facts for r in reports)
    sums = {
        name: int(sum(a.total(name) for a in accounts)) for name in ("input", "cached", "new", "cold", "edit")
    }
    return Row(
        policy=policy,
        window=window,
        sessions=len(reports),
        steps=sum(r.steps for r in reports),
        **sums,
        cost=sum(r.cost for r in reports),
        unmanaged=sum(r.unmanaged for r in reports),
        facts=facts,
        in_sight=sum(len(r.survived.in_sight) for r in reports) / facts if facts else 1.0,
        lost=sum(len(r.survived.lost) + r.damaged for r in reports),
        refused=sum(r.totals.refused for r in reports),
        violations=sum(r.totals.violations for r in reports),
        summary_tokens=sum(a.summary_tokens for a in accounts),
        checkpoint_bytes=sum(a.checkpoint_bytes for a in accounts),
        governance_ms=max((a.governance_ms(0.95) for a in accounts), default=0.0),
    )


def _unmanaged(like: Row) -> Row:
    """The same sessions with the whole log sent; nothing leaves, and its window may not exist."""
    known = {"policy": UNMANAGED, "window": 0, "cost": like.unmanaged, "in_sight": 1.0, "governance_ms": 0.0}
    zero = dict.fromkeys(
        ("input", "cached", "new", "cold", "edit", "lost", "refused", "violations", "summary_tokens",
         "checkpoint_bytes"), 0
    )  # fmt: skip
    return Row(**{**asdict(like), **zero, **known})
