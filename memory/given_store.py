"""A store that the caller brings: whatever it raises becomes the error that sessions go on from."""

from __future__ import annotations

from collections.abc import Iterable
from types import TracebackType

from langgraph.store.base import BaseStore, Op, Result

from headwater.memory.database import StorageError


class GivenStore(BaseStore):
    """Another store, with its errors as `StorageError`.

    Args:
        store: Any LangGraph store.
    """

    def __init__(self, store: BaseStore) -> None:
        self._store = store
        self.supports_ttl = store.supports_ttl
        self.ttl_config = store.ttl_config

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """See `BaseStore`."""
        with _Foreign(self._store):
            return self._store.batch(ops)

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """See `BaseStore`."""
        with _Foreign(self._store):
            return await self._store.abatch(ops)


class _Foreign:
    """Other people's code behind a seam: a database's own errors, a pool's, a network's. There is no list to
    catch by.
    """

    def __init__(self, store: BaseStore) -> None:
        self._name = type(store).__name__

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, Exception) and not isinstance(error, StorageError):
            said = f"{type(error).__name__}: {error}"
            raise StorageError(f"the store {self._name!r} failed: {said}; check its server") from error
