"""The strict provider: a local server with the providers' real formats, rules, refusals and prefix cache."""

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import chain, islice
from types import TracebackType
from typing import Any, NamedTuple, Self

from headwater.lab.clients import Clients
from headwater.lab.prefix_cache import Hit, Piece, PieceMeter, PrefixCache
from headwater.lab.rules import Ask, Strictness, first_violation
from headwater.lab.rules_thinking import sign_reply
from headwater.lab.script import (
    Disconnect,
    Overflow,
    Refuse,
    Reply,
    Request,
    Script,
    ScriptExhausted,
    ToolCall,
    by_model,
    overflow_at,
    play,
    recorded,
    slow,
)
from headwater.lab.sent_requests import SentRequests
from headwater.lab.server import LocalServer
from headwater.lab.wire import Answer, Wire, output_tokens
from headwater.lab.wire_anthropic import ANTHROPIC
from headwater.lab.wire_gemini import GEMINI, address
from headwater.lab.wire_openai import DIALECTS, OPENAI
from headwater.window.prices import Prices

__all__ = [
    "Disconnect",
    "Exchange",
    "ModelSpec",
    "Overflow",
    "Refuse",
    "Reply",
    "Request",
    "Script",
    "ScriptExhausted",
    "StrictProvider",
    "Strictness",
    "ToolCall",
    "Totals",
    "by_model",
    "overflow_at",
    "play",
    "recorded",
    "slow",
]

_WIRES: tuple[Wire, ...] = (OPENAI, ANTHROPIC, *DIALECTS)


@dataclass(frozen=True)
class ModelSpec:
    """A model's true window and the most it can put out, in tokens."""

    window: int
    max_output: int = 8_192


@dataclass(frozen=True)
class Exchange:
    """One request and what became of it. Token counts but `input_tokens` are 0 where it was refused.

    Attributes:
        violation: The text of the broken rule, and `rule` its name; None where all held.
        over_window: The input (with the output cap) did not fit the model's window.
        raw: The request's bytes, only with `keep_raw`.
        purpose: The `x-headwater-purpose` header (main, summarizer, a sub-agent's name).
        seconds: Time from the request read to the answer ready, without the script's delay.
    """

    wire: str
    model: str
    status: int
    error: str = ""
    input_tokens: int = 0
    cached_tokens: int = 0
    written_tokens: int = 0
    output_tokens: int = 0
    violation: str | None = None
    rule: str | None = None
    over_window: bool = False
    purpose: str = ""
    stream: bool = False
    seconds: float = 0.0
    raw: bytes | None = None

    def cost(self, prices: Prices) -> float:
        """What was read from the cache and written to it, in uncached input tokens."""
        return prices.read * self.cached_tokens + prices.write * self.written_tokens


@dataclass(frozen=True)
class Totals:
    """Sums over all exchanges; tokens over the accepted ones, `sent_tokens` over all."""

    requests: int = 0
    refused: int = 0
    violations: int = 0
    over_window: int = 0
    sent_tokens: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    written_tokens: int = 0
    output_tokens: int = 0


class Outcome(NamedTuple):
    """What the server sends: a JSON body or events, after `delay` seconds, cut off after `cut` events."""

    status: int
    body: dict[str, Any] | str | Iterator[str]
    delay: float = 0
    cut: int | None = None


