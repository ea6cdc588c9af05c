"""The commands of the lab: `inspect` and `replay`."""

import argparse
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headwater.cli_kit import (
    FAILED,
    OK,
    Misuse,
    add_json,
    add_language,
    console,
    positive,
    share,
    show_json,
    tokens,
)

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from headwater.lab.compare import Row
    from headwater.lab.diseases import Finding
    from headwater.lab.recording import Session


_EN = ("disease", "step", "evidence → remedy", "price", "… and {left} more (--top {all})", "healthy",
       "nothing was found")  # fmt: skip
_ZH = ("病症", "步", "证据 → 对策", "代价", "……另有 {left} 条（--top {all}）", "健康", "未发现问题")


WIDE = 112
_ON_WIDE = frozenset({"new", "cold", "edit"})


def inspect_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `inspect`."""
    parser.description = f"{parser.description} " + (
        "Reads OpenAI and Anthropic messages, Claude Code, Codex, OpenCode, Copilot, LangGraph threads, "
        "LangSmith runs and plain JSON Lines, by content."
    )
    parser.add_argument("session", type=Path, metavar="SESSION")
    parser.add_argument("--window", type=tokens, metavar="N", help="the model's window, where it is not told")
    parser.add_argument(
        "--top", type=positive, default=6, metavar="N", help="findings shown of each kind (6)"
    )
    add_language(parser)
    add_json(parser)


def replay_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of `replay`."""
    parser.add_argument("sessions", type=Path, nargs="+", metavar="SESSION")
    parser.add_argument(
        "--policy", action="append", metavar="POLICY",
        help="a name (default, early, late, lean, no-summary, cold-summary, unmanaged) or settings, e.g. "
        "offload=0.5,keep_tags=10; may be given several times",
    )  # fmt: skip
    parser.add_argument("--window", type=windows, default=[32_000], metavar="N,N", help="e.g. 32k,200k (32k)")
    parser.add_argument("--sweep", action="store_true", help="find the cheapest policy that loses nothing")
    parser.add_argument("--in-sight", type=share, default=0.5, metavar="SHARE", help="for --sweep (0.5)")
    parser.add_argument("--read", type=float, default=0.1, help="price of a cached token (0.1)")
    parser.add_argument("--write", type=float, default=1.25, help="price of a written token (1.25)")
    parser.add_argument("--ttl", type=float, default=300.0, help="the cache's lifetime in seconds (300)")
    add_json(parser)
    parser.add_argument("--html", type=Path, metavar="FILE", help="write a report of the first replay")


def run(args: argparse.Namespace) -> int:
    """Run `inspect` or `replay`.

    Raises:
        Misuse: What was given is no session, no policy or no price.
        OSError: A file cannot be read or written.
    """
    from headwater.lab.compare import UnknownPolicy
    from headwater.lab.recording import NotASession

    if getattr(args, "html", None) is not None and (args.html.is_dir() or not args.html.parent.is_dir()):
        # Said before the replay, which may take minutes.
        raise Misuse(f"--html {str(args.html)!r} cannot be written; name a file in a folder that is there")
    try:
        return _inspect(args, console()) if args.command == "inspect" else _replay(args, console())
    except (NotASession, UnknownPolicy, ValueError) as error:
        # Prices and policies say with ValueError what they do not take.
        raise Misuse(str(error)) from error


def windows(text: str) -> list[int]:
    """Several numbers of tokens, with commas between."""
    return [tokens(part) for part in text.split(",") if part.strip()] or [tokens(text)]


def _inspect(args: argparse.Namespace, console: "Console") -> int:
    from headwater.lab.diagnosis import diagnose
    from headwater.lab.sessions import load_session

    session = load_session(args.session)
    findings = diagnose(session, window=args.window)
    if args.json:
        show_json([_as_json(f) for f in findings])
        return OK
    console.print(summary_of(session), highlight=False)
    console.print(_findings_table(findings, args.top, args.lang))
    return OK


def summary_of(session: "Session") -> str:
    """One line on a session."""
    kinds = Counter(anomaly.partition(":")[0] for anomaly in session.anomalies)
    odd = ", ".join(f"{kind} {count}" for kind, count in kinds.most_common(6)) or "none"
    return (
        f"{session.name}: {session.format}, {len(session.messages)} messages, "
        f"{sum(m.type == 'ai' for m in session.messages)} model calls, {len(session.children)} sub-agents; "
        f"anomalies: {odd}"
    )


