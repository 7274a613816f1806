"""Learning-rate schedules: each ``step`` sets every group's "lr"."""

from __future__ import annotations

from webgpu_torch_nn._exports import exported as _exported
from webgpu_torch_nn.optim.lr_scheduler.combined import ChainedScheduler as ChainedScheduler
from webgpu_torch_nn.optim.lr_scheduler.combined import SequentialLR as SequentialLR
from webgpu_torch_nn.optim.lr_scheduler.cosine import CosineAnnealingLR as CosineAnnealingLR
from webgpu_torch_nn.optim.lr_scheduler.cosine import CosineAnnealingWarmRestarts as CosineAnnealingWarmRestarts
from webgpu_torch_nn.optim.lr_scheduler.cyclic import CyclicLR as CyclicLR
from webgpu_torch_nn.optim.lr_scheduler.factors import ConstantLR as ConstantLR
from webgpu_torch_nn.optim.lr_scheduler.factors import ExponentialLR as ExponentialLR
from webgpu_torch_nn.optim.lr_scheduler.factors import LinearLR as LinearLR
from webgpu_torch_nn.optim.lr_scheduler.factors import MultiStepLR as MultiStepLR
from webgpu_torch_nn.optim.lr_scheduler.factors import PolynomialLR as PolynomialLR
from webgpu_torch_nn.optim.lr_scheduler.factors import StepLR as StepLR
from webgpu_torch_nn.optim.lr_scheduler.functions import LambdaLR as LambdaLR
from webgpu_torch_nn.optim.lr_scheduler.functions import MultiplicativeLR as MultiplicativeLR
from webgpu_torch_nn.optim.lr_scheduler.one_cycle import OneCycleLR as OneCycleLR
from webgpu_torch_nn.optim.lr_scheduler.plateau import ReduceLROnPlateau as ReduceLROnPlateau
from webgpu_torch_nn.optim.lr_scheduler.scheduler import LRScheduler as LRScheduler
from webgpu_torch_nn.optim.lr_scheduler.scheduler import _LRScheduler as _LRScheduler

__all__ = _exported(globals())
