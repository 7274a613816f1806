import torch
from torch_runstats import Reduction, RunningStats
from torch_runstats.scatter import scatter, scatter_mean


def running():
    stats = RunningStats(dim=(2,), reduction=Reduction.MEAN)
    for _ in range(3):
        stats.accumulate_batch(torch.randn(6, 2))
    return stats.current_result()


def scattered():
    x, index = torch.randn(8, 3), torch.randint(3, (8,))
    return [scatter(x, index, dim=0), scatter_mean(x, index, dim=0)]
