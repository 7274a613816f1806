"""Loaders, as ``torch.utils.data.dataloader``."""

from webgpu_torch_nn.utils.data import DataLoader as DataLoader
from webgpu_torch_nn.utils.data import default_collate as default_collate
from webgpu_torch_nn.utils.data import default_convert as default_convert
from webgpu_torch_nn.utils.data import get_worker_info as get_worker_info
