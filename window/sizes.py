"""How large a model's window is, and where the number comes from (M23, M24).

First that answers: explicit setting, limit learned from a refusal, the model's profile, its name, 128k.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple, TypeGuard

from langchain_core.language_models import BaseChatModel
from langchain_core.runnables import Runnable

from headwater.window.sizes_table import DEFAULT_WINDOW, FAMILIES, Family

LEARNED_RANGE = (1_024, 10_000_000)
"""Limits outside this range are no limits of a model, tokens (G33)."""

Model = str | BaseChatModel | Runnable[Any, Any]

_NAME_FIELDS = ("model_name", "model", "model_id", "deployment_name", "azure_deployment", "repo_id")
_SEPARATORS = re.compile(r"[^a-z0-9]+")


class WindowError(ValueError):
    """A window size that no model can have."""


class WindowSize(NamedTuple):
    """A context window.

    Attributes:
        tokens: Input limit.
        source: `explicit`, `learned`, `profile`, `name:<pattern>` or `default`; `cut` where a server seems to
            cut prompts to that size.
    """

    tokens: int
    source: str


def window_of(model: Model, *, explicit: int | None = None, learned: int | None = None) -> WindowSize:
    """The window of a model: explicit, else learned, else profile, else by name, else 128,000.

    Args:
        model: `provider:name`, a name, or a chat model, also one with tools or settings bound to it.
        explicit: What the user set, tokens; it wins over everything.
        learned: What a provider's refusal taught, tokens; ignored outside `LEARNED_RANGE`.

    Raises:
        WindowError: `explicit` is not a positive whole number.

    Example:
        >>> window_of("openai:gpt-4.1")
        WindowSize(tokens=1047576, source='name:gpt-4-1')
    """
    if explicit is not None:
        if not _is_size(explicit):
            raise WindowError(
                f"window={explicit!r} is no window: give a positive number of tokens such as 32_000, "
                "or None to take it from the model"
            )
        return WindowSize(explicit, "explicit")
    if _is_size(learned) and LEARNED_RANGE[0] <= learned <= LEARNED_RANGE[1]:
        return WindowSize(learned, "learned")
    profiled = _profile_size(model, "max_input_tokens")
    if profiled:
        return WindowSize(profiled, "profile")
    family = _family(model_name(model))
    return (
        WindowSize(family.tokens, f"name:{family.pattern}")
        if family
        else WindowSize(DEFAULT_WINDOW, "default")
    )


def max_output_of(model: Model) -> int | None:
    """The most tokens a model can write in one answer: by profile, else by name, else None (not known)."""
    profiled = _profile_size(model, "max_output_tokens")
    if profiled:
        return profiled
    family = _family(model_name(model))
    return family.output if family else None


def families() -> tuple[tuple[str, int], ...]:
    """The table as (pattern, tokens), most specific first, for any other place that shows it (M24)."""
    return tuple((family.pattern, family.tokens) for family in FAMILIES)


def model_name(model: Model) -> str:
    """The name a model goes by at its provider, or "" when it has none."""
    if isinstance(model, str):
        return model.strip()
    inner = unbound(model)
    names = (getattr(inner, field, None) for field in _NAME_FIELDS)
    return next((name.strip() for name in names if isinstance(name, str) and name.strip()), "")


def unbound(model: object) -> object:
    """The chat model inside bindings (`bind_tools`, `with_config`)."""
    while not isinstance(model, BaseChatModel) and isinstance(getattr(model, "bound", None), Runnable):
        model = model.bound  # type: ignore[attr-defined]
    return model


def _profile_size(model: Model, key: str) -> int | None:
    if isinstance(model, str):
        return None
    profile = getattr(unbound(model), "profile", None)
    size = profile.get(key) if isinstance(profile, Mapping) else None
    return size if _is_size(size) else None


def _is_size(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


@lru_cache(maxsize=1_024)
def _family(name: str) -> Family | None:
    words = _SEPARATORS.sub("-", name.lower()).strip("-")
    return next((family for family, found in _MATCHERS if found.search(words)), None)


def _matcher(pattern: str) -> re.Pattern[str]:
    body = re.escape(pattern).replace(r"\*", ".*").replace(r"\-", "-")
    return re.compile(rf"(?:^|-){body.removeprefix('.*-')}(?:-|$)")


_MATCHERS = tuple((family, _matcher(family.pattern)) for family in FAMILIES)
