"""One file a node: what it reads from the state and what it returns."""

from headwater.nodes.agent import agent
from headwater.nodes.context_tools import context_tools
from headwater.nodes.engine import Engine
from headwater.nodes.halt import halt
from headwater.nodes.intake import intake
from headwater.nodes.offload import offload
from headwater.nodes.onward import onward
from headwater.nodes.recall import recall
from headwater.nodes.reclaim import reclaim
from headwater.nodes.remember import remember
from headwater.nodes.settings import RunSettings
from headwater.nodes.state import NodeState, State
from headwater.nodes.subagent import subagent
from headwater.nodes.summarize import summarize
from headwater.nodes.tools import tools
from headwater.nodes.watermark import route, watermark

__all__ = [
    "Engine",
    "NodeState",
    "RunSettings",
    "State",
    "agent",
    "context_tools",
    "halt",
    "intake",
    "offload",
    "onward",
    "recall",
    "reclaim",
    "remember",
    "route",
    "subagent",
    "summarize",
    "tools",
    "watermark",
]
