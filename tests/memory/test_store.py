"""The store is closed while other threads read it: they get an error or an answer, and no process dies."""

import subprocess
import sys
from pathlib import Path

_PROGRAM = """
import sqlite3, sys, threading
from pathlib import Path
from headwater.memory.database import StorageError
from headwater.memory.store import OwnStore

own = OwnStore(Path(sys.argv[1]))
for n in range(400):
    own.open().put(("t",), str(n), {"n": n})
over = threading.Event()

def read():
    while not over.is_set():
        try:
            own.open().search(("t",), limit=400)
        except (StorageError, sqlite3.Error):
            pass

threads = [threading.Thread(target=read) for _ in range(2)]
for thread in threads:
    thread.start()
for _ in range(600):
    own.close()
over.set()
for thread in threads:
    thread.join()
print(len(own.open().search(("t",), limit=1000)))
own.close()
"""


def test_closing_the_store_under_a_reader_kills_no_process(tmp_path: Path) -> None:
    # In a process of its own: what it guards against is the end of one, by a signal.
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, str(tmp_path)], capture_output=True, text=True, timeout=300
    )
    assert (done.returncode, done.stdout.strip()) == (0, "400"), done.stderr[-2_000:]
