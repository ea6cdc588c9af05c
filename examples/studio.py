"""The demo's agent for LangGraph Studio: `langgraph dev` in the repository serves it, see langgraph.json.

Without settings a scripted explorer plays it; ask it to explore "in 40 steps". With a model of your own:

    HEADWATER_MODEL=openai:gpt-5.4 OPENAI_API_KEY=… langgraph dev

HEADWATER_SUMMARIZER may be set too; policy, prices and memory are the settings of docs/configuration.md, such
as HEADWATER_WINDOW. There is no checkpointer and no store in the graph: the server brings them.
"""

import os
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.tools import tool
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import interrupt

from headwater import Memory, SubAgent, build_agent
from headwater.demo import DEFAULT_WINDOW, PACKAGES, scripted
from headwater.lab.codebase_tools import Codebase
from headwater.settings import Settings

SYSTEM = (
    "You explore a code base with your tools and report what you find. Before you conclude, ask the user."
)

# The scripted models are served as long as the process that serves the graph.
_served = ExitStack()


@tool
def ask_user(question: str) -> str:
    """Ask the user a question and wait for the answer."""
    return str(interrupt({"question": question}))


def demo() -> CompiledStateGraph[Any, Any, Any, Any]:
    """The graph, by the settings of the project and of the environment."""
    named = os.environ.get("HEADWATER_MODEL")
    model: str | BaseChatModel | None = named
    summarizer: str | BaseChatModel | None = os.environ.get("HEADWATER_SUMMARIZER")
    settings = Settings.load(model=named or "")
    window = settings.policy.window or DEFAULT_WINDOW
    if model is None:
        model, _, summarizer, _ = _served.enter_context(scripted(window))
    look = Codebase.installed(*PACKAGES).tools()
    reader = SubAgent(
        "reader", "Reads one module and reports its classes.", "You read one module and report.", look
    )
    return build_agent(
        model,
        tools=[*look, ask_user],
        system_prompt=SYSTEM,
        subagents=[reader],
        summarizer=summarizer,
        policy=replace(settings.policy, window=window),
        prices=settings.prices,
        memory=Memory(settings.memory),
        name="demo",
    )


agent = demo()
