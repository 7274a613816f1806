"""Kernels that NumPy runs until there is machine code for them."""

from __future__ import annotations

import atexit
import logging
import math
import os
import queue
import struct
import threading
import time
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from importlib.metadata import version
from typing import TYPE_CHECKING, Protocol

from numpy import empty, uint8
from webgpu_torch_core.api.kernel_switches import get_num_threads
from webgpu_torch_core.ir.dtypes import dtype
from webgpu_torch_core.ir.expression import Number, topological
from webgpu_torch_core.ir.kernels import Contraction, Kernel

from .. import config
from ..compiler import compile_kernel
from .contractions import Split, split
from .forms import pieces
from .loops import Piece
from .machine import Function, is_installed, machine
from .steps import Unsupported

if TYPE_CHECKING:
    from numpy import ndarray

    Arrays = Sequence[ndarray]

logger = logging.getLogger(__name__)

#: seconds that NumPy spends on a kernel before its file is looked for, and before it is compiled. Printing a kernel takes one
#: or two milliseconds of Python's, compiling it some 30 beside Python: what NumPy does quicker is not worth either.
LOOKED_FOR_AFTER, COMPILED_AFTER = 0.002, 0.02
#: calls of machine code after which it goes on only if the quickest was quicker than NumPy's: the library that sines and powers come
#: from has no vectors of numbers, and NumPy has
TRIALS = 4
#: elements times steps from which on a kernel's range is shared among threads: waking one takes some 20 microseconds
SHARED_WORK = 1 << 18

#: ``run(operands, outputs, parameters)`` over arrays of bytes and numbers
Runs = Callable[["Arrays", "Arrays", Sequence[Number]], None]


class Native:
    """A kernel as machine code."""

    def __init__(self, kernel: Kernel, parts: list[tuple[Piece, Function]]) -> None:
        self.parts = [
            (function, piece.size, struct.pack(f"{len(piece.numbers)}q", *piece.numbers)) for piece, function in parts
        ]
        self.pointers = struct.Struct("P" * (len(kernel.operands) + len(kernel.outputs))).pack
        self.pack = struct.Struct("".join("d" if each.category == 2 else "q" for each in kernel.parameters)).pack
        self.kinds: tuple[dtype, ...] = kernel.parameters
        steps = len(topological(*kernel.expressions()))
        self.shared = kernel.elements() * steps >= SHARED_WORK

    def __call__(self, operands: Arrays, outputs: Arrays, parameters: Sequence[Number]) -> None:
        arrays = self.pointers(*map(id, (*operands, *outputs)))
        values = self.pack(*map(_word, parameters, self.kinds)) if self.kinds else b""
        threads = get_num_threads() if self.shared else 1
        for function, size, numbers in self.parts:
            if threads > 1 and size > 1:
                _share(function, size, threads, (arrays, numbers, values))
            else:
                function(0, size, arrays, numbers, values)


class WithProduct:
    """A product by NumPy, and what becomes of it as machine code."""

    def __init__(self, parts: Split, epilogue: Runs) -> None:
        self.product = compile_kernel(parts.product)
        self.epilogue = epilogue
        (result,) = parts.product.outputs
        self.nbytes = 0 if parts.in_place else result.numel * result.dtype.itemsize

    def __call__(self, operands: Arrays, outputs: Arrays, parameters: Sequence[Number]) -> None:
        target = empty(self.nbytes, uint8) if self.nbytes else outputs[0]
        self.product(operands, [target], parameters)
        self.epilogue([*operands, target], outputs, parameters)


def _word(value: Number, of: dtype) -> Number:
    """Return a number as one of 64 bits: integers that do not fit wrap."""
    if of.category == 2:
        return float(value)
    return ((int(value) + (1 << 63)) & ((1 << 64) - 1)) - (1 << 63)


class Advancing(Protocol):
    """What becomes machine code on the compiler's thread."""

    name: str

    def advance(self, compiles: bool) -> None:
        """Take machine code if there is some, or if it is to be made."""


class Adaptive:
    """A kernel that is compiled when it has turned out to be worth it."""

    def __init__(self, kernel: Kernel, waits: bool) -> None:
        self.kernel = kernel
        self.name = kernel.name
        self.numpy: Runs | None = None
        self.native: Runs | None = None
        self.spent = 0.0
        #: how long NumPy may run until something is done about it; None: nothing will be
        self.limit: float | None = LOOKED_FOR_AFTER
        #: the least that NumPy and machine code took for it, and how often the latter is still to be tried
        self.numpys, self.natives, self.trials = math.inf, math.inf, TRIALS
        #: what runs it from now on, None as long as that may change
        self.settled: Runs | None = None
        if waits:
            self.limit, self.trials = None, 0
            self.advance(True)

    def __call__(self, operands: Arrays, outputs: Arrays, parameters: Sequence[Number]) -> None:
        native = self.native
        if native is not None:
            if self.trials > 0:
                self._try(native, operands, outputs, parameters)
            else:
                native(operands, outputs, parameters)
            return
        if self.numpy is None:
            self.numpy = compile_kernel(self.kernel)
        # The compiler's thread may say in between that there will be no machine code.
        limit = self.limit
        if limit is None:
            self.numpy(operands, outputs, parameters)
            return
        start = time.perf_counter()
        self.numpy(operands, outputs, parameters)
        seconds = time.perf_counter() - start
        self.spent += seconds
        self.numpys = min(self.numpys, seconds)
        if self.spent > limit:
            compiles = self.spent > COMPILED_AFTER
            self.limit = None if compiles or _Process.forked else COMPILED_AFTER
            if not _Process.forked:
                _compiler().waiting.put((self, compiles))

    def _try(self, native: Runs, operands: Arrays, outputs: Arrays, parameters: Sequence[Number]) -> None:
        """Run machine code and, after the last trial, go back to NumPy for good if that was quicker."""
        start = time.perf_counter()
        native(operands, outputs, parameters)
        self.natives = min(self.natives, time.perf_counter() - start)
        self.trials -= 1
        slower = self.natives > self.numpys
        if self.trials == 0:
            self.settled = self.numpy if slower else native
        if self.trials == 0 and slower:
            self.limit = self.native = None
            counts.native -= 1
            counts.slower += 1
            logger.debug(
                "%s stays with NumPy: %.3g ms, and %.3g compiled",
                self.kernel.name,
                self.numpys * 1e3,
                self.natives * 1e3,
            )

    def advance(self, compiles: bool) -> None:
        """Take machine code if there is some, or if it is to be made."""
        try:
            self.native = native(self.kernel, compiles)
        except Unsupported as error:
            self.limit, self.settled = None, self.numpy
            counts.unsupported += 1
            logger.debug("%s stays with NumPy: %s", self.kernel.name, error)


