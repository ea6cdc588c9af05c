"""kill -9 of a parent in the middle of a fan-out, then resume: what ran how often.

A process delegates to ten children at once, with a checkpointer on disk, and is killed at a random moment.
A second process resumes. Each child that had concluded must have run once, each other one once more, and
each call must have exactly one result.
"""

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.progress import track

CHILDREN = 10
MOMENTS = 50
SEED = 6


class Outcome(NamedTuple):
    """One kill and its resumption."""

    moment: float
    before: int
    begun: Counter[str]
    concluded_before: set[str]
    results: int
    finished: bool

    @property
    def right(self) -> bool:
        """Whether each concluded child ran once, and each other at most twice; every call has a result."""
        for name in map(str, range(CHILDREN)):
            if self.begun[name] > (1 if name in self.concluded_before else 2) or not self.begun[name]:
                return False
        return self.finished and self.results == CHILDREN


def main() -> None:
    """Kill at 50 random moments and print what became of it."""
    random.seed(SEED)
    outcomes = [once(random.uniform(0.0, 1.0)) for _ in track(range(MOMENTS), "killed and resumed")]
    console = Console()
    wrong = [o for o in outcomes if not o.right]
    repeated = sum(sum(o.begun.values()) - CHILDREN for o in outcomes)
    spread = Counter(len(o.concluded_before) for o in outcomes)
    console.print(f"{MOMENTS} kills of a fan-out of {CHILDREN}; right: {MOMENTS - len(wrong)}")
    console.print(f"children concluded before the kill: {dict(sorted(spread.items()))}")
    console.print(f"children run a second time: {repeated}, all of them unfinished ones: {not wrong}")
    for outcome in wrong:
        console.print(str(outcome))


def once(moment: float) -> Outcome:
    """Kill at `moment` of the fan-out (0 to 1), resume, and look."""
    from headwater.lab.provider import Reply, Request, StrictProvider, ToolCall

    def script(request: Request) -> Reply:
        if "You work" in request.system:
            number = int(request.messages[0]["text"].split()[-1])
            return Reply(f"Task {number} is done.", delay=0.05 + 0.04 * number)
        if any(row["role"] == "tool" for row in request.messages):
            return Reply("All concluded.")
        briefs = [{"agent": "worker", "brief": f"task {n}"} for n in range(CHILDREN)]
        return Reply("", tuple(ToolCall("delegate", b, f"c{n}") for n, b in enumerate(briefs)))

    with tempfile.TemporaryDirectory() as folder, StrictProvider(script, window=32_000) as provider:
        run = _start(folder, provider.url)
        _wait(lambda: len(provider.requests) >= 1 or run.poll() is not None)
        time.sleep(moment * 0.7)
        run.send_signal(signal.SIGKILL)
        run.wait()
        before = _concluded(Path(folder))
        begun = Counter(_begun(Path(folder)))
        second = _start(folder, provider.url)
        second.wait(60)
        text = (Path(folder) / "result").read_text("utf-8") if (Path(folder) / "result").exists() else ""
        begun = Counter(_begun(Path(folder)))
    lines = text.splitlines()
    return Outcome(
        moment, len(before), begun, before, len(lines) - 1, bool(lines) and lines[-1] == "All concluded."
    )


def _wait(done: Any) -> None:
    deadline = time.monotonic() + 60
    while not done() and time.monotonic() < deadline:
        time.sleep(0.005)


def _start(folder: str, url: str) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", "benchmarks.kill", folder, url]
    return subprocess.Popen(command, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})


def _begun(folder: Path) -> list[str]:
    path = folder / "begun"
    return path.read_text("utf-8").split() if path.exists() else []


def _concluded(folder: Path) -> set[str]:
    """The numbers of the children whose conclusion is on disk."""
    from headwater.memory import Memory

    with Memory(folder) as memory:
        names = [f"t/2.{n + 1}" for n in range(CHILDREN)]
        return {str(n) for n, name in enumerate(names) if memory.delegations.concluded(name)}


def _parent(folder: str, url: str) -> None:
    """The process that is killed, and the one that resumes."""
    from langchain_core.callbacks import BaseCallbackHandler
    from langchain_core.messages import ToolMessage
    from langchain_openai import ChatOpenAI
    from langgraph.checkpoint.sqlite import SqliteSaver
    from pydantic import SecretStr

    from headwater import Memory, SubAgent, WindowPolicy, build_agent
    from headwater.memory.words import LexicalIndex

    class Seen(BaseCallbackHandler):
        """Writes down each child's model call: a child makes one."""

        def on_chat_model_start(self, serialized: Any, messages: Any, **kw: Any) -> None:
            last = str(messages[0][-1].content)
            if "task " in last and "delegate" not in last:
                with open(Path(folder) / "begun", "a", encoding="utf-8") as log:
                    log.write(last.split()[-1] + "\n")

    model = ChatOpenAI(
        model="strict-main",
        base_url=f"{url}/v1",
        api_key=SecretStr("none"),
        max_retries=0,
        callbacks=[Seen()],
        default_headers={"Connection": "close"},
    )
    config: Any = {"configurable": {"thread_id": "t"}}
    memory = Memory(folder, index=LexicalIndex(Path(folder) / "by_words.sqlite"))
    with SqliteSaver.from_conn_string(str(Path(folder) / "checkpoints.sqlite")) as saver, memory:
        agent = build_agent(
            model,
            system_prompt="You lead.",
            subagents=[SubAgent("worker", "works", "You work.")],
            policy=WindowPolicy(window=32_000),
            memory=memory,
            checkpointer=saver,
        )
        known = agent.get_state(config)
        given = None if known.next else {"messages": [("user", "Delegate.")]}
        state = agent.invoke(given, config, durability="sync")
        found = [str(m.tool_call_id) for m in state["messages"] if isinstance(m, ToolMessage)]
        (Path(folder) / "result").write_text("\n".join([*found, str(state["messages"][-1].text)]), "utf-8")


if __name__ == "__main__":
    _parent(*sys.argv[1:3])
