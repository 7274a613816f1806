"""Sharing a data set out between processes, as ``torch.utils.data.distributed``."""

from webgpu_torch_nn.utils.data import DistributedSampler as DistributedSampler
