"""The documents: their code runs, their links lead somewhere, their graph is the one that is built."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.language_models import FakeListChatModel

from headwater.graph import build_agent
from headwater.lab.provider import Reply, StrictProvider

ROOT = Path(__file__).parents[1]
ENGLISH, CHINESE = ROOT / "README.md", ROOT / "README.zh.md"
RUN = [ENGLISH, CHINESE, *sorted((ROOT / "docs").rglob("*.md"))]
# What is shown and not run: commands for a shell, a drawing.
SHOWN = {"sh", "mermaid"}
DOCUMENTS = [*RUN, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]
KEYED = "<!-- needs a key -->"
_BLOCK = re.compile(r"^(?P<before>[^\n]*)\n```(?P<language>\w*)\n(?P<code>.*?)^```$", re.M | re.S)
_LINK = re.compile(r"(?<!!)\[[^\]]+\]\(([^)\s]+)\)")
_PICTURE = re.compile(r"!\[[^\]]*\]\(([^)\s]+)\)")
_EDGE = re.compile(r'^\s+(\w+)(?:\(\[\w+\]\))? (?:-->|-- "?[^"\n]+?"? -->) (\w+)(?:\(\[\w+\]\))?$', re.M)
_ENDS = {"start": "__start__", "finish": "__end__"}


def _blocks(path: Path) -> Iterator[tuple[str, str, str]]:
    """Language, the line before, and the code of each fenced block."""
    for found in _BLOCK.finditer(path.read_text("utf-8")):
        yield found["language"], found["before"], found["code"]


def _name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("path", RUN, ids=_name)
def test_every_block_is_run_or_named_as_shown(path: Path) -> None:
    assert {language for language, _, _ in _blocks(path)} <= {"python", *SHOWN}


@pytest.mark.parametrize("path", RUN, ids=_name)
def test_every_python_block_runs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    space: dict[str, Any] = {"__name__": "example"}
    # What needs a key talks to a local server here, through the client's own settings.
    with StrictProvider(lambda request: Reply("Nothing stands out."), window=1_000_000) as provider:
        for language, before, code in _blocks(path):
            if language != "python":
                continue
            with monkeypatch.context() as settings:
                if before == KEYED:
                    settings.setenv("OPENAI_API_KEY", "none")
                    settings.setenv("OPENAI_BASE_URL", f"{provider.url}/v1")
                exec(compile(code, f"{path.name}", "exec"), space)
        assert provider.violations == []
        keyed = any(before == KEYED for _, before, _ in _blocks(path))
        assert bool(provider.requests) is keyed


def test_the_first_example_shows_a_stub_that_can_be_read_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    code = next(code for language, _, code in _blocks(ENGLISH) if language == "python")
    assert len(code.splitlines()) <= 15
    exec(compile(code, "README.md", "exec"), {})
    shown = capsys.readouterr().out
    assert 'file_read("artifacts/' in shown
    assert "Request 96 was slow." in shown


@pytest.mark.parametrize("path", DOCUMENTS, ids=_name)
def test_links_lead_somewhere(path: Path) -> None:
    links = _LINK.findall(path.read_text("utf-8"))
    local = [link.partition("#")[0] for link in links if "://" not in link]
    assert [link for link in local if link and not (path.parent / link).exists()] == []


@pytest.mark.parametrize("path", DOCUMENTS, ids=_name)
def test_pictures_are_there(path: Path) -> None:
    pictures = _PICTURE.findall(path.read_text("utf-8"))
    assert [name for name in pictures if not (path.parent / name).is_file()] == []


TWINS = [(path.with_name(path.name.replace(".zh.", ".")), path) for path in RUN if ".zh." in path.name]


@pytest.mark.parametrize("twins", TWINS, ids=lambda twins: _name(twins[0]))
def test_twins_say_the_same_in_the_same_order(twins: tuple[Path, Path]) -> None:
    english, chinese = (path.read_text("utf-8") for path in twins)
    assert _outline(english) == _outline(chinese)
    first, second = (list(_blocks(path)) for path in twins)
    assert [b[0] for b in first] == [b[0] for b in second]
    assert [b[1] == KEYED for b in first] == [b[1] == KEYED for b in second]
    # Each leads to its own language where there is one, and to the other once.
    targets = [sorted(link.replace(".zh.md", ".md") for link in _LINK.findall(t)) for t in (english, chinese)]
    assert targets[0] == targets[1]
    assert _figures(english) == _figures(chinese)


def test_a_chinese_page_leads_to_chinese_pages_where_there_are_any() -> None:
    pages = {path.resolve() for path in RUN}
    for english, chinese in TWINS:
        for link in _LINK.findall(chinese.read_text("utf-8")):
            target = (chinese.parent / link.partition("#")[0]).resolve()
            twin = target.with_name(target.name.replace(".md", ".zh.md"))
            assert target == english.resolve() or twin not in pages, link


def test_the_readme_names_the_two_commands_and_they_are_in_the_makefile() -> None:
    for path in (ENGLISH, CHINESE):
        shell = "".join(code for language, _, code in _blocks(path) if language == "sh")
        assert shell.split("\n")[:2] == ["make demo", "make test"]
    makefile = (ROOT / "Makefile").read_text("utf-8")
    assert re.search(r"^demo:", makefile, re.M)
    assert re.search(r"^test:", makefile, re.M)


@pytest.mark.parametrize("path", [ENGLISH, CHINESE, ROOT / "docs/architecture.md"], ids=lambda p: p.name)
def test_the_drawn_graph_is_the_one_that_is_built(path: Path, tmp_path: Path) -> None:
    drawn = next(code for language, _, code in _blocks(path) if language == "mermaid")
    edges = {(_ENDS.get(a, a), _ENDS.get(b, b)) for a, b in _EDGE.findall(drawn)}
    assert len(edges) == len(drawn.splitlines()) - 1
    built = build_agent(FakeListChatModel(responses=["-"]), memory=tmp_path, context_tools=False).get_graph()
    assert edges == {(edge.source, edge.target) for edge in built.edges}


def test_every_event_that_is_sent_is_listed_and_no_other() -> None:
    sources = "\n".join(path.read_text("utf-8") for path in (ROOT / "nodes").glob("*.py"))
    sent = set(re.findall(r'\bemit\(\s*"(\w+)"', sources))
    section = (ROOT / "docs/architecture.md").read_text("utf-8").partition("## Events")[2].partition("```")[0]
    assert set(re.findall(r"`(?:headwater)?\.(\w+)`", section)) == sent


def test_every_dependency_has_its_reason() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    named = [
        *project["dependencies"],
        *(d for extra in project["optional-dependencies"].values() for d in extra),
    ]
    names = {re.split(r"[\[<>=!~; ]", name)[0] for name in named}
    reasons = set(re.findall(r"`([\w-]+)`", (ROOT / "docs/dependencies.md").read_text("utf-8")))
    assert names - reasons == set()


def _figures(text: str) -> list[str]:
    """The numbers that the prose and the tables state."""
    prose = re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S)
    return sorted(re.findall(r"\d[\d,.:]*\d|\d", re.sub(r"\]\([^)]*\)", "]", prose)))


def _outline(text: str) -> list[tuple[str, int]]:
    """Depth of each heading, with the number of list items, table rows and paragraphs below it."""
    outline: list[tuple[str, int]] = []
    prose = re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S)
    for line in prose.splitlines():
        if line.startswith("#"):
            outline.append((line.split(" ")[0], 0))
        elif line.strip() and outline:
            outline[-1] = (outline[-1][0], outline[-1][1] + 1)
    return outline
