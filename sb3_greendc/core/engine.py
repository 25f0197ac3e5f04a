"""Independent tasks run one after the other, in a pool of processes, or on a Ray cluster: the same results.

A task is whatever a function takes: a seed, a configuration, a pair of both. Function, tasks and results
must be picklable, and the function must be importable in the workers: a module's function, not a lambda.
Each task computes with the same number of torch threads wherever it runs, since the order of sums, and
so their last bits, depend on it.
"""

from __future__ import annotations

import contextlib
import gc
import multiprocessing
import os
import signal
import socket
import sys
import textwrap
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.context import BaseContext
from types import ModuleType
from typing import Any, Generic, TypeVar

import torch as th

from greendc.config import require, require_one_of
from sb3_greendc.core.commands import import_modules, imported_modules
from sb3_greendc.core.provenance import command, work_for
from sb3_greendc.core.secrets import without_secrets
from sb3_greendc.core.task_queue import TaskQueue

Task = TypeVar("Task")
Result = TypeVar("Result")

ENGINES = ("serial", "process", "ray")
"""In this process; in processes on this machine; on a local or remote Ray cluster."""

LIBRARIES = ("stable_baselines3", "sb3_contrib", "torch._dynamo")
"""What workers need and takes seconds to import; the last one comes with a process's first optimizer."""

MAX_LOST = 3
"""How often a task is run once more whose worker or machine was lost; a task that ends its worker (too little
memory, say) is given up then."""

DIED = "its process died, of too little memory perhaps: it is run once more, alone, when the others are done"
"""Reason of a :class:`TaskError` for ``on_lost``, the first time."""

DIED_AGAIN = "its process died twice, the second time alone: of too little memory, most likely"
"""The second time."""

_LONG_SECONDS = 1.0
"""Tasks that take longer are cleaned up after: a collection takes a tenth of it."""


class TaskError(RuntimeError):
    """A task failed. The message names it and ends with the traceback of the process that it ran in.

    :param index: place of the task in the list
    :param task: the task
    :param reason: the exception's class and message
    :param remote_traceback: traceback as text, empty where the exception itself is chained
    """

    def __init__(self, index: int, task: object, reason: str, remote_traceback: str = "") -> None:
        shown = textwrap.shorten(without_secrets(repr(task)), 160, placeholder="…")
        said = without_secrets(f"{reason}\n{remote_traceback}".rstrip())
        super().__init__(f"task {index} ({shown}): {said}")
        self.index = index
        self.task = task
        self.reason = reason


def map_tasks(
    function: Callable[[Task], Result],
    tasks: Sequence[Task],
    engine: str = "serial",
    jobs: int | None = None,
    ray_address: str | None = None,
    on_result: Callable[[int, Result], None] | None = None,
    threads: int = 1,
    again: Callable[[Task], Task] | None = None,
    on_lost: Callable[[int, TaskError, bool], None] | None = None,
    ready: Callable[[Task], Task | None] | None = None,
) -> list[Result]:
    """Call ``function`` on every task and return the results in the order of the tasks.

    The first task that fails ends the others, as Ctrl-C does; workers never outlive the call, nor a
    caller that is killed. A task whose process dies ends no other. ``"process"`` runs it once more, alone,
    after all others: together they may have needed more memory than there is.

    :param function: picklable; what it returns must depend on the task alone
    :param tasks: picklable
    :param engine: one of :data:`ENGINES`
    :param jobs: tasks that run at once at most; default: the processors of this machine for
        ``"process"``, those of the cluster for ``"ray"``. ``"serial"`` runs one whatever it says.
    :param ray_address: a running cluster (``"auto"``, ``"HOST:PORT"``, ``"ray://HOST:PORT"``), whose
        machines have this package installed; default: one on this machine, for this call
    :param on_result: called in this process with index and result of each task as it ends, in any order
    :param threads: torch threads of each task
    :param again: returns what a task is when it is run once more, as on Ray after its worker or machine was
        lost, up to :data:`MAX_LOST` times; default: the task itself
    :param on_lost: called in this process when the process of a task has died, with its index, the error, and
        whether it is given up: then the list of results lacks it. Default: a warning, and at last the error
    :param ready: returns a task as it can be run, or ``None`` while it has to wait for the results of others;
        one that waits to the end is not run. Default: no task waits
    :raises TaskError: if a task raises, or is given up and there is no ``on_lost``
    :raises ValueError: for an unknown engine, or options that do not fit it
    :raises ImportError: if Ray is asked for and missing
    :raises ConnectionError: if there is no Ray cluster at the address
    """
    _require_options(engine, jobs, ray_address)
    require(threads >= 1, "threads", threads, "1 or more")
    outcomes: Iterator[tuple[int, Result]]
    again, on_lost = again or (lambda task: task), on_lost or _warn
    queue = TaskQueue(tasks, ready or (lambda task: task))
    match engine:
        case "serial":
            outcomes = _run_serial(function, queue, threads)
        case "process":
            outcomes = _run_processes(function, queue, threads, jobs or processors(), again, on_lost)
        case _:
            outcomes = _run_ray(function, queue, threads, jobs, ray_address, again, on_lost)
    results: dict[int, Result] = {}
    with contextlib.closing(outcomes):  # type: ignore[type-var]  # generators; close() ends their workers
        for index, result in outcomes:
            results[index] = result
            if on_result is not None:
                on_result(index, result)
    return [results[index] for index in range(len(tasks)) if index in results]


