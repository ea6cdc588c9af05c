"""What the tests of the graph share."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater import Memory
from tests.graph.world import memory_in

# A server's module: it is imported by the server that a test starts, with its settings in the environment.
collect_ignore = ["served"]


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with memory_in(tmp_path / "m") as opened:
        yield opened
