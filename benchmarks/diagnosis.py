"""What `headwater inspect` says of five recorded sessions: writes docs/diagnosis.md."""

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from rich.console import Console

from benchmarks.sessions import SESSIONS
from headwater.lab.diagnosis import DISEASES, diagnose
from headwater.lab.diseases import Finding
from headwater.lab.sessions import load_session

ROOT = Path(__file__).resolve().parents[1]
SHOWN = (
    "pi-mono/pi-before-compaction",
    "codex-agentv/codex-agentv-01-d2f512f78afd",
    "claude-code-oh-my-posh/claude-code-oh-my-posh-01-93d95104b4a6",
    "opencode-nimbus/opencode-nimbus-01-PIwBobiYzDoC",
    "claude-code-entire-cli/claude-code-entire-cli-05-7fa36376faff",
)
TOP = 2
_PAGE = ROOT / "docs" / "diagnosis.md"
_HEAD = """# What a diagnosis looks like

`headwater inspect SESSION` reads a recorded session of any format and names what its window did to it. Below
are five sessions of other agents, none governed by Headwater, as the command sees them; at most {top}
findings of a kind are shown. Prices are in uncached input tokens at 0.1 read and 1.25 write, with a cache
of 5 minutes. Made by `python -m benchmarks diagnosis`.
"""


def main() -> None:
    """Write the page."""
    console = Console()
    if not SESSIONS.exists():
        console.print("the recorded sessions are not here (../shared/data/sessions); nothing was written")
        return
    _PAGE.write_text("\n".join(page()) + "\n", encoding="utf-8")
    console.print(f"wrote {_PAGE.relative_to(ROOT)}", highlight=False)


def page() -> Iterator[str]:
    """The page, line by line."""
    yield _HEAD.format(top=TOP)
    for name in SHOWN:
        session = load_session(SESSIONS / f"{name}.jsonl")
        found = diagnose(session)
        calls = sum(message.type == "ai" for message in session.messages)
        yield f"## {session.name}\n"
        yield f"{len(session.messages):,} messages, {calls:,} model calls.\n"
        yield from told(found)
        yield ""


def told(found: list[Finding]) -> Iterator[str]:
    """Findings as a list, the dearest of each kind first."""
    order = list(DISEASES)
    for disease, group in groupby(sorted(found, key=lambda f: order.index(f.disease)), lambda f: f.disease):
        ranked = sorted(group, key=lambda f: (-f.price, f.step))
        for f in ranked[:TOP]:
            price = f" Price {f.price:,.0f}." if f.price else ""
            yield f"- **{disease}**, step {f.step}: {_safe(f.evidence)}.{price} *Remedy:* {f.remedy}."
        if len(ranked) > TOP:
            yield f"- **{disease}**: {len(ranked) - TOP} more."
    if not found:
        yield "- Nothing was found."


def _safe(text: str) -> str:
    """Recorded words shown as they are: no mark of theirs is a mark of the page's."""
    return "".join("\\" + c if c in "*_`[]<>|" else c for c in text)
