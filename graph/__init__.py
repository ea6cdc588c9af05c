"""Composition: the agent graph, its sub-agents and sessions, and governance for other agents."""

from typing import TYPE_CHECKING, Any

from headwater.graph.build import build_agent
from headwater.graph.sessions import conclude, delete, fork, list_sessions, resume, suspend, switch, undo
from headwater.nodes.budget import Budget
from headwater.nodes.remote import Remote, archive_graph
from headwater.nodes.settings import RunSettings
from headwater.nodes.subagent import Conclusion, SubAgent

if TYPE_CHECKING:
    from headwater.graph.middleware import GovernanceMiddleware

__all__ = [
    "Budget",
    "Conclusion",
    "GovernanceMiddleware",
    "Remote",
    "RunSettings",
    "SubAgent",
    "archive_graph",
    "build_agent",
    "conclude",
    "delete",
    "fork",
    "list_sessions",
    "resume",
    "suspend",
    "switch",
    "undo",
]


def __getattr__(name: str) -> Any:
    # Only who uses the middleware pays for importing langchain's agents.
    if name == "GovernanceMiddleware":
        from headwater.graph.middleware import GovernanceMiddleware

        return GovernanceMiddleware
    raise AttributeError(f"module 'headwater.graph' has no attribute {name!r}; it has {', '.join(__all__)}")
