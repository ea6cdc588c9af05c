"""Composition: the agent graph, its sub-agents and sessions."""

from headwater.graph.build import build_agent
from headwater.nodes.budget import Budget
from headwater.nodes.subagent import Conclusion, SubAgent

__all__ = ["Budget", "Conclusion", "SubAgent", "build_agent"]
