"""Headwater: LangGraph agents whose sessions outlive their context window.

The log is forever; the window is a view. See `build_agent`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headwater.graph import Budget, Conclusion, SubAgent, build_agent
    from headwater.memory import Memory
    from headwater.window import Prices, WindowPolicy

__version__ = "0.1.0"

__all__ = ["Budget", "Conclusion", "Memory", "Prices", "SubAgent", "WindowPolicy", "build_agent"]

# Each name is looked up when it is first used, so that `import headwater` costs nothing by itself.
_ROOMS = {"Memory": "memory", "Prices": "window", "WindowPolicy": "window"}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'headwater' has no attribute {name!r}; it has {', '.join(__all__)}")
    return getattr(import_module(f"headwater.{_ROOMS.get(name, 'graph')}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
