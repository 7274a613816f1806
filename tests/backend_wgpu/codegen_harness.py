"""Runs generated WGSL directly on an adapter, so that code generation is tested without the runtime."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import pytest
import torch
import wgpu
from webgpu_torch_backend_wgpu.codegen import generate
from webgpu_torch_backend_wgpu.program import Capabilities, Program
from webgpu_torch_core.ir import dtypes
from webgpu_torch_core.ir.kernels import Kernel

TORCH = {
    "bool": torch.bool, "uint8": torch.uint8, "int8": torch.int8, "int16": torch.int16, "int32": torch.int32,
    "int64": torch.int64, "float16": torch.float16, "bfloat16": torch.bfloat16, "float32": torch.float32,
    "uint32": torch.uint32,
}  # fmt: skip
CORE = {each: getattr(dtypes, "bool_" if name == "bool" else name) for name, each in TORCH.items()}
GUARD = 0xA5
_FORMATS = {"float32": "f", "int32": "i", "uint32": "I", "bool": "I", "int64": "q", "float64": "d"}


class Harness:
    """One adapter, its capabilities, and the same with 16- and 64-bit types taken away."""

    def __init__(self) -> None:
        found = [each for each in wgpu.gpu.enumerate_adapters_sync() if each.info["backend_type"] != "OpenGL"]
        if not found:
            pytest.skip("no WebGPU adapter on this machine")
        adapter = found[0]
        features = [each for each in ("shader-f16", "shader-int64") if each in adapter.features]
        self.device = adapter.request_device_sync(required_features=features, required_limits=dict(adapter.limits))
        limits = adapter.limits
        self.native = Capabilities(
            adapter=f"{adapter.info['vendor']} {adapter.info['device']}".lower(),
            workgroups_per_dimension=limits["max-compute-workgroups-per-dimension"],
            invocations=min(limits["max-compute-invocations-per-workgroup"], 1024),
            workgroup_bytes=limits["max-compute-workgroup-storage-size"],
            storage_buffers=limits["max-storage-buffers-per-shader-stage"],
            binding_bytes=limits["max-storage-buffer-binding-size"],
            half="shader-f16" in features,
            int64="shader-int64" in features,
            subgroups=False,
        )
        self.small = self.native.replace(
            half=False, int64=False, invocations=256, workgroup_bytes=16384, workgroups_per_dimension=7
        )
        self.pipelines: dict[str, Any] = {}

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
            data = bytearray(self.device.queue.read_buffer(buffer))
            size = each.numel * each.dtype.itemsize
            assert all(byte == GUARD for byte in data[(size + 31) & ~31 :]), "stored behind the end of an output"
            results.append(torch.frombuffer(data[:size], dtype=TORCH[each.dtype.name]))
        return results

    def _buffer(self, values: torch.Tensor) -> Any:
        data = bytes(values.view(torch.uint8).numpy().tobytes())
        padded = data.ljust(((len(data) + 31) & ~31) + 64, bytes([GUARD]))
        usage = wgpu.BufferUsage.STORAGE | wgpu.BufferUsage.COPY_SRC | wgpu.BufferUsage.COPY_DST
        return self.device.create_buffer_with_data(data=padded, usage=usage)

    def _parameters(self, kernel: Kernel, values: Sequence[float | int]) -> Any:
        layout = "<" + "".join(_FORMATS[each.name] for each in kernel.parameters)
        data = struct.pack(layout, *values)
        data = data.ljust(max(256, -(-len(data) // 256) * 256), b"\0")
        return self.device.create_buffer_with_data(data=data, usage=wgpu.BufferUsage.UNIFORM)

    def _dispatch(self, program: Program, buffers: dict[str, list[Any]]) -> None:
        encoder = self.device.create_command_encoder()
        for each in program.passes:
            pipeline = self.pipelines.get(each.source)
            if pipeline is None:
                module = self.device.create_shader_module(code=each.source)
                pipeline = self.pipelines[each.source] = self.device.create_compute_pipeline(
                    layout="auto", compute={"module": module, "entry_point": "main"}
                )
            entries = [
                {"binding": number, "resource": {"buffer": buffers[binding.kind][binding.index]}}
                for number, binding in enumerate(each.bindings)
            ]
            group = self.device.create_bind_group(layout=pipeline.get_bind_group_layout(0), entries=entries)
            compute = encoder.begin_compute_pass()
            compute.set_pipeline(pipeline)
            compute.set_bind_group(0, group)
            compute.dispatch_workgroups(*each.workgroups)
            compute.end()
        self.device.queue.submit([encoder.finish()])


_harness: list[Harness] = []


def harness() -> Harness:
    """Return the one harness of the test run."""
    if not _harness:
        _harness.append(Harness())
    return _harness[0]
