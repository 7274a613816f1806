"""The CPU device: byte arrays as buffers, kernels compiled once and run in order."""

from __future__ import annotations

import contextvars
import gc
import itertools
import sys
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from operator import attrgetter
from typing import Any, TypeVar

import numpy as np
from webgpu_torch_core.backend.collection import Growth, without_collection
from webgpu_torch_core.backend.interface import Copy, Device, Launch, OutOfMemoryError, Plan
from webgpu_torch_core.bounded import Bounded
from webgpu_torch_core.ir.dtypes import dtype
from webgpu_torch_core.record.runs import Run, picker
from webgpu_torch_core.record.tape import Value

from . import random, threads
from .at_once import Whole, whole
from .compiler import may_have_written, source_of
from .jit.adaptive import Adaptive, compiled, description
from .kept import files
from .pool import Memory, Pool, whole_of
from .printer import TYPES

#: a kernel and what picks its operands, outputs and parameters; or None, the source and the target of a copy and its bytes
Entry = tuple[Any, Any, Any, Any]
Result = TypeVar("Result")
_array_of = attrgetter("array")
_empty, _SMALLEST = np.empty, Pool.SMALLEST


class Buffer:
    """A run of bytes.

    Attributes:
        array: the bytes, as elements of any type.
        counted: what the device counts it by while it lives: for small ones who refers to it is counted, which takes no time.
    """

    __slots__ = ("array", "counted")


class PooledBuffer(Buffer):
    """A run of bytes that goes back to the device's pool."""

    __slots__ = ()

    def __del__(self, references: Any = sys.getrefcount, owner: Any = Memory) -> None:
        # (These are bound here because at the interpreter's end this module's names are gone before the last tensors.)
        device = self.counted
        device.allocated -= self.array.nbytes
        device.buffers -= 1
        # Two references are this buffer's, or the array's to its memory, and the call's: no NumPy view of the user's shares it.
        if type(self.array.base) is owner and references(self.array) == 2 and references(self.array.base) == 2:
            device.pool.give(self.array)


class Small:
    """What some small buffers are.

    Attributes:
        nbytes, kind: how many bytes each has, and the type of its array's elements.
        mark: what all of them refer to, and nothing else.
    """

    __slots__ = ("kind", "mark", "nbytes")

    def __init__(self, nbytes: int, kind: np.dtype) -> None:
        self.nbytes = nbytes
        self.kind = kind
        self.mark = object()

    def references(self) -> int:
        """Return how many references there are to the mark."""
        return sys.getrefcount(self.mark)

    def hold(self, array: np.ndarray) -> Buffer:
        """Return a buffer of an array."""
        buffer = Buffer()
        buffer.array, buffer.counted = array, self.mark
        return buffer

    def typed(self, buffer: Buffer) -> None:
        """Let a buffer, if it is small, have an array of the type from now on."""
        if type(buffer) is Buffer and buffer.array.nbytes == self.nbytes:
            buffer.array, buffer.counted = buffer.array.view(self.kind), self.mark


_BYTE = np.dtype(np.uint8)
_UNUSED = Small(0, _BYTE).references()


