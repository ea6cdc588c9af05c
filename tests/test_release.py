"""What is shipped: a wheel with the package and nothing else, a source archive with all that is needed."""

import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

import headwater

ROOT = Path(__file__).parents[1]
ROOMS = ("graph", "nodes", "memory", "window", "lab")
_BACKEND = "import sys; from setuptools import build_meta as b; b.build_{}(sys.argv[1])"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Wheel and source archive, built from a copy: a build leaves files in the tree."""
    setuptools = pytest.importorskip("setuptools", minversion="77", reason="the build needs setuptools 77")
    assert setuptools
    copy, out = tmp_path_factory.mktemp("copy") / "headwater", tmp_path_factory.mktemp("built")
    apart = shutil.ignore_patterns(".*", "build", "dist", "*.egg-info", "__pycache__")
    shutil.copytree(ROOT, copy, symlinks=True, ignore=apart)
    # One process each: a backend runs once.
    for kind in ("wheel", "sdist"):
        command = [sys.executable, "-c", _BACKEND.format(kind), str(out)]
        done = subprocess.run(command, cwd=copy, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
    return out


def test_the_wheel_holds_every_module_and_nothing_else(built: Path) -> None:
    with zipfile.ZipFile(next(built.glob("*.whl"))) as wheel:
        names = [name for name in wheel.namelist() if ".dist-info/" not in name]
    wanted = {f"headwater/{path.name}" for path in (ROOT / "headwater").glob("*.py")}
    wanted |= {f"headwater/{room}/{path.name}" for room in ROOMS for path in (ROOT / room).glob("*.py")}
    assert set(names) == wanted | {"headwater/py.typed", "headwater/lab/page.html"}


def test_the_metadata_says_what_it_is(built: Path) -> None:
    with zipfile.ZipFile(next(built.glob("*.whl"))) as wheel:
        (at,) = {name.partition("/")[0] for name in wheel.namelist() if ".dist-info/" in name}
        told = Parser().parsestr(wheel.read(f"{at}/METADATA").decode("utf-8"))
        entries = wheel.read(f"{at}/entry_points.txt").decode("utf-8")
        assert f"{at}/licenses/LICENSE" in wheel.namelist()
    assert (told["Name"], told["Version"]) == ("headwater", headwater.__version__)
    assert told["Requires-Python"] == ">=3.11"
    assert told["License-Expression"] == "Apache-2.0"
    assert "headwater = headwater.cli:main" in entries
    assert str(told.get_payload()).startswith("# Headwater")


def test_the_source_archive_can_be_tested_and_documented(built: Path) -> None:
    with tarfile.open(next(built.glob("*.tar.gz"))) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    tree = {
        path.relative_to(ROOT).as_posix()
        for folder in ("docs", "tests", "notebooks", "benchmarks", "examples", *ROOMS)
        for path in (ROOT / folder).rglob("*")
        if path.is_file()
        and path.suffix in (".py", ".md", ".ipynb", ".png", ".html", ".gz", ".json")
        and not any(part.startswith((".", "__pycache__")) for part in path.relative_to(ROOT).parts)
    }
    assert sorted(tree - names) == []
    files = {
        "README.md",
        "README.zh.md",
        "CHANGELOG.md",
        "LICENSE",
        "Makefile",
        "langgraph.json",
        "mkdocs.yml",
        "pyproject.toml",
    }
    assert files <= names


def test_the_changelog_has_this_version_and_its_day() -> None:
    text = (ROOT / "CHANGELOG.md").read_text("utf-8")
    assert re.search(rf"^## \[{re.escape(headwater.__version__)}\] - \d{{4}}-\d\d-\d\d$", text, re.M)
