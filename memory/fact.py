"""One long-term memory: what it says, of which kind, from where, and whether it still holds (G22)."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, Literal, NamedTuple

from headwater.memory import purport
from headwater.memory.database import StoreTooNew
from headwater.memory.secrets import find_secret

MAX_CHARS = 4_000
VERSION = 2
"""Of a stored fact. Rows without one were written before 0.1.0 and have the form of the first, which does not
say what its id was made by: the first tables of purport.
"""
RECALL_TAG = "headwater-memory"
"""The tag that encloses recalled facts in a prompt; text that carries it is recall, and no news."""

Scope = Literal["project", "user", "session"]
Trust = Literal["user", "agent", "tool"]
"""Who says so."""
Status = Literal["active", "permanent", "archived"]

_SCOPES, _TRUSTS = ("project", "user", "session"), ("user", "agent", "tool")
_RECALL = re.compile(r"<\s*/?\s*headwater-[a-z]", re.IGNORECASE)
_MARK = re.compile(r"§\d+§[ \t]?")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


class FactRefused(ValueError):
    """Something that must not, or cannot, be remembered."""


class SecretRefused(FactRefused):
    """The text holds a key, token or password."""


class RecallBlockRefused(FactRefused):
    """The text holds a block of recalled facts."""


class Category(StrEnum):
    """The five kinds of fact. Each fact has exactly one (G22)."""

    PROJECT_RULES = "PROJECT_RULES"
    ARCHITECTURE = "ARCHITECTURE"
    CONSTRAINTS = "CONSTRAINTS"
    CONFIG_VALUES = "CONFIG_VALUES"
    NAMING = "NAMING"

    @classmethod
    def of(cls, value: Category | str) -> Category:
        """The category of this name, in any case.

        Raises:
            FactRefused: There is none.
        """
        try:
            return cls(value.strip().upper())
        except ValueError:
            raise FactRefused(f"no category {value!r}: use one of {', '.join(cls)}") from None


class Source(NamedTuple):
    """Where a fact was learned."""

    session: str
    tags: tuple[int, ...] = ()


@dataclass(frozen=True)
class Fact:
    """A fact as it is stored. Times are seconds since 1970."""

    id: str
    content: str
    category: Category
    scope: Scope
    importance: int
    source: Source | None
    trust: Trust
    status: Status
    created: float
    valid_from: float
    superseded_by: str | None = None
    seen: int = 1
    purport: int = 1
    """Version of the tables that its id was made by."""

    @property
    def live(self) -> bool:
        """Whether it may be recalled."""
        return self.status != "archived"

    def to_value(self) -> dict[str, Any]:
        """The form that a store holds."""
        value = asdict(self)
        value["source"] = None if self.source is None else [self.source.session, list(self.source.tags)]
        return {"v": VERSION, **value}

    @classmethod
    def from_value(cls, value: Mapping[str, Any]) -> Fact:
        """The fact that `to_value` was taken from.

        Raises:
            StoreTooNew: A newer version of this program wrote it.
        """
        if value.get("v", VERSION) > VERSION:
            raise StoreTooNew(
                f"fact {value.get('id')!r} has version {value['v']!r}, this program reads {VERSION}: "
                "upgrade headwater"
            )
        if value.get("purport", 1) > purport.VERSION:
            raise StoreTooNew(
                f"fact {value.get('id')!r} is named by purport {value['purport']!r}, this program knows "
                f"{purport.VERSION}: upgrade headwater"
            )
        source = value["source"]
        return cls(
            **{
                **{name: item for name, item in value.items() if name != "v"},
                "category": Category(value["category"]),
                "source": None if source is None else Source(source[0], tuple(source[1])),
            }
        )


def fact(
    content: str,
    category: Category | str,
    *,
    scope: Scope = "project",
    importance: int = 50,
    source: Source | tuple[str, Sequence[int]] | None = None,
    trust: Trust = "agent",
    now: float,
) -> Fact:
    """A new fact from what someone wants remembered: checked, normalised, and named by what it says.

    Raises:
        SecretRefused: See `secrets.find_secret`.
        RecallBlockRefused: The text was recalled, not learned.
        FactRefused: Empty, longer than 4,000 characters, or a value out of range.
    """
    if scope not in _SCOPES or trust not in _TRUSTS or not 1 <= importance <= 100:
        raise FactRefused(
            f"scope={scope!r} must be one of {_SCOPES}, trust={trust!r} one of {_TRUSTS}, "
            f"importance={importance!r} between 1 and 100"
        )
    kind = Category.of(category)
    text = normalise(content)
    if not text:
        raise FactRefused(f"a fact without content: {content[:80]!r}")
    if len(text) > MAX_CHARS:
        raise FactRefused(
            f"{len(text)} characters are too many for a fact: say it in {MAX_CHARS}, or keep a file"
        )
    if secret := find_secret(text):
        raise SecretRefused(
            f"this holds a {secret.kind}, beginning {text[: secret.start][-40:]!r}: leave it out"
        )
    if source is not None:
        source = Source(_clean(source[0]), tuple(source[1]))
    return Fact(
        id=fact_id(text, kind),
        content=text,
        category=kind,
        scope=scope,
        importance=importance,
        source=source,
        trust=trust,
        status="active",
        created=now,
        valid_from=now,
        purport=purport.VERSION,
    )


def normalise(content: str) -> str:
    """The content without marks, control characters, broken characters and outer blanks.

    Raises:
        RecallBlockRefused: It holds a recall block's tag.
    """
    if _RECALL.search(content):
        raise RecallBlockRefused(f"this repeats recalled memory (<{RECALL_TAG}>): write only what is new")
    text = _MARK.sub("", _clean(content).replace("\r\n", "\n"))
    return _CONTROL.sub("", text).strip()


def fact_id(text: str, category: Category) -> str:
    """The id of a normalised text in its category, by its purport: a near-duplicate has the same.

    >>> fact_id("Use  Tabs", Category.NAMING) == fact_id("use tabs", Category.NAMING)
    True
    """
    return "f" + hashlib.sha256(f"{category}\0{purport.purport(text)}".encode()).hexdigest()[:16]


def _clean(text: str) -> str:
    return unicodedata.normalize("NFC", text).encode("utf-8", "replace").decode("utf-8")
