"""The ledger: accounts that a tree of agents draws from.

An agent's steps are paid from its own account and from those of all above it. What is asked for is held
before it is spent, in one transaction over the whole chain, so that no schedule of children spends what is
not there. One file serves the threads and processes of a machine.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from sqlite3 import Connection
from typing import NamedTuple

from headwater.memory.database import Database, key_of

_SPENT = ("steps", "tokens", "cost")


class Spend(NamedTuple):
    """What one step takes: model calls, tokens in and out, and their price."""

    steps: float = 0
    tokens: float = 0
    cost: float = 0.0


class Allowance(NamedTuple):
    """What an account may pay for; `math.inf` for no limit. Seconds are checked by who runs the agent."""

    steps: float = math.inf
    tokens: float = math.inf
    cost: float = math.inf
    seconds: float = math.inf
    children: float = math.inf


class Short(NamedTuple):
    """Why something was not granted: the limit, what it is, and what is left of it."""

    limit: str
    of: float
    left: float

    def __str__(self) -> str:
        return f"{self.limit}: {max(0.0, self.left):,.6g} of {self.of:,.6g} left"


class Ledger:
    """The accounts of delegated sessions, and what is held in them.

    Args:
        database: The file of delegations; see `headwater.memory.delegations`.
    """

    def __init__(self, database: Database) -> None:
        self._db = database
        # Wall time counts while a process works on it: a session that lay for a week has not spent a week.
        self._since: dict[str, tuple[float, float]] = {}

    def open(self, key: str, limits: Allowance, *, fresh: bool = False) -> None:
        """Open an account, or set the limits of one that is there; `fresh` forgets what it has spent."""
        with self._db.write() as db:
            _open(db, key, limits, fresh)
        self._watch(key, fresh)

    def admit(
        self, chain: Sequence[str], child: str, limits: Allowance, hold: Spend, *, again: bool = False
    ) -> Short | None:
        """Open a child's account below `chain` and hold its concluding step; None when granted.

        Args:
            chain: The accounts that pay, the nearest first.
            again: The child was admitted before and ran into a crash: it does not count twice.
        """
        with self._db.write() as db:
            for key in chain:
                row = db.execute(
                    "SELECT children, begun FROM accounts WHERE key = ?", (key_of(key),)
                ).fetchone()
                if row and not again and row[1] + 1 > row[0]:
                    return Short("children", row[0], row[0] - row[1])
            short = _grant(db, chain, child, hold, overdraft=False)
            if short is not None:
                return short
            if not again:
                keys = [(key_of(key),) for key in chain]
                db.executemany("UPDATE accounts SET begun = begun + 1 WHERE key = ?", keys)
            _open(db, child, limits, fresh=True)
        self._watch(child, fresh=True)
        return None

    def ask(self, chain: Sequence[str], holder: str, want: Spend, *, overdraft: bool = False) -> Short | None:
        """Hold `want` for a holder in every account of the chain, instead of what it held; None when granted.

        With `overdraft`, tokens and cost may go over: once in the life of an account, by one step of one
        holder. That is the whole of what a tree can spend beyond its purse.
        """
        with self._db.write() as db:
            return _grant(db, chain, holder, want, overdraft=overdraft)

    def settle(self, chain: Sequence[str], holder: str, spent: Spend, keep: Spend) -> None:
        """Book what a step has taken and hold `keep` from now on, as far as what was held allows it.

        The step that went over was its holder's last: nothing is kept of it, and what it did not need after
        all is taken back from the account.
        """
        with self._db.write() as db:
            for key in chain:
                held = Spend(
                    *db.execute(
                        "SELECT steps, tokens, cost FROM holds WHERE account = ? AND holder = ?",
                        (key_of(key), key_of(holder)),
                    ).fetchone()
                    or ()
                )
                rest = Spend(*(max(0.0, min(k, h - s)) for k, h, s in zip(keep, held, spent, strict=True)))
                over = db.execute(
                    "UPDATE accounts SET over_tokens = max(0, over_tokens - max(0, ?)), "
                    "over_cost = max(0, over_cost - max(0, ?)) WHERE key = ? AND overdrawn = ?",
                    (held.tokens - spent.tokens, held.cost - spent.cost, key_of(key), key_of(holder)),
                ).rowcount
                db.execute(
                    "UPDATE accounts SET spent_steps = spent_steps + ?, spent_tokens = spent_tokens + ?, "
                    "spent_cost = spent_cost + ?, ran = max(ran, ?) WHERE key = ?",
                    (*spent, self.elapsed(key), key_of(key)),
                )
                _hold(db, key, holder, Spend() if over else rest)

    def release(self, holder: str) -> None:
        """Give back what a holder, and all that was delegated below it, still holds."""
        name = key_of(holder)
        with self._db.write() as db:
            db.execute(
                "DELETE FROM holds WHERE holder = ? OR substr(holder, 1, ?) = ?",
                (name, len(name) + 1, name + b"/"),
            )

    def spent(self, key: str) -> Spend:
        """What an account has paid for."""
        with self._db.read() as db:
            row = db.execute(
                "SELECT spent_steps, spent_tokens, spent_cost FROM accounts WHERE key = ?", (key_of(key),)
            ).fetchone()
        return Spend(*row) if row else Spend()

    def left(self, chain: Sequence[str], holder: str) -> Spend:
        """What a holder could still be granted: the least that any account of a chain has."""
        least = [math.inf, math.inf, math.inf]
        with self._db.read() as db:
            for key in chain:
                row = db.execute(
                    "SELECT a.steps - spent_steps - coalesce(sum(h.steps), 0), "
                    "a.tokens - spent_tokens - coalesce(sum(h.tokens), 0), "
                    "a.cost - spent_cost - coalesce(sum(h.cost), 0) FROM accounts a "
                    "LEFT JOIN holds h ON h.account = a.key AND h.holder <> ? WHERE a.key = ? GROUP BY a.key",
                    (key_of(holder), key_of(key)),
                ).fetchone()
                if row:
                    least = [min(a, b) for a, b in zip(least, row, strict=True)]
        return Spend(*(max(0.0, amount) for amount in least))

    def known(self, key: str) -> bool:
        """Whether an account was ever opened."""
        with self._db.read() as db:
            return db.execute("SELECT 1 FROM accounts WHERE key = ?", (key_of(key),)).fetchone() is not None

    def elapsed(self, key: str) -> float:
        """Seconds an account has been in use."""
        ran, since = self._since.get(key, (0.0, time.monotonic()))
        return ran + time.monotonic() - since

    def time_left(self, chain: Sequence[str]) -> Short:
        """The shortest time that is left in a chain, in seconds."""
        found = Short("seconds", math.inf, math.inf)
        with self._db.read() as db:
            for key in chain:
                row = db.execute("SELECT seconds FROM accounts WHERE key = ?", (key_of(key),)).fetchone()
                if row and (left := row[0] - self.elapsed(key)) < found.left:
                    found = Short("seconds", row[0], left)
        return found

    def forget(self, session: str) -> None:
        """Erase the accounts of a session, and what is held in them."""
        name = key_of(session)
        with self._db.write() as db:
            for table, column in (("accounts", "key"), ("holds", "account")):
                db.execute(
                    f"DELETE FROM {table} WHERE {column} = ? OR substr({column}, 1, ?) = ?",
                    (name, len(name) + 1, name + b"#"),
                )
        for key in [k for k in self._since if k == session or k.startswith(f"{session}#")]:
            self._since.pop(key, None)

    def _watch(self, key: str, fresh: bool) -> None:
        if fresh or key not in self._since:
            with self._db.read() as db:
                row = db.execute("SELECT ran FROM accounts WHERE key = ?", (key_of(key),)).fetchone()
            self._since[key] = (float(row[0]) if row else 0.0, time.monotonic())


def _open(db: Connection, key: str, limits: Allowance, fresh: bool) -> None:
    name = key_of(key)
    if fresh:
        db.execute("DELETE FROM accounts WHERE key = ?", (name,))
        db.execute("DELETE FROM holds WHERE account = ?", (name,))
    db.execute(
        "INSERT INTO accounts(key, steps, tokens, cost, seconds, children) VALUES (?, ?, ?, ?, ?, ?) "
        "ON CONFLICT(key) DO UPDATE SET steps = excluded.steps, tokens = excluded.tokens, "
        "cost = excluded.cost, seconds = excluded.seconds, children = excluded.children",
        (name, *limits),
    )


def _grant(
    db: Connection, chain: Sequence[str], holder: str, want: Spend, *, overdraft: bool
) -> Short | None:
    """Hold in all accounts or in none; the first limit that does not allow it."""
    over: list[tuple[float, float, bytes, bytes]] = []
    for key in chain:
        row = db.execute(
            "SELECT steps, tokens + over_tokens, cost + over_cost, spent_steps, spent_tokens, spent_cost, "
            "overdrawn FROM accounts WHERE key = ?",
            (key_of(key),),
        ).fetchone()
        if row is None:
            continue
        held = db.execute(
            "SELECT coalesce(sum(steps), 0), coalesce(sum(tokens), 0), coalesce(sum(cost), 0) "
            "FROM holds WHERE account = ? AND holder <> ?",
            (key_of(key), key_of(holder)),
        ).fetchone()
        missing = [0.0, 0.0, 0.0]
        for at, name in enumerate(_SPENT):
            left = row[at] - row[3 + at] - held[at]
            if want[at] <= left or want[at] == 0:
                continue
            if name == "steps" or not overdraft or row[6] is not None or row[at] <= row[3 + at]:
                return Short(name, row[at], left)
            missing[at] = want[at] - left
        if any(missing):
            over.append((missing[1], missing[2], key_of(holder), key_of(key)))
    for key in chain:
        _hold(db, key, holder, want)
    # What others hold stays theirs: the account is as much larger as the one step goes over.
    db.executemany("UPDATE accounts SET over_tokens = ?, over_cost = ?, overdrawn = ? WHERE key = ?", over)
    return None


def _hold(db: Connection, key: str, holder: str, hold: Spend) -> None:
    if any(hold):
        sql = "INSERT OR REPLACE INTO holds(account, holder, steps, tokens, cost) VALUES (?, ?, ?, ?, ?)"
        db.execute(sql, (key_of(key), key_of(holder), *hold))
    else:
        db.execute("DELETE FROM holds WHERE account = ? AND holder = ?", (key_of(key), key_of(holder)))
