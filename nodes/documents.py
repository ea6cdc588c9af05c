"""Documents and profile: what a fold puts before history, and only where it was asked for (C11, G24, G26).

Read at every fold, the session's first among them; a change of a file alone moves nothing.
"""

from typing import NamedTuple

from headwater.nodes.engine import Engine
from headwater.window.tokens import count_text

_MOST_FACTS = 100_000


class Beside(NamedTuple):
    """Texts for the baseline, and the contents of the facts that are in the profile."""

    docs: str = ""
    profile: str = ""
    told: frozenset[str] = frozenset()


def beside(engine: Engine, language: str) -> Beside:
    """The project's documents and the user's profile, each at most an eighth of the window."""
    room = engine.lines.window // 8
    docs = engine.docs
    wanted = engine.profile
    if not engine.delegated:
        # A sub-agent has its brief; the memory that it shares gives it no more.
        docs = docs or engine.memory.docs
        wanted = wanted or engine.memory.user_profile
    text = docs.text(language, room) if docs is not None else ""
    profile = _profile(engine, min(engine.policy.facts, room)) if wanted else []
    return Beside(text, "\n".join(f"- {line}" for line in profile), frozenset(profile))


def _profile(engine: Engine, budget: int) -> list[str]:
    """What is kept about the user, the weightiest first, as far as it fits."""
    facts = [f for f in engine.memory.facts.list(limit=_MOST_FACTS, live=True) if f.scope == "user"]
    chosen = []
    for fact in sorted(facts, key=lambda f: (f.status != "permanent", -f.importance, f.id)):
        weight = count_text(fact.content) + 4
        if weight <= budget:
            budget -= weight
            chosen.append(fact.content)
    return chosen
