"""How far the count is off for one model at one endpoint, learned from the usage it reports (M17).

What is counted and what is charged differ by a factor (another tokenizer) and by a constant (what the
provider adds, or what nobody counts). Once a request has been answered both are known for that request, so
the next one is what was reported for the last plus `scale` times what has been added since. After a pass
that moved the window only the factor and the constant are left. `docs/calibration.md` has what is left of
the error on recorded sessions.
"""

from typing import NamedTuple

MIN_SCALE, MAX_SCALE = 0.8, 3.0
SLOW = 0.3
"""Share of the way down that one sample moves the scale; up it goes at once."""
ENOUGH = 1_000
"""Counted tokens that must have been added before they say something of the tokenizer."""
ENOUGH_ALONE = 4_000
"""The same for one request alone: below it, what a provider adds by itself (1-3k) decides the ratio."""
LEAST, MOST = 0.5, 3.0
"""Charged ÷ counted of what one step has added, as tokenizers can differ. Outside it something came or left
that nobody counted: reasoning that is not shown, an image, output of a provider's own tools."""
JUMP = 8_000
"""Tokens of such a step from which it is no sample of the scale. Reasoning comes and goes with each round, so
that it hardly moves the scale; what is larger would stay in it for the rest of the session."""


class Meter(NamedTuple):
    """What was last reported, beside what had been counted for it.

    Attributes:
        model: "model@endpoint" that reported; "" before anything was reported.
        revision: The frame's revision of that request: another one means that the window has moved since.
        counted, reported: The newest request that was answered, in tokens.
        base_counted, base_reported: The first one since the window last moved, in tokens; steps that are no
            sample of the scale are added to it, so that they do not count.
        sloped: The scale was measured between two requests, not guessed from one.
    """

    model: str = ""
    revision: str = ""
    counted: int = 0
    reported: int = 0
    base_counted: int = 0
    base_reported: int = 0
    sloped: bool = False


def predict(scale: float, meter: Meter, counted: int, revision: str = "") -> int:
    """Input tokens that a request of `counted` tokens will be charged; pure.

    Args:
        scale: Reported ÷ counted tokens of this model.
        meter: What was reported last; an empty one leaves the scale alone.
        counted: Tokens of the request by our count, tool schemas included.
        revision: The frame's revision; where it is the meter's, only what was added is estimated.
    """
    if not meter.reported:
        return int(scale * counted)
    constant = meter.reported - scale * meter.counted
    if revision != meter.revision:
        # What is charged beyond the count stands in every request; a negative rest is the scale's own error,
        # and would make a window that was cut look smaller than it is.
        constant = max(0.0, constant)
    return max(0, int(constant + scale * counted))


def learn(
    scale: float, meter: Meter, counted: int, reported: int, *, model: str, revision: str = ""
) -> tuple[float, Meter]:
    """Take in one report; returns the new scale and meter; pure.

    The scale comes from what was added since the window last moved, where that is enough; from the whole
    request until then. Up at once, down slowly, within 0.8-3.0.

    Args:
        scale: The scale so far, 1.0 where nothing is known of the model.
        meter: The meter so far; reports of another model or before the last busting pass do not count.
        counted: Tokens of the answered request by our count, tool schemas included.
        reported: Input tokens the provider charged, cached ones included; 0 reports nothing.
        model: "model@endpoint".
        revision: The frame's revision of the request.
    """
    if reported <= 0:
        return scale, meter
    same = meter.model == model and bool(meter.reported)
    sloped = same and meter.sloped
    base_counted, base_reported = counted, reported
    if same and meter.revision == revision and counted >= meter.base_counted:
        base_counted, base_reported = meter.base_counted, meter.base_reported
        came, cost = counted - meter.counted, reported - meter.reported
        if not LEAST * came <= cost <= MOST * came and abs(cost - scale * came) > JUMP:
            base_counted, base_reported = base_counted + came, base_reported + cost
    added, charged = counted - base_counted, reported - base_reported
    if added >= ENOUGH:
        # The first slope replaces the guess: a constant that was taken for a factor is no sample of it.
        scale = _moved(scale, charged / added) if sloped else _clamp(charged / added)
        sloped = True
    elif not sloped and counted >= ENOUGH_ALONE:
        scale = _moved(scale, reported / counted)
    return round(scale, 4), Meter(model, revision, counted, reported, base_counted, base_reported, sloped)


def _moved(scale: float, sample: float) -> float:
    sample = _clamp(sample)
    return sample if sample > scale else scale + SLOW * (sample - scale)


def _clamp(ratio: float) -> float:
    return min(MAX_SCALE, max(MIN_SCALE, ratio))
