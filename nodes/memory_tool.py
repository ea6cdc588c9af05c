"""What `ctx_memory` does: the agent's way into long-term facts (C12, C19, G23)."""

from typing import Literal

from langchain_core.tools import ToolException

from headwater.memory import Fact, FactRefused, Memory, StorageError
from headwater.memory.facts import UnknownFact
from headwater.nodes.search import NEAR

Action = Literal["write", "update", "archive", "list", "search"]
_LISTED = 50


def keep_facts(memory: Memory, session: str, action: str, content: str, category: str, fact: str) -> str:
    """Answer one call; facts are shown with the ids by which they are updated and archived.

    Raises:
        ToolException: What was asked for cannot be done, and what to do instead.
    """
    try:
        if action == "write":
            return _written(memory, session, content, category)
        if action == "update":
            old = memory.facts.get(fact)
            _not_by_an_agent(old)
            new = memory.facts.supersede(
                fact,
                content,
                source=_source(memory, session),
                trust=old.trust if content == old.content else "agent",
            )
            return f"Updated: {_line(new)}" + (f" (in place of {old.id})" if new.id != old.id else "")
        if action == "archive":
            old = memory.facts.get(fact)
            _not_by_an_agent(old)
            return f"Archived, no longer recalled: {_line(memory.facts.archive(fact))}"
        if action == "search":
            found = memory.facts.search(content, k=10)
            memory.facts.uses.count("found", [f.id for f, score in found if score >= NEAR])
            return _shown([f for f, _ in found])
        return _shown(memory.facts.list(limit=100_000, live=True))
    except (FactRefused, UnknownFact, StorageError) as error:
        raise ToolException(str(error)) from error


def _written(memory: Memory, session: str, content: str, category: str) -> str:
    new = memory.facts.write(content, category, trust="agent", source=_source(memory, session))
    if new.status == "archived":
        instead = f", superseded by {new.superseded_by}" if new.superseded_by else ""
        return f"Known and archived{instead}; it stays so: {_line(new)}"
    again = f" (known before, seen {new.seen} times)" if new.seen > 1 else ""
    return f"Remembered ({new.category}): {new.content}{again} [id {new.id}]"


def _not_by_an_agent(old: Fact) -> None:
    if old.status == "permanent":
        raise ToolException(f"{old.id!r} is permanent: only a person changes it; ask the user")


def _source(memory: Memory, session: str) -> tuple[str, list[int]] | None:
    last = memory.archive.last(session) if session else 0
    return (session, [last]) if last else None


def _shown(facts: list[Fact]) -> str:
    lines = [_line(fact) for fact in facts[-_LISTED:]]
    if len(facts) > _LISTED:
        lines.insert(0, f"⟪the newest {_LISTED} of {len(facts):,}; search for others⟫")
    return "\n".join(lines) or "No facts yet."


def _line(fact: Fact) -> str:
    return f"[{fact.category}] {fact.content} [id {fact.id}]"
