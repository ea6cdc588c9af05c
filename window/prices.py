"""What a token costs by where the provider finds it, and how long its cache lives."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Prices:
    """Relative prices of input tokens, in units of one uncached input token.

    Attributes:
        read: Price of a token served from the provider's prefix cache.
        write: Price of a token that is written to it.
        ttl: Seconds of silence after which the cache is gone.
        output: Price of an output token.
        unit: Price of a million uncached input tokens, in any currency: the unit of `Budget.cost`.

    Defaults are Anthropic's for the five-minute cache (0.1 and 1.25).
    """

    read: float = 0.1
    write: float = 1.25
    ttl: float = 300.0
    output: float = 5.0
    unit: float = 1.0

    def __post_init__(self) -> None:
        if not 0 <= self.read <= self.write:
            raise ValueError(f"prices need 0 <= read <= write, got read={self.read!r}, write={self.write!r}")
        # Written so that what is no number at all is refused too.
        if not self.ttl >= 0:
            raise ValueError(f"ttl is in seconds and cannot be negative, got {self.ttl!r}")
        if not (self.output >= 0 and self.unit >= 0):
            raise ValueError(f"prices cannot be negative, got output={self.output!r}, unit={self.unit!r}")

    @classmethod
    def uncached(cls) -> "Prices":
        """Prices of a provider without a prefix cache: every token costs the same, every request."""
        return cls(read=1.0, write=1.0, ttl=0.0)

    def cost(self, fresh: float, read: float = 0, written: float = 0, output: float = 0) -> float:
        """What tokens cost, in the currency of `unit`; `fresh` are neither read from a cache nor written."""
        weighted = fresh + self.read * read + self.write * written + self.output * output
        return weighted * self.unit / 1_000_000

    def is_cold(self, asked: float | None, now: float) -> bool:
        """Whether the cache written by the request at `asked` (seconds, None = never) is gone at `now`."""
        return asked is None or now - asked > self.ttl
