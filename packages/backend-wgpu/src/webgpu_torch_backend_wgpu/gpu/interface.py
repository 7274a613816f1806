"""What the backend asks of a WebGPU implementation: a few methods over integer handles.

Nothing here is native: a runtime may be a C library, a browser's ``navigator.gpu`` or a checker that computes nothing.
Work is recorded as flat lists of integers, :data:`WORDS` per command, and submitted as often as wanted by one handle::

    DISPATCH, pipeline, group, workgroups x, y, z
    COPY, source, source offset, target, target offset, bytes

Neighbouring dispatches form one compute pass. What a command list or a bind group refers to stays alive as long as it
does, whatever was destroyed by its handle meanwhile; only the memory of a destroyed buffer goes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Sequence

from webgpu_torch_core.ir.records import Record

#: how many integers a command takes, and what it begins with
WORDS = 6
DISPATCH, COPY = 0, 1

#: what a buffer may be used for
STORAGE, UNIFORM = "storage", "uniform"
#: how a pass binds a buffer
BINDING_KINDS = ("uniform", "storage", "read-only-storage")


class GpuError(RuntimeError):
    """What an implementation reported; ``kind`` is validation, out-of-memory, internal or lost."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class Limits(Record):
    """An adapter's limits, named as in WebGPU (https://www.w3.org/TR/webgpu/#limits)."""

    __slots__ = fields = (
        "max_buffer_size", "max_storage_buffer_binding_size", "max_uniform_buffer_binding_size",
        "max_storage_buffers_per_shader_stage", "max_uniform_buffers_per_shader_stage", "max_bindings_per_bind_group",
        "min_storage_buffer_offset_alignment", "min_uniform_buffer_offset_alignment",
        "max_compute_workgroup_storage_size", "max_compute_invocations_per_workgroup",
        "max_compute_workgroup_size_x", "max_compute_workgroup_size_y", "max_compute_workgroup_size_z",
        "max_compute_workgroups_per_dimension",
    )  # fmt: skip
    max_buffer_size: int
    max_storage_buffer_binding_size: int
    max_uniform_buffer_binding_size: int
    max_storage_buffers_per_shader_stage: int
    max_uniform_buffers_per_shader_stage: int
    max_bindings_per_bind_group: int
    min_storage_buffer_offset_alignment: int
    min_uniform_buffer_offset_alignment: int
    max_compute_workgroup_storage_size: int
    max_compute_invocations_per_workgroup: int
    max_compute_workgroup_size_x: int
    max_compute_workgroup_size_y: int
    max_compute_workgroup_size_z: int
    max_compute_workgroups_per_dimension: int


#: the limits that every adapter grants (https://www.w3.org/TR/webgpu/#limits)
DEFAULT_LIMITS = Limits(
    max_buffer_size=1 << 28,
    max_storage_buffer_binding_size=1 << 27,
    max_uniform_buffer_binding_size=1 << 16,
    max_storage_buffers_per_shader_stage=8,
    max_uniform_buffers_per_shader_stage=12,
    max_bindings_per_bind_group=1000,
    min_storage_buffer_offset_alignment=256,
    min_uniform_buffer_offset_alignment=256,
    max_compute_workgroup_storage_size=16384,
    max_compute_invocations_per_workgroup=256,
    max_compute_workgroup_size_x=256,
    max_compute_workgroup_size_y=256,
    max_compute_workgroup_size_z=64,
    max_compute_workgroups_per_dimension=65535,
)


def camel(name: str) -> str:
    """Return WebGPU's own spelling of a limit's name: ``maxBufferSize`` for ``max_buffer_size``."""
    first, *rest = name.split("_")
    return first + "".join(each.capitalize() for each in rest)


#: the feature without which no matrix units are used
MATRIX_FEATURE = "chromium-experimental-subgroup-matrix"
#: how a module begins that uses them; subgroups are whole there: conditions are the same for all threads of a workgroup
MATRIX_HEAD = "enable chromium_experimental_subgroup_matrix;\ndiagnostic(off, chromium.subgroup_matrix_uniformity);\n"


class MatrixUnit(Record):
    """A product that matrix units compute at once: an [m, k] matrix of type ``operand`` by a [k, n] one, summed in ``result``.

    Types are WGSL's. ``threads`` of one subgroup, always as many, work on it together.
    """

    __slots__ = fields = ("operand", "result", "m", "n", "k", "threads")
    operand: str
    result: str
    m: int
    n: int
    k: int
    threads: int

    def __str__(self) -> str:
        return f"{self.operand} to {self.result} {self.m}x{self.n}x{self.k}"


def largest_unit(units: Iterable[MatrixUnit]) -> MatrixUnit | None:
    """Return the largest product of halves that is summed in float32; None where there is none."""
    fitting = [each for each in units if (each.operand, each.result) == ("f16", "f32")]
    return max(fitting, key=lambda each: each.m * each.n * each.k, default=None)


