"""The scripted explorer and summariser: what they do follows from what they have read."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from langchain_core.tools import ToolException

from headwater.lab.chronicler import chronicler, tell
from headwater.lab.codebase_tools import Codebase, NoSuchPackage
from headwater.lab.explorer import Explorer, GoalLost
from headwater.lab.findings import Findings
from headwater.lab.script import Reply, Request
from headwater.window.answer import parse_summary
from headwater.window.audit import reject
from headwater.window.tokens import count_text

TASK = "Explore the source of toy. Take about 30 steps."


@pytest.fixture
def toy(tmp_path: Path) -> Codebase:
    root = tmp_path / "toy"
    files = {
        "__init__.py": "",
        "big/core.py": "from toy.small.leaf import Leaf\n\n\nclass Core(Leaf):\n    def run(self): 1\n" * 90,
        "big/util.py": "DEFAULT_LIMIT = 25\n" + "x = 1\n" * 80,
        "mid/a.py": "from toy.small.leaf import Leaf\n" * 60,
        "small/leaf.py": "class Leaf(\n    Base,\n    Generic[T],\n):\n    def one(self): ...\n",
        "tiny/z.py": "y = 2\n",
    }
    for name, text in files.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8")
    (tmp_path / "outside.py").write_text("SECRET_OF_OTHERS = 1\n", "utf-8")
    (root / "link.py").symlink_to(tmp_path / "outside.py")
    return Codebase({"toy": root})


class Talk:
    """A conversation with an explorer: its calls are answered by the real tools."""

    def __init__(self, code: Codebase, task: str = TASK, tools: Sequence[str] = ("delegate",)) -> None:
        self.explorer = Explorer()
        self.tools = {tool.name: tool for tool in code.tools()}
        self.offered = [*self.tools, *tools]
        self.rows: list[dict[str, Any]] = [_row("user", task)]
        self.calls: list[tuple[str, dict[str, Any]]] = []

    def ask(self) -> Reply:
        view = ("", self.rows, self.offered)
        return self.explorer(Request("openai", "explorer", {}, 0, lambda _: view))

    def step(self) -> Reply:
        reply = self.ask()
        calls: list[dict[str, Any]] = []
        for call in reply.tool_calls:
            assert isinstance(call.args, dict)
            self.calls.append((call.name, call.args))
            calls.append({"name": call.name, "args": call.args, "id": f"c{len(self.calls) + len(calls)}x"})
        self.rows.append(_row("assistant", reply.text, tool_calls=calls))
        for made in calls:
            self.rows.append(_row("tool", self.answer(made["name"], made["args"]), tool_call_id=made["id"]))
        return reply

    def answer(self, name: str, args: dict[str, Any]) -> str:
        if name in self.tools:
            return f"§{len(self.rows)}§ {self.tools[name].invoke(args)}"
        return "Done." if name != "delegate" else f"[done]\nRead {args['brief'].split()[1]}."

    def run(self, most: int = 60) -> str:
        for _ in range(most):
            reply = self.step()
            if not reply.tool_calls:
                return reply.text
        raise AssertionError("the explorer never answered")


def _row(role: str, text: str, **more: Any) -> dict[str, Any]:
    return {"role": role, "text": text, "tool_calls": [], "tool_call_id": None, **more}


def test_explorer_looks_first_then_delegates_the_three_largest_it_saw(toy: Codebase) -> None:
    talk = Talk(toy)
    talk.step(), talk.step()
    assert talk.calls == [("list_dir", {"path": "."}), ("list_dir", {"path": "toy"})]
    reply = talk.step()
    briefs = [str(call.args["brief"]) for call in reply.tool_calls if isinstance(call.args, dict)]
    assert [call.name for call in reply.tool_calls] == ["delegate"] * 3
    assert [brief.split()[1] for brief in briefs] == ["toy/big", "toy/mid", "toy/small"]


def test_explorer_reads_what_was_imported_before_what_comes_first_by_name(toy: Codebase) -> None:
    talk = Talk(toy, "Module: toy\nTake about 30 steps.", tools=())
    talk.run()
    read = [args["path"] for name, args in talk.calls if name == "read_file"]
    assert "toy/small/leaf.py" in read
    # The empty file is left out, the long file is paged to its end.
    assert "toy/__init__.py" not in read
    offsets = [
        a.get("offset", 0) for n, a in talk.calls if n == "read_file" and a["path"] == "toy/big/core.py"
    ]
    assert offsets == [0, 160, 320]


def test_explorer_follows_another_code_base_another_way(toy: Codebase, tmp_path: Path) -> None:
    other = tmp_path / "else"
    for name in ("one/x.py", "two/y.py", "three/z.py"):
        (other / name).parent.mkdir(parents=True)
        (other / name).write_text("pass\n" * 9, "utf-8")
    first, second, third = Talk(toy), Talk(Codebase({"other": other})), Talk(toy)
    first.run(), second.run(), third.run()
    assert first.calls != second.calls
    assert first.calls == third.calls


def test_explorer_keeps_to_the_steps_it_is_asked_for(toy: Codebase) -> None:
    talk = Talk(toy, "Explore toy. Take about 5 steps.")
    text = talk.run()
    assert sum(row["role"] == "assistant" for row in talk.rows) == 5
    assert text.startswith("Read ")


def test_explorer_reads_back_what_was_too_large_to_come_in(toy: Codebase) -> None:
    talk = Talk(toy)
    name = "artifacts/ab/" + "ab" * 16 + ".txt"
    stub = f'⟦stored {name} 9 chars, 1 lines; read it back: file_read("{name}") or ctx_expand("3")⟧'
    talk.rows += [
        _row("assistant", "", tool_calls=[{"name": "search", "args": {"pattern": "x"}, "id": "s1"}]),
        _row("tool", f"§3§ {stub}", tool_call_id="s1"),
    ]
    talk.explorer(Request("openai", "explorer", {}, 0, lambda _: ("", talk.rows[:1], talk.offered)))
    for path in (".", "toy"):
        call = {"name": "list_dir", "args": {"path": path}, "id": path}
        talk.rows += [
            _row("assistant", "", tool_calls=[call]),
            _row("tool", toy.list_dir(path), tool_call_id=path),
        ]
    assert [(c.name, c.args) for c in talk.ask().tool_calls] == [("file_read", {"path": name})]


def test_explorer_answers_a_new_session_from_the_facts_in_sight(toy: Codebase) -> None:
    talk = Talk(toy)
    talk.run()
    memory = "<headwater-memory>\n## Known facts\n[ARCHITECTURE]\n- Leaf is in toy.\n</headwater-memory>"
    talk.rows = [_row("user", memory), _row("user", "§1§ What do you know?")]
    reply = talk.ask()
    assert not reply.tool_calls
    assert "- Leaf is in toy." in reply.text


def test_explorer_speaks_the_language_it_is_asked_in(toy: Codebase) -> None:
    talk = Talk(toy, "探索 toy 的源码，大约用 8 步。")
    assert talk.ask().text == "先看 . 的目录。"
    assert talk.run().startswith("读了 toy 的")


def test_explorer_says_when_its_task_is_out_of_sight(toy: Codebase) -> None:
    with pytest.raises(GoalLost, match="must stay in sight"):
        Talk(toy, "Do something.", tools=()).ask()


def test_findings_tell_only_what_was_read(toy: Codebase) -> None:
    found = Findings()
    found.learn(toy.read_file("toy/small/leaf.py"))
    found.learn(toy.read_file("toy/big/util.py"))
    assert found.classes["Leaf"].bases == "Base, Generic[T]"
    assert found.classes["Leaf"].methods == 1
    assert found.constants == {"DEFAULT_LIMIT": ("25", "toy/big/util.py")}
    assert found.lines["toy"] == 86
    assert found.open_files() == []


def test_findings_of_a_hit_claim_no_bases(toy: Codebase) -> None:
    found = Findings()
    found.learn(toy.search("^class "))
    assert found.classes["Leaf"].bases == ""
    assert found.classes["Core"].bases == "Leaf"


def test_tools_page_list_and_search(toy: Codebase) -> None:
    assert toy.list_dir(".").splitlines()[0].startswith("toy/") is False
    assert "  big/  2 files, 531 lines" in toy.list_dir("toy")
    page = toy.read_file("toy/big/core.py", 440, 50)
    assert page.splitlines()[0] == "toy/big/core.py: lines 441-450 of 450"
    assert "go on with" not in page
    assert toy.search("DEFAULT_LIMIT").splitlines() == [
        "1 hits for DEFAULT_LIMIT",
        "toy/big/util.py:1: DEFAULT_LIMIT = 25",
    ]


@pytest.mark.parametrize(
    "path",
    [
        "../outside.py",
        "toy/../../outside.py",
        "/etc/passwd",
        "toy/link.py",
        "toy\x00.py",
        "toy",
        "",
        "no/such.py",
    ],
)
def test_tools_stay_inside_the_package(toy: Codebase, path: str) -> None:
    with pytest.raises(ToolException):
        toy.read_file(path)
    assert "SECRET_OF_OTHERS" not in toy.search("SECRET")


def test_tools_answer_a_mistake_and_do_not_crash(toy: Codebase) -> None:
    tools = {tool.name: tool for tool in toy.tools()}
    assert "no regular expression" in tools["search"].invoke({"pattern": "("})
    assert "is outside" in tools["read_file"].invoke({"path": "toy/tiny/z.py", "offset": 9})
    assert "no folder here" in tools["list_dir"].invoke({"path": "nowhere"})
    with pytest.raises(NoSuchPackage, match="not installed"):
        Codebase.installed("no_such_package_here")


TRANSCRIPT = """[1] U: Explore toy and {must}
[2] A: {said}
[2] TC: read_file({{"path": "toy/big/core.py"}})
[3] TR read_file: toy/big/core.py: lines 1-160 of 450
from toy.small.leaf import Leaf
class Core(Leaf):
    def run(self) -> None: ...
