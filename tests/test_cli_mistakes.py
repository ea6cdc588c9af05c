"""What goes wrong at the command line: one clear line, an exit code that tells, JSON alone for scripts."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from headwater.cli import FAILED, INTERRUPTED, MISUSED, OK, main
from headwater.memory import Memory

SESSION = [{"role": "user", "content": "Is it well?"}, {"role": "assistant", "content": "It is."}]
CLOSED = "http://127.0.0.1:9/v1"
"""A port at which nobody listens."""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with what a user may point at by mistake; no key is set."""
    monkeypatch.chdir(tmp_path)
    for name in [n for n in os.environ if n.startswith("HEADWATER_")]:
        monkeypatch.delenv(name)
    for key in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.delenv(key, raising=False)
    (tmp_path / "session.json").write_text(json.dumps(SESSION), "utf-8")
    (tmp_path / "cut.json").write_text('[{"role": "user", "con', "utf-8")
    (tmp_path / "empty.json").write_text("", "utf-8")
    (tmp_path / "object.json").write_text("{}", "utf-8")
    (tmp_path / "notes.txt").write_text("Some notes.\n", "utf-8")
    (tmp_path / "latin.jsonl").write_bytes('{"role": "user", "content": "café"'.encode("latin-1"))
    (tmp_path / "program").write_bytes(b"\x7fELF\x02\x01\x01\x00\xd0\x9b\xff")
    (tmp_path / "folder").mkdir()
    with Memory(tmp_path / "memory") as memory:
        memory.facts.write("The pump is called P-7.", "NAMING")
    return tmp_path


class Mistake(NamedTuple):
    """A call, and what its one line must say: what is wrong, and what to do."""

    argv: str
    says: str
    do: str = ""


