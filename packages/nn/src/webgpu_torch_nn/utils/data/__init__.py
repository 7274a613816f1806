"""Data sets, samplers and loaders."""

from __future__ import annotations

from webgpu_torch_nn._exports import exported as _exported
from webgpu_torch_nn.utils.data.collate import default_collate as default_collate
from webgpu_torch_nn.utils.data.collate import default_convert as default_convert
from webgpu_torch_nn.utils.data.dataloader import DataLoader as DataLoader
from webgpu_torch_nn.utils.data.datapipes import DFIterDataPipe as DFIterDataPipe
from webgpu_torch_nn.utils.data.datapipes import IterDataPipe as IterDataPipe
from webgpu_torch_nn.utils.data.datapipes import MapDataPipe as MapDataPipe
from webgpu_torch_nn.utils.data.datapipes import functional_datapipe as functional_datapipe
from webgpu_torch_nn.utils.data.dataset import ChainDataset as ChainDataset
from webgpu_torch_nn.utils.data.dataset import ConcatDataset as ConcatDataset
from webgpu_torch_nn.utils.data.dataset import Dataset as Dataset
from webgpu_torch_nn.utils.data.dataset import IterableDataset as IterableDataset
from webgpu_torch_nn.utils.data.dataset import StackDataset as StackDataset
from webgpu_torch_nn.utils.data.dataset import Subset as Subset
from webgpu_torch_nn.utils.data.dataset import TensorDataset as TensorDataset
from webgpu_torch_nn.utils.data.dataset import random_split as random_split
from webgpu_torch_nn.utils.data.sampler import BatchSampler as BatchSampler
from webgpu_torch_nn.utils.data.sampler import DistributedSampler as DistributedSampler
from webgpu_torch_nn.utils.data.sampler import RandomSampler as RandomSampler
from webgpu_torch_nn.utils.data.sampler import Sampler as Sampler
from webgpu_torch_nn.utils.data.sampler import SequentialSampler as SequentialSampler
from webgpu_torch_nn.utils.data.sampler import SubsetRandomSampler as SubsetRandomSampler
from webgpu_torch_nn.utils.data.sampler import WeightedRandomSampler as WeightedRandomSampler
from webgpu_torch_nn.utils.data.worker import get_worker_info as get_worker_info

__all__ = _exported(globals())