class Adapter(Record):
    """A way to a GPU: its names, the graphics API it is reached by, its kind, features, limits and matrix units.

    ``kind`` is discrete, integrated, virtual, cpu or unknown; ``handle`` says which it is to its runtime; ``subgroup_size`` is how
    many threads a subgroup has where all have as many, else 0.
    """

    __slots__ = fields = (
        "handle", "vendor", "device", "description", "api", "kind", "vendor_id", "device_id", "features", "limits",
        "matrix_units", "subgroup_size",
    )  # fmt: skip
    handle: int
    vendor: str
    device: str
    description: str
    api: str
    kind: str
    vendor_id: int
    device_id: int
    features: frozenset[str]
    limits: Limits
    matrix_units: tuple[MatrixUnit, ...]
    subgroup_size: int

    def __init__(
        self, handle: int, vendor: str, device: str, description: str, api: str, kind: str, vendor_id: int, device_id: int,
        features: frozenset[str], limits: Limits, matrix_units: tuple[MatrixUnit, ...] = (), subgroup_size: int = 0,
    ) -> None:  # fmt: skip
        super().__init__(
            handle,
            vendor,
            device,
            description,
            api,
            kind,
            vendor_id,
            device_id,
            features,
            limits,
            matrix_units,
            subgroup_size,
        )


class PipelineRequest(Record):
    """A compute pipeline to make: WGSL with entry point ``main`` and how it binds each buffer of group 0.

    ``trusted``: the text never reaches behind a buffer and its loops end; the implementation need not guard them.
    """

    __slots__ = fields = ("label", "source", "layout", "trusted")
    label: str
    source: str
    layout: int
    trusted: bool


