"""Recorded commands that run on a thread of their own, by a small library (native/encoder.cpp) that some wheels bring.

Encoding a dispatch and handing it to the driver takes several microseconds, about as long as recording an operation does: with the
library both are done at once. Without it the thread that records does both.
"""

from __future__ import annotations

import os
import sys
import weakref
from array import array
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .declarations import interface, opened
from .interface import DISPATCH, WORDS, GpuError

if TYPE_CHECKING:
    from .header import HeaderGpu
    from .reports import Reports

_NAME = "libencoder.dylib" if sys.platform == "darwin" else "libencoder.so"
#: the functions of webgpu.h that it calls, in the order of its ``Library``
_CALLED = (
    "DeviceCreateCommandEncoder", "CommandEncoderBeginComputePass", "ComputePassEncoderSetPipeline",
    "ComputePassEncoderSetBindGroup", "ComputePassEncoderDispatchWorkgroups", "ComputePassEncoderEnd",
    "ComputePassEncoderRelease", "CommandEncoderCopyBufferToBuffer", "CommandEncoderFinish", "CommandEncoderRelease",
    "CommandBufferRelease", "QueueSubmit", "QueueWriteBuffer", "BufferDestroy", "QueueOnSubmittedWorkDone", "InstanceWaitAny",
    "BufferMapAsync", "BufferGetConstMappedRange", "BufferUnmap",
)  # fmt: skip
_DECLARATIONS = """
typedef struct { uint64_t kind; uintptr_t first, second; uint64_t numbers[3]; } Command;
uint64_t encoder_table();
void *encoder_new(uintptr_t const *library, uint64_t spinning, uint64_t asking, uint64_t in_flight);
void encoder_free(void *);
void *encoder_place();
void encoder_forget(void *place);
void encoder_arrive(void *, void *place, uintptr_t pipeline);
int encoder_expect(void *, Command const *, size_t);
void encoder_play(void *, uintptr_t encoder, Command const *, size_t, uintptr_t description);
uintptr_t encoder_encode(void *, Command const *, size_t, Command const *, size_t);
int encoder_fetch(void *, uintptr_t commands, uintptr_t buffer, uint8_t *, size_t, uint64_t polling);
uint64_t encoder_run(void *, Command const *, size_t);
void *encoder_answer();
void encoder_forget_answer(void *);
uint64_t encoder_ask(void *, Command const *, size_t, Command const *, size_t, void *answer, uintptr_t buffer, size_t);
int encoder_take(void *, void *answer, uint64_t, uint8_t *, uint64_t polling);
uint64_t encoder_write(void *, uintptr_t buffer, uint64_t offset, uint8_t const *, size_t);
uint64_t encoder_destroy(void *, uintptr_t buffer);
void encoder_wait(void *, uint64_t);
uint64_t encoder_done(void *);
void encoder_collect(void *, uint64_t);
int encoder_refuse(void *);
"""
_PROCESSORS = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
#: nanoseconds that a thread looks for what it waits for before it sleeps, where there are processors to spare
_SPINNING = 100_000 if _PROCESSORS >= 8 else 0
#: kinds of commands that are no dispatch of a pipeline that is there
_COPY, _EARLY_DISPATCH = 1, 2
#: bytes up to which what is written is copied, instead of waiting for what was handed over before
WRITTEN = 1 << 16


def library() -> Path | None:
    """Return the file of the encoder's library; None where this installation has none."""
    found = Path(__file__).parent / _NAME
    return found if found.is_file() else None


class Arriving:
    """A pipeline that another thread compiles: what is recorded with it is encoded when it is there.

    Attributes:
        place: where the encoder's thread finds it.
        native: the pipeline, once it is there.
        error: why it is not going to be.
    """

    __slots__ = ("error", "native", "place")

    def __init__(self, place: object) -> None:
        self.place = place
        self.native: object = None
        self.error: GpuError | None = None

    @property
    def arrived(self) -> bool:
        """Whether the pipeline is there."""
        return self.native is not None


class Commands:
    """Recorded commands as the encoder's thread takes them, the objects that they use, and pipelines that were not there yet."""

    __slots__ = ("arriving", "count", "data", "objects")

    def __init__(self, data: object, count: int, objects: list[object], arriving: list[Arriving]) -> None:
        self.data = data
        self.count = count
        self.objects = objects
        self.arriving = arriving