def require_engine(engine: str, jobs: int | None = None, ray_address: str | None = None) -> None:
    """Check before any work that an engine can be had; see :func:`map_tasks`.

    :param engine: one of :data:`ENGINES`
    :param jobs: tasks that run at once at most
    :param ray_address: of a running Ray cluster
    :raises ValueError: for an unknown engine, or options that do not fit it
    :raises ImportError: if Ray is asked for and missing
    :raises ConnectionError: if nothing answers at the address
    """
    _require_options(engine, jobs, ray_address)
    if engine != "ray":
        return
    _import_ray()
    if ray_address is not None:
        _knock(ray_address)


def _require_options(engine: str, jobs: int | None, ray_address: str | None) -> None:
    require_one_of("engine", engine, ENGINES)
    require(jobs is None or jobs >= 1, "jobs", jobs, "1 or more")
    require(ray_address is None or engine == "ray", "ray_address", ray_address, "left out without Ray")


def _warn(_index: int, error: TaskError, given_up: bool) -> None:
    """Say that the process of a task has died; raise the error if the task is given up."""
    if given_up:
        raise error
    warnings.warn(str(error), RuntimeWarning, stacklevel=2)


def processors() -> int:
    """Return the number of processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@dataclass(frozen=True)
class _Outcome(Generic[Result]):
    """What comes back from a worker: a result, or the reason and the traceback of a failure."""

    result: Result | None = None
    reason: str | None = None
    traceback: str = ""

    def unpack(self, index: int, task: object) -> Result:
        if self.reason is not None:
            raise TaskError(index, task, self.reason, self.traceback)
        return self.result  # type: ignore[return-value]  # a task may return None, too


@dataclass(frozen=True)
class _Caller:
    """What workers know of the process that they work for: how it was started, and its user's modules."""

    command: Sequence[str]
    modules: Sequence[str]

    @classmethod
    def here(cls) -> _Caller:
        """Return what workers of this process know."""
        return cls(tuple(command()), imported_modules())


def _attempt(
    function: Callable[[Task], Result], task: Task, threads: int, caller: _Caller
) -> _Outcome[Result]:
    """Run a task in a worker, which has the user's modules. Exceptions are text: not all can be pickled."""
    th.set_num_threads(threads)
    try:
        work_for(caller.command)
        import_modules(caller.modules)
        return _Outcome(_call(function, task))
    except Exception as error:
        return _Outcome(reason=_reason(error), traceback=traceback.format_exc())


def _call(function: Callable[[Task], Result], task: Task) -> Result:
    """Run a task, and free what it leaves.

    Models and their environments refer to each other. Few objects as they are, Python would let the
    gigabytes of their buffers lie for dozens of tasks.
    """
    started = time.perf_counter()
    try:
        return function(task)
    finally:
        if time.perf_counter() - started > _LONG_SECONDS:
            gc.collect()


