"""Disks that are full, wrong or shared; files that are foreign or too new."""

from __future__ import annotations

import gc
import os
import sqlite3
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from langchain_core.messages import HumanMessage

from headwater.memory.archive import Archive, ArchiveError
from headwater.memory.database import Database, StorageError, StoreTooNew
from headwater.memory.memory import Memory

WRITER = """
import sys
from pathlib import Path
from langchain_core.messages import HumanMessage
from headwater.memory.archive import Archive

archive, me = Archive(Path(sys.argv[1])), sys.argv[2]
for n in range(150):
    archive.append("shared", [HumanMessage(f"{me} {n}", id=f"{me}{n}")])
"""


def test_files_are_for_this_user_only(memory: Memory) -> None:
    memory.archive.append("s", [HumanMessage("a")])
    name = memory.artifacts.put("text")
    assert stat.S_IMODE(memory.root.stat().st_mode) == 0o700
    for path in memory.root.glob("archive.sqlite*"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
    assert stat.S_IMODE(memory.artifacts.path(name).stat().st_mode) == 0o600


def test_a_newer_store_is_refused_and_left_as_it_is(memory: Memory) -> None:
    memory.archive.append("s", [HumanMessage("a")])
    memory.archive.close()
    path = memory.root / "archive.sqlite"
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version=99")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(StoreTooNew, match=r"version 99, this program knows up to 1: upgrade headwater"):
        memory.archive.last("s")
    assert path.read_bytes() == before


def test_migrations_run_once_and_in_order(tmp_path: Path) -> None:
    first = Database(tmp_path / "x.sqlite", [["CREATE TABLE a(x)"]])
    with first.write() as db:
        db.execute("INSERT INTO a VALUES (1)")
    first.close()
    second = Database(
        tmp_path / "x.sqlite", [["CREATE TABLE a(x)"], ["ALTER TABLE a ADD COLUMN y DEFAULT 7"]]
    )
    with second.read() as db:
        assert db.execute("SELECT x, y FROM a").fetchall() == [(1, 7)]
    second.close()


def test_a_file_where_the_folder_should_be_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "root").write_text("a file")
    with pytest.raises(ArchiveError, match=r"cannot use .*root/archive\.sqlite"):
        Archive(tmp_path / "root" / "archive.sqlite").append("s", [HumanMessage("a")])


def test_a_folder_where_the_file_should_be_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "archive.sqlite").mkdir()
    with pytest.raises(ArchiveError, match="cannot use"):
        Archive(tmp_path / "archive.sqlite").last("s")


def test_a_file_that_is_no_database_is_a_clear_error_and_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "archive.sqlite"
    path.write_bytes(b"precious, and not ours " * 100)
    with pytest.raises(ArchiveError, match="put it aside"):
        Archive(path).last("s")
    assert path.read_bytes() == b"precious, and not ours " * 100


def test_c15_a_full_disk_loses_nothing_and_keeps_no_half(tmp_path: Path) -> None:
    archive = Archive(tmp_path / "archive.sqlite")
    archive.append("s", [HumanMessage("a", id="1")])
    with archive._db.read() as db:
        pages = db.execute("PRAGMA page_count").fetchone()[0]
        db.execute(f"PRAGMA max_page_count={pages + 2}")
    many = [HumanMessage("small", id="2"), HumanMessage("x" * 500_000, id="3")]
    with pytest.raises(ArchiveError, match="full; free some space"):
        archive.append("s", many)
    assert archive.last("s") == 1
    assert archive.get("s", 1).content == "a"
    with archive._db.read() as db:
        db.execute("PRAGMA max_page_count=1000000")
    assert archive.append("s", many) == [2, 3]
    archive.close()


def test_search_goes_on_when_there_is_no_room_to_index(tmp_path: Path) -> None:
    archive = Archive(tmp_path / "archive.sqlite")
    archive.append("s", [HumanMessage("the port is 5432", id="1"), HumanMessage("else", id="2")])
    with archive._db.read() as db:
        db.execute(f"PRAGMA max_page_count={db.execute('PRAGMA page_count').fetchone()[0]}")
    assert [tag for tag, _ in archive.search("s", "5432")] == [1]
    archive.close()


def test_a_transaction_that_raises_is_undone(tmp_path: Path) -> None:
    database = Database(tmp_path / "x.sqlite", [["CREATE TABLE a(x)"]])

    def fail() -> None:
        with database.write() as db:
            db.execute("INSERT INTO a VALUES (1)")
            raise KeyError("elsewhere")

    with pytest.raises(KeyError, match="elsewhere"):
        fail()
    with database.read() as db:
        assert db.execute("SELECT count(*) FROM a").fetchone() == (0,)
    database.close()


def test_two_processes_append_to_one_session(tmp_path: Path) -> None:
    path = tmp_path / "archive.sqlite"
    command = [sys.executable, "-c", WRITER, str(path)]
    workers = [subprocess.Popen([*command, name]) for name in ("left", "right")]
    assert [worker.wait(60) for worker in workers] == [0, 0]
    archive = Archive(path)
    messages = archive.read("shared", 1, 999)
    archive.close()
    assert [tag for tag, _ in messages] == [*range(1, 301)]
    for name in ("left", "right"):
        mine = [m.content for _, m in messages if str(m.content).startswith(name)]
        assert mine == [f"{name} {n}" for n in range(150)]


def test_threads_append_to_one_session(memory: Memory) -> None:
    def work(name: str) -> None:
        for n in range(50):
            memory.archive.append("s", [HumanMessage("x", id=f"{name}{n}")])

    threads = [threading.Thread(target=work, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert memory.archive.last("s") == 200


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_opens_its_own_connection(tmp_path: Path) -> None:
    code = (
        "import os, sys; from pathlib import Path; from langchain_core.messages import HumanMessage as H\n"
        "from headwater.memory.archive import Archive\n"
        "a = Archive(Path(sys.argv[1])); a.append('s', [H('parent', id='1')])\n"
        "child = os.fork()\n"
        "if not child: a.append('s', [H('child', id='2')]); os._exit(0)\n"
        "assert os.waitpid(child, 0)[1] == 0; a.append('s', [H('after', id='3')]); assert a.last('s') == 3\n"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "a.sqlite")], check=True, timeout=60)


def test_a_newer_store_of_facts_is_refused(memory: Memory) -> None:
    memory.facts.write("a fact", "NAMING")
    memory.close()
    connection = sqlite3.connect(memory.root / "memory.sqlite")
    connection.execute("PRAGMA user_version=99")
    connection.close()
    with pytest.raises(StorageError, match="version 99"):
        memory.facts.list()


def test_who_drops_a_memory_without_closing_it_has_still_closed_its_files(tmp_path: Path) -> None:
    memory = Memory(tmp_path)
    memory.archive.append("t", [HumanMessage("Hello")])
    memory.facts.list()
    opened = (memory.archive._db._connection, memory._own_store._connection)
    del memory
    gc.collect()
    for connection in opened:
        assert connection is not None
        with pytest.raises(sqlite3.ProgrammingError, match="closed"):
            connection.execute("SELECT 1")
