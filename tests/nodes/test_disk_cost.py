"""C16: keeping all that was said, and what left the window as a file, takes about twice its size on disk."""

from pathlib import Path

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from headwater.nodes.adopt import put
from headwater.window.compartments import Compartment
from headwater.window.face import text_of
from tests.nodes.bench import engine, state_of


def log(arcs: int) -> list[BaseMessage]:
    """A session whose results are too large for any window; no two lines of it are alike."""
    said: list[BaseMessage] = [HumanMessage("Read all the logs.", id="h")]
    for arc in range(arcs):
        call = {"name": "bash", "args": {"command": f"cat {arc}.log"}, "id": f"c{arc}", "type": "tool_call"}
        lines = "\n".join(
            f"{arc * 7919 + n}: worker {n * 31 % 97} took {n * 17 % 1009} ms" for n in range(2_000)
        )
        said += [
            AIMessage("", tool_calls=[call], id=f"a{arc}"),
            ToolMessage(lines, tool_call_id=f"c{arc}", name="bash", id=f"r{arc}"),
        ]
    return said


def bytes_in(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def test_c16_disk_holds_the_log_and_what_was_set_aside_and_hardly_more(tmp_path: Path) -> None:
    messages = log(60)
    raw = sum(len(text_of(message).encode()) for message in messages)
    made = engine(tmp_path)
    state = state_of(made, messages)
    assert all(len(text_of(m)) < 4_000 for m in state["messages"]), "every result was set aside on arrival"
    for first in range(1, 121, 4):
        tags = list(range(first, first + 4))
        put(made, "s", Compartment(first, first + 3, "Logs", "Four messages about logs. " * 20), tags)
    assert made.memory.compartments.settle(30)
    made.memory.close()
    assert 1.9 * raw < bytes_in(tmp_path) < 2.3 * raw