class Encoder:
    """A thread that encodes and submits.

    Args:
        gpu: the device, whose library must be callable from several threads.
        instance: the library's object that is asked what is done.
        asking: after how many submits each that is asked for.
        in_flight: how many answers may be open.
        spins: whether threads look for work for a while before they sleep.
        path: the encoder's library.
    """

    def __init__(self, gpu: HeaderGpu, instance: object, asking: int, in_flight: int, spins: bool, path: Path) -> None:
        own: Any = interface(_DECLARATIONS)
        self._ffi, self._of = own, gpu.ffi
        self._lib: Any = opened(own, str(path))
        functions = [gpu.ffi.addressof(gpu.lib, f"wgpu{each}") for each in _CALLED]
        called = *functions, instance, gpu.device, gpu.queue
        if not hasattr(self._lib, "encoder_table") or self._lib.encoder_table() != len(called):
            raise RuntimeError(
                f"{path} was compiled of other sources: hatch_build.py of this package compiles it again"
            )
        table = own.new("uintptr_t[]", [self._address(each) for each in called])
        self._thread = self._lib.encoder_new(table, _SPINNING * spins, asking, in_flight)
        gpu.reports.is_beside = self._refuses
        # Before the device goes; not at the interpreter's end, when nobody may give the thread what it waits for.
        weakref.finalize(gpu, _free, self._lib, self._thread, os.getpid(), gpu.reports).atexit = False
        #: the last job that was handed over
        self.given = 0
        # What jobs use that may not be done: the oldest first.
        self._used: deque[tuple[int, object]] = deque()

    def _address(self, pointer: object) -> int:
        return int(self._of.cast("uintptr_t", pointer))

    def prepare(self, words: Sequence[int], objects: Mapping[int, object]) -> Commands:
        """Return commands in the form that :meth:`run` takes."""
        address, last = self._address, 0
        # As many numbers as a command of the library has, and in its order.
        data, used, arriving = array("Q"), [], []
        for at in range(0, len(words), WORDS):
            kind, first, second, *numbers = words[at : at + WORDS]
            if kind == DISPATCH:
                pipeline, group = objects[first], objects[second]
                # A pipeline that is set already need not be set again.
                if first == last:
                    place = 0
                elif not isinstance(pipeline, Arriving):
                    place = address(pipeline)
                elif pipeline.arrived:
                    place = address(pipeline.native)
                else:
                    kind, place = _EARLY_DISPATCH, int(self._ffi.cast("uintptr_t", pipeline.place))
                    arriving.append(pipeline)
                last = first
                data.extend((kind, place, address(group), *numbers))
                used += (pipeline, group)
            else:
                # Source, where it begins, target, where that begins, bytes.
                target, offset, nbytes = numbers
                source, target = objects[first], objects[target]
                data.extend((_COPY, address(source), address(target), second, offset, nbytes))
                used += (source, target)
                last = 0
        count = len(words) // WORDS
        return Commands(self._ffi.from_buffer("Command[]", data), count, used, arriving)

    def place(self) -> Arriving:
        """Return what stands for a pipeline that is going to be there."""
        return Arriving(self._ffi.gc(self._lib.encoder_place(), self._lib.encoder_forget))

    def arrive(self, arriving: Arriving, made: object) -> None:
        """Let a pipeline be there, or (a GpuError) tell why it is not going to be; by any thread."""
        if isinstance(made, GpuError):
            arriving.error = made
        else:
            arriving.native = made
        self._lib.encoder_arrive(self._thread, arriving.place, 0 if arriving.error else self._address(made))

    def run(self, commands: Commands) -> None:
        """Hand over commands to be encoded and submitted."""
        self.given = self._lib.encoder_run(self._thread, commands.data, commands.count)
        self._use(commands)

    def _use(self, what: object) -> None:
        """Keep what the last job uses until it is done."""
        used = self._used
        used.append((self.given, what))
        if len(used) > 16:
            done = self._lib.encoder_done(self._thread)
            while used and used[0][0] <= done:
                used.popleft()

    def play(self, encoder: object, commands: Commands, description: object) -> None:
        """Encode commands in this thread, when their pipelines are there; passes are of a description."""
        if not self._lib.encoder_expect(self._thread, commands.data, commands.count):
            return
        into, passes = self._address(encoder), self._address(description)
        self._lib.encoder_play(self._thread, into, commands.data, commands.count, passes)

    def encode(self, commands: Commands | None, copies: Sequence[tuple[object, int, object, int, int]]) -> int:
        """Encode in this thread commands, whose pipelines are there, if any, and copies (source, where from, target, where to, bytes).

        Returns:
            What :meth:`fetch` submits; 0 where the library made nothing of it.
        """
        return self._lib.encoder_encode(self._thread, *self.with_copies(commands, copies))

    def with_copies(
        self, commands: Commands | None, copies: Sequence[tuple[object, int, object, int, int]]
    ) -> tuple[object, int, object, int]:
        """Return commands, if any, and copies (as for :meth:`encode`) after them as the library takes them."""
        address, data = self._address, array("Q")
        for source, start, target, offset, nbytes in copies:
            data.extend((_COPY, address(source), address(target), start, offset, nbytes))
        first, count = (self._ffi.NULL, 0) if commands is None else (commands.data, commands.count)
        return first, count, self._ffi.from_buffer("Command[]", data), len(copies)

    def fetch(self, encoded: int, buffer: object, into: bytearray, polling: float) -> bool:
        """Submit what was encoded, once, after all that was handed over, and wait for the first bytes of a mappable buffer.

        ``polling``: so many seconds without sleeping. Returns whether the bytes could be had.
        """
        target = self._ffi.from_buffer("uint8_t[]", into)
        nanoseconds = int(polling * 1e9)
        return bool(
            self._lib.encoder_fetch(self._thread, encoded, self._address(buffer), target, len(into), nanoseconds)
        )

    def answer(self) -> object:
        """Return what holds what was asked for until it is taken."""
        return self._ffi.gc(self._lib.encoder_answer(), self._lib.encoder_forget_answer)

    def asking(
        self,
        commands: Commands | None,
        copies: Sequence[tuple[object, int, object, int, int]],
        answer: object,
        nbytes: int,
    ) -> Callable[[], int]:
        """Return what hands over commands, if any, and copies after them into a mappable buffer, whose first bytes are then asked
        for, and returns the job's number. What was asked for is taken before it is again."""
        handed, hand_over, used = self.with_copies(commands, copies), self._lib.encoder_ask, (commands, copies, answer)
        thread, buffer = self._thread, self._address(copies[0][2])

        def ask() -> int:
            given = self.given = hand_over(thread, *handed, answer, buffer, nbytes)
            self._use(used)
            return given

        return ask

    def take(self, answer: object, job: int, into: bytearray | memoryview, polling: float) -> bool:
        """Wait for what a job asked for, as :meth:`fetch` does."""
        target = self._ffi.from_buffer("uint8_t[]", into)
        return bool(self._lib.encoder_take(self._thread, answer, job, target, int(polling * 1e9)))

    def write(self, buffer: object, offset: int, data: memoryview | bytes) -> None:
        """Hand over bytes, at most :data:`WRITTEN`, to be written to a buffer that lives until then."""
        source = self._ffi.from_buffer("uint8_t[]", data)
        self.given = self._lib.encoder_write(self._thread, self._address(buffer), offset, source, len(source))

    def destroy(self, buffer: object) -> None:
        """Hand over a buffer to be destroyed."""
        self.given = self._lib.encoder_destroy(self._thread, self._address(buffer))
        self._use(buffer)

    def wait(self, job: int | None = None) -> None:
        """Wait until all that was handed over is submitted, or what was up to a job."""
        if job is not None:
            self._lib.encoder_wait(self._thread, job)
        elif self._used or self.given != self._lib.encoder_done(self._thread):
            self._lib.encoder_wait(self._thread, self.given)
            self._used.clear()

    def collect(self, job: int) -> None:
        """Take back what tells that the work up to a job is done, which it is."""
        self._lib.encoder_collect(self._thread, job)

    def _refuses(self) -> bool:
        """Note that the library refused what this thread does, if it is the encoder's; return whether it is."""
        return bool(self._lib.encoder_refuse(self._thread))


def _free(lib: Any, thread: object, process: int, reports: Reports) -> None:
    """End a thread when it has done all that was handed over; in a process that was forked since, there is none."""
    reports.is_beside = None
    if os.getpid() == process:
        lib.encoder_free(thread)
