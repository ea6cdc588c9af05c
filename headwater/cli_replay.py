"""`headwater replay`: recorded sessions played under policies."""

from headwater.cli_lab import replay_arguments as arguments
from headwater.cli_lab import run

__all__ = ["arguments", "run"]
