"""LangSmith: exported runs, one tree or a list, into the conversation that its model calls had."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from headwater.lab.document import Document
from headwater.lab.load_messages import conversation
from headwater.lab.message_rows import extend, is_message, role_of, unwrapped
from headwater.lab.recording import Recording, listed, mapped

EXPECTS = 'LangSmith runs: {"run_type", "inputs", "outputs", "child_runs"}, a list of runs, or one a line'


@dataclass
class _Talk:
    """One conversation: its messages so far, each with the run that brought it."""

    said: list[tuple[Mapping[str, Any], Mapping[str, Any]]] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    owner: str = ""
    rewritten: int = 0


def read(document: Document) -> Recording | None:
    """The longest conversation of the runs, the others as its sub-agents; None where there are no runs."""
    value = document.value
    given = value.get("runs") if isinstance(value, dict) and "runs" in value else value
    given = given if isinstance(given, list) else [value] if isinstance(value, dict) else document.events
    given = [run for run in given if run is not None]
    if not given or not all(isinstance(run, dict) and "run_type" in run for run in given):
        return None
    given = [{**run, **{key: _parsed(run.get(key)) for key in ("inputs", "outputs")}} for run in given]
    # A run without a time is one that the end of the file has cut.
    runs = sorted(_all(given), key=lambda run: str(run.get("start_time") or "~"))
    talks: list[_Talk] = []
    for run in runs:
        if run.get("run_type") == "llm":
            _hear(talks, run, _owner(run, runs))
    if not talks:
        talks = [_Talk([(m, run) for m in found]) for run in given[:1] if (found := _outcome(run))]
    recordings = [_record(talk) for talk in sorted(talks, key=lambda t: -len(t.said))]
    recordings = [r for r in recordings if r.rows]
    if not recordings:
        return None
    main, *others = recordings
    main.children += others
    root = next((run for run in runs if not run.get("parent_run_id")), runs[0])
    main.name = str(root.get("trace_id") or root.get("id") or "") or None
    return main


def _parsed(value: Any) -> Any:
    """What a bulk export writes as text."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError:
        return {}


def _all(runs: list[Any]) -> Iterator[dict[str, Any]]:
    for run in runs:
        if isinstance(run, dict):
            yield run
            yield from _all(listed(run.get("child_runs")))


def _hear(talks: list[_Talk], run: Mapping[str, Any], owner: str) -> None:
    """Add a model call to the conversation that it goes on with, or begin another."""
    asked = _inputs(run)
    keys = [_key(m) for m in asked]
    best = max(talks, key=lambda t: _common(t.keys, keys), default=None)
    head = next((k for m, k in zip(asked, keys, strict=True) if role_of(m) == "user"), None)
    if best is None or (head not in best.keys and _common(best.keys, keys) < max(1, len(keys) // 2)):
        best = _Talk(owner=owner)
        talks.append(best)
    known = set(best.keys)
    if any(key not in keys for key in best.keys):
        best.rewritten += 1
    # A shortened or summarised history is told again from its start: only what is new goes on.
    for message, key in zip(asked, keys, strict=True):
        if key not in known:
            best.said.append((message, run))
            best.keys.append(key)
    for message in _outputs(run):
        best.said.append((message, {**run, "start_time": run.get("end_time") or run.get("start_time")}))
        best.keys.append(_key(message))


def _record(talk: _Talk) -> Recording:
    recording = Recording("langsmith", name=talk.owner or None)
    if talk.rewritten:
        recording.odd(
            "rewritten_history", f"{talk.rewritten} calls were sent without all that was said before"
        )
    for message, run in talk.said:
        before = len(recording.rows)
        extend(recording, [message])
        for row in recording.rows[before:]:
            meta = {"ts": run.get("start_time"), **(row.get("_meta") or {})}
            if row["role"] == "assistant":
                tokens = {
                    k: run[k] for k in ("prompt_tokens", "completion_tokens") if isinstance(run.get(k), int)
                }
                meta = {"usage": tokens, **meta} if tokens else meta
                meta |= {"error": run["error"]} if run.get("error") else {}
            row["_meta"] = meta
    return recording


def _inputs(run: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    inputs = run.get("inputs") or {}
    listed = conversation(inputs) or []
    if not listed and isinstance(inputs, dict):
        prompts = inputs.get("prompts") or inputs.get("prompt") or inputs.get("input")
        texts = prompts if isinstance(prompts, list) else [prompts]
        listed = [{"role": "user", "content": text} for text in texts if isinstance(text, str)]
    return [unwrapped(m) for m in listed if is_message(m)]


def _outputs(run: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    outputs = run.get("outputs") or {}
    if not isinstance(outputs, dict):
        return []
    drawn = outputs.get("generations")
    while isinstance(drawn, list) and drawn:
        drawn = drawn[0]
    if isinstance(drawn, dict):
        message = drawn.get("message")
        if isinstance(message, dict) and is_message(message):
            return [unwrapped(message)]
        return [{"role": "assistant", "content": drawn.get("text", "")}]
    for key in ("message", "output"):
        if is_message(outputs.get(key)):
            return [unwrapped(outputs[key])]
    return [unwrapped(m) for m in conversation(outputs) or [] if is_message(m)][-1:]


def _outcome(run: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """What a run without model calls tells of the conversation: its outputs, else its inputs and answer."""
    outputs = run.get("outputs")
    outputs = outputs if isinstance(outputs, dict) else {}
    held = conversation(outputs.get("messages")) or []
    return [unwrapped(m) for m in held if is_message(m)] if len(held) > 1 else [*_inputs(run), *_outputs(run)]


def _owner(run: Mapping[str, Any], runs: list[dict[str, Any]]) -> str:
    parent = next((r for r in runs if r.get("id") and r.get("id") == run.get("parent_run_id")), None)
    return str(parent.get("name") or "") if parent else ""


def _key(message: Mapping[str, Any]) -> str:
    calls = message.get("tool_calls") or mapped(message.get("additional_kwargs")).get("tool_calls")
    ids = [c.get("id") for c in listed(calls) if isinstance(c, dict)]
    said = [role_of(message), message.get("content"), ids, message.get("tool_call_id")]
    return json.dumps(said, ensure_ascii=False, sort_keys=True, default=str)


def _common(left: list[str], right: list[str]) -> int:
    return len(set(left) & set(right))
