"""Requests past the OpenAI client's walk over typed messages: most of a replay's time, and nothing changed.

The client looks at every value of `messages` and `tools` for keys that are spelt otherwise on the wire, on
every step anew; chat requests have none. What is handed over as `extra_body`, its parameter for what it does
not know, goes out as it is and in the same place: the bytes are the same (tests/lab/test_unwalked.py).
"""

from typing import Any, NamedTuple

_WALKED = ("messages", "tools")


class Unwalked(NamedTuple):
    """A chat client's `completions`, sync or async; a request's long parts go out as they are."""

    completions: Any

    @property
    def with_raw_response(self) -> "Unwalked":
        """The same for the call that also gives the HTTP response."""
        return Unwalked(self.completions.with_raw_response)

    def create(self, **request: Any) -> Any:
        """Send a request; arguments and answer are those of `completions.create`."""
        parts = {name: request[name] for name in _WALKED if name in request}
        # An empty list keeps each part's place in the body.
        short = request | dict.fromkeys(parts, ())
        short["extra_body"] = parts | dict(request.get("extra_body") or {})
        return self.completions.create(**short)
