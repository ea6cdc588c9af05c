"""The end of a demo: the table of what was measured, and the checks that decide its exit code."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from langchain_core.messages import ToolMessage
from rich.console import Console
from rich.table import Table
from rich.text import Text

from headwater.demo_witness import Read, Unmanaged, Witness, unmanaged
from headwater.demo_words import Words
from headwater.memory import Fact, Memory
from headwater.window.context import CLOSE, OPEN
from headwater.window.prices import Prices

LEAST_RATIO = 10
CONCLUSIONS = 3
_NAMES = re.compile(r"[A-Za-z_][\w./]{4,}")


class Check(NamedTuple):
    """One thing that must hold, and whether it does."""

    holds: bool
    text: str
    lost: list[str]


@dataclass(frozen=True)
class Outcome:
    """What a run leaves behind for its report.

    Attributes:
        first, second: Names of the two sessions; sub-agents' begin with their parent's.
        fixed_main, fixed_reader: Tokens that stand in every request of an unmanaged agent, or reader.
        over_window, violations: As the strict provider counted them; None with a real one.
        asked: Requests it saw, refused ones included; 0 with a real one.
    """

    folder: Path
    window: int
    steps: int
    seconds: float
    witness: Witness
    events: list[dict[str, Any]]
    answers: dict[str, str]
    first: str
    second: str
    fixed_main: int
    fixed_reader: int
    over_window: int | None
    violations: int | None
    asked: int

    @property
    def sent(self) -> int:
        """Tokens of all requests, those for summaries included."""
        return sum(x.tokens for x in self.witness.sent)

    @property
    def cached(self) -> int:
        """Tokens of them that the provider had cached."""
        return sum(x.cached for x in self.witness.sent)

    def of(self, kind: str) -> list[dict[str, Any]]:
        """Events of one type."""
        return [event for event in self.events if event["type"] == f"headwater.{kind}"]


class Found(NamedTuple):
    """What the memory holds when all is over."""

    unmanaged: Unmanaged
    stubs: Read
    archive: Read
    facts: list[Fact]
    conclusions: int
    artifacts: int


def report(outcome: Outcome, console: Console, words: Words) -> int:
    """Print answers, table and checks; 0 when all checks hold, else 1."""
    with Memory(outcome.folder) as memory:
        found = _look(outcome, memory)
    console.print()
    for title, session in (("said", outcome.first), ("recalled", outcome.second)):
        console.print(Text(words(title), "bold"))
        console.print(Text(outcome.answers.get(session, "")), soft_wrap=True)
        console.print()
    console.print(_table(outcome, found, words))
    checks = _checks(outcome, found, words)
    console.print(Text(words("checks"), "bold"))
    for check in checks:
        sign, style = ("✓", "green") if check.holds else ("✗", "bold red")
        console.print(Text.assemble((f"{sign} ", style), check.text), soft_wrap=True)
        for line in check.lost[:5]:
            console.print(Text(f"    {line}", "red"), soft_wrap=True)
    failed = sum(not check.holds for check in checks)
    if not checks[0].holds:
        console.print(words("short", steps=outcome.steps, window=outcome.window), soft_wrap=True)
    console.print(
        words("where", folder=outcome.folder, artifacts=found.artifacts), soft_wrap=True, highlight=False
    )
    console.print(
        Text(words("bad", count=failed), "bold red") if failed else Text(words("good"), "bold green")
    )
    return 1 if failed else 0


def _look(outcome: Outcome, memory: Memory) -> Found:
    sessions = {
        name: outcome.fixed_reader if "/" in name else outcome.fixed_main
        for name in memory.archive.sessions()
    }
    log = memory.archive.read(outcome.first, 1, memory.archive.last(outcome.first))
    conclusions = sum(
        isinstance(m, ToolMessage)
        and m.name == "delegate"
        and (m.artifact or {}).get("status") in ("done", "partial")
        for _, m in log
    )
    return Found(
        unmanaged(memory, sessions, outcome.window),
        outcome.witness.read_stubs(memory),
        outcome.witness.read_archive(memory),
        memory.facts.list(live=True),
        conclusions,
        sum(file.is_file() for file in (outcome.folder / "artifacts").rglob("*.txt")),
    )


def _weighed(total: int, written: int, prices: Prices) -> int:
    """Tokens by what a provider with a prefix cache asks for them."""
    return round(prices.read * (total - written) + prices.write * written)


def _table(outcome: Outcome, found: Found, words: Words) -> Table:
    bare, prices = found.unmanaged, Prices()
    told = outcome.of("summarize")
    arrived, later = (
        len(outcome.of("arrival")),
        sum(len(e["tags"]) for e in outcome.of("offload") + outcome.of("reclaim")),
    )
    requests = outcome.witness.requests()
    fit = sum(x.tokens <= outcome.window for x in requests)
    table = Table(title=words("result"), title_justify="left")
    table.add_column("")
    table.add_column(words("managed"), justify="right")
    table.add_column(words("unmanaged"), justify="right")
    rows: list[tuple[str, str, str]] = [
        (words("row:steps"), f"{len(requests):,}", f"{bare.requests:,}"),
        (words("row:sent"), f"{outcome.sent:,}", f"{bare.sent:,}"),
        (words("row:ratio"), f"{bare.sent / max(1, outcome.sent):.1f} ×", ""),
        (
            words("row:weighted", read=prices.read, write=prices.write),
            f"{_weighed(outcome.sent, outcome.sent - outcome.cached, prices):,}",
            f"{_weighed(bare.sent, bare.written, prices):,}",
        ),
        (words("row:cached"), f"{outcome.cached / max(1, outcome.sent):.0%}", ""),
        (words("row:largest"), f"{max((x.tokens for x in requests), default=0):,}", f"{bare.largest:,}"),
        (
            words("row:fits", window=outcome.window),
            words("count:fits", fit=fit, all=len(requests)),
            words("count:fits", fit=bare.fit, all=bare.requests),
        ),
        (words("row:raw"), f"{outcome.witness.raw_tokens:,}", ""),
        (
            words("row:offloaded"),
            words("count:offloaded", total=arrived + later, arrived=arrived, later=later),
            "",
        ),
        (
            words("row:summarised"),
            words(
                "count:summarised",
                messages=sum(e["last"] - e["first"] + 1 for e in told),
                compartments=sum(e["compartments"] for e in told),
            ),
            "",
        ),
        (words("row:concluded"), f"{found.conclusions:,}", ""),
        (words("row:remembered"), f"{len(found.facts):,}", ""),
        (words("row:governance"), f"{sum(e['spent'] for e in told):,}", ""),
        (words("row:time"), f"{outcome.seconds:,.0f}", ""),
    ]
    for row in rows:
        table.add_row(*row)
    return table


def _checks(outcome: Outcome, found: Found, words: Words) -> list[Check]:
    requests = outcome.witness.requests()
    ratio = found.unmanaged.sent / max(1, outcome.sent)
    # A real provider's refusals show as overflow events; the strict one counts them itself.
    over = outcome.over_window if outcome.over_window is not None else len(outcome.of("overflow"))
    seen = outcome.asked or len(outcome.witness.sent)
    checks = [
        Check(ratio >= LEAST_RATIO, words("check:ratio", least=LEAST_RATIO, ratio=ratio), []),
        Check(over == 0 and bool(requests), words("check:window", over=over, requests=seen), []),
    ]
    if outcome.violations is not None:
        broken = outcome.violations
        checks.append(Check(broken == 0, words("check:rules", broken=broken, requests=seen), []))
    stubs, archive = found.stubs, found.archive
    checks += [
        Check(
            not stubs.lost,
            words("check:stubs", artifacts=stubs.things, bytes=stubs.size, lost=len(stubs.lost)),
            stubs.lost,
        ),
        Check(
            not archive.lost and archive.things > 0,
            words("check:archive", results=archive.things, bytes=archive.size, lost=len(archive.lost)),
            archive.lost,
        ),
        Check(
            found.conclusions >= CONCLUSIONS,
            words("check:conclusions", found=found.conclusions, wanted=CONCLUSIONS),
            [],
        ),
        _recall(outcome, found.facts, words),
    ]
    return checks


def _recall(outcome: Outcome, facts: list[Fact], words: Words) -> Check:
    """The second session's first request holds the facts, and its answer names what they name."""
    request = outcome.witness.first.get(outcome.second, "")
    block = request.partition(OPEN)[2].partition(CLOSE)[0]
    answer = outcome.answers.get(outcome.second, "")
    held = [fact for fact in facts if fact.content in block]
    used = sum(_told(fact.content, answer) for fact in held)
    text = words("check:recall", held=len(held), facts=len(facts), used=used)
    return Check(len(held) >= min(len(facts), 5) > 0 and used > 0, text, [])


def _told(fact: str, answer: str) -> bool:
    """Whether an answer repeats a fact, or names all that it names."""
    names = set(_NAMES.findall(fact))
    return fact in answer or (bool(names) and names <= set(_NAMES.findall(answer)))
