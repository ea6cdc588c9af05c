"""A faster OpenAI client for replays: its walk over typed requests takes most of the time, changing nothing.

The client looks at every value of a request for keys that are spelt otherwise on the wire. Chat requests have
none, so the bytes that are sent are the same with the walk and without (tests/lab/test_peers.py).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

_WALK = "openai.resources.chat.completions.completions.maybe_transform"


@contextmanager
def quick_client() -> Iterator[None]:
    """For as long as this lasts chat requests go out without the walk."""
    with patch(_WALK, _as_it_is):
        yield


def _as_it_is(data: Any, _: Any) -> Any:
    """The request; what was left out by the caller is left out on the wire by the walk, so here too."""
    from openai import NotGiven, Omit

    if not isinstance(data, dict):
        return data
    return {key: value for key, value in data.items() if not isinstance(value, NotGiven | Omit)}
