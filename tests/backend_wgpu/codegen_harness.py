"""Runs generated WGSL directly on an adapter, so that code generation is tested without the runtime."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import pytest
import torch
from webgpu_torch_backend_wgpu.codegen import generate
from webgpu_torch_backend_wgpu.facts import TYPICAL
from webgpu_torch_backend_wgpu.gpu.interface import (
    DISPATCH,
    MATRIX_FEATURE,
    STORAGE,
    UNIFORM,
    GpuError,
    Owned,
    PipelineRequest,
    Runtime,
)
from webgpu_torch_backend_wgpu.gpu.native import NativeRuntime
from webgpu_torch_backend_wgpu.limits import capabilities
from webgpu_torch_backend_wgpu.modules import kinds_of
from webgpu_torch_backend_wgpu.program import Program
from webgpu_torch_core.ir import dtypes
from webgpu_torch_core.ir.kernels import Kernel

TORCH = {
    "bool": torch.bool, "uint8": torch.uint8, "int8": torch.int8, "int16": torch.int16, "int32": torch.int32,
    "int64": torch.int64, "float16": torch.float16, "bfloat16": torch.bfloat16, "float32": torch.float32,
    "uint32": torch.uint32,
}  # fmt: skip
CORE = {each: getattr(dtypes, "bool_" if name == "bool" else name) for name, each in TORCH.items()}
GUARD = 0xA5
FEATURES = ("shader-f16", "shader-int64", "subgroups", MATRIX_FEATURE)
_FORMATS = {"float32": "f", "int32": "i", "uint32": "I", "bool": "I", "int64": "q", "float64": "d"}


class Harness:
    """One adapter, its capabilities, and the same with 16- and 64-bit types taken away."""

    def __init__(self, runtime: Runtime) -> None:
        found = [each for each in runtime.adapters(lambda each: True) if not each.api.startswith("OpenGL")]
        if not found:
            pytest.skip("no WebGPU adapter on this machine")
        adapter = found[0]
        self.gpu = runtime.open(adapter, [each for each in FEATURES if each in adapter.features])
        native = capabilities(adapter, self.gpu, TYPICAL["discrete"].replace(rounds_halves=False))
        # Not all runtimes tell the size of subgroups; that of a software adapter never changes.
        size = native.subgroup_size or (self._subgroup_size() if native.software and native.subgroups else 0)
        self.native = native.replace(invocations=min(native.invocations, 1024), subgroup_size=size)
        self.small = self.native.replace(
            half=False, int64=False, matrix_units=(), invocations=256, workgroup_bytes=16384, workgroups_per_dimension=7
        )
        self.pipelines: dict[str, int] = {}

    def _subgroup_size(self) -> int:
        """Return how many threads a subgroup has, as a kernel sees it."""
        head = "enable subgroups;\n" if self.gpu.enables_subgroups else ""
        source = (
            head + "@group(0) @binding(0) var<storage, read_write> found: array<u32>;\n"
            "@compute @workgroup_size(64) fn main(@builtin(subgroup_size) size: u32) { found[0] = size; }"
        )
        layout, (owner, nbytes) = self.gpu.layout(("storage",)), self._filled(bytes(16), STORAGE)
        (pipeline,) = self.gpu.pipelines([PipelineRequest("size of subgroups", source, layout, False)])
        if isinstance(pipeline, GpuError):
            raise pipeline
        group = self.gpu.own(self.gpu.group(layout, [(owner.handle, 0, nbytes)]))
        self.gpu.submit(self.gpu.own(self.gpu.record([DISPATCH, pipeline, group.handle, 1, 1, 1])).handle)
        data = bytearray(4)
        self.gpu.read(owner.handle, 0, memoryview(data))
        return int.from_bytes(data, "little")

    def run(
        self,
        kernel: Kernel,
        operands: Sequence[torch.Tensor],
        parameters: Sequence[float | int] = (),
        emulate: bool = False,
    ) -> list[torch.Tensor]:
        """Return the outputs of a kernel; nothing may be stored behind an output and its padding to 32 bytes."""
        program = generate(kernel, self.small if emulate else self.native)
        given = [self._buffer(each.contiguous().view(-1)) for each in operands]
        outputs = []
        for each in kernel.outputs:
            if each.initial is not None:
                outputs.append(given[each.initial])
            else:
                outputs.append(self._buffer(torch.full((each.numel * each.dtype.itemsize,), GUARD, dtype=torch.uint8)))
        scratch = [self._buffer(torch.full((size,), GUARD, dtype=torch.uint8)) for size in program.scratch]
        uniform = self._parameters(kernel, parameters)
        self._dispatch(program, {"operand": given, "output": outputs, "scratch": scratch, "parameters": [uniform]})
        results = []
        for buffer, each in zip(outputs, kernel.outputs, strict=True):
            owner, nbytes = buffer
            data = bytearray(nbytes)
            self.gpu.read(owner.handle, 0, memoryview(data))
            size = each.numel * each.dtype.itemsize
            assert all(byte == GUARD for byte in data[(size + 31) & ~31 :]), "stored behind the end of an output"
            results.append(torch.frombuffer(data[:size], dtype=TORCH[each.dtype.name]))
        return results

    def _buffer(self, values: torch.Tensor) -> tuple[Owned, int]:
        data = bytes(values.view(torch.uint8).numpy().tobytes())
        return self._filled(data.ljust(((len(data) + 31) & ~31) + 64, bytes([GUARD])), STORAGE)

    def _parameters(self, kernel: Kernel, values: Sequence[float | int]) -> tuple[Owned, int]:
        layout = "<" + "".join(_FORMATS[each.name] for each in kernel.parameters)
        data = struct.pack(layout, *values)
        return self._filled(data.ljust(max(256, -(-len(data) // 256) * 256), b"\0"), UNIFORM)

    def _filled(self, data: bytes, use: str) -> tuple[Owned, int]:
        owner = self.gpu.own(self.gpu.buffer(len(data), use))
        self.gpu.write(owner.handle, 0, data)
        return owner, len(data)

    def _dispatch(self, program: Program, buffers: dict[str, list[tuple[Owned, int]]]) -> None:
        gpu = self.gpu
        commands: list[int] = []
        groups = []
        for each in program.passes:
            layout = gpu.layout(kinds_of(each))
            pipeline = self.pipelines.get(each.source)
            if pipeline is None:
                made = gpu.pipelines([PipelineRequest(each.name, each.source, layout, False)])[0]
                if isinstance(made, GpuError):
                    raise made
                pipeline = self.pipelines[each.source] = made
            bound = [buffers[binding.kind][binding.index] for binding in each.bindings]
            groups.append(gpu.own(gpu.group(layout, [(owner.handle, 0, size) for owner, size in bound])))
            commands += [DISPATCH, pipeline, groups[-1].handle, *each.workgroups]
        work = gpu.own(gpu.record(commands))
        gpu.submit(work.handle)
        error = gpu.error()
        if error is not None:
            raise error


_harness: list[Harness] = []


def harness() -> Harness:
    """Return the one harness of the test run."""
    if not _harness:
        _harness.append(Harness(NativeRuntime()))
    return _harness[0]
