"""Offloaded bytes: named by content, confined, exact, counted by reference."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headwater.memory.artifacts import ArtifactCorrupt, ArtifactError, ArtifactMissing, Artifacts, PathRefused
from headwater.memory.memory import Memory

ANY_TEXT = st.text(st.characters(min_codepoint=0, max_codepoint=0x10FFFF))
SHARED_FIXTURE = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)


@given(text=ANY_TEXT)
@SHARED_FIXTURE
def test_m10_text_reads_back_exactly(memory: Memory, text: str) -> None:
    assert memory.artifacts.read_text(memory.artifacts.put(text)) == text


@given(data=st.binary())
@SHARED_FIXTURE
def test_m10_read_back_is_byte_exact(memory: Memory, data: bytes) -> None:
    name = memory.artifacts.put(data, ".bin")
    assert memory.artifacts.read_bytes(name) == data
    memory.artifacts.read_text(name)  # whatever the bytes are


@pytest.mark.parametrize(
    "text", ["a\r\nb\r\n", "\ufeffbom", "\0", "a\ud83d\ude00b", "\udcb2", "", "x" * 3_000_000]
)
def test_m10_line_ends_and_broken_characters_survive(memory: Memory, text: str) -> None:
    assert memory.artifacts.read_text(memory.artifacts.put(text)) == text


def test_names_are_pure_functions_of_content(memory: Memory, tmp_path: Path) -> None:
    name = memory.artifacts.name_of("中文")
    assert not memory.root.exists()
    assert memory.artifacts.put("中文") == name == memory.artifacts.put("中文".encode())
    assert Artifacts(tmp_path / "elsewhere").name_of("中文") == name
    assert name.startswith("artifacts/")
    assert name.split("/")[2].startswith(name.split("/")[1])


def test_case_60_different_contents_never_share_a_file(memory: Memory) -> None:
    # Names owe nothing to call ids, so ids of any length, empty, alike or repeated cannot collide.
    names = {memory.artifacts.put(f"result of {call}") for call in ("a/b", "a_b", "a.b", "", "x" * 1_400)}
    assert len(names) == 5
    assert {memory.artifacts.read_text(name) for name in names} == {
        f"result of {call}" for call in ("a/b", "a_b", "a.b", "", "x" * 1_400)
    }


@pytest.mark.parametrize(
    "name",
    [
        "../secret",
        "artifacts/../secret",
        "/etc/passwd",
        "artifacts\\ab\\" + "ab" * 16 + ".txt",
        "artifacts/ab/" + "ab" * 16 + ".txt\n",
        "artifacts/ab/" + "ab" * 16 + ".txt\0",
        "artifacts/ab/" + "ab" * 16 + "./x",
        "artifacts/cd/" + "ab" * 16 + ".txt",
        "",
        "artifacts/",
        "\udcb2",
        "archive.sqlite",
    ],
)
def test_case_64_names_cannot_leave_the_folder(memory: Memory, name: str) -> None:
    for use in (memory.artifacts.path, memory.artifacts.read_text, memory.artifacts.read_bytes):
        with pytest.raises(PathRefused):
            use(name)


@pytest.mark.parametrize("suffix", ["/../x", ".a/b", "txt", ".", ".x\n", "." + "a" * 17])
def test_case_64_suffixes_cannot_leave_the_folder(memory: Memory, suffix: str) -> None:
    with pytest.raises(PathRefused, match="suffix"):
        memory.artifacts.put("x", suffix)


def test_links_out_of_the_folder_are_refused(memory: Memory, tmp_path: Path) -> None:
    name = memory.artifacts.put("mine")
    outside = tmp_path / "outside.txt"
    outside.write_text("theirs")
    memory.artifacts.path(name).unlink()
    memory.artifacts.path(name).symlink_to(outside)
    with pytest.raises(PathRefused, match="by a link"):
        memory.artifacts.read_text(name)
    with pytest.raises(PathRefused, match="by a link"):
        memory.artifacts.put("mine")
    assert outside.read_text() == "theirs"


def test_a_corrupt_artifact_is_named_and_heals_when_put_again(memory: Memory) -> None:
    name = memory.artifacts.put("what was said")
    memory.artifacts.path(name).write_text("what was SAID")
    with pytest.raises(ArtifactCorrupt, match=name):
        memory.artifacts.read_text(name)
    assert memory.artifacts.put("what was said") == name
    assert memory.artifacts.read_text(name) == "what was said"


def test_a_missing_artifact_is_named(memory: Memory) -> None:
    name = memory.artifacts.name_of("never put")
    with pytest.raises(ArtifactMissing, match=name):
        memory.artifacts.read_bytes(name)
    with pytest.raises(ArtifactMissing, match="put it again"):
        memory.artifacts.retain(name, "s")


def test_case_66_a_failed_write_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "artifacts").write_text("a file where the folder should be")
    artifacts = Artifacts(tmp_path)
    with pytest.raises(ArtifactError, match="free space or choose another root"):
        artifacts.put("x")
    assert [p.name for p in tmp_path.iterdir()] == ["artifacts"]


def test_writing_leaves_no_parts(memory: Memory) -> None:
    for n in range(5):
        memory.artifacts.put(f"text {n % 2}")
    files = [p for p in (memory.root / "artifacts").rglob("*") if p.is_file()]
    assert len(files) == 2


def test_case_65_gbk_bytes_are_read_and_named(memory: Memory) -> None:
    name = memory.artifacts.put("中文内容，第二行\n".encode("gbk"))
    assert memory.artifacts.read_text(name) == "中文内容，第二行\n"
    assert memory.artifacts.encoding(name) == "gb18030"
    assert memory.artifacts.encoding(memory.artifacts.put(b"caf\xe9 ol\xe9")) == "latin-1"
    assert memory.artifacts.encoding(memory.artifacts.put("é")) == "utf-8"


def test_references_are_counted_across_sessions(memory: Memory) -> None:
    shared, mine = memory.artifacts.put("both", session="a"), memory.artifacts.put("one", session="a")
    memory.artifacts.retain(shared, "b")
    memory.artifacts.retain(shared, "b")
    assert memory.artifacts.release("a") == [mine]
    assert memory.artifacts.read_text(shared) == "both"
    with pytest.raises(ArtifactMissing):
        memory.artifacts.read_text(mine)
    assert memory.artifacts.release("b") == [shared]
    assert memory.artifacts.release("b") == []


def test_forks_keep_what_a_deleted_session_held_when_they_were_made(memory: Memory) -> None:
    name = memory.artifacts.put("evidence", session="../trunk\udcb2")
    late = memory.artifacts.put("said after the fork", session="../trunk\udcb2", tag=5)
    assert memory.artifacts.keep_for_forks("../trunk\udcb2", "heir", 4) == [late]
    assert memory.artifacts.release("../trunk\udcb2") == []
    assert memory.artifacts.read_text(name) == "evidence"
    assert memory.artifacts.keep_for_forks("heir", "heir", 2) == []
    assert memory.artifacts.release("heir") == [name]
