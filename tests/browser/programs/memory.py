"""A thousand steps of training: memory of the GPU, objects in JavaScript and the heap of Python stay as they were."""

import gc
import json

import webgpu_torch as torch
from webgpu_torch_core.record.devices import canonical_device, engine_for

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
inputs = torch.randn(32, 8)
targets = inputs.sum(1, keepdim=True)
device = engine_for(canonical_device("webgpu")).device


def run(steps):
    for number in range(steps):
        loss = torch.nn.functional.mse_loss(model(inputs), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if number % 50 == 49:
            loss.item()
    return loss.item()


def used():
    torch.webgpu.synchronize()
    gc.collect()
    device.gpu.collect()
    return device.memory_allocated(), device.memory_reserved(), device.gpu._js.objects.size, len(gc.get_objects())


first = run(200)
before = used()
last = run(1000)
after = used()
json.dumps({"before": before, "after": after, "first": first, "last": last})
