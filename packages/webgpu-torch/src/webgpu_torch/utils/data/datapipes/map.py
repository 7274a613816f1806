"""Pipes that map indices to samples."""

from __future__ import annotations

from webgpu_torch_nn.utils.data.datapipes import MapDataPipe as MapDataPipe
from webgpu_torch_nn.utils.data.datapipes import SequenceWrapper as SequenceWrapper
