"""One file a node: what it reads from the state and what it returns."""

from headwater.nodes.agent import agent
from headwater.nodes.engine import Engine
from headwater.nodes.halt import halt
from headwater.nodes.intake import intake
from headwater.nodes.offload import offload
from headwater.nodes.recall import recall
from headwater.nodes.reclaim import reclaim
from headwater.nodes.remember import remember
from headwater.nodes.state import State
from headwater.nodes.subagent import subagent
from headwater.nodes.summarize import summarize
from headwater.nodes.tools import tools
from headwater.nodes.watermark import watermark

__all__ = [
    "Engine",
    "State",
    "agent",
    "halt",
    "intake",
    "offload",
    "recall",
    "reclaim",
    "remember",
    "subagent",
    "summarize",
    "tools",
    "watermark",
]
