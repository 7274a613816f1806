"""Samplers, as ``torch.utils.data.sampler``."""

from webgpu_torch_nn.utils.data import BatchSampler as BatchSampler
from webgpu_torch_nn.utils.data import RandomSampler as RandomSampler
from webgpu_torch_nn.utils.data import Sampler as Sampler
from webgpu_torch_nn.utils.data import SequentialSampler as SequentialSampler
from webgpu_torch_nn.utils.data import SubsetRandomSampler as SubsetRandomSampler
from webgpu_torch_nn.utils.data import WeightedRandomSampler as WeightedRandomSampler
