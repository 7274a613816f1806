import torch
from accelerate import Accelerator


def training():
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
    model = torch.nn.Linear(3, 1)
    data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.randn(8, 3)), batch_size=2)
    model, optimizer, data = accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1), data)
    for (batch,) in data:
        with accelerator.accumulate(model):
            loss = model(batch).square().mean()
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
    return [*model.parameters(), accelerator.gather(loss.detach())]


def dispatched():
    from accelerate import cpu_offload, init_empty_weights

    with init_empty_weights():
        empty = torch.nn.Linear(4, 4)
    model = cpu_offload(torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU()))
    return [empty.weight.device.type, model(torch.ones(1, 4))]
