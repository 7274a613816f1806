"""Continuing a sequence token by token: the likeliest token, drawn tokens, or the best of several beams."""

from __future__ import annotations

from webgpu_torch_models.generation.config import GenerationConfig as GenerationConfig
from webgpu_torch_models.generation.continuous import ContinuousBatch as ContinuousBatch
from webgpu_torch_models.generation.continuous import Request as Request
from webgpu_torch_models.generation.decoding import Decoder as Decoder
from webgpu_torch_models.generation.loop import generate as generate
from webgpu_torch_models.generation.loop import stream as stream

__all__ = ["ContinuousBatch", "Decoder", "GenerationConfig", "Request", "generate", "stream"]
