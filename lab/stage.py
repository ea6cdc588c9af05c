"""A model for an example: a real one by name, or a scripted one behind a strict server on this machine."""

import argparse
from collections.abc import Iterator
from contextlib import contextmanager

from langchain_core.language_models import BaseChatModel

from headwater.graph.build import resolve_model
from headwater.lab.provider import StrictProvider
from headwater.lab.script import Script


@contextmanager
def staged(name: str | None, script: Script, *, window: int) -> Iterator[BaseChatModel]:
    """The model of "provider:name", or the script's, which sees no more than `window` tokens.

    Raises:
        UnknownModel: The name is no model's, or its package is not installed.
        AssertionError: A request has broken a rule of the provider.
    """
    if name is not None:
        yield resolve_model(name)
        return
    with StrictProvider(script, window=window) as provider:
        yield provider.openai(max_tokens=512)
        broken = provider.violations
        assert not broken, f"the provider refused {broken!r}"


def model_option(about: str | None) -> str | None:
    """The `--model` of a program's command line; `about` is its help."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--model", metavar="PROVIDER:NAME", help="a real model; its key is in the environment"
    )
    given: str | None = parser.parse_args().model
    return given
