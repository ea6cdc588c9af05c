"""Codex: its rollouts (JSONL, with and without envelope) and what `codex exec --json` prints."""

from collections.abc import Mapping
from typing import Any

from headwater.lab.document import Document
from headwater.lab.message_rows import role_of, rows_of
from headwater.lab.recording import Recording, Row, call_row, listed, word

EXPECTS = 'a Codex rollout: lines {"timestamp", "type": "session_meta"|"response_item"|..., "payload"}'
_ENVELOPES = {
    "session_meta",
    "response_item",
    "event_msg",
    "turn_context",
    "compacted",
    "inter_agent_communication",
}
_CALLS = {"function_call", "custom_tool_call", "local_shell_call", "web_search_call", "tool_search_call",
          "image_generation_call", "mcp_tool_call"}  # fmt: skip
_ITEMS = {"message", "reasoning", "function_call_output", "custom_tool_call_output", "mcp_tool_call_output",
          "tool_search_output", *_CALLS}  # fmt: skip
_TOKENS = {"input_tokens", "cached_input_tokens", "output_tokens", "reasoning_output_tokens", "total_tokens"}


def read(document: Document) -> Recording | None:
    """The session of a rollout, None where it is none."""
    lines = _saved(document.value) or document.events
    if any(str(line.get("type", "")).startswith(("thread.", "item.")) for line in lines):
        lines = _from_exec(lines)
    enveloped = any(
        word(line.get("type")) in _ENVELOPES and isinstance(line.get("payload"), dict) for line in lines
    )
    bare = not enveloped and _is_bare(lines)
    if not enveloped and not bare:
        return None
    taken = _Taken()
    told = any(line.get("type") == "response_item" for line in lines) or bare
    for line in lines:
        payload = line.get("payload")
        if bare:
            taken.item(line, line.get("timestamp"))
        elif not isinstance(payload, dict):
            continue
        elif line.get("type") == "response_item":
            taken.item(payload, line.get("timestamp"))
        elif line.get("type") == "event_msg":
            taken.event(payload, line.get("timestamp"), told)
        elif line.get("type") == "turn_context":
            taken.model = payload.get("model") or taken.model
        elif line.get("type") == "compacted":
            taken.note("compacted", payload, line.get("timestamp"))
        elif line.get("type") == "session_meta":
            taken.begin(payload)
    taken.flush()
    recording = taken.recording
    for number, error, _ in document.broken:
        recording.odd("broken_line", f"line {number} is not JSON ({error})")
    return recording if recording.rows else None


def _saved(value: Any) -> list[dict[str, Any]]:
    """The oldest kind, one object: the session's line and its items."""
    if not isinstance(value, dict) or not isinstance(value.get("session"), dict):
        return []
    items = [item for item in listed(value.get("items")) if isinstance(item, dict)]
    return [{"instructions": None, **value["session"]}, *items] if items else []


def _is_bare(lines: list[dict[str, Any]]) -> bool:
    """The oldest rollouts: a line with the session's id and instructions, then the items themselves."""
    items = [
        line
        for line in lines
        if word(line.get("type")) in _ITEMS and ("content" in line or "call_id" in line or "summary" in line)
    ]
    typed = [line for line in lines if line.get("type") == "message" and "message" not in line]
    return (
        bool(items)
        and bool(typed)
        and (
            "instructions" in lines[0]
            or "record_type" in "".join(lines[-1])
            or any(line["type"] in _CALLS for line in items)
        )
    )


