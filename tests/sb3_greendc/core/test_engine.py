"""Tasks give the same results in every engine; failures are told, and nothing is left running."""

from __future__ import annotations

import gc
import os
import signal
import socket
import subprocess
import sys
import time
import traceback
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import engine_tasks
import pytest
import torch as th
from programs import run_python

from sb3_greendc.core import engine
from sb3_greendc.core.engine import DIED, DIED_AGAIN, TaskError, map_tasks

needs_ray = pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed")
RAY = pytest.param("ray", marks=[pytest.mark.default_row, needs_ray])
EVERY_ENGINE = pytest.mark.parametrize("engine", ["serial", "process", RAY])

PROGRAM_THAT_LISTS_IMPORTS = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
import engine_tasks
from sb3_greendc.core import engine
print(engine.map_tasks(engine_tasks.imported, [*engine.LIBRARIES], "process", jobs=1))
"""


@EVERY_ENGINE
def test_results_are_those_of_a_loop_in_the_order_of_the_tasks(engine: str) -> None:
    seen: dict[int, float] = {}
    results = map_tasks(engine_tasks.draw, [3, 1, 2, 0], engine, jobs=2, on_result=seen.__setitem__)
    assert results == [engine_tasks.draw(seed) for seed in (3, 1, 2, 0)]
    assert seen == dict(enumerate(results))


@pytest.mark.parametrize("engine", ["serial", "process"])
def test_tasks_have_the_same_number_of_torch_threads_everywhere(engine: str) -> None:
    before = th.get_num_threads()
    assert map_tasks(engine_tasks.torch_threads, [0], engine, threads=3) == [3]
    assert th.get_num_threads() == before


@pytest.mark.parametrize("engine", ["serial", "process"])
def test_tasks_find_the_folder_and_the_variables_of_the_moment(
    engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the server that forks workers was started in another folder, with other variables."""
    monkeypatch.setenv("ENGINE_TEST", "before")
    for value in ("first", "second", None):
        folder = tmp_path / str(value)
        folder.mkdir()
        monkeypatch.chdir(folder)
        monkeypatch.syspath_prepend(folder)
        monkeypatch.setenv("ENGINE_TEST", value) if value else monkeypatch.delenv("ENGINE_TEST")
        found = map_tasks(engine_tasks.surroundings, ["ENGINE_TEST"], engine, jobs=1)
        assert found == [(value, str(folder), str(folder))]


def test_on_other_systems_workers_start_by_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sb3_greendc.core.engine.sys.platform", "darwin")
    assert map_tasks(engine_tasks.imported, ["torch._dynamo"], "process", jobs=1) == [False]


@pytest.mark.skipif(sys.platform != "linux", reason="workers are forks of a server on Linux alone")
def test_workers_have_the_large_libraries_from_the_beginning() -> None:
    """In a process of its own: another test may have started this one's server, which imports nothing."""
    done = run_python("-c", PROGRAM_THAT_LISTS_IMPORTS)
    assert done.stdout == "[True, True, True]\n", done.stderr


@pytest.mark.parametrize("engine", ["serial", "process"])
def test_failed_task_is_named_with_its_traceback(engine: str) -> None:
    with pytest.raises(TaskError, match=r"task 1 \(5\): LookupError: '?5 is odd") as caught:
        map_tasks(engine_tasks.refuse_odd, [4, 5, 6], engine, jobs=1)
    assert caught.value.index == 1
    assert caught.value.task == 5
    assert "in refuse_odd" in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize("engine", ["serial", "process"])
def test_what_long_tasks_leave_in_circles_is_freed(engine: str, tmp_path: Path) -> None:
    try:
        assert map_tasks(engine_tasks.leave_circle, [tmp_path / "gone"] * 2, engine, jobs=1) == [False, True]
    finally:
        gc.enable()


def test_a_task_that_ends_its_worker_twice_is_an_error_and_not_a_wait_without_end() -> None:
    once_more = pytest.warns(RuntimeWarning, match=r"task 0.*is run once more")
    with once_more, pytest.raises(TaskError, match=r"task 0.*died twice"):
        map_tasks(engine_tasks.die, [0], "process")


def test_a_task_whose_worker_is_killed_once_has_its_result(tmp_path: Path) -> None:
    with pytest.warns(RuntimeWarning, match=r"task 0.*is run once more"):
        assert map_tasks(engine_tasks.die_at_first, [tmp_path / "a"], "process") == [7]


def test_a_task_that_ends_its_worker_ends_no_other_where_lost_ones_are_taken_note_of(tmp_path: Path) -> None:
    """As the kernel does when memory is short: the task is run once more, alone."""
    told: list[tuple[int, str, bool]] = []

    def lose(index: int, error: TaskError, given_up: bool) -> None:
        assert error.task == tasks[index]
        told.append((index, error.reason, given_up))

    tasks = [tmp_path / name for name in ("once", "never", "always", "never again")]
    results = map_tasks(engine_tasks.live_or_die, tasks, "process", 2, on_lost=lose)
    assert results == ["once, alone: True", "never", "never again"]
    assert told == [(0, DIED, False), (2, DIED, False), (2, DIED_AGAIN, True)]
    assert [len(task.read_text().splitlines()) for task in tasks] == [2, 1, 2, 1]


