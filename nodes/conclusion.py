"""A conclusion: what a sub-agent returns, of bounded size, its evidence open to who delegated (M26)."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from pydantic import TypeAdapter, ValidationError

from headwater.memory import Memory
from headwater.window.clean import condense
from headwater.window.face import safe, text_of
from headwater.window.tokens import count_text

Status = Literal["done", "partial", "failed", "refused", "cancelled"]
MAX_CONCLUSION = 4_000
MIN_ANSWER = 40
MAX_EVIDENCE = 12
_REASON_CHARS = 400
_FENCE = re.compile(r"```(?:json)?\s*\n(.*?)\n\s*```", re.S)


@dataclass(frozen=True)
class Conclusion:
    """What a sub-agent returns, of bounded size.

    Attributes:
        status: How it ended.
        answer: Its last non-empty text (JSON where a schema was asked for), or a clear notice; never empty.
        session: Its session in the archive; `evidence` are tags there, open to the parent's `ctx_expand`.
        evidence: Tags of its tool results, newest first.
        artifacts: Names of artifacts that hold more.
        usage: Steps, tokens and cost of it and of all below it.
        reason: Why it is not "done".
        value: The validated answer as plain data, where a schema was asked for.
        place: Where its log is kept, when that is another machine.
    """

    status: Status
    answer: str
    session: str = ""
    evidence: tuple[int, ...] = ()
    artifacts: tuple[str, ...] = ()
    usage: Mapping[str, float] = field(default_factory=dict)
    reason: str = ""
    value: Any = None
    place: Mapping[str, str] = field(default_factory=dict)

    def text(self) -> str:
        """The conclusion as the parent's model reads it."""
        lines = [f"[{self.status}{f': {self.reason}' if self.reason else ''}]", self.answer]
        if self.evidence:
            tags = ",".join(str(t) for t in self.evidence[:MAX_EVIDENCE])
            lines.append(f'Evidence: ctx_expand(tags="{tags}", session="{self.session}")')
        lines += [f'The full answer: file_read("{name}")' for name in self.artifacts]
        return safe("\n".join(lines))

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for the ledger and for the artifact of the tool message."""
        plain = {name: getattr(self, name) for name in ("status", "answer", "session", "reason", "value")}
        lists = {"evidence": list(self.evidence), "artifacts": list(self.artifacts)}
        return {**plain, **lists, "usage": dict(self.usage), "place": dict(self.place)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Conclusion":
        """Read what `to_dict` wrote."""
        known = {k: v for k, v in data.items() if k in cls.__dataclass_fields__}
        known["evidence"] = tuple(known.get("evidence", ()))
        known["artifacts"] = tuple(known.get("artifacts", ()))
        return cls(**known)


def within(conclusion: Conclusion, share: int, memory: Memory, holder: str) -> Conclusion:
    """The conclusion in at most `share` tokens; what is over becomes an artifact that `holder` refers to.

    The lines around the answer are counted first, so that any number of conclusions fits the room that was
    computed for them together.
    """
    conclusion = replace(conclusion, reason=conclusion.reason[:_REASON_CHARS])
    limit = min(MAX_CONCLUSION, share)
    if count_text(conclusion.text()) <= limit:
        return conclusion
    name = memory.artifacts.put(conclusion.answer, session=holder)
    bare = replace(conclusion, answer="", artifacts=(*conclusion.artifacts, name))
    left = limit - count_text(bare.text())
    if left < MIN_ANSWER and bare.evidence:
        bare = replace(bare, evidence=(), reason=bare.reason[:60])
        left = limit - count_text(bare.text())
    shown = condense(conclusion.answer, left) if left >= MIN_ANSWER else ""
    stub = replace(bare, answer=shown or f"({len(conclusion.answer):,} chars, stored)")
    whole = replace(conclusion, evidence=bare.evidence, reason=bare.reason)
    # A stub that is no smaller than what it stands for would only hide it.
    return whole if count_text(whole.text()) <= count_text(stub.text()) else stub


def last_answer(messages: Sequence[BaseMessage]) -> str:
    """The last non-empty text of an assistant that is not a notice of ours; "" for none (case 40)."""
    for message in reversed(messages):
        notice = message.response_metadata.get("headwater_notice")
        if isinstance(message, AIMessage) and not notice and (text := text_of(message)).strip():
            return text
    return ""


def evidence_in(log: Sequence[tuple[int, BaseMessage]]) -> tuple[int, ...]:
    """Tags of tool results, newest first."""
    return tuple(tag for tag, m in reversed(log) if isinstance(m, ToolMessage))[:MAX_EVIDENCE]


def validated(answer: str, output: Any) -> tuple[Any, str]:
    """The answer as plain data of the schema, and why not: one of the two is empty.

    Args:
        answer: A text that is, or holds, one JSON value.
        output: A pydantic model, dataclass, TypedDict or any other type that pydantic validates.
    """
    adapter: TypeAdapter[Any] = TypeAdapter(output)
    first = ""
    for candidate in _candidates(answer):
        try:
            return adapter.dump_python(adapter.validate_json(candidate), mode="json"), ""
        except ValidationError as error:
            told = "; ".join(
                f"{'.'.join(map(str, e['loc'])) or 'answer'}: {e['msg']}" for e in error.errors()
            )
            first = first or told
    return None, first[:_REASON_CHARS] or "the answer holds no JSON"


def schema_note(output: Any) -> str:
    """What a sub-agent is told about the form of its answer."""
    schema = json.dumps(TypeAdapter(output).json_schema(), ensure_ascii=False)
    return f"Your final answer must be one JSON value of this schema, and nothing else:\n{schema}"


def _candidates(answer: str) -> list[str]:
    """The texts that may be the JSON value: the whole, a fenced block, the outermost braces."""
    found = [answer.strip(), *(m.strip() for m in _FENCE.findall(answer))]
    for opened, closed in (("{", "}"), ("[", "]")):
        start, end = answer.find(opened), answer.rfind(closed)
        if 0 <= start < end:
            found.append(answer[start : end + 1])
    return list(dict.fromkeys(text for text in found if text))
