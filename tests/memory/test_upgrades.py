"""What a release has written, every later one reads; what a later one wrote is refused, never guessed at."""

import gc
import json
import sqlite3
import tarfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.sqlite import SqliteSaver

from headwater import Memory, WindowPolicy, build_agent
from headwater.graph import list_sessions, resume
from headwater.lab import StrictProvider
from headwater.memory import Dreamer, StoreTooNew, codec
from headwater.memory.artifacts import Artifacts
from headwater.memory.database import Database
from headwater.memory.fact import VERSION, Category, Fact, fact
from tests.memory.frozen import make

FROZEN = sorted(Path(make.__file__).parent.glob("v*.tar.gz"))
FILES = (
    "archive",
    "artifacts",
    "memory",
    "turn",
    "words",
    "told",
    "runs",
    "delegations",
    "shelf",
    "frames",
    "sessions",
    "dreams",
)


@pytest.fixture(params=FROZEN, ids=lambda p: p.name.partition(".")[0])
def frozen(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """The memory and checkpoints as a release left them."""
    with tarfile.open(request.param) as tar:
        tar.extractall(tmp_path, filter="data")
    return tmp_path


def test_there_is_a_frozen_state_of_every_release() -> None:
    assert [path.name for path in FROZEN] == ["v0_1_0.tar.gz"]


def test_the_memory_of_a_release_is_read_in_full(frozen: Path) -> None:
    with Memory(frozen / "memory") as memory:
        log = [message for _, message in memory.archive.read("monday", 1, memory.archive.last("monday"))]
        assert log[0].content == make.QUESTION
        pages = [m.content for m in log if m.name == "read_log"]
        assert pages == [make.read_log(page) for page in range(1, make.PAGES + 1)]
        assert memory.archive.compartments("monday")
        assert memory.archive.search("monday", "5432")
        assert memory.compartments.search("monday", "5432") == []  # no project had sessions yet
        memory.sessions.claim("monday")
        assert memory.compartments.search("monday", "which port?")
        assert memory.compartments.unindexed() == []
        assert {(f.category, f.content) for f in memory.facts.list()} == {
            (Category.CONFIG_VALUES, "The database listens on port 5432."),
            (Category.CONSTRAINTS, "Never restart the database."),
        }
        assert memory.facts.search("Welcher Port? 端口")[0][0].content.endswith("5432.")
        child = next(name for name in memory.archive.sessions() if name.startswith("monday/"))
        assert (memory.delegations.concluded(child) or {})["answer"] == "There are 40 pages."


@pytest.mark.parametrize("session", ["monday", "tuesday"], ids=["at work", "set aside"])
def test_a_session_of_a_release_goes_on(frozen: Path, session: str) -> None:
    connection = sqlite3.connect(frozen / "checkpoints.sqlite", check_same_thread=False)
    with (
        StrictProvider(make.play, window=8_000, keep_raw=True) as provider,
        Memory(frozen / "memory") as memory,
    ):
        agent = build_agent(
            provider.openai(),
            tools=[make.read_log],
            policy=WindowPolicy(window=8_000),
            memory=memory,
            checkpointer=SqliteSaver(connection),
        )
        assert {line.name for line in list_sessions(agent)} == {"monday", "tuesday"}
        state = agent.invoke({"messages": [("user", "And now?")]}, resume(agent, session))
        assert state["messages"][-1].text == "Page 40 again."
        sent = json.dumps(json.loads(provider.requests[-1].raw or b""), ensure_ascii=False)
        assert "Never restart the database" in sent
        assert "⟦stored" in sent or "compartment" in sent
        assert provider.violations == []
    connection.close()


def test_artifacts_of_the_first_schema_are_migrated(tmp_path: Path) -> None:
    artifacts = Artifacts(tmp_path)
    name = artifacts.put("text")
    connection = sqlite3.connect(tmp_path / "artifacts.sqlite")
    connection.execute(
        "CREATE TABLE holds(name TEXT NOT NULL, session BLOB NOT NULL, PRIMARY KEY (session, name))"
    )
    connection.execute("CREATE INDEX holds_by_name ON holds(name)")
    connection.execute("INSERT INTO holds VALUES (?, ?)", (name, b"s"))
    connection.execute("PRAGMA user_version=1")
    connection.commit()
    connection.close()
    artifacts.retain(name, "t", 7)
    artifacts.close()
    connection = sqlite3.connect(tmp_path / "artifacts.sqlite")
    rows = connection.execute("SELECT session, tag FROM holds ORDER BY tag").fetchall()
    assert rows == [(b"s", 0), (b"t", 7)]
    assert connection.execute("PRAGMA user_version").fetchone() == (2,)
    connection.close()


def _use(memory: Memory, file: str) -> object:
    """Make that file be opened."""
    uses: dict[str, Callable[[], object]] = {
        "archive": lambda: memory.archive.append("s", [HumanMessage("a")]),
        "artifacts": lambda: memory.artifacts.retain(memory.artifacts.put("a"), "s", 1),
        "runs": lambda: memory.runs.standing("s"),
        "delegations": lambda: memory.delegations.concluded("s"),
        "frames": lambda: memory.frames.keep("s", "a", "m", {}),
        "shelf": lambda: memory.shelf.get("s"),
        "sessions": lambda: memory.sessions.newest(),
        "dreams": lambda: _used(Dreamer(memory)),
        "words": lambda: memory.facts.write("a fact", "NAMING"),
        "told": lambda: _told(memory),
    }
    return uses.get(file, uses["words"])()


def _told(memory: Memory) -> int:
    memory.archive.append("s", [HumanMessage("a")])
    memory.sessions.claim("s")
    memory.archive.put_compartment("s", {"first": 1, "last": 1, "p1": "a"})
    return len(memory.compartments.search("s", "a"))


def _used(dreams: Dreamer) -> Dreamer:
    with closing(dreams):
        dreams.reports()
    return dreams


@pytest.mark.parametrize("file", FILES)
def test_every_file_has_a_version(tmp_path: Path, file: str) -> None:
    with Memory(tmp_path) as memory:
        _use(memory, file)
    connection = sqlite3.connect(tmp_path / f"{file}.sqlite")
    assert connection.execute("PRAGMA user_version").fetchone()[0] >= 1
    connection.close()


def test_no_file_is_without_a_test_of_its_version(tmp_path: Path) -> None:
    with Memory(tmp_path) as memory:
        used = [_use(memory, file) for file in FILES]
        made = [item for item in gc.get_objects() if isinstance(item, Database)]
        files = {item.path.stem for item in made if item.path.parent == tmp_path}
        on_disk = {
            path.stem for path in tmp_path.glob("*.sqlite") if path.stat().st_size or path.stem in files
        }
    # LangGraph's store has a file of its own; the lock of whoever builds an index is a file without content.
    assert len(used) == len(FILES)
    assert {"memory", *files} == on_disk == set(FILES)


# Indexes by words are built anew, as Chroma's is: nothing in them that the store or the archive has not.
@pytest.mark.parametrize("file", [name for name in FILES if name not in ("words", "told")])
def test_a_newer_file_is_refused_and_left_as_it_is(tmp_path: Path, file: str) -> None:
    with Memory(tmp_path) as memory:
        _use(memory, file)
    path = tmp_path / f"{file}.sqlite"
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version=99")
    connection.close()
    before = path.read_bytes()
    with Memory(tmp_path) as memory, pytest.raises(StoreTooNew, match=r"version 99.*upgrade headwater"):
        _use(memory, file)
    assert path.read_bytes() == before


def test_a_fact_in_any_store_has_a_version_and_a_newer_one_is_refused() -> None:
    value = fact("a fact", "NAMING", now=1.0).to_value()
    assert value["v"] == VERSION
    assert Fact.from_value(value).content == "a fact"
    assert Fact.from_value({name: item for name, item in value.items() if name != "v"}).content == "a fact"
    with pytest.raises(StoreTooNew, match=f"version {VERSION + 1}.*upgrade"):
        Fact.from_value({**value, "v": VERSION + 1, "unheard": "of"})


def test_a_row_of_an_unknown_form_is_refused() -> None:
    assert codec.decode(codec.encode({"a": b"1"})) == {"a": b"1"}
    with pytest.raises(StoreTooNew, match="upgrade headwater"):
        codec.decode(b"\x07" + codec.encode({"a": 1})[1:])
