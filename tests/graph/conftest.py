"""What the tests of the graph share."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater import Memory
from tests.graph.world import memory_in


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with memory_in(tmp_path / "m") as opened:
        yield opened
