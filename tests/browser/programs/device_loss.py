"""A lost device: what lived on it says so, and new tensors land on a new device."""

import webgpu_torch as torch
from webgpu_torch_core.record.devices import canonical_device, engine_for

kept = torch.ones(3)
assert (kept + 1).tolist() == [2.0] * 3
gpu = engine_for(canonical_device("webgpu")).device.gpu
# What a driver's reset does to a page.
gpu._js.device.destroy()
try:
    (kept + 2).tolist()
except RuntimeError as error:
    assert type(error).__name__ == "DeviceLostError" and "lost" in str(error), error
else:
    raise AssertionError("a destroyed device computed")
torch.webgpu.reset()
assert torch.webgpu.is_available()
assert (torch.ones(3) + 1).tolist() == [2.0] * 3
