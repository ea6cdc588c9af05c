"""Claude Code: its transcripts (JSONL) and what `--output-format stream-json` prints."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headwater.lab.document import Document, read_document
from headwater.lab.message_rows import role_of, rows_of
from headwater.lab.recording import Recording, Row, mapped

EXPECTS = (
    'a Claude Code transcript: lines {"type": "user"|"assistant", "message": {...}, "uuid", "sessionId"}'
)
_MAIN = ""


def read(document: Document) -> Recording | None:
    """The session of a transcript with its sidechains as children, None where it is none."""
    lines = document.events
    spoken = [line for line in lines if _is_spoken(line)]
    if not spoken or not any(k in spoken[0] for k in ("uuid", "sessionId", "session_id", "isSidechain")):
        return None
    threads: dict[str, Recording] = {}
    found = _Found(threads)
    # A sub-agent's own file is a sidechain from end to end; there it is the session.
    alone = all(line.get("isSidechain") for line in spoken)
    for line in lines:
        found.take(line, alone)
    main = threads.pop(_MAIN, None) or Recording("claude-code")
    main.children += threads.values()
    for number, error, _ in document.broken:
        main.odd("broken_line", f"line {number} is not JSON ({error})")
    _attach_files(document.path, main, lines)
    return main if main.rows or main.children else None


class _Found:
    """Rows by thread: the main one, and one for each sidechain."""

    def __init__(self, threads: dict[str, Recording]) -> None:
        self.threads = threads
        self.seen: set[str] = set()
        self.chain: dict[str, str] = {}
        self.answer: dict[str, tuple[str, Row]] = {}
        self.events: list[dict[str, Any]] = []

    def take(self, line: Mapping[str, Any], alone: bool) -> None:
        progress = line.get("data")
        if (
            line.get("type") == "progress"
            and isinstance(progress, dict)
            and isinstance(progress.get("message"), dict)
        ):
            inner = progress["message"]
            if _is_spoken(inner):
                self._speak(inner, str(progress.get("agentId") or line.get("parentToolUseID")), line)
            return
        if _is_spoken(line):
            self._speak(line, _MAIN if alone else self._thread(line), line)
        elif line.get("type") == "system":
            note = {"event": line.get("subtype"), "ts": line.get("timestamp")}
            compact = line.get("compactMetadata") or line.get("compact_metadata")
            self.events.append(note | ({"compact": compact} if compact else {}))

    def _thread(self, line: Mapping[str, Any]) -> str:
        uuid, parent = str(line.get("uuid")), str(line.get("parentUuid"))
        if line.get("parent_tool_use_id"):
            return str(line["parent_tool_use_id"])
        if not line.get("isSidechain"):
            return _MAIN
        thread = str(line["agentId"]) if line.get("agentId") else self.chain.get(parent, uuid)
        self.chain[uuid] = thread
        return thread

    def _speak(self, line: Mapping[str, Any], thread: str, outer: Mapping[str, Any]) -> None:
        recording = self.threads.setdefault(thread, Recording("claude-code"))
        if thread != _MAIN and recording.parent_call is None:
            call = outer.get("parentToolUseID") or line.get("parent_tool_use_id")
            recording.parent_call = str(call) if call else None
            recording.name = recording.name or thread
        said = f"{line.get('uuid')} {line['message'].get('content')!r}"
        if line.get("uuid") and said in self.seen:
            recording.odd("repeated_line", f"{line['uuid']!r} stands in the file twice; it was read once")
            return
        self.seen.add(said)
        message = line["message"]
        meta = self._meta(line, outer, thread)
        if role_of(message) == "assistant":
            self._assistant(recording, thread, message, meta)
        else:
            self.answer.pop(thread, None)
            recording.rows += rows_of(message, recording, meta)

    def _assistant(
        self, recording: Recording, thread: str, message: Mapping[str, Any], meta: dict[str, Any]
    ) -> None:
        """One answer is recorded as a line for each of its blocks, all with the message's id."""
        rows = rows_of(message, recording, meta)
        last = self.answer.get(thread)
        same = message.get("id")
        if same and last and last[0] == same:
            _merge(last[1], rows[0])
            recording.rows += rows[1:]
            return
        if same:
            self.answer[thread] = (str(same), rows[0])
        recording.rows += rows

    def _meta(self, line: Mapping[str, Any], outer: Mapping[str, Any], thread: str) -> dict[str, Any]:
        message = line["message"]
        meta: dict[str, Any] = {
            "ts": line.get("timestamp") or outer.get("timestamp"),
            "model": message.get("model"),
            "usage": message.get("usage"),
            "msg_id": message.get("id"),
            "is_meta": line.get("isMeta"),
            "compact_summary": line.get("isCompactSummary"),
            "api_error": line.get("isApiErrorMessage"),
        }
        if thread == _MAIN and self.events:
            meta["events_before"], self.events = self.events, []
        return {key: value for key, value in meta.items() if value}


def _merge(row: Row, more: Row) -> None:
    if more["content"]:
        row["content"] = f"{row['content']}\n{more['content']}" if row["content"] else more["content"]
    if more.get("tool_calls"):
        row["tool_calls"] = [*(row.get("tool_calls") or []), *more["tool_calls"]]
    if more.get("reasoning"):
        row["reasoning"] = "\n\n".join(filter(None, (row.get("reasoning"), more["reasoning"])))
    # Usage is counted up while the answer streams: the last line has it whole.
    row["_meta"] = {**(row.get("_meta") or {}), **{k: v for k, v in more["_meta"].items() if k == "usage"}}


def _is_spoken(line: Mapping[str, Any]) -> bool:
    message = line.get("message")
    return (
        line.get("type") in ("user", "assistant", "tool_result")
        and isinstance(message, dict)
        and bool(role_of(message))
    )


def _attach_files(path: Path, main: Recording, lines: list[dict[str, Any]]) -> None:
    """Sub-agents that Claude Code keeps in files of their own, beside the session or in its folder."""
    session = next((line["sessionId"] for line in lines if line.get("sessionId")), None)
    agents = {str(line["agentId"]) for line in lines if line.get("agentId") and line.get("isSidechain")}
    folder = path.parent / path.stem
    files = [*sorted(path.parent.glob("agent-*.jsonl")), *sorted(folder.glob("**/agent-*.jsonl"))]
    calls = _agent_calls(lines)
    for file in files:
        if file == path:
            continue
        events = read_document(file).events
        first = next((e for e in events if e.get("sessionId")), {})
        if first.get("sessionId") != session or str(first.get("agentId")) in agents:
            continue
        child = read(Document(file, lines=list(enumerate(events, 1))))
        if child is not None:
            child.name = file.stem
            child.parent_call = calls.get(str(first.get("agentId")))
            main.children.append(child)


def _agent_calls(lines: list[dict[str, Any]]) -> dict[str, str]:
    """Which call each sub-agent answers, as its result says."""
    found: dict[str, str] = {}
    for line in lines:
        result = line.get("toolUseResult")
        blocks = mapped(line.get("message")).get("content")
        if isinstance(result, dict) and result.get("agentId") and isinstance(blocks, list):
            ids = [b["tool_use_id"] for b in blocks if isinstance(b, dict) and b.get("tool_use_id")]
            found.update({str(result["agentId"]): str(ids[0])} if ids else {})
    return found
