"""What is refused, and that it says so: too large, not WGSL, and work that fails behind Python's back."""

import webgpu_torch as torch
from webgpu_torch_backend_wgpu.gpu.interface import DISPATCH, GpuError, PipelineRequest
from webgpu_torch_core.record.devices import canonical_device, engine_for

device = engine_for(canonical_device("webgpu")).device
gpu = device.gpu

try:
    (torch.empty(1 << 36) + 1).sum().item()
except MemoryError as error:
    assert "out of memory" in str(error)
else:
    raise AssertionError("68 GiB were given")

layout = gpu.layout(("storage",))
good = "@group(0) @binding(0) var<storage, read_write> x: array<u32>;\n@compute @workgroup_size(1) fn main() { x[0] = 7u; }"
made, refused = gpu.pipelines([
    PipelineRequest("good", good, layout, True),
    PipelineRequest("bad", good.replace("7u", "7.5f"), layout, True),
])  # fmt: skip
assert isinstance(made, int) and isinstance(refused, GpuError), (made, refused)
assert refused.kind == "validation" and "wgsl:2:" in str(refused), refused

buffer = gpu.buffer(256)
group = gpu.group(layout, [(buffer, 0, 256)])
recording = gpu.record((DISPATCH, made, group, 1, 1, 1))
gpu.submit(recording)
found = bytearray(3)
gpu.read(buffer, 0, memoryview(found))
assert found == b"\x07\0\0" and gpu.error() is None

# A binding over the buffer's end: the browser says so when Python waits.
gpu.group(layout, [(buffer, 0, 512)])
gpu.wait()
error = gpu.error()
assert error is not None and error.kind == "validation", error
assert gpu.error() is None
assert (torch.ones(2) + 1).tolist() == [2.0, 2.0]
