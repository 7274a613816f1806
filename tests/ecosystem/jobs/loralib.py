import loralib
import torch


def training():
    model = torch.nn.Sequential(
        loralib.Embedding(12, 8, r=2), loralib.MergedLinear(8, 24, r=2, enable_lora=[True, False, True]), loralib.Linear(24, 4, r=2)
    )  # fmt: skip
    loralib.mark_only_lora_as_trainable(model)
    optimizer = torch.optim.AdamW([each for each in model.parameters() if each.requires_grad], lr=0.1)
    words = torch.randint(12, (3, 5))
    for _ in range(3):
        optimizer.zero_grad()
        model(words).square().mean().backward()
        optimizer.step()
    before = model(words)
    return [before, model.eval()(words), loralib.lora_state_dict(model)]


def convolution():
    layer = loralib.Conv2d(3, 6, kernel_size=3, r=2)
    torch.nn.init.normal_(layer.lora_B)
    x = torch.randn(1, 3, 8, 8)
    before = layer(x)
    layer.eval()
    return [before, layer(x), layer.conv.weight]
