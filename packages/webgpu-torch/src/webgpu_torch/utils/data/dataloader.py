"""Loaders, as ``torch.utils.data.dataloader``."""

from webgpu_torch_nn.utils.data import DataLoader as DataLoader
from webgpu_torch_nn.utils.data import default_collate as default_collate
from webgpu_torch_nn.utils.data import default_convert as default_convert
from webgpu_torch_nn.utils.data import get_worker_info as get_worker_info
from webgpu_torch_nn.utils.data.dataloader import _Endless as _InfiniteConstantSampler  # noqa: F401
from webgpu_torch_nn.utils.data.iteration import MultiProcessIterator as _MultiProcessingDataLoaderIter  # noqa: F401
from webgpu_torch_nn.utils.data.iteration import SingleProcessIterator as _SingleProcessDataLoaderIter  # noqa: F401
from webgpu_torch_nn.utils.data.iteration import _BaseDataLoaderIter as _BaseDataLoaderIter
