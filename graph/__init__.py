"""Composition: the agent graph, its sub-agents and sessions."""

from headwater.graph.build import build_agent
from headwater.graph.sessions import conclude, delete, fork, list_sessions, resume, suspend, switch, undo
from headwater.nodes.budget import Budget
from headwater.nodes.remote import Remote, archive_graph
from headwater.nodes.subagent import Conclusion, SubAgent

__all__ = [
    "Budget",
    "Conclusion",
    "Remote",
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
