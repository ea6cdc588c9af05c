"""What the trials of `crash` came to, and the page that says so."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from benchmarks.pages import machine, row, versions

PATIENCE = 120.0
"""Seconds within which an opened folder must have whole indexes again."""


class Opened(NamedTuple):
    """What a new process found."""

    usable: bool
    missing: int
    """Acknowledged facts and compartments that are not there."""
    by_words: bool
    """Whether an index was not whole, so that words served meanwhile."""
    seconds: float
    """Until a search of facts answered."""
    healed: float
    """Until all indexes were whole, seconds."""
    error: str = ""


@dataclass
class Report:
    """The trials of one kind."""

    trials: int = 0
    acknowledged: int = 0
    opened: list[Opened] = field(default_factory=list)

    @property
    def lost(self) -> int:
        """Acknowledged facts that were gone."""
        return sum(one.missing for one in self.opened)

    @property
    def unusable(self) -> int:
        """Openings that failed, or whose index did not become whole."""
        return sum(not one.usable for one in self.opened)


def markdown(reports: Mapping[str, Report], rebuild: tuple[int, float] | None = None) -> str:
    """The report; `rebuild`: a number of facts, and the seconds that indexing them takes."""
    lines = [
        "# Killed processes",
        "",
        "Written by `python -m benchmarks crash`: processes that write and read one folder are killed (-9),",
        "at random or while Chroma writes its vectors or an index is rebuilt. A new process then opens the",
        "folder, looks for all that had been acknowledged, searches, and waits for whole indexes.",
        "*Unusable*: it did not open, a search missed the newest fact or compartment, or an index was not",
        f"whole after {PATIENCE:.0f} s. *Opened*: from opening to the first answer.",
        "*Healed*: from opening to whole indexes, where they were not whole at once.",
        "",
        machine(),
        versions(("chromadb", "langgraph", "langchain-core")) + ".",
        "",
        row("killed", "trials", "acknowledged", "lost", "unusable", "opened p50", "max", "healed later",
            "healed p50", "max"),
        row(":--", *["--:"] * 9),
    ]  # fmt: skip
    for name, report in reports.items():
        healing = [one.healed for one in report.opened if one.by_words]
        opening = [one.seconds for one in report.opened]
        lines.append(
            row(name, f"{report.trials}", f"{report.acknowledged:,}", f"{report.lost}", f"{report.unusable}",
                *_spread(opening), f"{len(healing)}", *_spread(healing))
        )  # fmt: skip
    errors = [one.error for report in reports.values() for one in report.opened if one.error]
    lines += ["", *(f"- {error}" for error in errors)]
    if rebuild is not None:
        lines.append(f"A whole rebuild of the indexes of {rebuild[0]} facts takes {rebuild[1]:.1f} s.")
    return "\n".join(lines).strip() + "\n"


def _spread(seconds: list[float]) -> tuple[str, str]:
    ordered = sorted(seconds)
    return (f"{ordered[len(ordered) // 2]:.1f} s", f"{ordered[-1]:.1f} s") if ordered else ("–", "–")
