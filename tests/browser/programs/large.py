"""Reads of more than one staging buffer, and of no whole number of words."""

import webgpu_torch as torch
from webgpu_torch_core.record.devices import canonical_device, engine_for

engine = engine_for(canonical_device("webgpu"))
count = (1 << 24) + 3
large = torch.arange(count, dtype=torch.float32) % 1000
data = memoryview(engine.read(large._storage.value)).cast("f")
assert len(data) == count
for each in (0, 1, (1 << 24) - 1, 1 << 24, count - 1):
    assert data[each] == each % 1000, (each, data[each])
small = torch.arange((1 << 26) + 1, dtype=torch.uint8)
read = engine.read(small._storage.value)
assert len(read) == (1 << 26) + 1 and read[-300:] == bytes(i % 256 for i in range(len(read) - 300, len(read)))
