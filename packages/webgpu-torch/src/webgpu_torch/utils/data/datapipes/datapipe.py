"""The kinds of pipes."""

from __future__ import annotations

from webgpu_torch_nn.utils.data.datapipes import DataChunk as DataChunk
from webgpu_torch_nn.utils.data.datapipes import DFIterDataPipe as DFIterDataPipe
from webgpu_torch_nn.utils.data.datapipes import IterDataPipe as IterDataPipe
from webgpu_torch_nn.utils.data.datapipes import MapDataPipe as MapDataPipe
