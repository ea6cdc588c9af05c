"""What the test's LangGraph server serves: a governed agent without checkpointer, and its archive."""

import os
from pathlib import Path

from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

from headwater.graph import archive_graph, build_agent
from headwater.memory import Memory
from headwater.memory.words import LexicalIndex
from headwater.window.policy import WindowPolicy

root = Path(os.environ["SERVED_MEMORY"])
memory = Memory(root, index=LexicalIndex(root / "by_words.sqlite"))


@tool
def inspect(number: int) -> str:
    """Inspect one unit."""
    return "\n".join(f"line {i}: part {i} of unit {number} was checked and is well" for i in range(40))


model = ChatOpenAI(
    model="strict-main",
    base_url=os.environ["SERVED_MODEL"],
    api_key=SecretStr("none"),
    max_retries=0,
    stream_usage=True,
)
agent = build_agent(
    model, tools=[inspect], system_prompt="You scout.", policy=WindowPolicy(window=16_000), memory=memory
)
archive = archive_graph(memory)
