"""Measure and look: the strict provider, replay of recorded sessions, and pictures of the window."""

from headwater.lab.diagnosis import diagnose
from headwater.lab.diseases import Finding
from headwater.lab.provider import Reply, Request, StrictProvider, ToolCall
from headwater.lab.replay import ReplayReport, replay
from headwater.lab.sessions import NotASession, Session, load_session, load_thread
from headwater.lab.trace import Trace, trace

__all__ = [
    "Finding",
    "NotASession",
    "ReplayReport",
    "Reply",
    "Request",
    "Session",
    "StrictProvider",
    "ToolCall",
    "Trace",
    "diagnose",
    "load_session",
    "load_thread",
    "plot_window",
    "replay",
    "trace",
]


def __getattr__(name: str) -> object:
    # matplotlib is an extra, and slow to import: only who draws loads it.
    if name == "plot_window":
        from headwater.lab.plot import plot_window

        return plot_window
    raise AttributeError(f"module 'headwater.lab' has no attribute {name!r}")
