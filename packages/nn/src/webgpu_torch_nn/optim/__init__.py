"""Optimisers and learning-rate schedules."""

from __future__ import annotations

from webgpu_torch_nn._exports import exported as _exported
from webgpu_torch_nn.optim import lr_scheduler as lr_scheduler
from webgpu_torch_nn.optim import swa_utils as swa_utils
from webgpu_torch_nn.optim.adadelta import Adadelta as Adadelta
from webgpu_torch_nn.optim.adafactor import Adafactor as Adafactor
from webgpu_torch_nn.optim.adagrad import Adagrad as Adagrad
from webgpu_torch_nn.optim.adam import Adam as Adam
from webgpu_torch_nn.optim.adamax import Adamax as Adamax
from webgpu_torch_nn.optim.adamw import AdamW as AdamW
from webgpu_torch_nn.optim.asgd import ASGD as ASGD
from webgpu_torch_nn.optim.lbfgs import LBFGS as LBFGS
from webgpu_torch_nn.optim.muon import Muon as Muon
from webgpu_torch_nn.optim.nadam import NAdam as NAdam
from webgpu_torch_nn.optim.optimizer import Optimizer as Optimizer
from webgpu_torch_nn.optim.radam import RAdam as RAdam
from webgpu_torch_nn.optim.rmsprop import RMSprop as RMSprop
from webgpu_torch_nn.optim.rprop import Rprop as Rprop
from webgpu_torch_nn.optim.sgd import SGD as SGD
from webgpu_torch_nn.optim.sparse_adam import SparseAdam as SparseAdam

__all__ = _exported(globals(), "lr_scheduler", "swa_utils")
