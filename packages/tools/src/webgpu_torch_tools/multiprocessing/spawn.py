"""Starting several processes that run one function, as ``torch.multiprocessing.spawn``."""

from __future__ import annotations

import ctypes
import multiprocessing
import multiprocessing.connection
import os
import pickle
import shutil
import signal
import sys
import tempfile
import time
import traceback
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from webgpu_torch_core.notices import warn

PARENT_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of Linux's prctl
#: seconds that a process has to end when it is asked to, before it is made to
PATIENCE = 30.0
#: PyTorch's switch for starting processes at the same time; here they always start one after the other
ENV_VAR_PARALLEL_START = "TORCH_MP_PARALLEL_START"


class ProcessException(Exception):
    """A process failed.

    Attributes:
        error_index: which one.
        error_pid: its number at the system.
    """

    def __init__(self, msg: str, error_index: int, error_pid: int) -> None:
        super().__init__(msg)
        self.msg, self.error_index, self.error_pid = msg, error_index, error_pid

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.msg, self.error_index, self.error_pid)


class ProcessRaisedException(ProcessException):
    """A process raised an exception; the message has its traceback."""


class ProcessExitedException(ProcessException):
    """A process ended by a signal or with an exit code other than 0."""

    def __init__(
        self, msg: str, error_index: int, error_pid: int, exit_code: int, signal_name: str | None = None
    ) -> None:
        super().__init__(msg, error_index, error_pid)
        self.exit_code, self.signal_name = exit_code, signal_name

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.msg, self.error_index, self.error_pid, self.exit_code, self.signal_name)


def _end_with_parent() -> None:
    """Have Linux interrupt this process when its parent ends; other systems have nothing like it."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PARENT_DEATH_SIGNAL, int(signal.SIGINT))


def _wrap(fn: Callable[..., Any], i: int, args: Sequence[Any], error_file: str) -> None:
    """Run in the new process: call the function, and leave the traceback of an error in a file."""
    _end_with_parent()
    try:
        fn(i, *args)
    except KeyboardInterrupt:
        # The parent ended it or ended itself.
        pass
    except Exception:
        with open(error_file, "wb") as file:
            pickle.dump(traceback.format_exc(), file)
        sys.exit(1)


class ProcessContext:
    """Processes that were started together."""

    def __init__(self, processes: Sequence[Any], error_files: Sequence[str]) -> None:
        self.processes, self.error_files = processes, error_files
        self.sentinels = {process.sentinel: index for index, process in enumerate(processes)}

    def pids(self) -> list[int]:
        """Return the processes' numbers at the system."""
        return [int(process.pid) for process in self.processes]

    def join(self, timeout: float | None = None, grace_period: float | None = None) -> bool:
        """Wait until a process has ended; if it failed, end the others and raise.

        Args:
            timeout: seconds to wait; without end by default.
            grace_period: seconds that the others have to end by themselves when one failed.

        Returns:
            Whether all have ended; False if there are more to wait for.

        Raises:
            ProcessRaisedException: the function raised.
            ProcessExitedException: a process ended otherwise, by a signal for instance.
        """
        if not self.sentinels:
            return True
        for sentinel in multiprocessing.connection.wait(list(self.sentinels), timeout=timeout):
            index = self.sentinels.pop(sentinel)  # type: ignore[arg-type]
            self.processes[index].join()
            if self.processes[index].exitcode != 0:
                self._end_all(grace_period)
                self._raise(index)
        return not self.sentinels

    def _join_for(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        for process in self.processes:
            process.join(max(0.0, end - time.monotonic()))

    def _end_all(self, grace_period: float | None) -> None:
        if grace_period is not None:
            self._join_for(grace_period)
        for process in self.processes:
            if process.is_alive():
                process.terminate()
        self._join_for(PATIENCE if grace_period is None else grace_period)
        for process in self.processes:
            if process.is_alive():
                process.kill()
            process.join()

    def _raise(self, index: int) -> None:
        process = self.processes[index]
        path = self.error_files[index]
        if os.path.exists(path):
            with open(path, "rb") as file:
                trace = pickle.load(file)
            message = f"\n\n-- Process {index:d} terminated with the following error:\n{trace}"
            raise ProcessRaisedException(message, index, process.pid)
        code = process.exitcode
        if code >= 0:
            raise ProcessExitedException(
                f"process {index:d} terminated with exit code {code:d}", index, process.pid, code
            )
        try:
            name = signal.Signals(-code).name
        except ValueError:
            name = f"<Unknown signal {-code}>"
        raise ProcessExitedException(f"process {index:d} terminated with signal {name}", index, process.pid, code, name)


class SpawnContext(ProcessContext):
    """The older name of :class:`ProcessContext`."""

    def __init__(self, processes: Sequence[Any], error_files: Sequence[str]) -> None:
        warn("SpawnContext is renamed to ProcessContext since 1.4 release.")
        super().__init__(processes, error_files)


def start_processes(
    fn: Callable[..., Any],
    args: Sequence[Any] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:
    """Start processes that run ``fn(i, *args)``, in any way that Python has.

    Args:
        fn: the function, found by name in a module so that it can be sent.
        args: its arguments after the number of the process.
        nprocs: how many processes.
        join: wait for all of them.
        daemon: end them with this process.
        start_method: ``"spawn"``, ``"fork"`` or ``"forkserver"``; a forked process cannot use its parent's GPU.

    Returns:
        None, or without ``join`` the :class:`ProcessContext`.

    Raises:
        ProcessException: one of them failed; the others are ended.
    """
    context = multiprocessing.get_context(start_method)
    # Which of the files exist afterwards tells who raised.
    folder = tempfile.mkdtemp(prefix="webgpu-torch-errors-")
    files = [os.path.join(folder, f"{index}.pickle") for index in range(nprocs)]
    processes = []
    for index, path in enumerate(files):
        process = context.Process(target=_wrap, args=(fn, index, args, path), daemon=daemon)  # type: ignore[attr-defined]
        process.start()
        processes.append(process)
    started = ProcessContext(processes, files)
    weakref.finalize(started, shutil.rmtree, folder, ignore_errors=True)
    if not join:
        return started
    while not started.join():
        pass
    return None


def spawn(
    fn: Callable[..., Any],
    args: Sequence[Any] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:
    """Start processes that run ``fn(i, *args)``, each a new Python.

    Arguments, results and errors are those of ``start_processes``, which also starts them otherwise; here another
    ``start_method`` is ignored with a warning.
    """
    if start_method != "spawn":
        warn(
            f"This method only supports start_method=spawn (got: {start_method}).\n"
            "To use a different start_method use:\n\t\t torch.multiprocessing.start_processes(...)",
            FutureWarning,
        )
    return start_processes(fn, args, nprocs, join, daemon, start_method="spawn")