class _Taken:
    """Items of one response, gathered until what follows shows that it has ended."""

    def __init__(self) -> None:
        self.recording = Recording("codex")
        self.model: str | None = None
        self.events: list[dict[str, Any]] = []
        self.texts: list[Any] = []
        self.thinking: list[str] = []
        self.calls: list[dict[str, Any]] = []
        self.names: dict[str, str] = {}
        self.stamp: Any = None
        self.last: Row | None = None

    def begin(self, meta: Mapping[str, Any]) -> None:
        """The session's own line; its instructions are the system prompt."""
        prompt = meta.get("base_instructions") or meta.get("instructions")
        prompt = prompt.get("text") if isinstance(prompt, dict) else prompt
        if isinstance(prompt, str) and prompt and not self.recording.rows:
            self.recording.rows.append({"role": "system", "content": prompt})
        self.recording.name = self.recording.name or (str(meta["id"]) if meta.get("id") else None)

    def item(self, item: Mapping[str, Any], stamp: Any) -> None:
        """One item of the conversation."""
        kind = word(item.get("type"))
        if kind is None and "instructions" in item:
            self.begin(item)
        elif kind is not None and (kind in _CALLS or kind.endswith("_call")):
            self._gather(stamp)
            self._call(item)
        elif str(kind).endswith("_output"):
            self.flush()
            self._result(item, stamp)
        elif kind == "reasoning":
            self._gather(stamp)
            parts = [*listed(item.get("summary")), *listed(item.get("content"))]
            text = "\n".join(str(p.get("text", "")) for p in parts if isinstance(p, dict))
            if text:
                self.thinking.append(text)
        elif kind == "message" and role_of({"role": item.get("role")}) == "assistant":
            self._gather(stamp)
            rows = rows_of({"role": "assistant", "content": item.get("content")}, self.recording)
            self.texts.append(rows[0]["content"])
        elif kind == "message" and role_of({"role": item.get("role")}):
            self.flush()
            meta = self._meta(stamp) | ({"orig_role": item["role"]} if item["role"] == "developer" else {})
            message = {"role": item["role"], "content": item.get("content")}
            self.recording.rows += rows_of(message, self.recording, meta)
        elif kind in ("compaction", "compaction_summary", "context_compaction", "ghost_snapshot"):
            self.note(str(kind), {}, stamp)
        elif kind not in (None, "state"):
            self.recording.odd("unknown_item", f"{kind!r} was left out")

    def event(self, event: Mapping[str, Any], stamp: Any, told: bool) -> None:
        """What the client noted: usage always, words only where the items were not recorded."""
        kind, info = event.get("type"), event.get("info")
        if kind == "token_count" and isinstance(info, dict):
            self.flush()
            usage = info.get("last_token_usage")
            if self.last is not None and isinstance(usage, dict):
                meta = self.last.setdefault("_meta", {})
                meta["usage"] = {k: v for k, v in usage.items() if k in _TOKENS}
                meta["context_window"] = info.get("model_context_window")
        elif kind in ("context_compacted", "turn_aborted", "thread_rolled_back"):
            self.note(str(kind), event, stamp)
        elif not told and kind in ("user_message", "agent_message", "agent_reasoning"):
            self.flush()
            role = "user" if kind == "user_message" else "assistant"
            if kind == "agent_reasoning":
                self.thinking.append(str(event.get("text", "")))
                return
            row: Row = {"role": role, "content": str(event.get("message", "")), "_meta": self._meta(stamp)}
            if role == "assistant" and self.thinking:
                row["reasoning"], self.thinking = "\n\n".join(self.thinking), []
            self.recording.rows.append(row)

    def note(self, kind: str, payload: Mapping[str, Any], stamp: Any) -> None:
        """An event to stand on the next row."""
        self.flush()
        detail = {k: v for k, v in payload.items() if k in ("message", "reason", "window_id", "num_turns")}
        self.events.append({"event": kind, "ts": stamp, **detail})

    def flush(self) -> None:
        """The gathered response as one row."""
        if not (self.texts or self.thinking or self.calls):
            return
        content = "\n".join(str(t) for t in self.texts if t)
        row: Row = {"role": "assistant", "content": content, "_meta": self._meta(self.stamp)}
        row |= {"tool_calls": self.calls} if self.calls else {}
        row |= {"reasoning": "\n\n".join(self.thinking)} if self.thinking else {}
        if self.model:
            row["_meta"]["model"] = self.model
        self.recording.rows.append(row)
        self.last = row
        self.texts, self.thinking, self.calls, self.stamp = [], [], [], None

    def _gather(self, stamp: Any) -> None:
        self.stamp = stamp or self.stamp

    def _call(self, item: Mapping[str, Any]) -> None:
        kind = str(item["type"])
        call_id = (
            item.get("call_id") or item.get("id") or f"{kind}_{len(self.recording.rows)}_{len(self.calls)}"
        )
        name = item.get("name") or kind.removesuffix("_call")
        raw = item.get("arguments", item.get("action"))
        if kind == "custom_tool_call":
            # A custom tool takes plain text, which is no broken JSON.
            raw = {"input": item.get("input", "")}
        self.calls.append(call_row(name, raw, call_id))
        self.names[str(call_id)] = str(name)
        if kind in ("web_search_call", "image_generation_call"):
            # The provider runs these itself: no result is ever recorded.
            self.flush()
            self.recording.rows.append(
                {
                    "role": "tool",
                    "tool_call_id": str(call_id),
                    "name": str(name),
                    "content": str(item.get("status") or ""),
                }
            )

    def _result(self, item: Mapping[str, Any], stamp: Any) -> None:
        output = item.get("output", item.get("result", item.get("tools", "")))
        failed = isinstance(output, dict) and output.get("success") is False
        meta = self._meta(stamp) | ({"is_error": True} if failed else {})
        row = rows_of(
            {"role": "tool", "tool_call_id": item.get("call_id"), "content": output}, self.recording, meta
        )[0]
        name = self.names.get(str(item.get("call_id")))
        self.recording.rows.append(row | ({"name": name} if name else {}))

    def _meta(self, stamp: Any) -> dict[str, Any]:
        meta: dict[str, Any] = {"ts": stamp} if stamp else {}
        if self.events:
            meta["events_before"], self.events = self.events, []
        return meta


def _from_exec(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The event stream of `codex exec --json` in the rollout's own words."""
    out: list[dict[str, Any]] = []
    for line in lines:
        item = line.get("item")
        if line.get("type") == "turn.completed" and isinstance(line.get("usage"), dict):
            info = {"last_token_usage": line["usage"]}
            out.append({"type": "event_msg", "payload": {"type": "token_count", "info": info}})
        if line.get("type") != "item.completed" or not isinstance(item, dict):
            if word(line.get("type")) in _ENVELOPES:
                out.append(line)
            continue
        kind = word(item.get("type")) or word(item.get("item_type"))
        call = {"call_id": item.get("id")}
        if kind in ("agent_message", "assistant_message"):
            text = [{"type": "output_text", "text": item.get("text", "")}]
            out.append(_item({"type": "message", "role": "assistant", "content": text}))
        elif kind == "reasoning":
            out.append(_item({"type": "reasoning", "summary": [{"text": item.get("text", "")}]}))
        elif kind:
            known = ("id", "type", "item_type", "aggregated_output", "result", "status")
            args = {k: v for k, v in item.items() if k not in known}
            out.append(_item({"type": "function_call", "name": kind, "arguments": args, **call}))
            body = item.get("aggregated_output", item.get("result", item.get("status", "")))
            out.append(_item({"type": "function_call_output", "output": body, **call}))
    return out


def _item(payload: dict[str, Any]) -> dict[str, Any]:
    return {"type": "response_item", "payload": payload}
