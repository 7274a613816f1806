import schedulefree
import torch


def _steps(kind, **options):
    torch.manual_seed(3)
    model = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.LayerNorm(6), torch.nn.Linear(6, 1))
    optimizer = kind(model.parameters(), **options)
    x, y, losses = torch.randn(12, 4), torch.randn(12, 1), []
    if hasattr(optimizer, "train"):
        optimizer.train()
    for _ in range(6):

        def closure():
            optimizer.zero_grad()
            loss = (model(x) - y).square().mean()
            loss.backward()
            return loss

        losses.append(optimizer.step(closure))
    if hasattr(optimizer, "eval"):
        optimizer.eval()
    return [losses, list(model.parameters())]


def adamw():
    return [_steps(schedulefree.AdamWScheduleFree, lr=0.01, warmup_steps=2, foreach=each) for each in (True, False)]


def others():
    return [_steps(schedulefree.SGDScheduleFree, lr=0.1), _steps(schedulefree.RAdamScheduleFree, lr=0.01)]


def by_closures():
    return [_steps(schedulefree.SGDScheduleFreeClosure, lr=0.1), _steps(schedulefree.AdamWScheduleFreeClosure, lr=0.01)]
