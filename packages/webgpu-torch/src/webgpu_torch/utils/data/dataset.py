"""Data sets, as ``torch.utils.data.dataset``."""

from webgpu_torch_nn.utils.data import ChainDataset as ChainDataset
from webgpu_torch_nn.utils.data import ConcatDataset as ConcatDataset
from webgpu_torch_nn.utils.data import Dataset as Dataset
from webgpu_torch_nn.utils.data import IterableDataset as IterableDataset
from webgpu_torch_nn.utils.data import StackDataset as StackDataset
from webgpu_torch_nn.utils.data import Subset as Subset
from webgpu_torch_nn.utils.data import TensorDataset as TensorDataset
from webgpu_torch_nn.utils.data import random_split as random_split