class StrictProvider(Clients):
    """A model endpoint on 127.0.0.1 that refuses what the real ones refuse, and says what each request cost.

    Args:
        script: What the model says: a function of the request, or replies in order.
        window: True window in tokens, for models that `models` does not name.
        max_output: The largest output cap a request may set, in tokens.
        ttl: Seconds a cached prefix lives after its last use.
        clock: Seconds, for the cache alone.
        models: Windows by model name.
        block: Granularity of the cache, in tokens.
        one_system: See `Strictness`.
        signed_thinking: See `Strictness`.
        bound_thinking: See `Strictness`.
        foreign_thinking: See `Strictness`.
        call_id_limit: See `Strictness`.
        keep_raw: Keep each request's bytes in its `Exchange`.
        lenient: Answer what breaks a rule or the window all the same, the broken rule noted. Also an
            attribute that may be set while it serves, for who plays on behind a refusal.
        charges: Input tokens that the usage reports for those counted: fewer where a server cuts prompts
            without a word, more where it counts otherwise. None reports the count.
        sent: Takes in every accepted request that is not for a summariser, part by part.

    Example:
        >>> with StrictProvider([Reply("hello")]) as provider:
        ...     answer = provider.openai().invoke("hi").text
        >>> str(answer), provider.totals().requests
        ('hello', 1)
    """

    def __init__(
        self,
        script: Script | Sequence[Reply],
        *,
        window: int = 200_000,
        max_output: int = 8_192,
        ttl: float = 300.0,
        clock: Callable[[], float] = time.monotonic,
        models: Mapping[str, ModelSpec] | None = None,
        block: int = 1,
        one_system: bool = True,
        signed_thinking: bool = True,
        bound_thinking: bool = False,
        foreign_thinking: bool = False,
        call_id_limit: int | None = None,
        keep_raw: bool = False,
        lenient: bool = False,
        charges: Callable[[int], int] | None = None,
        sent: SentRequests | None = None,
    ) -> None:
        self.lenient = lenient
        self._charges = charges
        self._sent = sent
        self.requests: list[Exchange] = []
        self._script = script if callable(script) else play(script)
        self._default = ModelSpec(window, max_output)
        self._models = dict(models or {})
        self._strict = Strictness(
            one_system, call_id_limit, signed_thinking, bound_thinking, foreign_thinking
        )
        self._keep_raw = keep_raw
        self._cache = PrefixCache(ttl=ttl, clock=clock, block=block)
        self._meter = PieceMeter()
        self._issued: dict[str, set[str]] = {}
        self._calls = 0
        self._answered = 0
        self._lock = threading.Lock()
        self._server = LocalServer(self._get, self._post)
        self.url: str = self._server.url

    def __enter__(self) -> Self:
        self._server.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        # A script's own bug reached the client only as a cut connection.
        for failure in self._server.failures:
            if error is None:
                raise failure
            error.add_note(f"the provider's script raised {failure!r}")

    @property
    def violations(self) -> list[str]:
        """The text of every broken rule, in order."""
        return [x.violation for x in list(self.requests) if x.violation is not None]

    def totals(self) -> Totals:
        """Sums over the requests so far."""
        seen = list(self.requests)
        accepted = [x for x in seen if x.status == 200]
        names = {f.name for f in fields(Totals)} & {f.name for f in fields(Exchange)} - {"over_window"}
        return Totals(
            requests=len(seen),
            refused=len(seen) - len(accepted),
            violations=sum(x.violation is not None for x in seen),
            over_window=sum(x.over_window for x in seen),
            sent_tokens=sum(x.input_tokens for x in seen),
            **{name: sum(getattr(x, name) for x in accepted) for name in names},
        )

    def _get(self, path: str) -> Outcome:
        if path != "/v1/models":
            return Outcome(404, OPENAI.error(f"Unknown request URL: GET {path}.", 404))
        names = sorted(self._models) or ["strict-main", "claude-strict"]
        data = [{"id": n, "object": "model", "type": "model", "display_name": n, "created": 0} for n in names]
        return Outcome(200, {"object": "list", "data": data, "has_more": False})

    def _post(self, path: str, raw: bytes, purpose: str) -> Outcome:
        begun = time.perf_counter()
        counting = path == f"{ANTHROPIC.path}/count_tokens"
        wire: Wire | None = ANTHROPIC if counting else next((w for w in _WIRES if w.path == path), None)
        named = address(path)
        if named is not None:
            wire = GEMINI
        if wire is None:
            return Outcome(404, OPENAI.error(f"Unknown request URL: POST {path}.", 404))
        note = Exchange(wire.name, "", 400, purpose=purpose, raw=raw if self._keep_raw else None)
        try:
            body = json.loads(raw)
        except ValueError as error:
            body = error
        if not isinstance(body, dict):
            text = f"We could not parse the JSON body of your request ({body!r:.80})."
            return self._refuse(note, wire.error(text), rule="body_is_json", violation=text)
        named = named or body
        note = replace(note, model=str(named.get("model", "")), stream=bool(named.get("stream")))
        if counting:
            body = {"max_tokens": 1, **body}
        ask = Ask(body, self._strict, self._issued, note.model)
        broken = first_violation(wire.rules, ask)
        if broken is not None:
            if not self.lenient:
                return self._refuse(note, wire.error(broken[1]), rule=broken[0].name, violation=broken[1])
            note = replace(note, rule=broken[0].name, violation=broken[1])
        parts = list(wire.parts(ask))
        pieces = [self._meter.piece(kind, part, wire.part_tokens) for kind, part in parts]
        note = replace(note, input_tokens=sum(piece.tokens for piece in pieces))
        if counting:
            return Outcome(200, {"input_tokens": note.input_tokens})
        refusal = None if self.lenient else self._refuse_size(wire, body, note)
        return refusal or self._ask_script(wire, ask, note, pieces, parts, begun)

    def _refuse_size(self, wire: Wire, body: dict[str, Any], note: Exchange) -> Outcome | None:
        spec = self._models.get(note.model, self._default)
        tokens, cap = note.input_tokens, wire.cap(body)
        if cap is not None and cap > spec.max_output:
            refusal = wire.cap_error(note.model, cap, spec.max_output)
            text = str(refusal["error"]["message"])
            return self._refuse(note, refusal, rule="cap_within_model", violation=text)
        if tokens > spec.window:
            return self._refuse(note, wire.overflow(spec.window, tokens, None), over_window=True)
        if wire.joint and cap is not None and tokens + cap > spec.window:
            return self._refuse(note, wire.overflow(spec.window, tokens, cap), over_window=True)
        return None

    def _ask_script(
        self,
        wire: Wire,
        ask: Ask,
        note: Exchange,
        pieces: Sequence[Piece],
        parts: Sequence[tuple[str, Any]],
        begun: float,
    ) -> Outcome:
        with self._lock:
            request = Request(wire.name, note.model, ask.body, self._calls, wire.view, note.purpose)
            self._calls += 1
        cut: int | None = None
        broken: Disconnect | None = None
        # A cache lives from when it was asked for; a script may move the clock on.
        came = self._cache.now()
        try:
            reply = self._script(request)
        except Refuse as refusal:
            return self._refuse(note, refusal.body, status=refusal.status)
        except Overflow as overflow:
            limit = overflow.limit or self._models.get(note.model, self._default).window
            requested = overflow.requested or max(note.input_tokens, limit + 1)
            return self._refuse(note, wire.overflow(limit, requested, None), over_window=True)
        except ScriptExhausted as error:
            return self._refuse(note, wire.error(str(error), 500), status=500)
        except Disconnect as fault:
            broken, reply, cut = fault, fault.reply, fault.after
        answer = self._answer(wire, ask, note, reply, self._cache.visit(note.model, pieces, came))
        self._log(
            replace(
                note,
                status=200,
                error="" if cut is None else "connection cut",
                cached_tokens=answer.hit.cached,
                written_tokens=answer.hit.written,
                output_tokens=answer.output_tokens,
                seconds=time.perf_counter() - begun,
            )
        )
        if self._sent is not None and note.purpose != "summarizer":
            self._sent.note(pieces, parts, came, answer.hit.cached, answer.hit.written)
        body = wire.events(answer, ask.body) if note.stream else wire.whole(answer)
        if broken is not None and broken.error is not None and note.stream:
            said = f"event: error\ndata: {json.dumps(broken.error)}\n\n"
            body, cut = chain(islice(body, broken.after), [said]), None
        return Outcome(200, body, reply.delay, cut)

    def _answer(self, wire: Wire, ask: Ask, note: Exchange, reply: Reply, hit: Hit) -> Answer:
        """The reply with ids for its calls and a signature for its thinking, both remembered."""
        signature = sign_reply(ask, reply.thinking) if reply.thinking and wire.signs else ""
        with self._lock:
            number = self._answered
            self._answered += 1
            calls = tuple(
                call if call.id else replace(call, id=f"{wire.call_prefix}{number}_{i}")
                for i, call in enumerate(reply.tool_calls)
            )
            mark = signature if wire.signs else reply.thinking
            for call in calls:
                self._issued.setdefault(str(call.id), set()).add(mark)
        reply = replace(reply, tool_calls=calls)
        if self._charges is not None:
            hit = Hit(self._charges(hit.input), 0, 0)
        return Answer(number, note.model, reply, signature, hit, output_tokens(reply))

    def _refuse(
        self, note: Exchange, body: dict[str, Any] | str, *, status: int = 400, **what: Any
    ) -> Outcome:
        detail = body.get("error") if isinstance(body, dict) else None
        text = detail.get("message", detail) if isinstance(detail, dict) else body
        self._log(replace(note, status=status, error=str(text), **what))
        return Outcome(status, body)

    def _log(self, exchange: Exchange) -> None:
        with self._lock:
            self.requests.append(exchange)
