"""What makes a class of pipes a method of all."""

from __future__ import annotations

from webgpu_torch_nn.utils.data.datapipes import functional_datapipe as functional_datapipe
