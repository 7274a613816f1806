"""Data sets, samplers and loaders."""

from __future__ import annotations

from webgpu_torch_nn.utils.data.collate import default_collate as default_collate
from webgpu_torch_nn.utils.data.dataloader import DataLoader as DataLoader
from webgpu_torch_nn.utils.data.dataset import ConcatDataset as ConcatDataset
from webgpu_torch_nn.utils.data.dataset import Dataset as Dataset
from webgpu_torch_nn.utils.data.dataset import IterableDataset as IterableDataset
from webgpu_torch_nn.utils.data.dataset import Subset as Subset
from webgpu_torch_nn.utils.data.dataset import TensorDataset as TensorDataset
from webgpu_torch_nn.utils.data.dataset import random_split as random_split
from webgpu_torch_nn.utils.data.sampler import BatchSampler as BatchSampler
from webgpu_torch_nn.utils.data.sampler import RandomSampler as RandomSampler
from webgpu_torch_nn.utils.data.sampler import Sampler as Sampler
from webgpu_torch_nn.utils.data.sampler import SequentialSampler as SequentialSampler
from webgpu_torch_nn.utils.data.sampler import SubsetRandomSampler as SubsetRandomSampler
from webgpu_torch_nn.utils.data.sampler import WeightedRandomSampler as WeightedRandomSampler

__all__ = [
    "BatchSampler",
    "ConcatDataset",
    "DataLoader",
    "Dataset",
    "IterableDataset",
    "RandomSampler",
    "Sampler",
    "SequentialSampler",
    "Subset",
    "SubsetRandomSampler",
    "TensorDataset",
    "WeightedRandomSampler",
    "default_collate",
    "random_split",
]