class Gpu(ABC):
    """One opened adapter. Calls are made under the device's lock; none but :meth:`wait`, :meth:`read` and
    :meth:`timed` waits for the GPU (one that is far behind may hold :meth:`submit` up).

    Attributes:
        limits, features: what was granted.
        lost: why the device stopped working; None while it works.
    """

    limits: Limits
    features: frozenset[str]
    lost: str | None = None
    #: how many submits ran, or will: one that is refused does not count
    submits: int = 0
    #: whether modules that use subgroups enable them first, as WGSL says; naga knows no such extension
    enables_subgroups: bool = True
    #: whether it runs slower for a while after it had nothing to do, as cards do
    lowers_clock: bool = False
    #: whether one thread may compile while others use it, by :meth:`pipeline_beside`
    compiles_beside: bool = False
    #: whether :meth:`pipelines_later` returns before they are compiled
    compiles_later: bool = False
    #: dispatches of a recording that are submitted first, so that the GPU starts early, each submit after it having twice as many:
    #: fewer where another thread encodes them
    first_submit: int = 32
    #: True where there are no threads to wait for results, so that coroutines await :meth:`arrive`
    awaited: bool = False

    def __init__(self) -> None:
        #: handles whose owners are gone
        self.returned: deque[int] = deque()

    def own(self, handle: int) -> Owned:
        """Return an owner of a handle: with the last reference to it, the handle is destroyed."""
        self.collect()
        return Owned(self.returned, handle)

    def collect(self) -> None:
        """Destroy the handles whose owners are gone."""
        returned = self.returned
        while returned:
            self.destroy(returned.popleft())

    @abstractmethod
    def buffer(self, nbytes: int, use: str = STORAGE) -> int:
        """Return a buffer that can be copied and written and is bound as :data:`STORAGE` or :data:`UNIFORM`.

        Raises:
            GpuError: there is no room, or it is over the limit.
        """

    @abstractmethod
    def destroy(self, handle: int) -> None:
        """Give up a handle of any kind; the memory of a buffer goes once submitted work no longer needs it."""

    @abstractmethod
    def write(self, buffer: int, offset: int, data: memoryview | bytes) -> None:
        """Copy host bytes into a buffer, ordered with submits; offset and length are multiples of four."""

    @abstractmethod
    def read(self, buffer: int, offset: int, into: memoryview) -> None:
        """Wait for submitted work and copy bytes of a buffer to the host; ``offset`` is a multiple of four.

        Raises:
            GpuError: they could not be had.
        """

    def read_later(
        self, parts: Sequence[tuple[int, int, int]], after: int | None = None
    ) -> Callable[[Sequence[memoryview]], None]:
        """Start what :meth:`read` does for several (buffer, offset, bytes), few in all; the function that is returned waits for them
        and for nothing later, and takes a place for each.

        ``after``: a recording to :meth:`submit` before, in one submit with the copies where an implementation can.
        """
        if after is not None:
            self.submit(after)
        held = [bytearray(nbytes) for _, _, nbytes in parts]
        for (buffer, offset, _), data in zip(parts, held, strict=True):
            self.read(buffer, offset, memoryview(data))

        def finish(places: Sequence[memoryview]) -> None:
            for into, data in zip(places, held, strict=True):
                into[:] = data

        return finish

    def read_again(
        self, parts: Sequence[tuple[int, int, int]], after: int | None
    ) -> Callable[[], Callable[[Sequence[memoryview]], None]]:
        """Return what does :meth:`read_later` again and again: what it started is waited for before it starts again."""
        return lambda: self.read_later(parts, after)

    def read_all(self, parts: Sequence[tuple[int, int, memoryview]], after: int | None = None) -> None:
        """Do what :meth:`read` does for several (buffer, offset, where to), waiting once where an implementation can.

        ``after``: a recording to :meth:`submit` before, in one submit with the copies where an implementation can.

        Raises:
            GpuError: they could not be had.
        """
        wanted = [(buffer, offset, len(into)) for buffer, offset, into in parts]
        self.read_later(wanted, after)([into for _, _, into in parts])

    async def arrive(self) -> None:
        """Let others run until what :meth:`read_later` started is there."""

    def obstacle(self) -> str | None:
        """Return why nothing but coroutines can wait for the GPU here, and what to write instead; None where it can."""
        return None

    @abstractmethod
    def layout(self, kinds: tuple[str, ...]) -> int:
        """Return the layout of bind groups that bind these :data:`BINDING_KINDS` in order, the same for the same kinds."""

    @abstractmethod
    def pipelines(self, requests: Sequence[PipelineRequest]) -> list[int | GpuError]:
        """Return a pipeline or what was wrong for every request, compiling as many at once as helps."""

    def pipelines_later(self, requests: Sequence[PipelineRequest]) -> list[int | GpuError]:
        """Do what :meth:`pipelines` does, for requests that are trusted; where an implementation can, they are compiled later.

        What is submitted with them then waits for them; one that is refused loses the device, as :meth:`error` tells.
        """
        return self.pipelines(requests)

    def pipeline_beside(self, request: PipelineRequest) -> int | GpuError:
        """Return a pipeline or what was wrong, while other threads may use the GPU for something else."""
        raise NotImplementedError

    @abstractmethod
    def group(self, layout: int, entries: Sequence[tuple[int, int, int]]) -> int:
        """Return a bind group over (buffer, offset, size) entries in the order of the layout."""

    @abstractmethod
    def record(self, commands: Sequence[int]) -> int:
        """Return a handle by which these commands can be submitted again and again, in one submit each time."""

    @abstractmethod
    def submit(self, recording: int) -> None:
        """Run recorded commands. One that the implementation refuses runs none of them; :meth:`error` says why."""

    @abstractmethod
    def validate(self, recording: int) -> None:
        """Do everything that :meth:`submit` does short of running, for what :meth:`error` then says."""

    @abstractmethod
    def timed(self, recording: int) -> float:
        """Run recorded dispatches, wait, and return the seconds they took on the GPU (feature ``timestamp-query``)."""

    @abstractmethod
    def wait(self) -> None:
        """Wait until everything submitted and written is done."""

    def reclaim(self) -> None:
        """Have the memory of what was destroyed freed, once the work that used it is done."""
        self.wait()

    @abstractmethod
    def close(self) -> None:
        """Give the device up: whatever is asked of it afterwards is an error of kind lost."""

    @abstractmethod
    def error(self) -> GpuError | None:
        """Return and forget the first error reported in this thread since the last call; None where there was none."""


class Owned:
    """The owner of a handle."""

    __slots__ = ("_returned", "handle")

    def __init__(self, returned: deque[int], handle: int) -> None:
        self._returned = returned
        self.handle = handle

    def __del__(self) -> None:
        # Appending to a deque is atomic: this may run in any thread, inside the runtime's own methods, and at exit.
        self._returned.append(self.handle)


class Runtime(ABC):
    """One WebGPU implementation."""

    #: by which name ``WEBGPU_TORCH_RUNTIME`` asks for it
    name: str
    #: False where kernels are not run, so that nothing can be measured
    computes = True

    @abstractmethod
    def version(self) -> str:
        """Return the version of the implementation."""

    @abstractmethod
    def adapters(self, suits: Callable[[Adapter], bool]) -> list[Adapter]:
        """Return the adapters that suit; those that are slow to find or seldom right only where no other does."""

    async def prepare(self, suits: Callable[[Adapter], bool], features: Callable[[Adapter], Sequence[str]]) -> None:
        """Do what the next :meth:`adapters` and :meth:`open` would wait for, where only coroutines can wait."""

    @abstractmethod
    def open(self, adapter: Adapter, features: Sequence[str]) -> Gpu:
        """Open an adapter with these of its features and all of its limits.

        Raises:
            RuntimeError: it cannot be opened; the message says why.
        """
