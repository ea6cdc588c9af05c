"""`headwater doctor`: what it finds, what it advises, and that it changes nothing."""

import json
import string
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headwater.cli import FAILED, OK, main
from headwater.doctor import Finding, as_json, examine, lines_of
from headwater.doctor_words import CHINESE, ENGLISH
from headwater.lab.provider import Refuse, Reply, Request, StrictProvider
from headwater.memory import Category, Memory
from headwater.memory.fact import fact
from headwater.memory.limits import LIFETIME
from headwater.memory.words import LexicalIndex
from headwater.window.policy import WindowPolicy
from headwater.window.sizes import max_output_of

KEYS = ("OPENAI_API_KEY", "OPENAI_API_BASE", "OPENAI_BASE_URL", "ANTHROPIC_API_KEY")


@pytest.fixture(autouse=True)
def _no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for key in KEYS:
        monkeypatch.delenv(key, raising=False)


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Iterator[StrictProvider]:
    """A provider that the environment's key and address lead to, as a user's would."""

    def script(request: Request) -> Reply:
        if request.model == "wrong-key":
            raise Refuse(401, {"error": {"message": "Incorrect API key provided", "type": "auth"}})
        return Reply("ready")

    with StrictProvider(script) as provider:
        monkeypatch.setenv("OPENAI_API_KEY", "none")
        monkeypatch.setenv("OPENAI_API_BASE", f"{provider.url}/v1")
        yield provider


def about(findings: list[Finding], name: str) -> list[Finding]:
    return [finding for finding in findings if finding.name == name]


def the(findings: list[Finding], name: str) -> Finding:
    (found,) = about(findings, name)
    return found


def test_every_sentence_is_there_in_both_languages_with_the_same_values() -> None:
    assert ENGLISH.keys() == CHINESE.keys()
    for key, text in ENGLISH.items():
        fields = {name for _, name, _, _ in string.Formatter().parse(text) if name}
        assert {name for _, name, _, _ in string.Formatter().parse(CHINESE[key]) if name} == fields, key
        assert key.endswith(":do") or text


def test_m23_the_window_is_told_with_its_reason(tmp_path: Path) -> None:
    for model, window, tokens, by in [
        ("openai:gpt-4.1", None, 1_047_576, "name:gpt-4-1"),
        ("nobody-knows", None, 128_000, "default"),
        (None, 32_000, 32_000, "explicit"),
    ]:
        found = the(examine(model, window, tmp_path / "m"), "window")
        assert (found.data["tokens"], found.data["by"]) == (tokens, by)
        assert bool(found.advice) is (by == "default"), "what to do where nothing is known"
        assert found.data["offload"] < found.data["compact"] < found.data["exhausted"]


@pytest.mark.parametrize("model", ["openai:gpt-4.1", None])
def test_m23_the_lines_are_those_of_the_policy_that_is_set(
    served: StrictProvider, tmp_path: Path, model: str | None
) -> None:
    """With a client and without: what an agent would be given, but for a window set by hand."""
    early = WindowPolicy(window=64_000, offload=0.2, compact=0.3)
    for window, size in ((None, 64_000), (32_000, 32_000)):
        found = examine(model, window, tmp_path / "m", policy=early, request=False)
        lines = WindowPolicy(window=size, offload=0.2, compact=0.3).lines(
            max_output=max_output_of(model or "")
        )
        assert the(found, "window").data["offload"] == lines.offload


def test_every_fact_is_counted(tmp_path: Path) -> None:
    with Memory(tmp_path / "m", index=LexicalIndex(tmp_path / "w.sqlite")) as memory:
        # As one batch: to write them one by one takes longer than to count them.
        memory.facts._put(
            [fact(f"unit {n}", Category.CONFIG_VALUES, now=1.0, source=None) for n in range(1_001)]
        )
    (found,) = (f for f in examine(None, None, tmp_path / "m") if "1,001 live" in f.text)
    assert found.data["count"] == 1_001


@pytest.mark.parametrize("language", ["en", "zh"])
def test_g33_what_a_refusal_taught_is_told_with_its_time(tmp_path: Path, language: str) -> None:
    with Memory(tmp_path / "m") as memory:
        memory.limits.learn("gpt-4.1@https://one.example/v1", 65_536, time.time() - 3_600)
        memory.limits.learn("gpt-4.1@https://two.example/v1", 8_192, time.time() - LIFETIME - 3_600)
        memory.limits.learn("another@default", 4_096, time.time())
        memory.scales.learn("gpt-4.1@https://one.example/v1", 1.07, time.time())
    found = examine("openai:gpt-4.1", None, tmp_path / "m", language)
    window = the(found, "window")
    assert (window.data["tokens"], window.data["by"]) == (65_536, "learned"), "the lower one holds"
    held, faded = about(found, "limits")
    assert "65,536" in held.text
    assert "limits.json" in held.advice
    assert "8,192" in faded.text
    assert faded.advice == ""
    assert "1.07" in the(found, "calibration").text
    everything = examine(None, None, tmp_path / "m", language)
    assert len(about(everything, "limits")) == 3


