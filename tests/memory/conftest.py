"""A folder of memory for each test, and small embeddings that need no model to be loaded."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from pathlib import Path

import pytest
from langchain_core.embeddings import Embeddings

from headwater.memory.lexical import tokens
from headwater.memory.memory import Memory


class HashedWords(Embeddings):
    """A bag of words, hashed into a few dimensions: real vectors, any dimension, no weights."""

    def __init__(self, size: int = 32) -> None:
        self.size = size
        self.name = "hashed-words"

    def embed_query(self, text: str) -> list[float]:
        vector = [0.0] * self.size
        for token in tokens(text) or ["?"]:
            vector[int(hashlib.md5(token.encode()).hexdigest(), 16) % self.size] += 1.0
        length = math.sqrt(sum(x * x for x in vector))
        return [x / length for x in vector]

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [self.embed_query(text) for text in texts]


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with Memory(tmp_path / "root", embeddings=HashedWords()) as opened:
        yield opened