class _Process:
    #: whether this process is the child of one whose compiler may have been at work
    forked = False


class Counts:
    """How many kernels of this process run as machine code, how many cannot, and how many NumPy runs quicker."""

    def __init__(self) -> None:
        self.native = self.unsupported = self.slower = 0


counts = Counts()


def native(kernel: Kernel, compiles: bool = True) -> Runs | None:
    """Return a kernel as machine code, None where that has not been compiled and is not to be.

    Raises:
        Unsupported: there is none for this kernel.
    """
    if _Process.forked:
        raise Unsupported("a child process, whose parent's compiler may have been at work")
    compiler = machine()
    if compiler is None:
        raise Unsupported("llvmlite does not work here")
    if isinstance(kernel, Contraction) and (parts := split(kernel)):
        epilogue = native(parts.epilogue, compiles)
        return None if epilogue is None else WithProduct(parts, epilogue)
    functions = []
    for piece in pieces(kernel):
        function = compiler.function(piece.text, compiles)
        if function is None:
            return None
        functions.append((piece, function))
    counts.native += 1
    return Native(kernel, functions)


class _Compiler:
    """The thread that compiles; one kernel at a time, so that a core is left to the program."""

    def __init__(self) -> None:
        self.waiting: queue.SimpleQueue[tuple[Advancing, bool] | None] = queue.SimpleQueue()
        self.ends = False
        self.thread = threading.Thread(target=self._work, name="webgpu-torch compiler", daemon=True)
        self.thread.start()
        # LLVM must not be at work while the process takes it down.
        atexit.register(self.end)

    def _work(self) -> None:
        while (asked := self.waiting.get()) is not None and not self.ends:
            kernel, compiles = asked
            try:
                kernel.advance(compiles)
            except Exception:
                logger.exception("compiling %s failed; NumPy goes on running it", kernel.name)

    def end(self) -> None:
        """Finish the kernel that is being compiled, and no other."""
        self.ends = True
        self.waiting.put(None)
        self.thread.join()


@lru_cache(maxsize=1)
def _compiler() -> _Compiler:
    return _Compiler()


def compile_later(program: Advancing) -> None:
    """Have something compiled beside the program."""
    _compiler().waiting.put((program, True))


def is_child() -> bool:
    """Return whether this process was forked from one whose compiler may have been at work."""
    return _Process.forked


class _Helper:
    """A thread that runs a part of a kernel's range."""

    def __init__(self) -> None:
        self.work: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        threading.Thread(target=self._run, name="webgpu-torch kernels", daemon=True).start()

    def _run(self) -> None:
        while True:
            self.work.get()()


_helpers: list[_Helper] = []


def _share(function: Function, size: int, threads: int, arguments: tuple[bytes, bytes, bytes]) -> None:
    """Run a range in as many parts as there are threads, and wait for all."""
    count = min(threads, size)
    ends = [size * number // count for number in range(count + 1)]
    while len(_helpers) < count - 1:
        _helpers.append(_Helper())
    done: queue.SimpleQueue[None] = queue.SimpleQueue()

    def part(number: int) -> None:
        try:
            function(ends[number], ends[number + 1], *arguments)
        finally:
            done.put(None)

    for number in range(1, count):
        _helpers[number - 1].work.put(partial(part, number))
    part(0)
    for _ in range(count):
        done.get()


def _forked() -> None:
    """Forget the threads, which the child does not have; what is compiled already goes on, nothing else is compiled."""
    _helpers.clear()
    _compiler.cache_clear()
    _Process.forked = True


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


def compiled(kernel: Kernel) -> Runs:
    """Return a kernel's function: NumPy's alone, or one that becomes machine code."""
    mode = config.JIT.text("1")
    return Adaptive(kernel, mode == "wait") if mode != "0" and is_installed() else compile_kernel(kernel)


def description() -> str:
    """Return whether kernels become machine code here, in words."""
    if config.JIT.text("1") == "0":
        return f"off ({config.JIT.name}=0)"
    if not is_installed():
        return "off (pip install 'webgpu-torch-backend-cpu[jit]')"
    threads = get_num_threads()
    found = f"llvmlite {version('llvmlite')}, {threads} thread{'s' if threads > 1 else ''}"
    left = counts.unsupported + counts.slower
    if counts.native or left:
        found += f", {counts.native} kernels compiled, {left} left to NumPy"
    return found
