# ruff: noqa: F704
"""Reading where Python cannot wait: what is fetched is on the host, and whatever else reads says what to write."""

import asyncio

import webgpu_torch as torch

x = torch.arange(6.0).reshape(2, 3)
host = await (x.t() * 2).fetch()
assert host.tolist() == [[0.0, 6.0], [2.0, 8.0], [4.0, 10.0]] and host.shape == (3, 2)
assert (await x.sum().fetch()).item() == 15.0
assert repr(await x[0].fetch()) == "tensor([0., 1., 2.], device='python')"
sums = await asyncio.gather(*[(x + each).sum().fetch() for each in range(3)])
assert [each.item() for each in sums] == [15.0, 21.0, 27.0]
large = await torch.ones(1 << 15).fetch()
assert large.tolist() == [1.0] * (1 << 15)

for read in (x.tolist, x.sum().item, x.__repr__, lambda: f"{x.sum()}", lambda: bool(x.sum()), torch.webgpu.synchronize):
    try:
        read()
    except RuntimeError as error:
        assert "await tensor.fetch()" in str(error), error
    else:
        raise AssertionError("it read without waiting")

# What kernels find wrong comes along, once.
try:
    await torch.nn.functional.embedding(torch.tensor([5]), x).fetch()
except IndexError as error:
    assert "index 5" in str(error), error
else:
    raise AssertionError("a row that is not there was read")
assert (await x.fetch()).sum().item() == 15.0

# Training needs no result in the middle.
torch.manual_seed(0)
model = torch.nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
losses = []
for _ in range(30):
    loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append((await loss.fetch()).item())
assert losses[-1] < 0.5 * losses[0], losses
losses[-1]
