"""Devices that compute nothing and keep what they are asked for: buffers, kernels and commands of captured functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from webgpu_torch_backend_wgpu.device import WgpuDevice
from webgpu_torch_backend_wgpu.facts import TYPICAL
from webgpu_torch_backend_wgpu.gpu.checking import CheckingGpu
from webgpu_torch_backend_wgpu.gpu.interface import STORAGE, Adapter, GpuError, Limits, PipelineRequest
from webgpu_torch_backend_wgpu.memory import Buffer, LongBuffer, Pool
from webgpu_torch_backend_wgpu.program import PARAMETER_ALIGNMENT, part_bytes
from webgpu_torch_backend_wgpu.replay import Prepared, prepare
from webgpu_torch_backend_wgpu.uniforms import Uniforms
from webgpu_torch_core.backend.interface import Device, Plan

from .errors import ExportError

#: what adapters whose work the host does have besides: those without take a card's kernels
FEATURES_FOR_HOST = ("subgroups",)
AnyBuffer = Buffer | LongBuffer


class KeepingGpu(CheckingGpu):
    """Checks calls against an adapter's limits, and keeps what they made.

    Attributes:
        buffers: size and use of each buffer.
        written: (offset, bytes) written into each buffer.
        requests: each pipeline's text and layout.
        groups: each bind group's layout and (buffer, offset, size) entries.
        kinds: how each layout binds its buffers.
        submitted: the commands of all submits, in order.
    """

    def __init__(self, limits: Limits, features: Sequence[str]) -> None:
        super().__init__(limits, features)
        self.buffers: dict[int, tuple[int, str]] = {}
        self.written: dict[int, list[tuple[int, bytes]]] = {}
        self.requests: dict[int, PipelineRequest] = {}
        self.groups: dict[int, tuple[int, list[tuple[int, int, int]]]] = {}
        self.kinds: dict[int, tuple[str, ...]] = {}
        self.submitted: list[int] = []
        self._commands: dict[int, list[int]] = {}

    def buffer(self, nbytes: int, use: str = STORAGE) -> int:
        handle = super().buffer(nbytes, use)
        self.buffers[handle] = nbytes, use
        return handle

    def write(self, buffer: int, offset: int, data: memoryview | bytes) -> None:
        super().write(buffer, offset, data)
        self.written.setdefault(buffer, []).append((offset, bytes(data)))

    def layout(self, kinds: tuple[str, ...]) -> int:
        handle = super().layout(kinds)
        self.kinds[handle] = kinds
        return handle

    def pipelines(self, requests: Sequence[PipelineRequest]) -> list[int | GpuError]:
        made = super().pipelines(requests)
        self.requests.update((handle, each) for handle, each in zip(made, requests) if isinstance(handle, int))
        return made

    def group(self, layout: int, entries: Sequence[tuple[int, int, int]]) -> int:
        handle = super().group(layout, entries)
        self.groups[handle] = layout, list(entries)
        return handle

    def record(self, commands: Sequence[int]) -> int:
        handle = super().record(commands)
        self._commands[handle] = list(commands)
        return handle

    def submit(self, recording: int) -> None:
        super().submit(recording)
        self.submitted.extend(self._commands[recording])


class LastingPool(Pool):
    """Buffers that nobody gets again: what they hold when a folder is loaded must still be there when it is read."""

    def _collect(self) -> None:
        self._returned.clear()


class ExportDevice(WgpuDevice):
    """Plans, compiles and binds for adapters of one kind, ``"integrated"`` for graphics cards or ``"cpu"`` where the host does
    the adapter's work; what it is asked to run is kept, in buffers that it shares with the devices of other kinds."""

    def __init__(self, kept: KeepingGpu, lasting: LastingPool, kind: str) -> None:
        adapter = Adapter(0, "", "any adapter", "", "Vulkan", kind, 0, 0, kept.features, kept.limits)
        super().__init__(kept, adapter, TYPICAL[kind], 0)
        self.kept = kept
        self.lasting = lasting
        self._prepared: list[Prepared] = []
        # Each block is a buffer of its own: a function brings those that it reads, and no others.
        self.replayer.uniforms = Uniforms(kept, PARAMETER_ALIGNMENT)

    def allocate_all(self, sizes: Sequence[int]) -> list[AnyBuffer]:
        return self.lasting.take_all(sizes)

    def run(self, plan: Plan, externals: Sequence[AnyBuffer], parameters: Sequence[float | int]) -> None:
        """Keep a plan's commands; every run has parameters of its own.

        Raises:
            ExportError: a buffer is of another device.
        """
        for each in externals:
            for part in each.parts if isinstance(each, LongBuffer) else [each]:
                if part._returned is not self.lasting._returned:
                    raise ExportError(
                        "the function uses a tensor that it reaches in a way that cannot be looked into (through an "
                        "iterator, for instance): pass it as an input or make it a parameter or buffer of a module"
                    )
        buffers = [*externals, *self.pool.take_all(plan.temporaries)]
        prepared = prepare(plan, self.compiler, self.replayer.uniforms, own=True)
        self._prepared.append(prepared)
        recording, every = self._recording(prepared, buffers, parameters)
        self._replay(prepared, recording, every)

    advance, advance_timed = Device.advance, Device.advance_timed

    def run_timed(
        self,
        plan: Plan,
        externals: Sequence[AnyBuffer],
        parameters: Sequence[float | int],
        report: Callable[[str, float, str], None],
    ) -> None:
        """Keep a plan's commands: there is nothing to measure."""
        self.run(plan, externals, parameters)


def again(buffer: AnyBuffer) -> AnyBuffer:
    """Return another reference to a buffer's memory: a plan may overwrite what has only one."""
    if isinstance(buffer, LongBuffer):
        parts = [Buffer(each._returned, each.handle, each.nbytes, each.requested) for each in buffer.parts]
        return LongBuffer(parts, buffer.step, buffer.requested)
    return Buffer(buffer._returned, buffer.handle, buffer.nbytes, buffer.requested)


def export_devices(limits: Limits, features: Sequence[str]) -> tuple[ExportDevice, ExportDevice]:
    """Return the devices for graphics cards, and for adapters whose work the host does, of these limits and features."""
    kept = KeepingGpu(limits, features)
    lasting = LastingPool(kept, part_bytes(limits.max_storage_buffer_binding_size & ~15))
    card = ExportDevice(kept, lasting, "integrated")
    kept.features |= set(FEATURES_FOR_HOST)
    return card, ExportDevice(kept, lasting, "cpu")
