"""One page that shows a replay: self-contained, without a network, in English and Chinese, light and dark."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headwater.lab.account import Account, Step
from headwater.lab.diagnosis import diagnose
from headwater.lab.diagnosis_zh import KINDS, in_chinese
from headwater.lab.recording import Session
from headwater.lab.replay import ReplayReport
from headwater.lab.trace import BLOCKS
from headwater.window.compartments import history_tiers
from headwater.window.tokens import count_text

if TYPE_CHECKING:
    from headwater.lab.compare import Row

_TEMPLATE = Path(__file__).with_name("page.html")
_FINDINGS = 40
_FACTS = 200
_TEXT = 4_000


class NothingToShow(ValueError):
    """The replay made no step."""


def write_page(path: str | Path, report: ReplayReport, *, rows: "Sequence[Row]" = ()) -> Path:
    """Write the page of a replay.

    Args:
        path: The file.
        report: The replay.
        rows: Policies to be compared with.

    Raises:
        NothingToShow: The replay made no step.
    """
    path = Path(path)
    path.write_text(page_of(page_data(report, rows)), encoding="utf-8")
    return path


def page_of(data: Mapping[str, Any]) -> str:
    """The page that shows some data, as text."""
    # "</script>" in a recorded text would end the block it stands in.
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    return _TEMPLATE.read_text(encoding="utf-8").replace("/*DATA*/", text, 1)


def page_data(report: ReplayReport, rows: "Sequence[Row]" = ()) -> dict[str, Any]:
    """All that the page shows of a replay, as JSON.

    Raises:
        NothingToShow: The replay made no step.
    """
    account = report.account
    if account is None or not account.steps:
        raise NothingToShow(f"the replay of {report.name!r} made no step; nothing can be drawn")
    found = diagnose(report)
    survived = report.survived
    facts = [("lost", *f) for f in survived.lost] + [("reach", *f) for f in survived.in_reach]
    return {
        "name": report.name,
        "live": False,
        "subtitle": _subtitle(report, account),
        "tiles": _tiles(report, account),
        "blocks": list(BLOCKS),
        "lines": account.lines._asdict() if account.lines else None,
        "steps": [_step(step, account) for step in account.steps],
        "rows": [row.to_dict() for row in rows],
        "findings": [
            {
                "step": f.step,
                "price": f.price,
                "en": [f.disease, f.evidence, f.remedy],
                "zh": list(in_chinese(f)),
            }
            for f in found[:_FINDINGS]
        ],
        "kinds": dict(KINDS),
        "facts": [[where, kind, text[:300]] for where, kind, text in facts[:_FACTS]],
        "compartments": _compartments(report),
        "tree": _tree(report.session) if report.session else {"name": report.name, "children": []},
    }


def _subtitle(report: ReplayReport, account: Account) -> dict[str, str]:
    p = account.prices
    return {
        "en": f"{report.steps:,} model calls, {report.log_tokens:,} tokens of log in a window of "
        f"{report.window:,}; prices {p.read:g} read, {p.write:g} write, {p.ttl:g} s",
        "zh": f"{report.steps:,} 次模型调用，{report.log_tokens:,} token 的记录，窗口 {report.window:,}；"
        f"读取价 {p.read:g}，写入价 {p.write:g}，缓存 {p.ttl:g} 秒",
    }


def _tiles(report: ReplayReport, account: Account) -> list[list[Any]]:
    sent = account.total("input") or 1
    lost = len(report.survived.lost) + report.damaged
    refused = report.totals.refused
    return [
        ["t_cost", report.cost, "", ""],
        ["t_ratio", report.ratio, "%", "good" if report.ratio < 1 else ""],
        ["t_cached", account.total("cached") / sent, "%", ""],
        ["t_sight", report.survived.sight, "%", ""],
        ["t_lost", lost, "", "bad" if lost else "good"],
        ["t_refused", refused, "", "bad" if refused else "good"],
        ["t_p95", account.governance_ms(0.95), "ms", ""],
        ["t_bytes", account.checkpoint_bytes, "B", ""],
        *([["t_sum", account.summary_tokens, "", ""]] if account.summary_tokens else []),
    ]


def _step(step: Step, account: Account) -> dict[str, Any]:
    p, s = account.prices, step.spent
    costs = {"cached": p.read * s.cached, "new": p.write * s.new, "cold": p.write * s.cold}
    costs |= {"edit": p.write * s.edit, "rest": s.rest}
    return {
        "n": step.number,
        "input": step.input,
        "estimate": step.estimate,
        "level": step.level.name,
        "kind": step.kind,
        "moves": list(step.moves),
        "gap": round(step.gap, 1),
        "cold": step.number > 1 and step.gap > p.ttl,
        "ms": round(step.governance_ms, 1),
        "cost": round(step.cost, 1),
        "blocks": {name: tokens for name, tokens in step.blocks.items() if tokens},
        "spent": s._asdict(),
        "costs": {name: round(value, 1) for name, value in costs.items() if value},
    }


def _compartments(report: ReplayReport) -> list[dict[str, Any]]:
    parts = report.compartments
    if not parts:
        return []
    budget = int(report.policy.history * report.window)
    tiers = history_tiers(parts, budget)
    shown = []
    for part, tier in zip(parts, tiers, strict=True):
        data = asdict(part)
        text = str(data.get("p1") or "")
        shown.append(
            {
                "first": part.first,
                "last": part.last,
                "title": str(data.get("title") or text.split("\n", 1)[0])[:160],
                "importance": part.importance,
                "episode": str(data.get("episode") or ""),
                "tier": tier,
                "tokens": count_text(text),
                "text": text[:_TEXT],
            }
        )
    return shown


def _tree(session: Session) -> dict[str, Any]:
    task = next((str(m.text) for m in session.messages if m.type == "human" and str(m.text).strip()), "")
    return {
        "name": session.name,
        "calls": sum(m.type == "ai" for m in session.messages),
        "messages": len(session.messages),
        "task": " ".join(task.split())[:140],
        "children": [_tree(child) for child in session.children],
    }
