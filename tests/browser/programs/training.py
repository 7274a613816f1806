"""A few steps of training, captured and not; random numbers are PyTorch's."""

import webgpu_torch as torch

torch.manual_seed(0)
assert [round(each, 4) for each in torch.randn(3, device="python").tolist()] == [1.5410, -0.2934, -2.1788]
model = torch.nn.Sequential(torch.nn.Linear(2, 16), torch.nn.Tanh(), torch.nn.Linear(16, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
points = torch.randn(64, 2)
labels = (points[:, 0] * points[:, 1] > 0).long()


@torch.compile
def step() -> torch.Tensor:
    loss = torch.nn.functional.cross_entropy(model(points), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.detach()


losses = [step().item() for _ in range(60)]
assert losses[0] > 0.6 and losses[-1] < 0.5 * losses[0], losses
assert torch.nn.functional.cross_entropy(model(points), labels).item() < losses[-2]
losses[-1]