class CpuDevice(Device):
    """NumPy on the host."""

    name = "cpu"
    algorithms = frozenset({"bincount", "fourier", "histogram", "nonzero", "order_statistic", "unique"})
    # NumPy binds nothing, but a kernel over very many arrays neither stays in cache nor is quick to schedule.
    maximum_bindings = 32
    runs_single = launches = True
    plan_files = files

    def __init__(self) -> None:
        # Of buffers that go back to the pool; small ones are counted when somebody asks.
        self.allocated = 0
        self.buffers = 0
        self.pool = Pool()
        self._growth = Growth()
        self._small: dict[tuple[int, np.dtype], Small] = {}
        self._compiled: Bounded[Any, Callable[..., None]] = Bounded(2048)

    def allocate(self, nbytes: int) -> Buffer:
        try:
            return self._buffer(self.pool.take(nbytes))
        except MemoryError:
            # What nobody needs has memory, too.
            gc.collect()
            self.pool.clear()
        try:
            return self._buffer(self.pool.take(nbytes))
        except MemoryError as error:
            raise OutOfMemoryError(
                f"cpu: cannot allocate {nbytes} bytes; tensors already hold {self.memory_allocated()} bytes"
            ) from error

    def _buffer(self, array: np.ndarray) -> Buffer:
        """Return a buffer of an array, which nobody else has if its memory is the pool's."""
        nbytes = array.nbytes
        if nbytes < _SMALLEST:
            return self._small_of(nbytes, array.dtype).hold(array)
        buffer = PooledBuffer()
        buffer.array, buffer.counted = array, self
        self.allocated += nbytes
        self.buffers += 1
        if self.allocated >= self._growth.next:
            self._growth.collect(lambda: self.allocated)
        return buffer

    def _small_of(self, nbytes: int, kind: np.dtype = _BYTE) -> Small:
        """Return what buffers of fewer bytes than the pool keeps are."""
        found = self._small.get((nbytes, kind))
        return self._small.setdefault((nbytes, kind), Small(nbytes, kind)) if found is None else found

    def allocate_all(self, sizes: Sequence[int]) -> list[Buffer]:
        return [
            self._small_of(nbytes).hold(_empty(nbytes, _BYTE)) if nbytes < _SMALLEST else self.allocate(nbytes)
            for nbytes in sizes
        ]

    def write(self, buffer: Buffer, data: memoryview) -> None:
        _bytes(buffer.array)[: len(data)] = np.frombuffer(data, np.uint8)

    def read(self, buffer: Buffer, nbytes: int) -> bytearray:
        array = buffer.array
        return bytearray(array if array.nbytes == nbytes else _bytes(array)[:nbytes])

    def wrap_host(self, memory: memoryview) -> Buffer:
        """Return a buffer that shares the host's memory."""
        whole = whole_of(memory.obj)
        if whole is not None and whole.nbytes == memory.nbytes:
            # What was drawn into it goes back to the pool when nobody needs it any more.
            return self._buffer(whole)
        return self._buffer(np.frombuffer(memory, np.uint8))

    def as_array(self, buffer: Buffer, kind: dtype, count: int) -> Any:
        """Return a buffer's elements as an array that shares its memory."""
        return _bytes(buffer.array)[: count * kind.itemsize].view(TYPES[kind.name])

    def run(self, plan: Plan, externals: Sequence[Any], parameters: Sequence[float | int]) -> None:
        self.advance(Run(plan, externals, parameters))

    def run_timed(
        self,
        plan: Plan,
        externals: Sequence[Any],
        parameters: Sequence[float | int],
        report: Callable[[str, float, str], None],
    ) -> None:
        self.advance_timed(Run(plan, externals, parameters), report)

    def advance(self, run: Run) -> None:
        self._run(run, run.plan.prepared or self._prepared(run.plan))

    def run_single(self, plan: Plan, externals: Sequence[object], parameters: Sequence[float | int]) -> None:
        ((function, operands, outputs, numbers),) = plan.prepared or self._prepared(plan)
        arrays = list(map(_array_of, externals))
        run = _quietly if not _BY_CONTEXT or _is_quiet.get() else _quiet.enter
        run(function, operands(arrays), outputs(arrays), numbers(parameters))

    def single(self, plan: Plan, sizes: Sequence[int]) -> Launch | None:
        ((function, operands, *_),) = plan.prepared or self._prepared(plan)
        step, last = plan.steps[0], plan.externals - 1
        # One new output, and the parameters as they come.
        if isinstance(step, Copy) or (step.outputs, len(sizes)) != ((last,), 1) or last in step.operands:
            return super().single(plan, sizes)
        if step.parameters != (*range(len(step.parameters)),) or sizes[0] >= _SMALLEST:
            return super().single(plan, sizes)
        (size,) = sizes
        settles = isinstance(function, Adaptive)
        in_order, hold = step.operands == (*range(last),), self._small_of(size).hold

        def launch(values: Sequence[Value], parameters: Sequence[float | int]) -> list[object]:
            # What a program does that reads each of a few numbers: each call counts.
            nonlocal function, settles
            if settles and function.settled is not None:
                function, settles = function.settled, False
            array = _empty(size, _BYTE)
            if len(values) == 2:
                # Without the call that a comprehension is.
                one, other = values
                arrays: Sequence[object] = (one.buffer.array, other.buffer.array)
            else:
                arrays = [value.buffer.array for value in values]
            run = _quietly if not _BY_CONTEXT or _is_quiet.get() else _quiet.enter
            run(function, arrays if in_order else operands(arrays), (array,), parameters)
            return [hold(array)]

        found = whole(step.kernel)
        return (
            launch if found is None or not in_order or (settles and found.steps > 1) else self._launching(found, launch)
        )

    def _launching(self, found: Whole, otherwise: Launch) -> Launch:
        """Return what calls a kernel's function of whole arrays."""
        function, numbered, enter = found.function, not isinstance(found.function, np.ufunc), _short
        # Whether operands are as long as they are recorded, and of the types that the function takes, their marks say.
        of_one, *_, of_other, small = itertools.starmap(
            self._small_of, (*found.operands, *found.operands, found.output)
        )

        def launch_one(values: Sequence[Value], parameters: Sequence[float | int]) -> list[object]:
            (value,) = values
            buffer = value.buffer
            if buffer.counted is not of_one.mark:
                of_one.typed(buffer)
                if buffer.counted is not of_one.mark:
                    return otherwise(values, parameters)
            # As :meth:`Small.hold`, without a call.
            held = Buffer()
            held.array, held.counted = enter(function, buffer.array, parameters), small.mark
            return [held]

        def launch_two(values: Sequence[Value], parameters: Sequence[float | int]) -> list[object]:
            one, other = values
            first, second = one.buffer, other.buffer
            if first.counted is not of_one.mark or second.counted is not of_other.mark:
                of_one.typed(first)
                of_other.typed(second)
                if first.counted is not of_one.mark or second.counted is not of_other.mark:
                    return otherwise(values, parameters)
            left, right = first.array, second.array
            held = Buffer()
            held.array = enter(function, left, right, parameters) if numbered else enter(function, left, right)
            held.counted = small.mark
            return [held]

        return launch_one if len(found.operands) == 1 else launch_two

    def advance_timed(self, run: Run, report: Callable[[str, float, str], None]) -> None:
        entries = [
            (None if function is None else _timed(function, step, report), *rest)
            for (function, *rest), step in zip(self._prepared(run.plan), run.plan.steps, strict=True)
        ]
        self._run(run, entries)

    def temporaries(self, run: Run) -> list[Buffer]:
        return list(map(self._buffer, run.table[len(run.externals) :]))

    def _run(self, run: Run, entries: Sequence[Entry]) -> None:
        table, sizes = run.table, run.plan.temporaries
        if table is None:
            table = run.table = [*map(_array_of, run.externals), *map(self.pool.take, sizes)]
        _quietly(_run_entries, run, entries)
        if run.finished:
            if sizes:
                for array in table[-len(sizes) :]:
                    self.pool.give(array)
            # What nobody else refers to any more goes to the pool when its buffer does, unless the table still has the array.
            table.clear()

    def _prepared(self, plan: Plan) -> Any:
        if plan.prepared is None:
            plan.prepared = without_collection(lambda: [self._prepare(step) for step in plan.steps])
        return plan.prepared

    def _prepare(self, step: Any) -> tuple[Any, Any, Any, Any]:
        if isinstance(step, Copy):
            return None, step.source, step.target, step.nbytes
        return self._function(step.kernel), picker(step.operands), picker(step.outputs), picker(step.parameters)

    def _function(self, kernel: Any) -> Callable[..., None]:
        found = self._compiled.get(kernel)
        if found is None:
            found = self._compiled[kernel] = compiled(kernel)
        return found

    def algorithm(self, name: str, operands: Sequence[Any], options: dict[str, Any]) -> list[Any]:
        from .algorithms import ALGORITHMS
        from .algorithms.linalg import diverged

        arrays = []
        for buffer, kind, shape in operands:
            # Complex numbers lie in memory as NumPy has them.
            of = kind.name if kind.is_complex else TYPES[kind.name]
            array = np.ndarray(shape, of, _bytes(buffer.array))
            # It may be a user's tensor itself.
            array.flags.writeable = False
            arrays.append(array)
        try:
            return list(_quietly(partial(ALGORITHMS[name], **options) if options else ALGORITHMS[name], *arrays))
        except np.linalg.LinAlgError as error:
            from webgpu_torch_core.operations.linalg.common import LinAlgError

            raise LinAlgError(diverged(name, arrays[0], error)) from error

    def use_threads(self, count: int) -> None:
        threads.use_threads(count)

    def synchronize(self) -> None:
        """Return at once: every run is finished when it returns."""

    def draw(self, kind: str, stream: Any, count: int, element: dtype, first: Any, second: Any) -> Any:
        return random.draw(kind, stream, count, element, first, second, self.pool)

    def source(self, kernel: Any) -> str:
        return source_of(kernel)

    def description(self) -> dict[str, str]:
        import platform

        return {"adapter": platform.processor() or platform.machine(), "numpy": np.__version__, "jit": description()}

    def memory_allocated(self) -> int:
        return self.allocated + sum(each.nbytes * (each.references() - _UNUSED) for each in list(self._small.values()))

    def memory_reserved(self) -> int:
        return self.memory_allocated() + self.pool.nbytes

    def empty_cache(self) -> None:
        self.pool.clear()

    def live_buffers(self) -> int:
        return self.buffers + sum(each.references() - _UNUSED for each in list(self._small.values()))