def _findings_table(findings: "list[Finding]", top: int, language: str) -> "Table":
    from rich.table import Table
    from rich.text import Text

    from headwater.lab.diagnosis_zh import in_chinese

    words = _ZH if language == "zh" else _EN
    table = Table(box=None, pad_edge=False)
    table.add_column(words[0], style="bold", no_wrap=True)
    table.add_column(words[1], justify="right")
    table.add_column(words[2], ratio=1)
    table.add_column(words[3], justify="right")
    names: dict[str, str] = {}
    shown: Counter[str] = Counter()
    for f in findings:
        shown[f.disease] += 1
        if shown[f.disease] <= top:
            said = in_chinese(f) if language == "zh" else (f.disease, f.evidence, f.remedy)
            names[f.disease] = said[0]
            text = Text.assemble(said[1], ("\n→ " + said[2], "dim"))
            table.add_row(said[0], str(f.step), text, f"{f.price:,.0f}" if f.price else "")
    for name, count in shown.items():
        if count > top:
            table.add_row(names.get(name, name), "", words[4].format(left=count - top, all=count), "")
    if not findings:
        table.add_row(words[5], "", words[6], "")
    return table


def _as_json(finding: "Finding") -> dict[str, Any]:
    return {
        "disease": finding.disease,
        "step": finding.step,
        "evidence": finding.evidence,
        "remedy": finding.remedy,
        "price": finding.price,
        "detail": dict(finding.detail),
    }


def _replay(args: argparse.Namespace, console: "Console") -> int:
    from rich.console import Console as Terminal

    from headwater.lab.compare import UNMANAGED, cheapest, compare, parse_policy, sweep
    from headwater.lab.sessions import load_session
    from headwater.window.prices import Prices

    sessions = [load_session(path) for path in args.sessions]
    prices = Prices(args.read, args.write, args.ttl)
    policies = list(dict.fromkeys(args.policy or ["default", UNMANAGED]))
    for text in policies:
        if text != UNMANAGED:
            parse_policy(text, args.window[0])
    if all(text == UNMANAGED for text in policies):
        policies = ["default", *policies]
    rows: list[Row] = []
    first = None
    with Terminal(stderr=True).status("replaying …") as status:
        if args.sweep:
            for row in sweep(sessions, args.window, prices):
                rows.append(row)
                status.update(f"replaying … {len(rows)} rows, last {row.policy}")
        else:
            for row, reports in compare(sessions, policies, args.window, prices):
                rows.append(row)
                first = first or (reports[0] if reports else None)
                status.update(f"replaying … {len(rows)} rows, last {row.policy} at {row.window:,}")
    best = cheapest(rows, args.in_sight) if args.sweep else None
    if args.json:
        show_json({"rows": [r.to_dict() for r in rows], "best": best and best.to_dict()})
    else:
        console.print(rows_table(rows, best, width=console.width))
    if args.sweep and best is None:
        print(f"headwater: no policy lost nothing and kept {args.in_sight:.0%} in sight", file=sys.stderr)
        return FAILED
    if args.html and first is not None:
        from headwater.lab.page import write_page

        write_page(args.html, first, rows=rows)
        console.print(f"wrote {args.html}", highlight=False)
    return OK if all(r.sound for r in rows) or args.sweep else FAILED


def rows_table(rows: "list[Row]", best: "Row | None" = None, *, width: int = WIDE) -> "Table":
    """The comparison as a table, the best row marked; on a narrow screen without what was sent again."""
    from rich.table import Table

    told = [_told(r, best) for r in rows]
    shown = [name for name in told[0] if width >= WIDE or name not in _ON_WIDE] if told else ["policy"]
    table = Table(box=None, pad_edge=False, padding=(0, 2 if width >= WIDE else 1, 0, 0))
    table.add_column("policy", overflow="fold")
    for name in shown[1:]:
        # A figure is never cut; a policy's settings are folded instead.
        longest = max(len(row[name]) for row in told)
        table.add_column(name, justify="right", no_wrap=" " not in name, min_width=longest)
    for r, row in zip(rows, told, strict=True):
        table.add_row(*(row[name] for name in shown), style="bold green" if r is best else "")
    return table


def _told(r: "Row", best: "Row | None") -> dict[str, str]:
    """A row of the comparison by column."""
    plain = r.window == 0
    sent = {"input": r.input, "cached": r.cached, "new": r.new, "cold": r.cold, "edit": r.edit}
    return {
        "policy": ("★ " if r is best else "") + r.policy,
        "window": "—" if plain else f"{r.window:,}",
        "steps": f"{r.steps:,}",
        **{name: "—" if plain else _short(figure) for name, figure in sent.items()},
        "cost": _short(r.cost),
        "÷ plain": f"{r.ratio:.3f}",
        "in sight": f"{r.in_sight:.0%}",
        "lost": str(r.lost),
        "refused": str(r.refused + r.violations),
        "p95 ms": "—" if plain else f"{r.governance_ms:.0f}",
    }


def _short(number: float) -> str:
    if number >= 1e6:
        return f"{number / 1e6:.2f}M"
    return f"{number / 1e3:.1f}k" if number >= 1e4 else f"{number:,.0f}"
