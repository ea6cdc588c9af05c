"""What governance adds to one step while nothing moves, by the length of the session.

Measures intake, watermark and rendering for one new tool arc, in this process, without the model and
without LangGraph itself; what its reducer takes to append the arc stands beside, in brackets. "plan" is
watermark and rendering together. The claim is flatness: the ratio of the longest session to the shortest.
"""

import statistics
import tempfile
import time
from typing import Any

from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from rich.console import Console
from rich.table import Table

from headwater.memory import Memory
from headwater.nodes import intake, watermark
from headwater.nodes.engine import Engine
from headwater.nodes.state import State
from headwater.nodes.walk import Step
from headwater.window import Prices, WindowPolicy

LENGTHS = (100, 1_000, 5_000, 10_000)
STEPS = 60


def main() -> None:
    """Print milliseconds a step by session length, and the ratio."""
    rows = [(length, *measure(length)) for length in LENGTHS]
    table = Table(title="governance per step, nothing moves (ms)", box=None)
    for name in (
        "messages",
        "intake",
        "watermark",
        "render",
        "(reducer)",
        "plan p50",
        "plan p95",
        "total p50",
    ):
        table.add_column(name, justify="right")
    for length, *figures in rows:
        table.add_row(f"{length:,}", *(f"{figure:.3f}" for figure in figures))
    console = Console()
    console.print(table)
    first, last = rows[0][-1], next(r for r in rows if r[0] == 5_000)[-1]
    console.print(f"total at 5,000 ÷ at 100 messages: {last / first:.2f}")


def measure(length: int) -> tuple[float, ...]:
    """Median milliseconds of each part over some steps behind `length` messages."""
    with tempfile.TemporaryDirectory() as folder, Memory(folder) as memory:
        engine = Engine(
            model=FakeListChatModel(responses=["-"]),
            memory=memory,
            # Nothing ever pays, so that what is measured is the steady state.
            policy=WindowPolicy(window=100_000_000, min_result=10**9, min_arguments=10**9),
            prices=Prices(),
        )
        take, mark = intake(engine), watermark(engine)
        config: Any = {"configurable": {"thread_id": "bench"}}
        state = State(messages=history(length))
        parts: list[tuple[float, ...]] = []
        for number in range(STEPS + 5):
            step = Step(state)
            started = time.perf_counter()
            taken = take(state, config)
            took = time.perf_counter()
            step.take(taken)
            merged = time.perf_counter()
            marked_up = mark(step.state, config)
            marked = time.perf_counter()
            step.take(marked_up)
            state = step.state
            begun = time.perf_counter()
            frame = engine.frame(state, config)
            with engine.view(frame, state["messages"]) as view:
                view.request()
            rendered = time.perf_counter()
            state["frame"] = frame.with_(sent=view.last, asked=engine.clock(), warm=frame.warm + 1).to_state()
            if number >= 5:
                parts.append((took - started, marked - merged, rendered - begun, merged - took))
            state["messages"] = [*state["messages"], *arc(length + number)]
        rows = [tuple(1_000 * value for value in part) for part in parts]
        both = sorted(row[1] + row[2] for row in rows)
        medians = [statistics.median(row[i] for row in rows) for i in range(4)]
        total = statistics.median(sum(row[:3]) for row in rows)
        return (*medians, statistics.median(both), both[int(0.95 * len(both))], total)


def history(length: int) -> list[AnyMessage]:
    """A session of a user message and tool arcs."""
    messages: list[AnyMessage] = [HumanMessage("look through the project", id="h")]
    while len(messages) < length:
        messages += arc(len(messages))
    return messages


def arc(number: int) -> list[AnyMessage]:
    """One tool call and its result, about 150 tokens."""
    call = {"name": "grep", "args": {"pattern": f"name_{number}"}, "id": f"c{number}", "type": "tool_call"}
    text = f"src/file_{number}.py: a line that was found, with some words around it\n" * 8
    return [
        AIMessage("", tool_calls=[call], id=f"a{number}"),
        ToolMessage(text, tool_call_id=f"c{number}", name="grep", id=f"t{number}"),
    ]
