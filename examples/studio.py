"""The demo's agent for LangGraph Studio: `langgraph dev` in the repository serves it, see langgraph.json.

Without settings a scripted explorer plays it; ask it to explore "in 40 steps". With a model of your own:

    HEADWATER_MODEL=openai:gpt-5.4 OPENAI_API_KEY=… langgraph dev

HEADWATER_SUMMARIZER, HEADWATER_WINDOW (tokens) and HEADWATER_MEMORY (a folder) may be set too. There is no
checkpointer and no store in the graph: the server brings them.
"""

import os
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.tools import tool
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import interrupt

from headwater import Memory, SubAgent, WindowPolicy, build_agent
from headwater.lab.codebase_tools import Codebase

SYSTEM = (
    "You explore a code base with your tools and report what you find. Before you conclude, ask the user."
)


@tool
def ask_user(question: str) -> str:
    """Ask the user a question and wait for the answer."""
    return str(interrupt({"question": question}))


def scripted(window: int) -> tuple[BaseChatModel, BaseChatModel]:
    """The demo's explorer and its summarizer, behind a strict server in this process."""
    from headwater.lab.chronicler import chronicler
    from headwater.lab.explorer import Explorer
    from headwater.lab.provider import ModelSpec, StrictProvider, by_model

    cap = max(256, min(2_048, window // 8))
    windows = {"explorer": ModelSpec(window, cap), "summarizer": ModelSpec(128_000)}
    script = by_model({"explorer": Explorer(), "summarizer": chronicler})
    # It lives as long as the process that serves the graph.
    provider = StrictProvider(script, models=windows).__enter__()
    return provider.openai("explorer", max_tokens=cap), provider.openai("summarizer")


def demo() -> CompiledStateGraph[Any, Any, Any, Any]:
    """The graph, by the settings in the environment."""
    window = int(os.environ.get("HEADWATER_WINDOW", "32000"))
    model: str | BaseChatModel | None = os.environ.get("HEADWATER_MODEL")
    summarizer: str | BaseChatModel | None = os.environ.get("HEADWATER_SUMMARIZER")
    if model is None:
        model, summarizer = scripted(window)
    look = Codebase.installed("langgraph", "langchain_core").tools()
    reader = SubAgent(
        "reader", "Reads one module and reports its classes.", "You read one module and report.", look
    )
    return build_agent(
        model,
        tools=[*look, ask_user],
        system_prompt=SYSTEM,
        subagents=[reader],
        summarizer=summarizer,
        policy=WindowPolicy(window=window),
        memory=Memory(os.environ.get("HEADWATER_MEMORY", ".headwater")),
        name="demo",
    )


agent = demo()