def test_m17_a_scale_at_its_bound_is_a_finding(tmp_path: Path) -> None:
    with Memory(tmp_path / "m") as memory:
        memory.scales.learn("proxied@default", 3.0, time.time())
    found = the(examine("proxied", None, tmp_path / "m"), "calibration")
    assert not found.healthy
    assert "scales.json" in found.advice


def test_one_request_is_sent_where_a_key_is_set(served: StrictProvider, tmp_path: Path) -> None:
    found = the(examine("openai:strict-main", None, tmp_path / "m"), "request")
    assert found.healthy
    assert found.data["charged"] == served.requests[0].input_tokens
    assert served.totals().requests == 1
    examine("openai:strict-main", None, tmp_path / "m", request=False)
    examine("strict-main", None, tmp_path / "m")
    assert served.totals().requests == 1


def test_a_limit_counts_at_its_own_endpoint(served: StrictProvider, tmp_path: Path) -> None:
    """M23, G33: the client that the key makes has an address; a lesson of another one is not its."""
    with Memory(tmp_path / "m") as memory:
        memory.limits.learn("strict-main@https://elsewhere.example/v1", 4_096, time.time())
    found = examine("openai:strict-main", None, tmp_path / "m", request=False)
    assert the(found, "window").data["by"] == "default"
    with Memory(tmp_path / "m") as memory:
        memory.limits.learn(f"strict-main@{served.url}/v1", 16_384, time.time())
    found = examine("openai:strict-main", None, tmp_path / "m", request=False)
    assert the(found, "window").data["tokens"] == 16_384


@pytest.mark.parametrize(("language", "advice"), [("en", "Check the key"), ("zh", "请检查密钥")])
def test_a_key_that_is_not_taken_is_said_so(
    served: StrictProvider, tmp_path: Path, language: str, advice: str
) -> None:
    found = the(examine("openai:wrong-key", None, tmp_path / "m", language), "request")
    assert not found.healthy
    assert "Incorrect API key" in found.text
    assert advice in found.advice


def test_an_endpoint_that_is_not_there_is_said_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with StrictProvider([]) as gone:
        url = gone.url
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    monkeypatch.setenv("OPENAI_API_BASE", f"{url}/v1")
    found = the(examine("openai:any", None, tmp_path / "m"), "request")
    assert not found.healthy
    assert "network" in found.advice


def test_without_a_key_nothing_is_sent_and_the_reason_is_given(tmp_path: Path) -> None:
    found = the(examine("openai:gpt-4.1", None, tmp_path / "m"), "request")
    assert found.healthy
    assert "OPENAI_API_KEY" in found.text
    assert "--model" in the(examine(None, None, tmp_path / "m"), "request").advice


@pytest.mark.parametrize("language", ["en", "zh"])
def test_case_28_every_damaged_store_is_named_with_what_to_do(tmp_path: Path, language: str) -> None:
    folder = tmp_path / "m"
    with Memory(folder) as memory:
        memory.archive.append("s", [])
        memory.facts.write("The pump runs at 40 bar.", "CONFIG_VALUES")
    assert all(finding.healthy for finding in examine(None, None, folder, language))
    for file in (folder / "words.sqlite", folder / "memory.sqlite"):
        for extra in folder.glob(f"{file.name}-*"):
            extra.unlink()
        file.write_bytes(b"no database" * 100)
    (folder / "limits.json").write_text("{")
    bad = [finding for finding in examine(None, None, folder, language) if not finding.healthy]
    assert {f.name for f in bad} == {"stores", "limits"}
    assert len(bad) == 3
    assert all(finding.advice for finding in bad)
    index = next(finding for finding in bad if "words.sqlite" in finding.text)
    assert ("made anew" if language == "en" else "重建") in index.advice


def test_it_changes_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "m"
    with Memory(folder) as memory:
        memory.artifacts.put("text")
        memory.facts.write("The pump runs at 40 bar.", "CONFIG_VALUES")
        memory.limits.learn("m@default", 8_192, time.time())

    def bytes_of() -> dict[str, bytes]:
        files = (f for f in folder.rglob("*") if f.is_file() and not f.name.endswith(("-wal", "-shm")))
        return {f.relative_to(folder).as_posix(): f.read_bytes() for f in files}

    before = bytes_of()
    examine("m", None, folder)
    assert bytes_of() == before


def test_json_is_the_same_findings_with_their_figures(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "m"
    argv = ["doctor", "--memory", str(folder), "--model", "openai:gpt-4.1", "--json"]
    assert main(argv) == OK
    shown: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert shown["healthy"] is True
    assert {f["name"] for f in shown["findings"]} == {
        *("window", "limits", "calibration", "request", "tokenizer", "embeddings", "memory", "settings"),
    }
    assert shown["findings"][0]["data"]["tokens"] == 1_047_576
    folder.write_text("a file")
    assert main(argv) == FAILED
    assert json.loads(capsys.readouterr().out)["healthy"] is False


def test_advice_stands_below_its_finding() -> None:
    findings = [Finding("a", True, "Fine."), Finding("b", False, "Bad.", "Mend it.")]
    assert list(lines_of(findings)) == ["✓ Fine.", "✗ Bad.", "    → Mend it."]
    assert as_json(findings)["healthy"] is False
