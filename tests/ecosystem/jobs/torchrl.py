import torch
from tensordict import TensorDict
from torchrl.data import LazyTensorStorage, ReplayBuffer
from torchrl.modules import MLP


def networks():
    return MLP(in_features=4, out_features=2, depth=2, num_cells=8)(torch.randn(3, 4))


def buffers():
    kept = ReplayBuffer(storage=LazyTensorStorage(10), batch_size=4)
    kept.extend(TensorDict({"x": torch.arange(8.0)}, [8]))
    return [len(kept), list(kept.sample()["x"].shape)]


def values():
    from torchrl.objectives.value.functional import generalized_advantage_estimate as estimate

    done = torch.zeros(1, 5, 1, dtype=torch.bool)
    return list(estimate(0.9, 0.8, torch.randn(1, 5, 1), torch.randn(1, 5, 1), torch.randn(1, 5, 1), done, done))
