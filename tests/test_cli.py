"""The command line: help, exit codes, and one clear line for every mistake."""

import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from headwater.cli import COMMANDS, FAILED, MISUSED, OK, main
from headwater.memory import Memory
from headwater.real_model import ModelUnavailable, chosen_model


def test_help_names_the_commands_and_their_options(capsys: pytest.CaptureFixture[str]) -> None:
    for argv in (["--help"], ["demo", "--help"], ["doctor", "--help"]):
        with pytest.raises(SystemExit) as stopped:
            main(argv)
        assert stopped.value.code == OK
    shown = capsys.readouterr().out
    for name in ("demo", "doctor", "--model", "--window", "--steps", "--keep", "--lang", "--memory"):
        assert name in shown


@pytest.mark.parametrize(
    "argv",
    [
        [],
        ["nothing"],
        ["demo", "--window", "abc"],
        ["demo", "--window", "-1"],
        ["demo", "--steps", "0"],
        ["demo", "--lang", "fr"],
        ["doctor", "--window", "1.5"],
        ["doctor", "--window", "inf"],
        ["inspect", "x", "--window", "0k"],
    ],
)
def test_a_call_that_cannot_be_read_ends_with_2(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(argv)
    assert stopped.value.code == MISUSED
    assert "error:" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["demo", "--model", "nonsense"], "write 'provider:name'"),
        (["demo", "--model", "openai:"], "write 'provider:name'"),
        (["demo", "--model", "openai:gpt-5.4"], "set OPENAI_API_KEY"),
        (["demo", "--model", "anthropic:claude"], "set ANTHROPIC_API_KEY"),
        (["demo", "--model", "weird:x"], "names no model"),
        (["demo", "--window", "1_000"], "below 1,024"),
    ],
)
def test_a_mistake_is_one_clear_line(
    argv: list[str], says: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for key in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.delenv(key, raising=False)
    assert main(argv) == MISUSED
    out, err = capsys.readouterr()
    assert says in err
    assert "Traceback" not in out + err


def test_a_missing_client_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ModelUnavailable, match="pip install 'langchain-"):
        chosen_model("mistralai:some-model")


def test_a_folder_in_use_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x").write_text("x")
    assert main(["demo", "--keep", str(tmp_path)]) == MISUSED
    assert "not an empty folder" in capsys.readouterr().err


def test_python_dash_m_is_the_same_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "headwater", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("headwater 0.")


def test_doctor_finds_a_new_machine_well(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--memory", str(tmp_path / "none"), "--model", "openai:gpt-4.1"]) == OK
    shown = capsys.readouterr().out
    assert "1,047,576 tokens, by its name" in shown
    assert "o200k_base" in shown
    assert "512 dimensions" in shown
    assert "not there yet" in shown
    assert not (tmp_path / "none").exists()


def test_doctor_tells_where_the_window_comes_from(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    none = ["--memory", str(tmp_path / "none")]
    for given in ("32,000", "32k", "0.032m"):
        assert main(["doctor", *none, "--window", given]) == OK
        assert "32,000 tokens, by your setting" in capsys.readouterr().out
    assert main(["doctor", *none]) == OK
    assert "128,000 tokens, by default" in capsys.readouterr().out
    assert main(["doctor", *none, "--window", "5"]) == FAILED
    assert "below 1,024" in capsys.readouterr().out


@pytest.mark.parametrize(("language", "damaged"), [("en", "1 of 1 are damaged"), ("zh", "1 份中有 1 份损坏")])
def test_doctor_finds_what_is_damaged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], language: str, damaged: str
) -> None:
    folder = tmp_path / "memory"
    with Memory(folder) as memory:
        name = memory.artifacts.put("text")
    assert main(["doctor", "--memory", str(folder), "--lang", language]) == OK
    capsys.readouterr()
    (folder / name).write_text("changed")
    (folder / "archive.sqlite").write_bytes(b"no database" * 100)
    assert main(["doctor", "--memory", str(folder), "--lang", language]) == FAILED
    shown = capsys.readouterr().out
    assert damaged in shown
    assert "archive.sqlite" in shown


def test_doctor_finds_a_folder_that_others_can_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "open"
    folder.mkdir(mode=0o755)
    folder.chmod(0o755)
    assert main(["doctor", "--memory", str(folder)]) == FAILED
    assert "chmod 700" in capsys.readouterr().out
    file = tmp_path / "file"
    file.write_text("x")
    assert main(["doctor", "--memory", str(file)]) == FAILED
    assert "is no folder" in capsys.readouterr().out


def test_a_misspelt_command_is_answered_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["doctr"])
    assert "did you mean 'doctor'" in capsys.readouterr().err


def test_a_command_is_a_module_with_a_line_in_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """Others are not imported for it: a command that needs an extra does not spoil those that do not."""
    monkeypatch.setitem(COMMANDS, "absent", "not there")
    assert main(["doctor", "--memory", "nowhere"]) == OK
    for name in set(COMMANDS) - {"absent"}:
        command = import_module(f"headwater.cli_{name}")
        assert callable(command.run)
        assert callable(command.arguments)


def test_a_missing_package_is_named_with_what_installs_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(args: object) -> int:
        raise ModuleNotFoundError("No module named 'matplotlib'", name="matplotlib")

    monkeypatch.setattr("headwater.cli_doctor.run", run)
    assert main(["doctor"]) == MISUSED
    assert "'matplotlib'; pip install 'headwater[lab]'" in capsys.readouterr().err


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_knows_every_command_and_option(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == OK
    script = capsys.readouterr().out
    for name in COMMANDS:
        assert name in script
    assert "keep" in script
    assert "en zh" in script
    program = shutil.which(shell)
    if program is not None:
        subprocess.run([program, "-n"], input=script, text=True, check=True)


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["headwater", "do"], {"doctor"}),
        (["headwater", "demo", "--k"], {"--keep"}),
        (["headwater", "demo", "--lang", ""], {"en", "zh"}),
        (["headwater", "completion", "f"], {"fish"}),
    ],
)
def test_bash_completes(words: list[str], offered: set[str], capsys: pytest.CaptureFixture[str]) -> None:
    main(["completion", "bash"])
    script = capsys.readouterr().out
    quoted = " ".join(f"'{word}'" for word in words)
    script += f'COMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}; _headwater; echo "${{COMPREPLY[@]}}"'
    done = subprocess.run(["bash"], input=script, text=True, capture_output=True, check=True)
    assert set(done.stdout.split()) == offered
