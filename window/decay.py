"""How history fades: a pure function of position, importance and pressure (G17–G19).

No wall clock enters: a compartment's age is its position from the newest, so the same compartments
render to the same bytes a week later.
"""

import math
from collections.abc import Iterable

HALF_LIFE = 24.0
"""Half-life in compartments at importance 50 and pressure 1 (G17, ``H50``)."""

DOUBLING = 25.0
"""Points of importance that double the half-life (G17, ``D``)."""

PRESSURE_FLOOR = 0.10
"""The least pressure that counts (G17)."""

TIER_BOUNDS = (0.201, 0.729, 1.322, 2.587)
"""Ages in half-lives at which P2, P3, P4 and P5 begin (G18)."""

TIER_COSTS = (322, 109, 35, 20, 0)
"""Tokens that a compartment is expected to take at P1..P5 (G17)."""


class DecayError(ValueError):
    """An age, importance or pressure outside what the formula is defined for."""


def half_life(importance: int, pressure: float) -> float:
    """Half-life of a compartment's detail, in compartments (G17).

    Args:
        importance: 1..100.
        pressure: Expected history cost over its budget; values under the floor count as the floor.

    Raises:
        DecayError: For an importance outside 1..100, or a pressure that is negative or not finite.
    """
    if not 1 <= importance <= 100:
        raise DecayError(f"importance {importance!r} is outside 1..100; clamp it before rendering")
    if not math.isfinite(pressure) or pressure < 0:
        raise DecayError(f"pressure {pressure!r} must be finite and not negative; check the history budget")
    return float(HALF_LIFE * 2.0 ** ((importance - 50) / DOUBLING) / max(pressure, PRESSURE_FLOOR))


def decay_tier(age: int, importance: int, pressure: float) -> int:
    """Tier 1..5 at which a compartment is shown; 5 is archived (G18).

    Args:
        age: Position from the newest compartment, 0-based.
        importance: 1..100, how long the detail is needed.
        pressure: See ``half_life``.

    Raises:
        DecayError: As ``half_life``, and for a negative age.

    Example:
        >>> [decay_tier(age, 50, 1.0) for age in (0, 5, 18, 32, 63)]
        [1, 2, 3, 4, 5]
    """
    if age < 0:
        raise DecayError(f"age {age!r} is negative; count from the newest compartment, which is 0")
    # Platforms may differ in the last bit of a power; rounding keeps the tier the same on all of them.
    z = round(age / half_life(importance, pressure), 9)
    return 1 + sum(z >= bound for bound in TIER_BOUNDS)


def budget_pressure(importances: Iterable[int], budget: int) -> float:
    """Pressure of a history on its budget, computed once per fold (G17).

    The expected cost is taken at pressure 1, since a cost measured after rendering would be circular.

    Args:
        importances: Of all compartments, newest first.
        budget: Tokens for the rendered history; at least 1.

    Returns:
        Expected cost over the budget, at least the floor; may exceed 1.

    Raises:
        DecayError: For a budget under 1 or an importance outside 1..100.
    """
    if budget < 1:
        raise DecayError(f"history budget {budget!r} is not positive; leave the history out instead")
    cost = sum(TIER_COSTS[decay_tier(age, value, 1.0) - 1] for age, value in enumerate(importances))
    return max(PRESSURE_FLOOR, cost / budget)
