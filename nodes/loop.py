"""One event loop beside the caller's, in which synchronous callers run what must be possible to cancel.

A thread that waits for a model cannot be stopped; a task can. All share one loop, because the clients of
models keep connections that belong to the loop they were made in.
"""

import asyncio
import contextvars
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")
GRACE = 5.0
"""Seconds that a cancelled task gets to end before it is left behind."""
_WORKERS = 256

_lock = threading.Lock()
_running: tuple[int, asyncio.AbstractEventLoop] | None = None


def start(
    make: Callable[[], Coroutine[Any, Any, T]], context: contextvars.Context | None = None
) -> "Future[T]":
    """Start a coroutine in the loop; cancelling the future cancels its task."""
    loop = _loop()
    future: Future[T] = Future()

    def begin() -> None:
        if not future.set_running_or_notify_cancel():
            return
        task = loop.create_task(make(), context=context)
        _tasks[future] = task
        task.add_done_callback(lambda done: _finish(done, future))

    loop.call_soon_threadsafe(begin)
    return future


def cancel(future: "Future[Any]") -> None:
    """Ask a started coroutine to end."""
    if not future.cancel():
        _loop().call_soon_threadsafe(lambda: (task := _tasks.get(future)) and task.cancel())


def run(make: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine in the loop with the caller's context and wait for it.

    What interrupts the waiting (a keyboard interrupt) cancels it first.
    """
    future = start(make, contextvars.copy_context())
    try:
        return future.result()
    finally:
        if not future.done():
            cancel(future)


async def bounded(
    work: Coroutine[Any, Any, T], seconds: float, context: contextvars.Context | None = None
) -> "asyncio.Task[T]":
    """Run a coroutine for at most so long; the task, cancelled where it was not done in time.

    One that does not heed its cancellation is left behind after `GRACE` seconds, so that nobody waits for
    it. When the caller is cancelled, so is the work.
    """
    task = asyncio.get_running_loop().create_task(work, context=context)
    try:
        await asyncio.wait({task}, timeout=max(0.0, seconds) if seconds < 1e9 else None)
    finally:
        if not task.done():
            task.cancel()
            await asyncio.wait({task}, timeout=GRACE)
    return task


_tasks: "dict[Future[Any], asyncio.Task[Any]]" = {}


def _finish(task: "asyncio.Task[Any]", future: "Future[Any]") -> None:
    _tasks.pop(future, None)
    if task.cancelled():
        future.set_exception(asyncio.CancelledError())
    elif (error := task.exception()) is not None:
        future.set_exception(error)
    else:
        future.set_result(task.result())


def _loop() -> asyncio.AbstractEventLoop:
    global _running
    with _lock:
        # A process that was forked has the variable, but not the thread.
        if _running is None or _running[0] != os.getpid() or _running[1].is_closed():
            loop = asyncio.new_event_loop()
            # Synchronous tools of many children at once; one that hangs must not starve the others.
            loop.set_default_executor(ThreadPoolExecutor(_WORKERS, thread_name_prefix="headwater-child"))
            threading.Thread(target=loop.run_forever, name="headwater-children", daemon=True).start()
            _running = (os.getpid(), loop)
        return _running[1]
