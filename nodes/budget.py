"""What an agent and all below it may use."""

import math
from dataclasses import dataclass

from headwater.memory.ledger import Allowance


@dataclass(frozen=True)
class Budget:
    """Limits of an agent and of all it delegates to; the first that is reached ends it with what it has.

    A sub-agent draws from its own budget and from those of all above it: the tree shares one purse.

    Attributes:
        steps: Model calls.
        tokens: Input and output tokens of the main models.
        seconds: Wall time.
        depth: Levels of sub-agents below; 0 forbids to delegate.
        children: Sub-agents started below, on all levels together.
        cost: Price of the tokens, in the unit of `Prices.unit`.
    """

    steps: float = 40
    tokens: float = 2_000_000
    seconds: float = 900.0
    depth: int = 2
    children: float = 16
    cost: float = math.inf

    def __post_init__(self) -> None:
        amounts = (self.steps, self.tokens, self.children)
        if any(not value >= 1 for value in amounts) or self.depth < 0:
            raise ValueError(
                f"a budget needs at least one step, token and child, and depth >= 0: got {self!r}"
            )
        if not self.seconds > 0 or not self.cost > 0:
            raise ValueError(f"a budget needs more than 0 seconds and cost, got {self!r}")

    @property
    def limits(self) -> Allowance:
        """The limits as an account keeps them."""
        return Allowance(self.steps, self.tokens, self.cost, self.seconds, self.children)


UNBOUNDED = Budget(math.inf, math.inf, math.inf, children=64)
"""An agent that was given no budget: only depth and number of its sub-agents are bounded, each round."""
