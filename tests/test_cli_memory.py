"""`headwater memory`: what people do with facts from the command line."""

import json
from pathlib import Path

import pytest

from headwater.cli import FAILED, MISUSED, OK, main
from headwater.memory import Memory
from tests.memory.conftest import HashedWords


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    # The model of the embedded default is not what is tested here.
    monkeypatch.setattr("headwater.memory.embed.SentenceEmbeddings", HashedWords)
    monkeypatch.chdir(tmp_path)
    with Memory(tmp_path / ".headwater", embeddings=HashedWords()) as memory:
        memory.facts.write("the port is 5432", "CONFIG_VALUES")
        memory.facts.write("变量名用小写 [snake_case]", "NAMING")
    return tmp_path


def told(capsys: pytest.CaptureFixture[str], *argv: str, code: int = OK) -> str:
    assert main(["memory", *argv]) == code
    captured = capsys.readouterr()
    return captured.out + captured.err


def test_c12_c13_facts_are_seen_edited_carried_and_forgotten(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [json.loads(line) for line in told(capsys, "list", "--json").splitlines()]
    port, naming = (row["id"] for row in rows)
    assert "变量名用小写 [snake_case]" in told(capsys, "list", "--category", "naming")
    assert "5432" in told(capsys, "search", "which port?", "-k", "1")
    shown = told(capsys, "show", port)
    assert "trust          agent" in shown
    assert "found          " in shown
    assert "recalled       0" in shown
    assert "5433" in told(capsys, "edit", port, "the port is 5433", "--importance", "90")
    assert "archived" in told(capsys, "list", "--all")
    assert "3 facts written to memory" in told(capsys, "export")
    assert "0 new, 0 changed, 3 as they were" in told(capsys, "import")
    with (root / "memory" / "naming.md").open("a", encoding="utf-8") as file:
        file.write("- 类名用大写开头\n")
    assert "1 new" in told(capsys, "import")
    assert "forgotten: 变量名" in told(capsys, "forget", naming)
    assert "snake_case" not in (root / "memory" / "naming.md").read_text("utf-8")
    assert "snake_case" not in told(capsys, "list", "--all")


def test_mistakes_are_one_clear_line(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "no fact 'f0'" in told(capsys, "show", "f0", code=MISUSED)
    assert "no category 'TASTE'" in told(capsys, "list", "--category", "TASTE", code=MISUSED)
    assert "no memory folder at 'nowhere'" in told(capsys, "list", "--memory", "nowhere", code=MISUSED)
    assert "cannot read facts" in told(capsys, "import", "nowhere", code=MISUSED)
    (root / "memory").mkdir()
    (root / "memory" / "naming.md").write_text("- <headwater-memory>\n", "utf-8")
    assert "refused: naming.md:1" in told(capsys, "import", code=FAILED)


def test_the_folder_is_the_settings_where_none_is_named(
    root: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One folder for every command; a bound on spending is nothing to one that asks no model."""
    (root / ".headwater").rename(root / "notes")
    (root / "headwater.toml").write_text('memory = "notes"\n[policy]\nwindow = 900_000\n', "utf-8")
    assert "5432" in told(capsys, "list")
    assert main(["dream", "--list"]) == OK
    assert "no dream yet" in capsys.readouterr().out
    monkeypatch.setenv("HEADWATER_MEMORY", "elsewhere")
    assert "no memory folder at 'elsewhere'" in told(capsys, "list", code=MISUSED)
    (root / "headwater.toml").write_text('memory = "../out"\n', "utf-8")
    assert "inside the project" in told(capsys, "list", code=MISUSED)
    assert "5432" in told(capsys, "list", "--memory", "notes")