def _reason(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


def _run_serial(
    function: Callable[[Task], Result], queue: TaskQueue[Task], threads: int
) -> Iterator[tuple[int, Result]]:
    before = th.get_num_threads()
    th.set_num_threads(threads)
    try:
        while (taken := queue.take()) is not None:
            index, task = taken
            try:
                result = _call(function, task)
            except Exception as error:
                raise TaskError(index, task, _reason(error)) from error
            yield index, result
    finally:
        th.set_num_threads(before)


def _run_processes(
    function: Callable[[Task], Result],
    queue: TaskQueue[Task],
    threads: int,
    jobs: int,
    again: Callable[[Task], Task],
    on_lost: Callable[[int, TaskError, bool], None],
) -> Iterator[tuple[int, Result]]:
    """Run tasks in processes; those that died are run after all that can be, one at a time."""
    died: list[tuple[int, Task]] = []

    def first(index: int, task: Task) -> None:
        on_lost(index, TaskError(index, task, DIED), False)
        died.append((index, again(task)))

    def second(index: int, task: Task) -> None:
        on_lost(index, TaskError(index, task, DIED_AGAIN), True)

    workers = _Workers(function, threads)
    try:
        yield from workers.run(queue.take, jobs, first)
        while died:
            yield from workers.run(lambda: died.pop(0) if died else None, 1, second)
            yield from workers.run(queue.take, jobs, first)
    except BaseException:
        workers.kill()
        raise
    finally:
        workers.close()


class _Workers(Generic[Task, Result]):
    """Processes that start clean: forks of this one would inherit torch's dead threads.

    On Linux they are forks of a server that has imported :data:`LIBRARIES`, and done nothing else. A process
    has one such server: one that runs already, as ``SubprocVecEnv`` starts it, is used as it is, and workers
    import the libraries, as they do on other systems. Each is a pool of its own, since all of a pool's are
    ended as soon as one dies.

    :param function: what they call
    :param threads: torch threads of each
    """

    def __init__(self, function: Callable[[Task], Result], threads: int) -> None:
        self._function, self._threads = function, threads
        self._context = _context()
        self._alive, self._our_end = self._context.Pipe(duplex=False)
        self._free: list[ProcessPoolExecutor] = []
        self._busy: dict[Future[_Outcome[Result]], ProcessPoolExecutor] = {}

    def run(
        self,
        take: Callable[[], tuple[int, Task] | None],
        jobs: int,
        on_death: Callable[[int, Task], None],
    ) -> Iterator[tuple[int, Result]]:
        """Yield index and result of tasks as they end.

        :param take: gives the next task and its index, ``None`` while there is none that can be run
        :param jobs: tasks at once at most
        :param on_death: called with the index of a task whose process has died, and the task
        :raises TaskError: if a task raises, or something cannot be pickled
        """
        running: dict[Future[_Outcome[Result]], tuple[int, Task]] = {}

        def fill() -> None:
            while len(running) < jobs and (taken := take()) is not None:
                running[self._submit(taken[1])] = taken

        fill()
        while running:
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            ended = [(*running.pop(future), future) for future in done]
            for _, _, future in ended:
                self._release(future)
            fill()  # before the results: no process waits for what they take
            for index, task, future in sorted(ended, key=_failed):  # what is finished is kept first
                error = future.exception()
                if isinstance(error, BrokenProcessPool):
                    on_death(index, task)
                elif error is not None:  # what cannot be pickled
                    raise TaskError(index, task, _reason(error)) from error
                else:
                    yield index, future.result().unpack(index, task)
            fill()  # with what waited for them

    def _submit(self, task: Task) -> Future[_Outcome[Result]]:
        """Give a task to a process that has none, or to a new one."""
        while True:
            pool = self._free.pop() if self._free else self._start()
            try:
                future = pool.submit(_attempt, self._function, task, self._threads, _Caller.here())
            except BrokenProcessPool:  # it died between two tasks
                pool.shutdown()
                continue
            self._busy[future] = pool
            return future

    def _start(self) -> ProcessPoolExecutor:
        return ProcessPoolExecutor(1, self._context, _start_worker, (self._alive, dict(os.environ)))

    def _release(self, future: Future[_Outcome[Result]]) -> None:
        """Take note of a task that has ended, with or without its process."""
        pool = self._busy.pop(future)
        if isinstance(future.exception(), BrokenProcessPool):
            pool.shutdown()
        else:
            self._free.append(pool)

    def kill(self) -> None:
        """Let processes leave what they are doing."""
        self._our_end.close()

    def close(self) -> None:
        """End the processes."""
        for pool in (*self._busy.values(), *self._free):
            pool.shutdown(cancel_futures=True)
        self._our_end.close()
        self._alive.close()


def _context() -> BaseContext:
    """Return how workers start on this system."""
    if sys.platform != "linux":
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(LIBRARIES))
    return context


