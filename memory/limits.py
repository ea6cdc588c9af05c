"""Windows that providers have proved, by model and endpoint; kept on disk for a week (G33)."""

import json
import os
import threading
from pathlib import Path

SMALLEST, LARGEST = 1_024, 10_000_000
LIFETIME = 7 * 24 * 3600.0


class Limits:
    """Limits learned from refusals. A file that cannot be used costs the lesson, never the session.

    Args:
        path: A small JSON file, made when the first limit is learned.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._known: dict[str, list[float]] | None = None

    def get(self, key: str, now: float) -> int | None:
        """The limit in tokens for "model@endpoint", None when none is known or it is older than a week.

        A lesson fades so that one wrong number does not cripple a model for ever: it is simply probed again.
        """
        with self._lock:
            known = self._read().get(key)
        if known is None or not 0 <= now - known[1] <= LIFETIME:
            return None
        return int(known[0])

    def learn(self, key: str, limit: int, now: float) -> int | None:
        """Remember a limit; the lower one wins. Returns what holds now, None for a number nobody can mean."""
        if not SMALLEST <= limit <= LARGEST:
            return self.get(key, now)
        standing = self.get(key, now)
        limit = limit if standing is None else min(limit, standing)
        with self._lock:
            # Another process may have learned meanwhile.
            self._known = None
            self._read()[key] = [limit, now]
            self._write()
        return limit

    def all(self) -> dict[str, tuple[int, float]]:
        """Every limit with the time it was learned at, expired ones included."""
        with self._lock:
            return {key: (int(limit), at) for key, (limit, at) in self._read().items()}

    def _read(self) -> dict[str, list[float]]:
        if self._known is None:
            try:
                data = json.loads(self._path.read_text(encoding="utf-8"))
            except (OSError, ValueError):
                data = {}
            rows = data.items() if isinstance(data, dict) else ()
            self._known = {k: [float(v[0]), float(v[1])] for k, v in rows if _is_row(v)}
        return self._known

    def _write(self) -> None:
        part = self._path.with_suffix(f".{os.getpid()}.part")
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            part.write_text(json.dumps(self._known, indent=1), encoding="utf-8")
            part.replace(self._path)
        except OSError:
            # Known in this process all the same; the next one learns it again.
            part.unlink(missing_ok=True)


def _is_row(value: object) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(isinstance(v, int | float) for v in value)