def test_what_is_run_once_more_may_be_another_task(tmp_path: Path) -> None:
    again = engine_tasks.named
    [said] = map_tasks(
        engine_tasks.die_unless_again, [tmp_path / "a"], "process", again=again, on_lost=lambda *_: None
    )
    assert said == "again"


@pytest.mark.parametrize("engine", ["process", RAY])
def test_what_waited_for_a_task_begins_when_that_is_done_and_not_when_all_others_are(
    engine: str, tmp_path: Path
) -> None:
    done = set[int]()
    tasks = [tmp_path / name for name in ("long", "early", "late")]

    def ready(task: Path) -> Path | None:
        return task if task.name != "late" or 1 in done else None

    results = map_tasks(
        engine_tasks.meet, tasks, engine, 2, on_result=lambda index, _: done.add(index), ready=ready
    )
    assert results == ["long, met late", "early", "late"]


@pytest.mark.parametrize("engine", ["serial", "process"])
def test_what_waits_for_what_does_not_come_is_not_run(engine: str, tmp_path: Path) -> None:
    tasks = [tmp_path / name for name in ("never", "other")]
    results = map_tasks(
        engine_tasks.meet, tasks, engine, 1, ready=lambda task: task if task.name == "other" else None
    )
    assert results == ["other"]
    assert not tasks[0].exists()


def test_what_waited_for_a_task_that_was_run_once_more_is_run(tmp_path: Path) -> None:
    done = set[int]()
    tasks = [tmp_path / name for name in ("once", "after")]

    def ready(task: Path) -> Path | None:
        return task if task.name == "once" or done else None

    (tmp_path / "alive").touch()  # which the one that dies would wait for
    told: list[bool] = []
    results = map_tasks(
        engine_tasks.live_or_die,
        tasks,
        "process",
        2,
        on_result=lambda index, _: done.add(index),
        on_lost=lambda index, error, given_up: told.append(given_up),
        ready=ready,
    )
    assert (len(results), told) == (2, [False])


@pytest.fixture
def ray_with_one_worker() -> Iterator[None]:
    """Start Ray once for several calls: each would take seconds to."""
    import ray

    engine._connect(ray, 1, None)
    yield
    ray.shutdown()


@needs_ray
@pytest.mark.default_row
def test_a_killed_ray_worker_is_replaced(
    ray_with_one_worker: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its task is run once more, as `again` says; one that kills every worker is given up."""
    monkeypatch.setattr(engine, "MAX_LOST", 1)  # a worker takes seconds to start
    tasks = [tmp_path / "a", tmp_path / "b"]
    assert map_tasks(engine_tasks.die_at_first, tasks, "ray", jobs=1) == [7, 7]
    again = engine_tasks.named
    assert map_tasks(engine_tasks.die_unless_again, tasks[:1], "ray", jobs=1, again=again) == ["again"]
    with pytest.raises(TaskError, match="task 0"):
        map_tasks(engine_tasks.die, [0], "ray", jobs=1)
    told: list[bool] = []
    assert map_tasks(engine_tasks.die, [0], "ray", 1, on_lost=lambda *lost: told.append(lost[2])) == []
    assert told == [False, True]


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGKILL])
def test_workers_end_with_their_caller(sent: signal.Signals, tmp_path: Path) -> None:
    program = f"""
import signal
from pathlib import Path
import engine_tasks
from sb3_greendc.core.engine import map_tasks
if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # or tests in the background ignore it
    map_tasks(engine_tasks.tick, [Path({str(tmp_path)!r})] * 2, "process", 2)
"""
    script = tmp_path / "program.py"
    script.write_text(program)
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
    caller = subprocess.Popen([sys.executable, str(script)], env=environment, stderr=subprocess.DEVNULL)
    workers = _wait_for_workers(tmp_path, 2)
    caller.send_signal(sent)
    assert caller.wait(60) != 0
    deadline = time.monotonic() + 60
    while any(_is_running(pid) for pid in workers):
        assert time.monotonic() < deadline, "workers outlived their caller"
        time.sleep(0.05)


def test_options_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match=r"engine='proces'.*did you mean 'process'"):
        map_tasks(engine_tasks.draw, [0], "proces")
    with pytest.raises(ValueError, match="jobs=0"):
        map_tasks(engine_tasks.draw, [0], jobs=0)
    with pytest.raises(ValueError, match="ray_address"):
        map_tasks(engine_tasks.draw, [0], ray_address="auto")


def test_missing_ray_gives_the_pip_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ImportError, match="pip install ray"):
        map_tasks(engine_tasks.draw, [0], "ray")


@needs_ray
@pytest.mark.default_row
@pytest.mark.parametrize("address", ["nowhere", "127.0.0.1:{port}"])
def test_address_without_a_cluster_is_an_error(address: str) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(ConnectionError, match="ray_address"):
        map_tasks(engine_tasks.draw, [0], "ray", ray_address=address.format(port=port))


def _wait_for_workers(folder: Path, number: int) -> list[int]:
    deadline = time.monotonic() + 60
    while len(found := [int(path.name) for path in folder.iterdir() if path.name.isdigit()]) < number:
        assert time.monotonic() < deadline, "no workers"
        time.sleep(0.05)
    return found


def _is_running(pid: int) -> bool:
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return status.rpartition(")")[2].split()[0] != "Z"
