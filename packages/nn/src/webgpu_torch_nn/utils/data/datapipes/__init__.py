"""Data sets chained by methods, as PyTorch's ``torch.utils.data.datapipes``: ``IterableWrapper(range(9)).map(f).batch(3)``.

PyTorch no longer adds to these; they are here for the programs that use them.
"""

from __future__ import annotations

from .combinations import Concater as Concater
from .combinations import Demultiplexer as Demultiplexer
from .combinations import Forker as Forker
from .combinations import Multiplexer as Multiplexer
from .combinations import Zipper as Zipper
from .datapipe import DataChunk as DataChunk
from .datapipe import DFIterDataPipe as DFIterDataPipe
from .datapipe import IterDataPipe as IterDataPipe
from .datapipe import MapDataPipe as MapDataPipe
from .datapipe import functional_datapipe as functional_datapipe
from .maps import MapMapper as MapMapper
from .maps import SequenceWrapper as SequenceWrapper
from .streams import Batcher as Batcher
from .streams import Collator as Collator
from .streams import Filter as Filter
from .streams import Grouper as Grouper
from .streams import IterableWrapper as IterableWrapper
from .streams import Mapper as Mapper
from .streams import Sampler as Sampler
from .streams import ShardingFilter as ShardingFilter
from .streams import Shuffler as Shuffler
from .streams import UnBatcher as UnBatcher
from .streams import apply_sharding as apply_sharding