MISTAKES = [
    # a wrong path, a wrong kind of file
    Mistake("inspect nowhere.json", "'nowhere.json' is not there", "check the path"),
    Mistake("replay session.json nowhere.json --json", "'nowhere.json' is not there", "check the path"),
    Mistake("inspect folder", "'folder' is a folder", "name a file"),
    Mistake("inspect session.json/x", "leads through a file", "check the path"),
    Mistake("inspect empty.json", "empty.json: no rows", "expected JSON Lines"),
    Mistake("inspect cut.json", "cut.json", "expected JSON Lines"),
    Mistake("inspect object.json", "object.json", "expected JSON Lines"),
    Mistake("inspect notes.txt", "line 1 is not JSON", "expected JSON Lines"),
    Mistake("inspect latin.jsonl --json", "line 1 is not JSON", "expected JSON Lines"),
    Mistake("inspect program", "line 1 is not JSON", "expected JSON Lines"),
    # values that cannot be
    Mistake("replay session.json --policy nosuch", "'nosuch' is no policy", "there are default, early"),
    Mistake("replay session.json --policy offlod=0.5", "'offlod=0.5' is no policy", "the settings"),
    Mistake("replay session.json --policy offload=2", "0 < offload < compact", "got 2.0"),
    Mistake("replay session.json --policy offload=abc", "offload='abc' is not a number"),
    Mistake("replay session.json --policy background=maybe", "'maybe' is neither true nor false"),
    Mistake("replay session.json --policy summarise=often", "'often'"),
    Mistake("replay session.json --policy provider=nobody", "'nobody'"),
    Mistake("replay session.json --window 100", "window=100 is below 1,024", "set a larger one"),
    Mistake("replay session.json --read -1", "0 <= read <= write", "read=-1.0"),
    Mistake("replay session.json --ttl nan", "ttl is in seconds", "got nan"),
    Mistake("replay session.json --html folder", "--html 'folder' cannot be written", "name a file"),
    Mistake("replay session.json --html no/where.html", "cannot be written", "in a folder that is there"),
    Mistake("demo --window 500", "window=500 is below 1,024", "set a larger one"),
    Mistake("demo --keep folder/../memory", "is not an empty folder", "name another for --keep"),
    Mistake("demo --keep session.json/x", "leads through a file", "check the path"),
    # models
    Mistake("demo --model gpt", "'gpt' names no model", "write 'provider:name'"),
    Mistake("demo --model nosuch:x", "'nosuch:x' names no model", "Write 'provider:name'"),
    Mistake("demo --model openai:gpt-5.4", "needs a key", "set OPENAI_API_KEY"),
    Mistake("dream --memory memory --now --model anthropic:c", "needs a key", "set ANTHROPIC_API_KEY"),
    # memory
    Mistake("memory list", "no memory folder at '.headwater'", "--memory"),
    Mistake("memory list --memory session.json", "no memory folder at 'session.json'", "--memory"),
    Mistake("memory list --memory folder", "'folder' holds no memory", "--memory"),
    Mistake("dream --memory folder --now", "'folder' holds no memory", "--memory"),
    Mistake("memory show f0 --memory memory", "no fact 'f0'", "list or search"),
    Mistake("memory list --memory memory --category TASTE", "no category 'TASTE'", "use one of"),
    Mistake("memory import nowhere --memory memory", "cannot read facts from 'nowhere'", "check the folder"),
    Mistake("memory export session.json --memory memory", "cannot write facts", "check the folder"),
    Mistake("dream --memory memory --task nosuch", "no task 'nosuch'", "there are consolidate"),
    Mistake("dream --memory memory --off nosuch", "no task 'nosuch'", "there are consolidate"),
    Mistake("dream --memory memory --hours 25:00-3", "hours='25:00-3' is no window", "write it like"),
    Mistake("dream --memory memory --undo nosuch --json", "no dream 'nosuch'", "the newest are"),
    Mistake("dream --memory memory --project nowhere", "is no folder", "name the one"),
]


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.argv)
def test_a_mistake_is_one_line_that_says_what_to_do(
    mistake: Mistake, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(mistake.argv.split()) == MISUSED
    out, err = capsys.readouterr()
    assert err.startswith("headwater: ")
    assert mistake.says in err
    assert mistake.do in err
    assert "Traceback" not in out + err
    assert "Errno" not in err or "facts" in err
    assert out == ""
    # Looking where there is nothing leaves nothing behind.
    assert list((here / "folder").iterdir()) == []
    assert not (here / ".headwater").exists()


@pytest.mark.parametrize(
    "argv",
    [
        "replay session.json --window ,",
        "replay session.json --window 32k,abc",
        "replay session.json --in-sight 3 --sweep",
        "replay",
        "inspect session.json --top -3",
        "memory search pump -k 0",
        "memory list --tenant ",
        "memory edit f0 --status gone",
        "dream --of ",
        "dream --budget lots",
        "completion tcsh",
        "doctor --lang fr",
    ],
)
def test_a_value_that_cannot_be_read_is_named_with_its_option(
    argv: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(argv.split(" "))
    assert stopped.value.code == MISUSED
    out, err = capsys.readouterr()
    assert out == ""
    assert "usage: headwater" in err
    assert "error: " in err


@pytest.mark.parametrize(
    ("file", "says"),
    [
        (b"[tool.headwater]\nwindow = 5\n", "did you mean 'policy.window'?"),
        (b"[tool.headwater.policy]\nwindow = 'big'\n", "give a whole number"),
        (b'[tool.headwater]\nmodel = "openai:x"\n', "take the line out"),
        (b"[tool]\nheadwater = 3\n", "write [tool.headwater]"),
        (b"[tool\n", "cannot be read as TOML"),
        (b"\xff\xfe", "cannot be read as TOML"),
    ],
)
@pytest.mark.parametrize("argv", ["doctor", "doctor --json", "memory list"])
def test_settings_that_cannot_be_kept_are_named_with_their_file(
    argv: str, file: bytes, says: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "pyproject.toml").write_bytes(file)
    assert main(argv.split()) == MISUSED
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("headwater: pyproject.toml: ")
    assert says in err


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        ("demo --lang zh --window 500", "窗口 500 太小"),
        ("demo --lang zh --keep memory", "'memory' 已存在，而且不是空目录"),
        ("demo --lang zh --keep session.json/x", "把文件当成了目录；请检查路径"),
        ("demo --lang zh --model gpt", "不是模型名；请写成“服务商:模型”"),
        ("demo --lang zh --model nosuch:x", "不是模型名"),
        ("demo --lang zh --model openai:gpt-5.4", "需要密钥；请设置 OPENAI_API_KEY 后重试"),
    ],
)
def test_who_asked_for_chinese_is_told_in_chinese(
    argv: str, says: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(argv.split()) == MISUSED
    assert says in capsys.readouterr().err


@pytest.mark.parametrize(("language", "says"), [("en", "did not answer"), ("zh", "没有回答")])
def test_a_model_without_a_network_is_no_crash(
    language: str,
    says: str,
    here: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    monkeypatch.setenv("OPENAI_BASE_URL", CLOSED)
    assert main(["doctor", "--model", "openai:gpt-4.1", "--lang", language]) == FAILED
    out, _ = capsys.readouterr()
    assert says in out
    assert main(["demo", "--model", "openai:gpt-4.1", "--lang", language, "--keep", "kept"]) == MISUSED
    _, err = capsys.readouterr()
    assert says in err
    assert "headwater doctor --model openai:gpt-4.1" in err
    assert "Traceback" not in err


def test_doctor_says_of_a_model_that_is_none_that_it_is_none(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for language, do in (("en", "Write --model provider:name"), ("zh", "请写成 --model 服务商:模型")):
        assert main(["doctor", "--model", "nosuch:x", "--lang", language]) == FAILED
        assert do in capsys.readouterr().out
    # One whose key is not there is no illness of this machine's.
    assert main(["doctor", "--model", "openai:gpt-4.1"]) == OK


def _dump(file: Path) -> list[str]:
    """All that is in a database."""
    db = sqlite3.connect(file)
    found = list(db.iterdump())
    db.close()
    return found


@pytest.mark.parametrize(
    ("file", "newer", "argv"),
    [
        ("memory.sqlite", "UPDATE store SET value = json_set(value, '$.v', 99)", "memory list"),
        ("memory.sqlite", "UPDATE store SET value = json_set(value, '$.v', 99)", "memory export notes"),
        ("dreams.sqlite", "PRAGMA user_version=99", "dream --list --json"),
        ("archive.sqlite", "PRAGMA user_version=99", "dream --now --json"),
    ],
)
def test_a_store_of_a_newer_version_is_refused_and_left_as_it_is(
    file: str, newer: str, argv: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["dream", "--now", "--memory", "memory"]) == OK
    with sqlite3.connect(here / "memory" / file) as db:
        db.execute(newer)
    db.close()
    before = _dump(here / "memory" / file)
    capsys.readouterr()
    assert main([*argv.split(), "--memory", "memory"]) == MISUSED
    out, err = capsys.readouterr()
    assert out == ""
    assert "99" in err
    assert "upgrade" in err
    assert _dump(here / "memory" / file) == before
    assert main(["doctor", "--memory", "memory", "--json"]) in (OK, FAILED)
    json.loads(capsys.readouterr().out)


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="needs a folder that nobody can write")
def test_a_folder_that_cannot_be_written_is_named(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "notes").mkdir()
    (here / "notes" / "naming.md").write_text("- The pump is called P-7.\n", "utf-8")
    for argv in (
        ["memory", "import", "notes", "--memory", "/proc/self/x"],
        ["demo", "--keep", "/proc/self/x"],
    ):
        assert main(argv) == MISUSED
        err = capsys.readouterr().err
        assert "/proc/self/x" in err
        assert "check" in err


@pytest.mark.parametrize(
    ("argv", "code"),
    [
        ("inspect session.json --json", OK),
        ("replay session.json --json", OK),
        ("doctor --json --memory memory", OK),
        ("doctor --json --memory session.json", FAILED),
        ("doctor --json --window 1 --lang zh", FAILED),
        ("dream --memory memory --list --json", OK),
        ("dream --memory memory --now --dry-run --json", OK),
    ],
)
def test_json_is_one_document_and_nothing_else(
    argv: str, code: int, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "memory").chmod(0o700)
    assert main(argv.split()) == code
    json.loads(capsys.readouterr().out)


def test_json_lines_are_one_fact_each(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["memory", "list", "--memory", "memory", "--json"]) == OK
    assert [json.loads(line)["content"] for line in capsys.readouterr().out.splitlines()] == [
        "The pump is called P-7."
    ]


def started(*argv: str, **kw: object) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "headwater", *argv]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL, **kw}
    return subprocess.Popen(command, text=True, encoding="utf-8", **pipes)  # type: ignore[call-overload,no-any-return]


