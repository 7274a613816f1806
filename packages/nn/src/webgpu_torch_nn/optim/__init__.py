"""Optimisers and learning-rate schedules."""

from __future__ import annotations

from webgpu_torch_nn.optim import lr_scheduler as lr_scheduler
from webgpu_torch_nn.optim.adam import Adam as Adam
from webgpu_torch_nn.optim.adamw import AdamW as AdamW
from webgpu_torch_nn.optim.optimizer import Optimizer as Optimizer
from webgpu_torch_nn.optim.sgd import SGD as SGD

__all__ = ["SGD", "Adam", "AdamW", "Optimizer", "lr_scheduler"]