def _failed(ended: tuple[int, object, Future[_Outcome[Result]]]) -> bool:
    _, _, future = ended
    return future.exception() is not None or future.result().reason is not None


def _start_worker(alive: Connection, environment: Mapping[str, str]) -> None:
    """Make a worker end as soon as the other end of ``alive`` is closed, by the pool or by its death.

    Ctrl-C reaches every process of a terminal; what it means is the parent's business alone.

    :param alive: the worker's end of a pipe
    :param environment: the caller's variables; a worker would have those of the time when the server started
    """
    for name in set(os.environ) - set(environment):
        del os.environ[name]
    os.environ.update(environment)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with, args=(alive,), daemon=True).start()


def _end_with(alive: Connection) -> None:
    alive.poll(None)
    os._exit(1)


def _run_ray(
    function: Callable[[Task], Result],
    queue: TaskQueue[Task],
    threads: int,
    jobs: int | None,
    ray_address: str | None,
    again: Callable[[Task], Task],
    on_lost: Callable[[int, TaskError, bool], None],
) -> Iterator[tuple[int, Result]]:
    ray = _import_ray()
    ours = not ray.is_initialized()
    if ours:
        _connect(ray, jobs, ray_address)
    pending: dict[Any, tuple[int, Task]] = {}
    lost: dict[int, int] = {}
    in_flight = jobs or len(queue)
    try:
        attempt = ray.remote(num_cpus=1, max_retries=0)(_attempt)  # a task may change before it is run again
        while True:
            while len(pending) < in_flight and (taken := queue.take()) is not None:
                pending[attempt.remote(function, taken[1], threads, _Caller.here())] = taken
            if not pending:
                break
            for reference in ray.wait(list(pending))[0]:
                index, task = pending.pop(reference)
                try:
                    outcome: _Outcome[Result] = ray.get(reference)
                except ray.exceptions.RayError as error:  # a lost worker or machine
                    lost[index] = lost.get(index, 0) + 1
                    given_up = lost[index] > MAX_LOST
                    on_lost(index, TaskError(index, task, _reason(error)), given_up)
                    if not given_up:
                        queue.put_back(index, again(task))
                    continue
                yield index, outcome.unpack(index, task)
    finally:
        for reference in pending:
            ray.cancel(reference, force=True)
        if ours:
            ray.shutdown()


def _import_ray() -> ModuleType:
    try:
        import ray
        import ray.exceptions
    except ImportError as error:
        raise ImportError("engine 'ray' needs Ray: pip install ray") from error
    module: ModuleType = ray
    return module


def _connect(ray: ModuleType, jobs: int | None, ray_address: str | None) -> None:
    if ray_address is None:
        # Workers look for modules where this process does; those of a cluster have their own installation.
        environment = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        runtime = {"env_vars": environment}
        ray.init(num_cpus=jobs, include_dashboard=False, logging_level="ERROR", runtime_env=runtime)
        return
    _knock(ray_address)  # Ray itself would try for minutes
    try:
        ray.init(address=ray_address, logging_level="ERROR")
    except (OSError, RuntimeError, ValueError) as error:
        raise _no_cluster(ray_address, error) from error


def _knock(ray_address: str) -> None:
    """Raise a :class:`ConnectionError` if nothing answers at an address; ``"auto"`` is Ray's to find."""
    if ray_address == "auto":
        return
    host, separator, port = ray_address.rpartition("//")[2].rpartition(":")
    try:
        if not separator or not port.isdigit():
            raise ValueError("must be auto, HOST:PORT or ray://HOST:PORT")
        socket.create_connection((host, int(port)), timeout=10).close()
    except (OSError, OverflowError, ValueError) as error:
        raise _no_cluster(ray_address, error) from error


def _no_cluster(ray_address: str, error: Exception) -> ConnectionError:
    reason = (str(error).splitlines() or [type(error).__name__])[0]
    return ConnectionError(f"ray_address {ray_address!r}: no Ray cluster there: {reason}")
