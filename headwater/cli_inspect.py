"""`headwater inspect`: what a recorded session's window did to it."""

from headwater.cli_lab import inspect_arguments as arguments
from headwater.cli_lab import run

__all__ = ["arguments", "run"]
