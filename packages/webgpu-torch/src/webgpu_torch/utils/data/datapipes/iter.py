"""Pipes that are streams."""

from __future__ import annotations

from webgpu_torch_nn.utils.data.datapipes import Batcher as Batcher
from webgpu_torch_nn.utils.data.datapipes import Collator as Collator
from webgpu_torch_nn.utils.data.datapipes import Concater as Concater
from webgpu_torch_nn.utils.data.datapipes import Demultiplexer as Demultiplexer
from webgpu_torch_nn.utils.data.datapipes import Filter as Filter
from webgpu_torch_nn.utils.data.datapipes import Forker as Forker
from webgpu_torch_nn.utils.data.datapipes import Grouper as Grouper
from webgpu_torch_nn.utils.data.datapipes import IterableWrapper as IterableWrapper
from webgpu_torch_nn.utils.data.datapipes import IterDataPipe as IterDataPipe
from webgpu_torch_nn.utils.data.datapipes import Mapper as Mapper
from webgpu_torch_nn.utils.data.datapipes import Multiplexer as Multiplexer
from webgpu_torch_nn.utils.data.datapipes import Sampler as Sampler
from webgpu_torch_nn.utils.data.datapipes import ShardingFilter as ShardingFilter
from webgpu_torch_nn.utils.data.datapipes import Shuffler as Shuffler
from webgpu_torch_nn.utils.data.datapipes import UnBatcher as UnBatcher
from webgpu_torch_nn.utils.data.datapipes import Zipper as Zipper
