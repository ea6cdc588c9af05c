"""What the model sees this turn. Pure: no input or output, no clock, no model."""

from headwater.window.blocks import window_report
from headwater.window.clean import clean, condense
from headwater.window.compartments import Compartment, WorkState, render_history
from headwater.window.decay import decay_tier
from headwater.window.frame import Edit, Frame, Pass, Pin
from headwater.window.overflow import Overflow, parse_overflow
from headwater.window.policy import Level, Lines, PolicyError, WindowPolicy
from headwater.window.prices import Prices
from headwater.window.render import Texts, render
from headwater.window.sizes import WindowSize, window_of
from headwater.window.tokens import count_text, count_tokens

__all__ = [
    "Compartment",
    "Edit",
    "Frame",
    "Level",
    "Lines",
    "Overflow",
    "Pass",
    "Pin",
    "PolicyError",
    "Prices",
    "Texts",
    "WindowPolicy",
    "WindowSize",
    "WorkState",
    "clean",
    "condense",
    "count_text",
    "count_tokens",
    "decay_tier",
    "parse_overflow",
    "render",
    "render_history",
    "window_of",
    "window_report",
]
