"""The notebooks' code runs, in order, and their own checks hold."""

import json
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parents[1] / "notebooks"


def cells(name: str, kind: str) -> list[str]:
    """The sources of one kind of cell."""
    notebook = json.loads((FOLDER / name).read_text("utf-8"))
    return ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == kind]


def test_g36_why_did_we_choose_sqlite_is_answered_a_week_later_from_a_compartment(
    capsys: pytest.CaptureFixture[str],
) -> None:
    space: dict[str, Any] = {"__name__": "notebook"}
    for source in cells("02_memory.ipynb", "code"):
        exec(compile(source, "02_memory.ipynb", "exec"), space)
    shown = capsys.readouterr().out
    assert "Because: SQLite: one writer is enough" in shown
    assert shown.index("ctx_search(") < shown.index("ctx_expand(") < shown.index("Because:")
    assert "app/config.toml says cache_mb = 64" in shown
    assert "says the same as" in shown


@pytest.mark.parametrize("name", sorted(path.name for path in FOLDER.glob("*.ipynb")))
def test_the_notebooks_speak_both_languages_and_hold_no_output(name: str) -> None:
    for text in cells(name, "markdown"):
        assert any("\u4e00" <= c <= "\u9fff" for c in text), text[:60]
    notebook = json.loads((FOLDER / name).read_text("utf-8"))
    assert all(not cell.get("outputs") for cell in notebook["cells"])
