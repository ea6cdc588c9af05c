"""Who answers where: the name under which what a model has taught is kept, and what the cheap models hold."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from langchain_core.language_models import BaseChatModel

from headwater.window.overflow import Overflow
from headwater.window.providers import addresses_of
from headwater.window.sizes import model_name, window_of

if TYPE_CHECKING:
    from headwater.nodes.engine import Engine

MIN_CHUNK, MAX_CHUNK = 8_000, 50_000


def endpoint_of(model: BaseChatModel) -> str:
    """ "model@endpoint": the same name may be served with another window elsewhere."""
    return f"{model_name(model)}@{next(iter(addresses_of(model)), 'default')}"


def teller_window(engine: "Engine", model: BaseChatModel) -> int:
    """Tokens that a model which tells history holds: what is assumed, or less where it has refused that."""
    key = endpoint_of(model)
    proved = (engine.memory.limits.get(key, engine.clock()), engine.bounds.get(key))
    return min([window_of(model).tokens, *(limit for limit in proved if limit is not None)])


def chunk_of(engine: "Engine", models: Sequence[BaseChatModel]) -> int:
    """Transcript tokens that one call may read: a quarter of the smallest of the models' windows."""
    if not models:
        return MAX_CHUNK
    window = min(teller_window(engine, model) for model in models)
    return min(max(MIN_CHUNK, min(MAX_CHUNK, window // 4)), window // 2)


def teller_refused(engine: "Engine", model: BaseChatModel, overflow: Overflow, sent: int) -> None:
    """Learn from a refusal of a model that tells history (G33, M17).

    A limit that the refusal states is kept for the next process too. Where it states none, what was sent is a
    bound by our own count only: it holds for this process.

    Args:
        engine: Of the agent whose history it tells.
        model: The one that refused.
        overflow: What the refusal says.
        sent: Tokens of the request by our count, the output cap included.
    """
    key = endpoint_of(model)
    if overflow.limit is None:
        engine.bounds[key] = min(sent, engine.bounds.get(key, sent))
    elif key == engine.endpoint:
        engine.learn(overflow.limit)
    else:
        engine.memory.limits.learn(key, overflow.limit, engine.clock())
