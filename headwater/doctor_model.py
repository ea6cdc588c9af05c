"""What is known of a model: its window and why, what it has taught, and whether it answers."""

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import HumanMessage

from headwater.doctor import Finding, Report
from headwater.memory import Memory
from headwater.memory.limits import LIFETIME
from headwater.nodes.engine import Engine
from headwater.real_model import ModelUnavailable, NoSuchModel, chosen_model, client_errors
from headwater.window.calibration import MAX_SCALE, MIN_SCALE
from headwater.window.policy import PolicyError, WindowPolicy
from headwater.window.sizes import WindowSize, max_output_of, window_of
from headwater.window.tokens import count_tokens

QUESTION = "Reply with the one word: ready"
_REASONS = {401: "401", 403: "401", 404: "404", 429: "429"}


class Patient(NamedTuple):
    """The model that is looked at: its name, its client where it could be made, and why it could not."""

    name: str
    client: BaseChatModel | None
    reason: str = ""
    known: bool = True

    @property
    def bare(self) -> str:
        """The name as the provider knows it."""
        return self.name.rpartition(":")[2]


def look_at_model(
    report: Report,
    model: str | None,
    window: int | None,
    folder: Path,
    *,
    policy: WindowPolicy,
    request: bool,
) -> Iterator[Finding]:
    """Findings of window, limits, calibration and one request."""
    patient = _patient(model, report.words.language)
    with Memory(folder) as memory:
        yield _window(report, patient, window, policy, memory)
        yield from _unreadable(report, folder)
        yield from _limits(report, patient, memory, folder)
        yield from _scales(report, patient, memory, folder)
    yield _request(report, patient, request)


def _patient(model: str | None, language: str) -> Patient:
    if not model or ":" not in model:
        return Patient(model or "", None)
    try:
        return Patient(model, chosen_model(model))
    except ModelUnavailable as error:
        reason = error.chinese if language == "zh" else str(error)
        return Patient(model, None, reason, not isinstance(error, NoSuchModel))


def _window(
    report: Report, patient: Patient, window: int | None, policy: WindowPolicy, memory: Memory
) -> Finding:
    words = report.words
    try:
        if window is not None:
            policy = replace(policy, window=window)
        if patient.client is not None:
            engine = Engine(patient.client, memory, policy=policy)
            size, lines = engine.window, engine.lines
        else:
            size = _by_name(patient, policy.window, memory)
            lines = replace(policy, window=size.tokens).lines(max_output=max_output_of(patient.name))
    except PolicyError as error:
        return report.bad("window", "bad window", error=str(error))
    kind, _, pattern = size.source.partition(":")
    source = words.say(kind, pattern=pattern) if kind in words else size.source
    shown = {"model": patient.name or words.say("no model"), "source": source, **lines._asdict()}
    found = report.good("window", "window", **shown, tokens=size.tokens)
    return replace(found, advice=words.advice(kind), data={**found.data, "by": size.source})


def _by_name(patient: Patient, window: int | None, memory: Memory) -> WindowSize:
    """As the engine would find it, at whichever endpoint of that name has proved the least."""
    assumed = window_of(patient.name, explicit=window)
    now = time.time()
    proved = [memory.limits.get(key, now) for key in memory.limits.all() if _names(key, patient)]
    lowest = min((limit for limit in proved if limit is not None), default=None)
    if patient.name and lowest is not None and lowest < assumed.tokens:
        return WindowSize(lowest, "learned")
    return assumed


def _unreadable(report: Report, folder: Path) -> Iterator[Finding]:
    for file in (folder / "limits.json", folder / "scales.json"):
        try:
            found = json.loads(file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            continue
        except (OSError, ValueError) as error:
            yield report.bad("limits", "bad lessons", file=str(file), error=str(error))
            continue
        if not isinstance(found, dict):
            yield report.bad("limits", "bad lessons", file=str(file), error=f"{found!r:.60}")


def _limits(report: Report, patient: Patient, memory: Memory, folder: Path) -> Iterator[Finding]:
    file, now = str(folder / "limits.json"), time.time()
    rows = {key: row for key, row in memory.limits.all().items() if _names(key, patient)}
    if not rows:
        yield report.good("limits", "no limits")
    for key, (tokens, at) in rows.items():
        holds = memory.limits.get(key, now) is not None
        yield report.good(
            "limits",
            "limit" if holds else "old limit",
            key=key,
            tokens=tokens,
            when=_day(at),
            until=_day(at + LIFETIME),
            file=file,
        )


def _scales(report: Report, patient: Patient, memory: Memory, folder: Path) -> Iterator[Finding]:
    file = str(folder / "scales.json")
    rows = {key: row for key, row in memory.scales.all().items() if _names(key, patient)}
    if not rows:
        yield report.good("calibration", "no scales")
    for key, (scale, at) in rows.items():
        values: dict[str, Any] = {"key": key, "scale": scale, "when": _day(at), "file": file}
        if MIN_SCALE < scale < MAX_SCALE:
            yield report.good("calibration", "scale", **values)
        else:
            yield report.bad("calibration", "scale at bound", **values)


def _request(report: Report, patient: Patient, wanted: bool) -> Finding:
    words = report.words
    if not wanted:
        return report.good("request", "not sent", reason=words.say("not wanted"))
    if not patient.known:
        return report.bad("request", "no such model", reason=patient.reason)
    if patient.client is None:
        reason = patient.reason or words.say("no name")
        found = report.good("request", "not sent", reason=reason)
        return replace(found, advice="" if patient.reason else words.advice("no name"), data={})
    messages = [HumanMessage(QUESTION)]
    begun = time.monotonic()
    failures: tuple[type[Exception], ...] = (*client_errors(), OSError)
    try:
        answer = patient.client.invoke(messages)
    except failures as error:
        do = _REASONS.get(getattr(error, "status_code", 0), "failed")
        told = f"{type(error).__name__}: {error}"
        return report.bad("request", "failed", do=do, model=patient.name, error=told)
    seconds = time.monotonic() - begun
    values: dict[str, Any] = {"model": patient.name, "seconds": seconds, "counted": count_tokens(messages)}
    usage = getattr(answer, "usage_metadata", None)
    if not usage:
        return report.bad("request", "no usage", **values)
    return report.good("request", "answered", charged=usage["input_tokens"], **values)


def _names(key: str, patient: Patient) -> bool:
    """Whether a lesson's "model@endpoint" is the model's; every one is where none is named."""
    return not patient.name or key.partition("@")[0] in (patient.name, patient.bare)


def _day(seconds: float) -> str:
    return datetime.fromtimestamp(seconds).strftime("%Y-%m-%d %H:%M")