[4] TC: ctx_memory({{"action": "write", "content": "Core derives from Leaf.", "category": "ARCHITECTURE"}})
[5] TR ctx_memory: Remembered
[6] TC: search({{"pattern": "\\\\bCore\\\\(", "path": "toy"}})
[7] TR search: 3 hits
"""


@pytest.mark.parametrize(("language", "name"), [("en", "English"), ("zh", "Chinese (中文)")])
def test_e12_the_scripted_summary_is_accepted_and_says_what_was_read(language: str, name: str) -> None:
    chinese = language == "zh"
    source = TRANSCRIPT.format(
        must="不得修改任何代码。" if chinese else "do not change any code.",
        said="现在读它" if chinese else "Reading it",
    )
    rows = [_row("user", f"<transcript>\n{source * 3}\n</transcript>")]
    reply = chronicler(Request("openai", "s", {}, 0, lambda _: (f"Write in {name}.", rows, [])))
    summary = parse_summary(reply.text)
    assert summary is not None
    assert reject(summary.p1, count_text(source * 3), language=language) is None
    for told in (
        "toy/big/core.py 1-160",
        "Core",
        "Core derives from Leaf.",
        "不得修改" if chinese else "do not change",
    ):
        assert told in summary.p1
    assert summary.work.progress


def test_the_scripted_summary_of_nothing_is_still_a_summary() -> None:
    told = tell("[1] TR x: y", chinese=False)
    assert parse_summary(json.dumps(told)) is not None
    assert "1 lines" in str(told["p1"])
