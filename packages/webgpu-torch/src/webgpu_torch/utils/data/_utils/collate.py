"""Joining samples, as ``torch.utils.data._utils.collate``."""

from webgpu_torch_nn.utils.data.collate import collate as collate
from webgpu_torch_nn.utils.data.collate import default_collate as default_collate
from webgpu_torch_nn.utils.data.collate import default_collate_fn_map as default_collate_fn_map
from webgpu_torch_nn.utils.data.collate import default_convert as default_convert
