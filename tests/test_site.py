"""The site: it builds without a warning, fetches nothing from a network, and has the reference."""

import os
import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote

import pytest

import headwater
from headwater import graph, memory, nodes, window

ROOT = Path(__file__).parents[1]
# What a browser loads by itself; a link that a reader may follow is another matter.
_LOADED = re.compile(
    r"""<(?:script|img|iframe|source)\b[^>]*\bsrc=["']([^"']+)|<link\b[^>]*\bhref=["']([^"']+)"""
)
_STYLED = re.compile(r"""(?:url\(|@import )\s*["']?([^"')]+)""")
_FOLLOWED = re.compile(r"""<a\b[^>]*\bhref=["']([^"']+)""")
_ANCHOR = re.compile(r"""\b(?:id|name)=["']([^"']+)""")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site."""
    pytest.importorskip("mkdocs", reason="needs the docs extra")
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    return folder


def test_a_page_loads_nothing_from_a_network(site: Path) -> None:
    loaded = {
        address
        for page in site.rglob("*.html")
        for pair in _LOADED.findall(page.read_text("utf-8"))
        for address in pair
        if address
    }
    styled = {a for sheet in site.rglob("*.css") for a in _STYLED.findall(sheet.read_text("utf-8"))}
    assert loaded
    assert [a for a in loaded | styled if "//" in a.removeprefix("data:").partition(",")[0]] == []


def test_no_link_of_a_page_is_broken(site: Path) -> None:
    anchors = {page: set(_ANCHOR.findall(page.read_text("utf-8"))) for page in site.rglob("*.html")}
    broken = []
    for page in anchors:
        # mkdocs writes this one for a server whose root is the site.
        if page.name == "404.html":
            continue
        for link in _FOLLOWED.findall(page.read_text("utf-8")):
            if re.match(r"\w+:", link):
                continue
            path, _, anchor = unquote(link).partition("#")
            target = (page.parent / path).resolve() if path else page
            if not target.exists() or (anchor and anchor not in anchors.get(target, {anchor})):
                broken.append((page.relative_to(site).as_posix(), link))
    assert broken == []


@pytest.mark.parametrize("room", [headwater, graph, nodes, memory, window], ids=lambda room: room.__name__)
def test_the_reference_has_every_public_name(site: Path, room: object) -> None:
    name = room.__name__.rpartition(".")[2]  # type: ignore[attr-defined]
    text = (site / "reference" / f"{name}.html").read_text("utf-8")
    public = room.__all__  # type: ignore[attr-defined]
    assert [one for one in public if not re.search(rf'id="headwater(?:\.\w+)*\.{one}"', text)] == []


def test_both_languages_and_the_notebooks_are_pages(site: Path) -> None:
    for page in ("index.html", "zh.html", *(f"source/notebooks/{n.name}.html" for n in NOTEBOOKS)):
        assert (site / page).is_file(), page


NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
