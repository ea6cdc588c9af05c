"""Diagnose a session: what its window did to it, step by step, with the evidence and the remedy.

The three diseases of E20-E22 (amnesia, myopia, squeeze-out), and what costs money beside them: cache faults,
repeated work, garbage. Works on any recorded session, governed or not, and on a replay.
"""

from collections.abc import Callable, Iterator
from types import MappingProxyType

from headwater.lab.diseases import Finding, amnesia, myopia, squeeze_out
from headwater.lab.recording import Session
from headwater.lab.replay import ReplayReport
from headwater.lab.story import Story, story_of
from headwater.lab.waste import cache_faults, garbage, repeat_work

DISEASES: MappingProxyType[str, Callable[[Story], Iterator[Finding]]] = MappingProxyType(
    {
        "amnesia": amnesia,
        "myopia": myopia,
        "squeeze-out": squeeze_out,
        "cache fault": cache_faults,
        "repeat work": repeat_work,
        "garbage": garbage,
    }
)


def diagnose(source: Session | ReplayReport, *, window: int | None = None) -> list[Finding]:
    """What is wrong with a session's window.

    Args:
        source: A recorded session, or a replay of one.
        window: The recorded model's, in tokens, where the recording does not say.

    Returns:
        Findings by disease, in the order of `DISEASES`, and by step within each.
    """
    story = story_of(source, window=window)
    return [found for look in DISEASES.values() for found in sorted(look(story), key=lambda f: f.step)]
