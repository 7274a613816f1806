"""Plans, bind groups and submits under WebGPU's rules, without a GPU; and that each rule is noticed when broken."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from device_programs import ADD, INCREMENT, RELU, WRITE_Y, kernel, one_pass, plan, sum_program, upload, use
from webgpu_torch_backend_wgpu.backend import WgpuBackend
from webgpu_torch_backend_wgpu.errors import KernelError
from webgpu_torch_backend_wgpu.gpu.checking import CheckingGpu, CheckingRuntime, layout_of
from webgpu_torch_backend_wgpu.gpu.interface import (
    COPY,
    DEFAULT_LIMITS,
    DISPATCH,
    UNIFORM,
    GpuError,
    PipelineRequest,
)
from webgpu_torch_backend_wgpu.program import Binding
from webgpu_torch_core.backend.interface import Copy, DeviceLostError, OutOfMemoryError

sys.path.insert(0, str(Path(__file__).parent / "golden"))
from profiles import PROFILES

KINDS = ("read-only-storage", "storage")


def opened(profile: str = "default", **limits: int) -> Any:
    adapter = PROFILES[profile]
    return WgpuBackend(CheckingRuntime([adapter.replace(limits=adapter.limits.replace(**limits))])).open(0)


@pytest.mark.parametrize("profile", PROFILES)
def test_plans_keep_the_rules(profile: str) -> None:
    device = opened(profile)
    relu, total, step, add = kernel("relu", 500), kernel("sum", 500, outputs=1), kernel("up", 500, initial=0), None
    add = kernel("add", 500, operands=2, initial=0)
    use(
        device,
        {
            relu: one_pass("relu", RELU, 500),
            total: sum_program(500),
            step: one_pass("up", INCREMENT, 500, (WRITE_Y,)),
            add: one_pass("add", ADD, 500, (WRITE_Y, Binding("operand", 1, False))),
        },
    )
    steps = [
        (relu, (0,), (1,), ()),
        Copy(1, 2, 2000),
        (step, (2,), (2,), ()),
        (add, (2, 2), (2,), ()),
        (total, (2,), (3,), ()),
    ]
    made = plan(steps * 90, 4)
    x = upload(device, [1.0] * 500)
    buffers = [x, *[device.allocate(2000) for _ in range(3)]]
    for _ in range(3):
        device.run(made, buffers, [])
    device.synchronize()
    gpu = device.gpu
    assert gpu.broken == []
    assert gpu.dispatches == 3 * 90 * 5
    # Recorded once, repeated by handle: 32, 64, 128 and 256 dispatches a submit.
    assert gpu.calls["submit"] == 3 * gpu.calls["record"] == 3 * 4
    assert len(gpu.compiled) == 5


def test_plans_that_go_give_their_handles_back() -> None:
    device = opened()
    relu = kernel("relu", 64)
    use(device, {relu: one_pass("relu", RELU, 64)})
    x, y = upload(device, [1.0] * 64), device.allocate(256)
    handles = []
    for _ in range(5):
        device.run(plan([(relu, (0,), (1,), ())], 2), [x, y], [])
        device.gpu.collect()
        handles.append(len(device.gpu._objects))
    assert len(set(handles[1:])) == 1
    device.synchronize()
    assert device.gpu.broken == []


def test_writes_reads_and_loss() -> None:
    device = opened()
    buffer = device.allocate(10)
    device.write(buffer, memoryview(b"1234567890"))
    assert device.read(buffer, 7) == bytes(7)
    assert device.gpu.broken == []
    with pytest.raises(OutOfMemoryError, match="at most 64 parts"):
        device.allocate(65 * DEFAULT_LIMITS.max_storage_buffer_binding_size)
    device.gpu.lost = "the driver was reset"
    with pytest.raises(DeviceLostError, match="the driver was reset"):
        device.read(buffer, 7)
    assert "the driver was reset" in device.lost


def test_too_many_buffers_are_refused_by_name() -> None:
    device = opened("compatibility", max_storage_buffers_per_shader_stage=1)
    relu = kernel("relu", 4)
    use(device, {relu: one_pass("relu", RELU, 4)})
    with pytest.raises(KernelError, match=r"(?s)'relu'.*binds 2 storage buffers.*at most 1"):
        device.compiled(relu)


def text(body: str = "", size: int = 64, before: str = "") -> str:
    return (
        f"{before}@group(0) @binding(0) var<storage, read> x: array<f32>;\n"
        "@group(0) @binding(1) var<storage, read_write> y: array<f32>;\n"
        f"@compute @workgroup_size({size})\nfn main() {{ {body} }}"
    )


MODULES = {
    "invocations": (text(size=512), "workgroup is"),
    "workgroup memory": (text(before="var<workgroup> much: array<vec4<f32>, 2000>;\n"), "32000 bytes"),
    "f16": (text("y[0] = f32(1.5h);", before="enable f16;\n"), "shader-f16"),
    "i64": (text("y[0] = f32(i64(3));"), "shader-int64"),
    "subgroups": (text("y[0] = subgroupAdd(x[0]);", before="enable subgroups;\n"), "subgroups"),
    "access": (text().replace("read_write", "read"), "binding 1 is <storage,read>"),
    "missing binding": (text().replace("@binding(1)", "@binding(2)"), r"binds \[0, 2\]"),
    "no entry": (text().replace("main", "other"), "0 entry points"),
}


@pytest.mark.parametrize("name", MODULES)
def test_modules_that_break_a_rule_are_refused(name: str) -> None:
    gpu = CheckingGpu(DEFAULT_LIMITS, ())
    source, reason = MODULES[name]
    good, bad = gpu.pipelines([PipelineRequest("k", each, gpu.layout(KINDS), True) for each in (text(), source)])
    assert isinstance(good, int)
    with pytest.raises(GpuError, match=reason):
        raise bad if isinstance(bad, GpuError) else AssertionError(f"{name} was accepted")
    allowed = CheckingGpu(
        PROFILES["discrete"].limits.replace(max_compute_workgroup_storage_size=1 << 16), PROFILES["discrete"].features
    )
    [made] = allowed.pipelines([PipelineRequest("k", source, allowed.layout(KINDS), True)])
    assert isinstance(made, int) == (name in ("invocations", "workgroup memory", "f16", "i64", "subgroups"))


def bad_calls(gpu: CheckingGpu) -> dict[str, Any]:
    small, large, uniform = gpu.buffer(256), gpu.buffer(1 << 16), gpu.buffer(256, UNIFORM)
    layout = gpu.layout(KINDS)
    [pipeline] = gpu.pipelines([PipelineRequest("k", text(), layout, True)])
    good = gpu.group(layout, [(large, 0, 256), (small, 0, 256)])
    other = gpu.group(gpu.layout(("storage",)), [(small, 0, 256)])
    aliased = gpu.group(layout, [(small, 0, 128), (small, 0, 256)])
    gone = gpu.buffer(256)
    gpu.destroy(gone)
    return {
        "offset": lambda: gpu.group(layout, [(large, 128, 256), (small, 0, 256)]),
        "size": lambda: gpu.group(layout, [(large, 0, 255), (small, 0, 256)]),
        "end": lambda: gpu.group(layout, [(large, 0, 256), (small, 256, 256)]),
        "use": lambda: gpu.group(layout, [(large, 0, 256), (uniform, 0, 256)]),
        "entries": lambda: gpu.group(layout, [(large, 0, 256)]),
        "destroyed": lambda: gpu.group(layout, [(gone, 0, 256), (small, 0, 256)]),
        "too many buffers": lambda: gpu.layout(("storage",) * 9),
        "aliasing": lambda: gpu.record((DISPATCH, pipeline, aliased, 1, 1, 1)),
        "workgroups": lambda: gpu.record((DISPATCH, pipeline, good, 65536, 1, 1)),
        "other layout": lambda: gpu.record((DISPATCH, pipeline, other, 1, 1, 1)),
        "copy onto itself": lambda: gpu.record((COPY, small, 0, small, 128, 128)),
        "copy beyond": lambda: gpu.record((COPY, large, 0, small, 0, 512)),
        "copy of bytes": lambda: gpu.record((COPY, large, 0, small, 0, 3)),
        "write beyond": lambda: gpu.write(small, 252, bytes(8)),
        "write of bytes": lambda: gpu.write(small, 0, bytes(3)),
        "read of a uniform": lambda: gpu.read(uniform, 0, memoryview(bytearray(4))),
        "no recording": lambda: gpu.submit(good),
        "twice destroyed": lambda: gpu.destroy(gone),
    }


@pytest.mark.parametrize("name", bad_calls(CheckingGpu(DEFAULT_LIMITS, ())))
def test_calls_that_break_a_rule_are_noticed(name: str) -> None:
    gpu = CheckingGpu(DEFAULT_LIMITS, ())
    calls = bad_calls(gpu)
    assert gpu.broken == []
    calls[name]()
    assert isinstance(gpu.error(), GpuError), name
    assert gpu.error() is None


def test_a_submit_over_a_destroyed_buffer_is_noticed() -> None:
    gpu = CheckingGpu(DEFAULT_LIMITS, ())
    one, other = gpu.buffer(256), gpu.buffer(256)
    recording = gpu.record((COPY, one, 0, other, 0, 256))
    gpu.submit(recording)
    assert gpu.error() is None
    gpu.destroy(one)
    gpu.submit(recording)
    assert "destroyed" in str(gpu.error())


def test_sizes_of_types() -> None:
    assert layout_of("array<vec4<f32>, 12>") == (192, 16)
    assert layout_of("array<vec3<f32>,2>") == (32, 16)
    assert layout_of("array<atomic<u32>>") == (4, 4)
    assert layout_of("vec2<f16>") == (4, 4)
    with pytest.raises(ValueError, match="mat4"):
        layout_of("mat4x4<f32>")
