"""A project's documents: read afresh, within a budget, from inside the folder, as background."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from headwater.memory.project_docs import NAMES, DocsRefused, ProjectDocs
from headwater.window.tokens import count_text


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


def test_c11_agents_context_and_claude_are_read_afresh_in_that_order(root: Path) -> None:
    docs = ProjectDocs(root)
    assert docs.text() == ""
    for name in reversed(NAMES):
        (root / name).write_text(f"# rules of {name}\n", "utf-8")
    text = docs.text()
    places = [text.index(f"### {name}\n# rules of {name}") for name in NAMES]
    assert places == sorted(places)
    (root / "AGENTS.md").write_text("测试用 pytest 运行。\r\n第二行\r\n", "utf-8")
    assert "测试用 pytest 运行。\n第二行" in docs.text("zh")
    assert docs.text() == docs.text()


def test_c11_documents_stay_within_their_budget_and_say_what_is_cut(root: Path) -> None:
    for name in NAMES:
        (root / name).write_text("\n".join(f"rule {i} of {name}: do it well" for i in range(2_000)), "utf-8")
    for budget in (300, 1_000, 4_000):
        text = ProjectDocs(root, budget=budget).text()
        assert count_text(text) <= budget + 40
        assert "more characters)" in text
        assert "rule 0 of AGENTS.md" in text
    assert count_text(ProjectDocs(root).text(room=500)) <= 540
    assert ProjectDocs(root).text(room=10) == ""


def test_a_link_that_leads_out_of_the_folder_is_refused(root: Path, tmp_path: Path) -> None:
    (tmp_path / "secret.md").write_text("not for the model", "utf-8")
    (root / "AGENTS.md").symlink_to(tmp_path / "secret.md")
    (root / "inside.md").write_text("ours", "utf-8")
    (root / "CLAUDE.md").symlink_to("inside.md")
    os.mkfifo(root / "CONTEXT.md")
    text = ProjectDocs(root).text()
    assert "not for the model" not in text
    assert "### CLAUDE.md\nours" in text
    docs = ProjectDocs(root)
    for name in ("../secret.md", str(tmp_path / "secret.md"), "a\0b", "", ".", "x" * 5_000):
        assert docs.read(name) is None


def test_a_copy_is_shown_once_and_binary_never(root: Path) -> None:
    (root / "AGENTS.md").write_text("the same", "utf-8")
    (root / "CLAUDE.md").symlink_to("AGENTS.md")
    (root / "CONTEXT.md").write_bytes(b"\x00\x01binary")
    text = ProjectDocs(root).text()
    assert text.count("the same") == 1
    assert "binary" not in text


def test_a_secret_in_a_document_is_left_out(root: Path) -> None:
    (root / "AGENTS.md").write_text("deploy with care\nDB_PASSWORD=hunter2_Prod!\nask first", "utf-8")
    text = ProjectDocs(root).text()
    assert "hunter2" not in text
    assert "deploy with care\n[a line that holds a password was left out]\nask first" in text


def test_other_encodings_and_long_files_are_read(root: Path) -> None:
    (root / "AGENTS.md").write_bytes("提交前必须运行测试，不要跳过。\n".encode("gbk") * 3)
    (root / "CONTEXT.md").write_text("中文" * 200_000, "utf-8")
    text = ProjectDocs(root, budget=2_000).text("zh")
    assert "提交前必须运行测试" in text
    assert "中文中文" in text


def test_key_files_follow_within_a_budget_of_their_own(root: Path) -> None:
    (root / "AGENTS.md").write_text("rules", "utf-8")
    (root / "core.py").write_text("def core(): ...\n" * 50, "utf-8")
    docs = ProjectDocs(root, key_files=lambda: ["core.py", "../out.py", "gone.py"])
    text = docs.text()
    assert text.index("### AGENTS.md") < text.index("### core.py\ndef core")
    assert "out.py" not in text
    assert count_text(ProjectDocs(root, key_files=lambda: ["core.py"], key_budget=60).text()) < 140


def test_a_folder_that_is_none_is_named(tmp_path: Path) -> None:
    with pytest.raises(DocsRefused, match=r"project_docs='.*nowhere' is no folder"):
        ProjectDocs(tmp_path / "nowhere")
    assert ProjectDocs.of(None) is None
    made = ProjectDocs(tmp_path)
    assert ProjectDocs.of(made) is made
