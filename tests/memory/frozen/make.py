"""Write `v0_1_0.tar.gz`: a project's whole memory and one checkpointed session, as a release left them.

Run once at a release, `python -m tests.memory.frozen.make NAME`; an older release's file is never made anew.
"""

import sqlite3
import sys
import tarfile
import tempfile
from pathlib import Path

from langgraph.checkpoint.sqlite import SqliteSaver

from headwater import Memory, SubAgent, WindowPolicy, build_agent
from headwater.graph import fork, suspend
from headwater.lab import Reply, StrictProvider, ToolCall
from headwater.lab.provider import Request

HERE = Path(__file__).parent
PAGES = 40
QUESTION = "Read the log. Never restart the database. 端口是 5432。"


def read_log(page: int) -> str:
    """A page of the log; the last one is too large for the window."""
    rows = 1_500 if page == PAGES else 40
    return "\n".join(f"page {page} request {n} took {n % 97} ms" for n in range(rows))


def play(request: Request) -> Reply:
    """Reads all pages, delegates once, remembers a fact, and answers."""
    if "You count" in request.system:
        return Reply("There are 40 pages.")
    if request.messages[-1]["text"].strip().endswith("And now?"):
        return Reply("Page 40 again.")
    step = sum(row["role"] == "assistant" for row in request.messages)
    done = len({row["text"][:12] for row in request.messages if row["text"].startswith("page ")})
    if "Remembered" in request.messages[-1]["text"]:
        return Reply("Request 96 is slow.")
    if "[done]" in request.messages[-1]["text"]:
        fact = {
            "action": "write",
            "content": "The database listens on port 5432.",
            "category": "CONFIG_VALUES",
        }
        return Reply(tool_calls=(ToolCall("ctx_memory", fact),))
    if request.index < PAGES:
        return Reply(f"{done} {step}", (ToolCall("read_log", {"page": request.index + 1}),))
    return Reply(tool_calls=(ToolCall("delegate", {"agent": "counter", "brief": "How many pages?"}),))


def make(root: Path) -> None:
    """One session that was offloaded and told, a fork of it that was suspended, a child, a fact."""
    connection = sqlite3.connect(root / "checkpoints.sqlite", check_same_thread=False)
    with StrictProvider(play, window=8_000) as provider, Memory(root / "memory") as memory:
        agent = build_agent(
            provider.openai(),
            tools=[read_log],
            subagents=[SubAgent("counter", "counts", "You count pages.")],
            policy=WindowPolicy(window=8_000),
            memory=memory,
            checkpointer=SqliteSaver(connection),
        )
        config = {"configurable": {"thread_id": "monday"}, "recursion_limit": 500}
        inputs = {"messages": [("user", QUESTION)]}
        agent.invoke(inputs, config, durability="exit")  # type: ignore[call-overload]
        fork(agent, "monday", name="tuesday")
        suspend(agent, "tuesday")
        assert memory.archive.compartments("monday"), "the session is long enough to be told"
        assert not provider.violations, provider.violations
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()


def _nobodys(info: tarfile.TarInfo) -> tarfile.TarInfo:
    info.uid = info.gid = 0
    info.uname = info.gname = ""
    return info


def main() -> None:
    """Write the archive."""
    with tempfile.TemporaryDirectory() as folder:
        make(Path(folder))
        with tarfile.open(HERE / f"{sys.argv[1]}.tar.gz", "w:gz") as tar:
            for path in sorted(Path(folder).rglob("*")):
                # Chroma is an index, built anew from the store.
                if path.is_file() and "chroma" not in path.parts and not path.name.endswith(("-wal", "-shm")):
                    tar.add(path, path.relative_to(folder), filter=_nobodys)


if __name__ == "__main__":
    main()
