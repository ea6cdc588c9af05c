"""Sessions that refer to one another: what one may open of another, and what goes when one is deleted."""

from headwater.memory.archive import heir_of
from headwater.memory.memory import Memory


def delete_session(memory: Memory, session: str, *, referred: bool = False) -> list[str]:
    """Forget a session and the sub-agents that only it refers to; returns the names that were freed.

    What a fork shares of it stays, in archive, artifacts and delegations, until that one goes. So does a
    session whose conclusion another one holds, since its evidence is open there, unless `referred`.
    """
    told = [number for number, _ in memory.archive.compartments(session)]
    memory.shelf.drop(session)
    memory.frames.forget(session)
    memory.sessions.forget(session)
    if memory.delegations.parents(session) and not referred:
        _lose(memory, session, told)
        return []
    memory.runs.forget(session)
    freed = [session]
    orphans: list[str] = []
    for at, (number, keep) in enumerate(memory.archive.delete(session)):
        name, heir = (session if at == 0 else heir_of(number)), heir_of(number)
        kin = memory.delegations.children(name)
        stay = [(child, tag) for child, tag in kin if keep is not None and tag <= keep]
        if keep is None:
            memory.artifacts.release(name)
        else:
            memory.artifacts.keep_for_forks(name, heir, keep)
        memory.delegations.forget(name)
        memory.ledger.forget(name)
        for child, tag in stay:
            memory.delegations.adopt(heir, child, tag)
        orphans += [child for child, _ in kin if not memory.delegations.parents(child)]
    _lose(memory, session, told)
    for child in orphans:
        freed += delete_session(memory, child)
    return freed


def _lose(memory: Memory, session: str, told: list[int]) -> None:
    if told:
        memory.compartments.gone(session, told)


def may_open(memory: Memory, own: str, session: str) -> bool:
    """Whether a session may read another's log: its own, its sub-agents', and those of the past it shares."""
    if session == own or session.startswith(own + "/"):
        return True
    for name, upto in [(own, memory.archive.last(own) + 1), *memory.archive.ancestry(own)]:
        for child, tag in memory.delegations.children(name):
            if tag <= upto and (session == child or session.startswith(child + "/")):
                return True
    return False
