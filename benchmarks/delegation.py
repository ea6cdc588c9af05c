"""What a subtask costs its parent: delegated, and done in the parent's own window.

Three tasks over the source of installed packages. A scripted model does each by reading every file of a
folder through the real tools and answers from what it read; the framework around it is the real one. Counted
are the tokens that the subtask adds to the parent's log, and the input tokens of the parent's requests.
"""

import re
import tempfile
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

from headwater import Memory, SubAgent, WindowPolicy, build_agent
from headwater.lab.codebase_tools import Codebase
from headwater.lab.provider import Reply, Request, StrictProvider, ToolCall
from headwater.window import Prices, count_tokens

WINDOW = 32_000
PAGE = 300
_GO_ON = re.compile(r"\(go on with offset=(\d+)\)\s*$")


class Task(NamedTuple):
    """A question about a folder, and what to look for in its lines."""

    folder: str
    question: str
    pattern: str


TASKS = (
    Task(
        "langgraph/channels",
        "Which classes are channels, in which file?",
        r"^class (\w*(?:Value|Channel|Topic|Aggregate|Barrier)\w*)",
    ),
    Task(
        "langchain_core/messages",
        "Which message classes are there, in which file?",
        r"^class (\w+Message\w*)\(",
    ),
    Task(
        "chromadb/utils/embedding_functions",
        "Which embedding functions are there?",
        r"^class (\w+EmbeddingFunction)\(",
    ),
)


class Reader:
    """The model: lists a folder, reads each file page by page, answers with what it found."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.todo: list[str] = []
        self.found: dict[str, list[str]] = {}
        self.reading: tuple[str, int] | None = None
        self.begun = False

    def __call__(self, request: Request) -> Reply:
        """The next call, or the answer."""
        last = request.messages[-1]
        if not self.begun:
            self.begun = True
            return Reply("", (ToolCall("list_dir", {"path": self.task.folder}),))
        if self.reading is None:
            self.todo = [
                f"{self.task.folder}/{name}" for name in re.findall(r"^  (\S+\.py)  ", last["text"], re.M)
            ]
        else:
            self._learn(last["text"])
        if self.reading is None or self.reading[1] < 0:
            if not self.todo:
                return Reply(self._answer())
            self.reading = (self.todo.pop(0), 0)
        path, offset = self.reading
        return Reply("", (ToolCall("read_file", {"path": path, "offset": offset, "limit": PAGE}),))

    def _learn(self, text: str) -> None:
        assert self.reading is not None, "something was asked for"
        path, _ = self.reading
        for name in re.findall(self.task.pattern, text, re.M):
            self.found.setdefault(path, []).append(name)
        more = _GO_ON.search(text)
        self.reading = (path, int(more[1]) if more else -1)

    def _answer(self) -> str:
        rows = [f"{path.rpartition('/')[2]}: {', '.join(names)}" for path, names in self.found.items()]
        return "\n".join([f"{sum(map(len, self.found.values()))} found in {self.task.folder}:", *rows])


class Cost(NamedTuple):
    """What one way costs the parent, in tokens."""

    log: int
    sent: int
    answer: str


def main() -> None:
    """Print both ways side by side, and the ratio."""
    table = Table(title="one subtask, parent's tokens", box=None)
    for name in ("task", "own window: log", "sent", "delegated: log", "sent", "ratio: log", "ratio: sent"):
        table.add_column(name, justify="left" if name == "task" else "right")
    logs = [0, 0]
    for task in TASKS:
        own, delegated = measure(task, delegate=False), measure(task, delegate=True)
        assert own.answer == delegated.answer, "both ways find the same"
        logs = [logs[0] + own.log, logs[1] + delegated.log]
        ratios = f"{own.log / delegated.log:.1f}", f"{own.sent / delegated.sent:.1f}"
        figures = (own.log, own.sent, delegated.log, delegated.sent)
        table.add_row(task.folder, *(f"{n:,}" for n in figures), *ratios)
    console = Console(width=120)
    console.print(table)
    console.print(f"all three: {logs[0] / logs[1]:.1f} x fewer tokens in the parent's log")


def measure(task: Task, *, delegate: bool) -> Cost:
    """Do a task one way."""
    reader = Reader(task)
    told: list[str] = []

    def script(request: Request) -> Reply:
        if not delegate or "You read" in request.system:
            return reader(request)
        results = [row for row in request.messages if row["role"] == "tool"]
        if not results:
            brief = f"{task.question} Read all files in {task.folder}."
            return Reply("", (ToolCall("delegate", {"agent": "reader", "brief": brief}),))
        told.append(results[-1]["text"])
        return Reply(results[-1]["text"].split("[done]\n", 1)[-1].split("\nEvidence:", 1)[0])

    tools = Codebase.installed("langgraph", "langchain_core", "chromadb").tools()
    with (
        tempfile.TemporaryDirectory() as folder,
        Memory(folder) as memory,
        StrictProvider(script, window=WINDOW) as provider,
    ):
        policy = WindowPolicy(window=WINDOW)
        given: dict[str, Any] = {"policy": policy, "memory": memory, "prices": Prices()}
        if delegate:
            scout = SubAgent(
                "reader", "reads code", "You read code.", tools, provider.openai(purpose="child")
            )
            agent = build_agent(provider.openai(), subagents=[scout], **given)
        else:
            agent = build_agent(provider.openai(), tools=tools, **given)
        state = agent.invoke(
            {"messages": [("user", task.question)]},
            {"configurable": {"thread_id": "t"}, "recursion_limit": 2_000},
        )
        log = [m for _, m in memory.archive.read("t", 2, memory.archive.last("t"))]
        sent = sum(x.input_tokens for x in provider.requests if not x.purpose)
        if provider.violations:
            raise AssertionError(f"broken rules: {provider.violations[:3]!r}")
    return Cost(count_tokens(log), sent, str(state["messages"][-1].text))


if __name__ == "__main__":
    main()
