"""Compartments across sessions: whose they are, and what of them is looked up."""

from __future__ import annotations

from collections.abc import Sequence
from sqlite3 import Connection
from typing import Any, NamedTuple

from headwater.memory import codec
from headwater.memory.database import name_of

TEXT_CHARS = 8_000
"""Characters of one compartment that are looked up by; a title and its full narrative seldom have a third."""

_SELECT = (
    "SELECT c.id, c.session, s.name, c.first, c.last, c.data "
    "FROM compartments c JOIN sessions s ON s.id = c.session "
)
_AT_ONCE = 500


class CompartmentRow(NamedTuple):
    """One compartment, and the session that it was told of."""

    id: int
    owner: int
    """Number of the session."""
    session: str | None
    """Its name; None where it is deleted and kept for its forks."""
    first: int
    last: int
    data: bytes

    def value(self) -> dict[str, Any]:
        """What `Archive.put_compartment` was given."""
        value: dict[str, Any] = codec.decode(self.data)
        return value

    def text(self) -> str:
        """What it is found by: its title and the fullest tier."""
        value = self.value()
        return f"{value.get('title') or ''}\n{value.get('p1') or ''}".strip()[:TEXT_CHARS]


def rows_above(db: Connection, number: int, limit: int) -> list[CompartmentRow]:
    """The compartments with ids above `number`, of all sessions, by id."""
    found = db.execute(_SELECT + "WHERE c.id > ? ORDER BY c.id LIMIT ?", (number, limit))
    return [_row(*row) for row in found.fetchall()]


def rows_of(db: Connection, numbers: Sequence[int]) -> list[CompartmentRow]:
    """The compartments with these ids; those that do not exist are left out."""
    found: list[CompartmentRow] = []
    for start in range(0, len(numbers), _AT_ONCE):
        some = numbers[start : start + _AT_ONCE]
        sql = _SELECT + f"WHERE c.id IN ({','.join('?' * len(some))})"
        found += [_row(*row) for row in db.execute(sql, (*some,)).fetchall()]
    return found


def forks_of(db: Connection, owner: int) -> list[str]:
    """The names of all sessions that descend from a session."""
    sql = (
        "WITH RECURSIVE line(id) AS (VALUES (?) UNION "
        "SELECT s.id FROM sessions s JOIN line ON s.parent = line.id) "
        "SELECT name FROM sessions WHERE id IN (SELECT id FROM line) AND id <> ? AND name IS NOT NULL"
    )
    return [name_of(row[0]) for row in db.execute(sql, (owner, owner)).fetchall()]


def _row(number: int, owner: int, name: bytes | None, first: int, last: int, data: bytes) -> CompartmentRow:
    return CompartmentRow(number, owner, None if name is None else name_of(name), first, last, data)