@pytest.mark.parametrize("argv", [["completion", "bash"], ["inspect", "session.json", "--json"]])
def test_a_reader_that_leaves_is_no_crash(argv: list[str], here: Path) -> None:
    """As `| head` does."""
    process = started(*argv)
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    with process.stderr:
        assert process.stderr.read() == ""
    assert process.wait(60) in (OK, FAILED)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_behind_the_output_is_named(here: Path) -> None:
    with open("/dev/full", "w") as full:
        process = started("completion", "bash", stdout=full)
        _, err = process.communicate(timeout=60)
    assert process.returncode == MISUSED
    assert err == "headwater: no space is left to write the output; free some and run again\n"


@pytest.mark.skipif(sys.platform == "win32", reason="needs a shell")
def test_a_closed_output_is_no_crash(here: Path) -> None:
    command = f'"{sys.executable}" -m headwater inspect session.json >&-'
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (OK, "")


def _long(folder: Path) -> Path:
    rows = [
        row for n in range(600) for row in ({"role": "user", "content": f"{n} " + "word " * 400}, SESSION[1])
    ]
    (folder / "long.json").write_text(json.dumps(rows), "utf-8")
    return folder / "long.json"


def _begun(process: "subprocess.Popen[str]", kept: Path) -> None:
    """Wait until the demo's agent is at work."""
    deadline = time.monotonic() + 60
    while not (kept / "checkpoints.sqlite").exists() and time.monotonic() < deadline:
        assert process.poll() is None
        time.sleep(0.1)


@pytest.mark.skipif(sys.platform == "win32", reason="needs signals")
@pytest.mark.parametrize(
    ("argv", "wait"),
    [
        (["demo", "--keep", "kept"], _begun),
        (["replay", "long.json", "--json"], lambda process, kept: time.sleep(3)),
    ],
    ids=["demo", "replay"],
)
def test_ctrl_c_ends_at_once_and_quietly(
    argv: list[str], wait: Callable[["subprocess.Popen[str]", Path], None], here: Path
) -> None:
    _long(here)
    # Whoever runs the tests in the background may have them ignore it.
    process = started(*argv, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler))
    wait(process, here / "kept")
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == INTERRUPTED
    assert "Traceback" not in out + err
    if argv[0] == "replay":
        assert out == ""
    else:
        assert "kept" in out