def _bytes(array: np.ndarray) -> np.ndarray:
    """Return the bytes of a buffer's array."""
    return array if array.dtype is _BYTE else array.view(_BYTE)


class _Quiet(threading.local):
    """Enters a context of the thread where NumPy warns of nothing: quicker than to turn that off and on again."""

    def __init__(self) -> None:
        context = contextvars.copy_context()
        context.run(np.seterr, all="ignore")
        context.run(_is_quiet.set, True)
        self.enter = context.run


#: from version 2 on NumPy keeps for each context, not for each thread, what it warns of
_BY_CONTEXT = int(np.__version__.partition(".")[0]) >= 2
_is_quiet = contextvars.ContextVar("_is_quiet", default=False)
_quiet = _Quiet()


def _quietly(function: Callable[..., Result], *arguments: object) -> Result:
    """Call a function without NumPy's warnings."""
    if _is_quiet.get():
        # Whatever runs inside, such as a finaliser that reads a tensor, cannot enter again.
        return function(*arguments)
    if _BY_CONTEXT:
        return _quiet.enter(function, *arguments)
    with np.errstate(all="ignore"):
        return function(*arguments)


#: the same for what takes less time than to look for the thread's own: while another thread is there, it raises an exception
_short = _Quiet().enter if _BY_CONTEXT else _quietly


def _run_entries(run: Run, entries: Sequence[Entry]) -> None:
    """Run what is left of a plan's steps."""
    arrays, parameters = run.table, run.parameters
    try:
        for number in run.remaining():
            function, operands, outputs, numbers = entries[number]
            if function is None:
                _bytes(arrays[outputs])[:numbers] = _bytes(arrays[operands])[:numbers]
            else:
                function(operands(arrays), outputs(arrays), numbers(parameters))
    except Exception as error:
        run.begun = run.begun and may_have_written(error)
        raise


def _timed(function: Callable[..., None], step: Any, report: Callable[[str, float, str], None]) -> Callable[..., None]:
    """Return a kernel that reports how long it took."""

    def kernel(operands: list[Any], outputs: list[Any], numbers: list[Any]) -> None:
        start = time.perf_counter()
        function(operands, outputs, numbers)
        report(step.kernel.name, time.perf_counter() - start, "host")

    return kernel
