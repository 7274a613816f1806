"""Timing a statement until the time can be trusted."""

from __future__ import annotations

import ast
import enum
import statistics
import textwrap
import timeit
from collections.abc import Callable
from typing import Any, NoReturn

from webgpu_torch_core.record.devices import flush, synchronize

from . import common

#: what a statement's globals call the handing over
HAND_OVER = "_webgpu_torch_hand_over"
#: names of the values that its expressions leave
KEPT = "_webgpu_torch_value_"
MOST_RUNS = 2147483647


def timer() -> float:
    """Return the time in seconds, after everything recorded has run on every device that is open."""
    synchronize()
    return timeit.default_timer()


class Language(enum.Enum):
    """What statements are written in; only Python can be measured here."""

    PYTHON = 0
    CPP = 1


def _computed(stmt: str) -> str:
    """Return a statement that also hands its work to the device.

    Nothing computes a value that nobody holds: what an expression returns is kept until it has been handed over.
    """
    try:
        tree = ast.parse(stmt)
    except SyntaxError:
        # Reported by timeit, whose message names the statement.
        return stmt
    for number, node in enumerate(tree.body):
        if isinstance(node, ast.Expr):
            name = ast.Name(f"{KEPT}{number}", ast.Store())
            tree.body[number] = ast.copy_location(ast.Assign([name], node.value), node)
    hand_over = ast.parse(f"{HAND_OVER}()").body
    return ast.unparse(ast.fix_missing_locations(ast.Module([*tree.body, *hand_over], [])))


def _tidied(text: str) -> str:
    """Return a statement written over several lines without the indentation around it."""
    return textwrap.dedent(text).removeprefix("\n").rstrip()


class Timer:
    """Measures how long a statement takes on the devices it uses.

    Unlike with ``timeit.Timer``, a time contains the work of the devices: each execution hands what it recorded to its
    device (so that executions do not fuse into one kernel, and results that the next one replaces are computed
    nevertheless), and the clock waits for all devices before and after each block of executions.

    Args:
        stmt: the statement; the values of its expressions are computed, too.
        setup: runs once before each block.
        global_setup: for C++ only.
        timer: the clock.
        globals: names for the statement; ``torch`` is there anyway.
        label, sub_label, description: what :class:`Compare` makes tables, rows and columns of.
        env: tells measurements of the same statement apart.
        num_threads: what :func:`torch.get_num_threads` returns meanwhile.
        language: Python.

    Raises:
        ValueError: a statement that is no text, another language, or ``global_setup``.
        NotImplementedError: C++.
    """

    _timer_cls: Any = timeit.Timer

    def __init__(
        self,
        stmt: str = "pass",
        setup: str = "pass",
        global_setup: str = "",
        timer: Callable[[], float] = timer,
        globals: dict[str, Any] | None = None,
        label: str | None = None,
        sub_label: str | None = None,
        description: str | None = None,
        env: str | None = None,
        num_threads: int = 1,
        language: Language | str = Language.PYTHON,
    ) -> None:
        if not isinstance(stmt, str):
            raise ValueError("Currently only a `str` stmt is supported.")
        if language in (Language.CPP, "cpp", "c++"):
            raise NotImplementedError("C++ statements need PyTorch's C++ library; webgpu-torch measures Python only")
        if language not in (Language.PYTHON, "py", "python"):
            raise ValueError(f"Invalid language `{language}`.")
        if global_setup:
            raise ValueError(
                f"global_setup is C++ only, got `{global_setup}`. Most likely this code can simply be moved to `setup`."
            )
        import webgpu_torch

        self._globals = {"torch": webgpu_torch, **(globals or {})}
        stmt, setup = _tidied(stmt), _tidied(setup)
        names = {**self._globals, HAND_OVER: flush}
        self._timer = self._timer_cls(stmt=_computed(stmt), setup=setup, timer=timer, globals=names)
        self._task_spec = common.TaskSpec(stmt, setup, global_setup, label, sub_label, description, env, num_threads)

    def _timeit(self, number: int) -> float:
        return max(self._timer.timeit(number), 1e-9)

    def _measurement(self, number: int, times: list[float]) -> common.Measurement:
        return common.Measurement(number_per_run=number, raw_times=times, task_spec=self._task_spec)

    def timeit(self, number: int = 1000000) -> common.Measurement:
        """Return the time of one block of so many executions, after a hundredth as many to warm up."""
        with common.set_torch_threads(self._task_spec.num_threads):
            self._timeit(max(int(number // 100), 2))
            return self._measurement(number, [self._timeit(number)])

    def repeat(self, repeat: int = -1, number: int = -1) -> NoReturn:
        """Refuse: :meth:`blocked_autorange` repeats."""
        raise NotImplementedError("See `Timer.blocked_autorange.`")

    def autorange(self, callback: Callable[[int, float], Any] | None = None) -> NoReturn:
        """Refuse: :meth:`blocked_autorange` finds the number."""
        raise NotImplementedError("See `Timer.blocked_autorange.`")

    def _block_size(self, shortest: float) -> int:
        """Return how many executions make the clock's own time negligible: less than 0.01 %, in a thousandth of the time."""
        with common.set_torch_threads(self._task_spec.num_threads):
            clock = statistics.median_low([self._timeit(0) for _ in range(5)])
            number = 1
            while True:
                taken = self._timeit(number)
                if (clock / taken <= 1e-4 and taken >= shortest / 1000) or taken > shortest or number * 10 > MOST_RUNS:
                    return number
                number *= 10

    def _measure(
        self,
        number: int,
        enough: Callable[[list[float]], bool],
        shortest: float,
        longest: float | None,
        callback: Callable[[int, float], Any] | None,
    ) -> common.Measurement:
        times: list[float] = []
        with common.set_torch_threads(self._task_spec.num_threads):
            while sum(times) < shortest or not enough(times):
                times.append(self._timeit(number))
                if callback is not None:
                    callback(number, times[-1])
                if longest and sum(times) > longest:
                    break
        return self._measurement(number, times)

    def blocked_autorange(
        self, callback: Callable[[int, float], Any] | None = None, min_run_time: float = 0.2
    ) -> common.Measurement:
        """Return times of blocks that are long enough for the clock, as many as fill a time.

        Args:
            callback: called with the executions and the seconds of each block.
            min_run_time: seconds to fill.
        """
        return self._measure(self._block_size(min_run_time), bool, min_run_time, None, callback)

    def adaptive_autorange(
        self,
        threshold: float = 0.1,
        *,
        min_run_time: float = 0.01,
        max_run_time: float = 10.0,
        callback: Callable[[int, float], Any] | None = None,
    ) -> common.Measurement:
        """Return times of blocks, as many as it takes until they agree.

        Args:
            threshold: interquartile range by median from which they do.
            min_run_time: seconds to fill at least.
            max_run_time: seconds to fill at most.
            callback: called with the executions and the seconds of each block.
        """
        number = self._block_size(0.05)

        def agree(times: list[float]) -> bool:
            return len(times) > 3 and self._measurement(number, times).meets_confidence(threshold)

        return self._measure(number, agree, min_run_time, max_run_time, callback)

    def collect_callgrind(self, number: int = 100, **_: Any) -> NoReturn:
        """Refuse: counting instructions needs PyTorch's hooks for Valgrind."""
        raise NotImplementedError("Timer.collect_callgrind is not part of webgpu-torch")
