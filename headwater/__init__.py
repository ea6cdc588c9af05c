"""Headwater: LangGraph agents whose sessions outlive their context window.

The log is forever; the window is a view. See `build_agent`.
"""

from headwater.graph import Budget, Conclusion, SubAgent, build_agent
from headwater.memory import Memory
from headwater.window import Prices, WindowPolicy

__version__ = "0.1.0.dev0"

__all__ = ["Budget", "Conclusion", "Memory", "Prices", "SubAgent", "WindowPolicy", "build_agent"]
