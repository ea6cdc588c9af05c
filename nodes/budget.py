"""What a sub-agent may use."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Budget:
    """Limits of one sub-agent; the first that is reached ends it with what it has.

    Attributes:
        steps: Model calls.
        tokens: Input and output tokens of its main model.
        seconds: Wall time.
        depth, children: Reserved: a sub-agent does not delegate further yet.
    """

    steps: int = 40
    tokens: int = 2_000_000
    seconds: float = 900.0
    depth: int = 2
    children: int = 16

    def __post_init__(self) -> None:
        if self.steps < 1 or self.tokens < 1 or self.seconds <= 0 or self.depth < 0 or self.children < 1:
            raise ValueError(f"a budget needs at least one step, token, second and child, got {self!r}")
