"""The thread that encodes and submits: everything once, in order, and nothing that the library refused."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace
from typing import Any

import cffi
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from webgpu_torch_backend_wgpu.gpu import encoder as module
from webgpu_torch_backend_wgpu.gpu.encoder import WRITTEN, Encoder
from webgpu_torch_backend_wgpu.gpu.interface import COPY, DISPATCH, GpuError

#: the functions of webgpu.h that are called, as a stand-in declares them: pointers are numbers
_KINDS = {
    "DeviceCreateCommandEncoder": "uintptr_t(uintptr_t, uintptr_t)",
    "CommandEncoderBeginComputePass": "uintptr_t(uintptr_t, uintptr_t)",
    "ComputePassEncoderSetPipeline": "void(uintptr_t, uintptr_t)",
    "ComputePassEncoderSetBindGroup": "void(uintptr_t, uint32_t, uintptr_t, size_t, uintptr_t)",
    "ComputePassEncoderDispatchWorkgroups": "void(uintptr_t, uint32_t, uint32_t, uint32_t)",
    "ComputePassEncoderEnd": "void(uintptr_t)",
    "ComputePassEncoderRelease": "void(uintptr_t)",
    "CommandEncoderCopyBufferToBuffer": "void(uintptr_t, uintptr_t, uint64_t, uintptr_t, uint64_t, uint64_t)",
    "CommandEncoderFinish": "uintptr_t(uintptr_t, uintptr_t)",
    "CommandEncoderRelease": "void(uintptr_t)",
    "CommandBufferRelease": "void(uintptr_t)",
    "QueueSubmit": "void(uintptr_t, size_t, uintptr_t *)",
    "QueueWriteBuffer": "void(uintptr_t, uintptr_t, uint64_t, uint8_t *, size_t)",
    "BufferDestroy": "void(uintptr_t)",
    "QueueOnSubmittedWorkDone": "Future(uintptr_t, CallbackInfo)",
    "InstanceWaitAny": "int(uintptr_t, size_t, FutureWaitInfo *, uint64_t)",
    "BufferMapAsync": "Future(uintptr_t, uint64_t, size_t, size_t, CallbackInfo)",
    "BufferGetConstMappedRange": "uintptr_t(uintptr_t, size_t, size_t)",
    "BufferUnmap": "void(uintptr_t)",
}
_TYPES = """
typedef struct { char const *data; size_t length; } StringView;
typedef struct { uint64_t id; } Future;
typedef struct { Future future; uint32_t completed; } FutureWaitInfo;
typedef struct { void *next; int mode; void *callback, *first, *second; } CallbackInfo;
"""


class Library:
    """A stand-in for a library of WebGPU, which notes what it is asked for."""

    def __init__(self) -> None:
        self.ffi = cffi.FFI()
        self.ffi.cdef(_TYPES)
        #: what was submitted: commands of each submit; or the buffer, the offset and the bytes of a write
        self.submitted: list[Any] = []
        #: what each thread encodes, and what was finished and may be submitted
        self._encoded = threading.local()
        self.finished: dict[int, list[Any]] = {}
        self.threads: set[int] = set()
        self.futures: list[int] = []
        self.waited: list[int] = []
        self.gate = threading.Event()
        self.gate.set()
        self.refuses: Any = None
        self.error: Any = None
        #: what a mappable buffer holds, how asking for it ends, and what tells that
        self.memory = self.ffi.new("uint8_t[]", bytes(range(200)))
        self.map_status = 1
        self.mapping: Any = None
        self.polls = 0
        self.functions = {name: self.ffi.callback(kind, getattr(self, f"on_{name}")) for name, kind in _KINDS.items()}

    @property
    def encoded(self) -> list[Any]:
        """What this thread encoded last."""
        return self._encoded.list

    @encoded.setter
    def encoded(self, given: list[Any]) -> None:
        self._encoded.list = given

    def addressof(self, _library: object, name: str) -> Any:
        return self.functions[name.removeprefix("wgpu")]

    def cast(self, kind: str, pointer: Any) -> Any:
        return self.ffi.cast(kind, pointer)

    def on_DeviceCreateCommandEncoder(self, _device: int, _descriptor: int) -> int:
        self.gate.wait()
        self.threads.add(threading.get_ident())
        self.encoded = []
        return 1

    def on_CommandEncoderBeginComputePass(self, _encoder: int, _descriptor: int) -> int:
        self.encoded.append("pass")
        return 2

    def on_ComputePassEncoderSetPipeline(self, _one: int, pipeline: int) -> None:
        self.encoded.append(("pipeline", pipeline))

    def on_ComputePassEncoderSetBindGroup(self, _one: int, index: int, group: int, count: int, _offsets: int) -> None:
        assert (index, count) == (0, 0)
        self.encoded.append(("group", group))

    def on_ComputePassEncoderDispatchWorkgroups(self, _one: int, *workgroups: int) -> None:
        self.encoded.append(("dispatch", *workgroups))
        if self.refuses is not None and self.refuses(workgroups):
            assert self.error()

    def on_ComputePassEncoderEnd(self, _one: int) -> None:
        self.encoded.append("end")

    def on_ComputePassEncoderRelease(self, _one: int) -> None: ...

    def on_CommandEncoderCopyBufferToBuffer(self, _encoder: int, *what: int) -> None:
        self.encoded.append(("copy", *what))

    def on_CommandEncoderFinish(self, _encoder: int, _descriptor: int) -> int:
        made = 3 + len(self.finished)
        self.finished[made] = self.encoded
        return made

    def on_CommandEncoderRelease(self, _encoder: int) -> None: ...

    def on_CommandBufferRelease(self, _commands: int) -> None: ...

    def on_QueueSubmit(self, _queue: int, count: int, commands: Any) -> None:
        assert count == 1
        self.submitted.append(self.finished[commands[0]])

    def on_QueueWriteBuffer(self, _queue: int, buffer: int, offset: int, data: Any, size: int) -> None:
        self.gate.wait()
        self.submitted.append((buffer, offset, bytes(self.ffi.buffer(data, size))))

    def on_BufferDestroy(self, buffer: int) -> None:
        self.submitted.append(buffer)

    def on_QueueOnSubmittedWorkDone(self, _queue: int, _information: Any) -> Any:
        self.futures.append(len(self.futures) + 1)
        return self.ffi.new("Future *", [self.futures[-1]])[0]

    def on_InstanceWaitAny(self, _instance: int, count: int, information: Any, timeout: int) -> int:
        assert count == 1
        if self.mapping is not None:
            self.polls += 1
            # It is there when it was asked for a few times, or waited for.
            if timeout or self.polls == 3:
                callback, first = self.mapping
                self.mapping, information[0].completed = None, 1
                callback(self.map_status, (self.ffi.NULL, 0), first, self.ffi.NULL)
            return 0
        self.waited.append(information[0].future.id)
        return 0

    def on_BufferMapAsync(self, buffer: int, mode: int, start: int, size: int, info: Any) -> Any:
        assert (buffer, mode, start, size % 4) == (900, 1, 0, 0)
        kind = "void(*)(int, StringView, void *, void *)"
        self.mapping, self.polls = (self.ffi.cast(kind, info.callback), info.first), 0
        self.submitted.append(("map", size))
        return self.ffi.new("Future *", [77])[0]

    def on_BufferGetConstMappedRange(self, _buffer: int, start: int, size: int) -> int:
        assert (start, size % 4) == (0, 0)
        return int(self.ffi.cast("uintptr_t", self.memory))

    def on_BufferUnmap(self, _buffer: int) -> None:
        self.submitted.append("unmap")


def started(asking: int = 4, in_flight: int = 2, spins: bool = False) -> tuple[Library, Any, Encoder, dict[int, Any]]:
    """Return a stand-in, its device, the encoder and objects by handle: each is its handle times 100."""
    path = module.library()
    if path is None:
        pytest.skip("the encoder is not compiled: python packages/backend-wgpu/hatch_build.py")
    library = Library()
    null = library.ffi.NULL
    reports = SimpleNamespace(is_beside=None)
    gpu = _Gpu(ffi=library, lib=None, device=null, queue=null, reports=reports)
    encoder = Encoder(gpu, null, asking, in_flight, spins, path)  # type: ignore[arg-type]
    library.error = lambda: reports.is_beside()
    objects = {handle: library.ffi.cast("void *", handle * 100) for handle in range(1, 10)}
    return library, gpu, encoder, objects


class _Gpu(SimpleNamespace):
    """What may be referred to weakly."""


_COMMANDS = st.lists(
    st.one_of(
        st.tuples(st.just(DISPATCH), st.integers(1, 3), st.integers(4, 6), *[st.integers(1, 70000)] * 3),
        st.tuples(
            st.just(COPY), st.integers(7, 9), st.integers(0, 99), st.integers(7, 9), *[st.integers(0, 1 << 40)] * 2
        ),
    ),
    max_size=8,
)
_JOBS = st.lists(
    st.one_of(
        _COMMANDS, st.integers(7, 9), st.tuples(st.integers(7, 9), st.integers(0, 1 << 40), st.binary(max_size=40))
    ),
    max_size=20,
)


def _expected(commands: list[tuple[int, ...]]) -> list[Any]:
    found: list[Any] = []
    running, last = False, 0
    for kind, first, second, *numbers in commands:
        if kind == COPY:
            if running:
                found.append("end")
            running, last = False, 0
            target, offset, nbytes = numbers
            found.append(("copy", first * 100, second, target * 100, offset, nbytes))
            continue
        if not running:
            found.append("pass")
        if first != last:
            found.append(("pipeline", first * 100))
        found += [("group", second * 100), ("dispatch", *numbers)]
        running, last = True, first
    return [*found, "end"] if running else found


@pytest.mark.parametrize("spins", [False, True])
@settings(max_examples=25, deadline=None)
@given(jobs=_JOBS, late=st.sets(st.integers(1, 3)), data=st.data())
def test_all_of_it_in_order(spins: bool, jobs: list[Any], late: set[int], data: st.DataObject) -> None:
    library, gpu, encoder, objects = started(spins=spins)
    pipelines = {handle: objects[handle] for handle in late}
    # Some pipelines are there when some of the jobs have been handed over.
    objects |= {handle: encoder.place() for handle in late}
    arrives = {handle: data.draw(st.integers(0, len(jobs)), label=f"when {handle} arrives") for handle in late}
    wanted: list[Any] = []
    for number, job in enumerate([*jobs, []]):
        for handle, at in arrives.items():
            if at == number:
                encoder.arrive(objects[handle], pipelines[handle])
        if isinstance(job, tuple):
            buffer, offset, written = job
            encoder.write(objects[buffer], offset, written)
            wanted.append((buffer * 100, offset, written))
        elif isinstance(job, int):
            encoder.destroy(objects[job])
            wanted.append(job * 100)
        else:
            words = [word for command in job for word in command]
            encoder.run(encoder.prepare(words, objects))
            wanted.append(_expected(job))
    encoder.wait()
    assert library.submitted == wanted
    assert threading.get_ident() not in library.threads
    assert not encoder._used
    # What was encoded by the thread that asks is the same.
    for job in jobs:
        if isinstance(job, list):
            library.encoded = []
            words = [word for command in job for word in command]
            encoder.play(library.ffi.NULL, encoder.prepare(words, objects), library.ffi.NULL)
            assert library.encoded == _expected(job)
    del gpu


@pytest.mark.parametrize("polling", [0.0, 60.0])
@settings(max_examples=25, deadline=None)
@given(
    before=_COMMANDS, given=_COMMANDS, sizes=st.lists(st.integers(1, 40), min_size=1, max_size=4), nothing=st.booleans()
)
def test_what_is_fetched_is_copied_after_all_that_was_handed_over(
    polling: float, before: list[Any], given: list[Any], sizes: list[int], nothing: bool
) -> None:
    library, gpu, encoder, objects = started()
    words = [[word for command in each for word in command] for each in (before, given)]
    encoder.run(encoder.prepare(words[0], objects))
    copies = [(objects[7], 8 * number, objects[9], 40 * number, size) for number, size in enumerate(sizes)]
    into = bytearray(sum(sizes))
    encoded = encoder.encode(None if nothing else encoder.prepare(words[1], objects), copies)
    assert encoder.fetch(encoded, objects[9], into, polling)
    copied = [("copy", 700, 8 * number, 900, 40 * number, size) for number, size in enumerate(sizes)]
    done = [*([] if nothing else _expected(given)), *copied]
    assert library.submitted == [_expected(before), done, ("map", (len(into) + 3) & ~3), "unmap"]
    assert into == bytes(range(len(into)))
    assert library.polls == (3 if polling else 1)
    # What could not be had is not read.
    library.map_status, into = 3, bytearray(4)
    assert not encoder.fetch(encoder.encode(None, copies), objects[9], into, polling)
    assert into == bytes(4) and library.submitted[-1] != "unmap"
    del gpu


def test_the_thread_that_records_goes_on_and_is_held_up_when_far_ahead() -> None:
    library, gpu, encoder, objects = started()
    commands = encoder.prepare([DISPATCH, 1, 4, 1, 1, 1], objects)
    library.gate.clear()
    for _ in range(200):
        encoder.run(commands)
    assert not library.submitted
    held = threading.Thread(target=lambda: [encoder.run(commands) for _ in range(100)])
    held.start()
    time.sleep(0.05)
    assert held.is_alive()
    library.gate.set()
    held.join()
    encoder.wait()
    assert len(library.submitted) == 300
    del gpu


def test_who_waits_for_a_job_does_not_wait_for_what_came_later() -> None:
    library, gpu, encoder, objects = started()
    commands = encoder.prepare([COPY, 7, 0, 8, 0, 4], objects)
    encoder.run(commands)
    first = encoder.given
    encoder.wait(first)
    library.gate.clear()
    encoder.run(commands)
    encoder.wait(first)
    assert len(library.submitted) == 1
    library.gate.set()
    encoder.wait()
    assert len(library.submitted) == 2
    del gpu


def test_what_is_refused_is_not_submitted() -> None:
    library, gpu, encoder, objects = started()
    library.refuses = lambda workgroups: workgroups[0] == 2
    for number in (1, 2, 3):
        encoder.run(encoder.prepare([DISPATCH, 1, 4, number, 1, 1], objects))
    encoder.wait()
    assert [submitted[-2][1] for submitted in library.submitted] == [1, 3]
    # Of what another thread is refused the encoder's knows nothing.
    assert not gpu.reports.is_beside()


def test_what_needs_a_pipeline_that_was_refused_is_not_submitted() -> None:
    library, gpu, encoder, objects = started()
    objects[1], objects[2] = encoder.place(), encoder.place()
    recorded = {handle: encoder.prepare([DISPATCH, handle, 4, handle, 1, 1], objects) for handle in (1, 2, 3)}
    for each in (1, 2, 3):
        encoder.run(recorded[each])
    time.sleep(0.02)
    assert not library.submitted
    encoder.arrive(objects[1], GpuError("internal", "too many registers"))
    encoder.arrive(objects[2], library.ffi.cast("void *", 200))
    encoder.wait()
    assert [submitted[-2][1] for submitted in library.submitted] == [2, 3]
    # Neither is what comes later, and nothing of it is encoded.
    encoder.run(encoder.prepare([DISPATCH, 1, 4, 1, 1, 1], objects))
    encoder.wait()
    library.encoded = []
    encoder.play(library.ffi.NULL, recorded[1], library.ffi.NULL)
    assert not library.encoded and len(library.submitted) == 2
    # What is prepared when a pipeline is there does not ask for it any more.
    assert [len(encoder.prepare([DISPATCH, each, 4, 1, 1, 1], objects).arriving) for each in (1, 2, 3)] == [1, 0, 0]
    del gpu


def test_the_gpu_is_waited_for_when_it_is_far_behind() -> None:
    library, gpu, encoder, objects = started(asking=4, in_flight=2)
    commands = encoder.prepare([DISPATCH, 1, 4, 1, 1, 1], objects)
    for _ in range(20):
        encoder.run(commands)
    encoder.wait()
    assert (library.futures, library.waited) == ([1, 2, 3, 4, 5], [1, 2, 3])
    encoder.collect(16)
    assert library.waited == [1, 2, 3, 4]
    encoder.collect(encoder.given)
    assert library.waited == library.futures
    del gpu


def test_what_jobs_use_lives_until_they_are_done() -> None:
    library, gpu, encoder, objects = started()
    library.gate.clear()
    commands = [encoder.prepare([DISPATCH, 1, 4, 1, 1, 1], objects) for _ in range(40)]
    for each in commands:
        encoder.run(each)
    assert [each for _, each in encoder._used] == commands
    library.gate.set()
    encoder.wait()
    assert not encoder._used
    assert WRITTEN >= 256
    del gpu


def test_its_thread_ends_with_the_device() -> None:
    library, gpu, encoder, objects = started()
    for _ in range(50):
        encoder.run(encoder.prepare([DISPATCH, 1, 4, 1, 1, 1], objects))
    reports = gpu.reports
    del gpu
    # What was handed over was done first, and nobody is asked any more.
    assert len(library.submitted) == 50
    assert reports.is_beside is None
