"""A node that waits for something, sync and async, and can stand in any graph whatever its state's schema."""

from typing import Any

from langchain_core.runnables import RunnableConfig, RunnableLambda

from headwater.nodes.state import NodeState, Update


class Placed(RunnableLambda[Any, Update]):
    """A runnable whose call says what it reads: LangGraph takes a node's input schema from there.

    Without it a graph with a pydantic state would hand in the model, and no channel of ours would exist.
    """

    def __call__(self, state: NodeState, config: RunnableConfig) -> Update:
        """Run it, as a plain function of state and config."""
        return self.invoke(state, config)
