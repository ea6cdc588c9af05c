"""HTTP/1.1 on the loopback: keep-alive, parallel connections, server-sent events, cuts on demand."""

import json
import socket
import socketserver
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Protocol

PURPOSE_HEADER = "x-headwater-purpose"


class Sendable(Protocol):
    """What a request is answered with; see `provider.Outcome`."""

    @property
    def status(self) -> int: ...
    @property
    def body(self) -> "dict[str, Any] | str | Iterator[str]": ...
    @property
    def delay(self) -> float: ...
    @property
    def cut(self) -> int | None: ...


Get = Callable[[str], Sendable]
Post = Callable[[str, bytes, str], Sendable]


class LocalServer(ThreadingHTTPServer):
    """A server on 127.0.0.1 at a free port. `get(path)` and `post(path, body, purpose)` give the answers.

    What they raise is kept in `failures`; the client sees its connection cut.
    """

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, get: Get, post: Post) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.get = get
        self.post = post
        self.failures: list[BaseException] = []
        self.closing: threading.Event = threading.Event()
        self.url: str = f"http://127.0.0.1:{self.server_address[1]}"
        self._live: dict[Any, threading.Thread] = {}
        self._loop = threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True)

    def server_bind(self) -> None:
        """Bind without looking the host's name up, which can hang without a network."""
        socketserver.TCPServer.server_bind(self)

    def start(self) -> None:
        """Answer from now on, on a thread of its own."""
        self._loop.start()

    def close(self) -> None:
        """Stop, end waiting answers and open connections, and join every thread."""
        self.closing.set()
        if self._loop.is_alive():
            self.shutdown()
            self._loop.join(5)
        for connection, thread in list(self._live.items()):
            _shut(connection)
            thread.join(5)
        self.server_close()

    def process_request(self, request: Any, client_address: Any) -> None:
        """One thread a connection, remembered so that closing can end it."""
        thread = threading.Thread(
            target=self.process_request_thread, args=(request, client_address), daemon=True
        )
        self._live[request] = thread
        thread.start()

    def shutdown_request(self, request: Any) -> None:
        """Forget a connection that has ended."""
        self._live.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Keep what a script raised; a client that hung up is no failure."""
        error = _current_error()
        if error is not None and not isinstance(error, (ConnectionError, TimeoutError)):
            self.failures.append(error)


def _current_error() -> BaseException | None:
    import sys

    return sys.exc_info()[1]


def _shut(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        # The peer was faster.
        return


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Headers and body leave in two writes; Nagle would hold the second back for 40 ms.
    disable_nagle_algorithm = True
    wbufsize = -1
    server: LocalServer

    def do_GET(self) -> None:
        self._send(self.server.get(self.path.partition("?")[0]))

    def do_POST(self) -> None:
        length = self.headers.get("Content-Length")
        if length is None:
            self.send_error(411)
            return
        raw = self.rfile.read(int(length))
        purpose = self.headers.get(PURPOSE_HEADER, "")
        self._send(self.server.post(self.path.partition("?")[0], raw, purpose))

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        """Silent: exchanges are the log."""

    def _send(self, answer: Sendable) -> None:
        if answer.delay:
            self.server.closing.wait(answer.delay)
        if answer.cut == 0:
            self._hang_up()
        elif isinstance(answer.body, (dict, str)):
            self._send_whole(answer.status, answer.body, half=answer.cut is not None)
        else:
            self._send_events(answer.body, answer.cut)

    def _send_whole(self, status: int, body: dict[str, Any] | str, *, half: bool) -> None:
        data = (body if isinstance(body, str) else json.dumps(body)).encode("utf-8", "surrogatepass")
        self.send_response(status)
        self.send_header("Content-Type", "text/plain" if isinstance(body, str) else "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data[: len(data) // 2] if half else data)
        self.wfile.flush()
        if half:
            self._hang_up()

    def _send_events(self, events: Iterator[str], cut: int | None) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for number, event in enumerate(events):
            if number == cut:
                self._hang_up()
                return
            data = event.encode("utf-8", "surrogatepass")
            self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))
            self.wfile.flush()
        self.wfile.write(b"0\r\n\r\n")
        self.wfile.flush()

    def _hang_up(self) -> None:
        self.wfile.flush()
        self.close_connection = True
        _shut(self.connection)
