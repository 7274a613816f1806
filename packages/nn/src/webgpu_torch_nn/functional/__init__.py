"""Functions of neural networks, one family per file: what core computes, and what is composed from it here."""

from __future__ import annotations

import webgpu_torch_core as _core
from webgpu_torch_core.dispatch.autocast import with_autocast as _with_autocast
from webgpu_torch_core.dispatch.overrides import PATHS as _PATHS
from webgpu_torch_core.dispatch.overrides import public as _public
from webgpu_torch_core.dispatch.python_functions import written_in_python as _written_in_python

from webgpu_torch_nn._exports import public_names as _public_names
from webgpu_torch_nn.functional.activation import *
from webgpu_torch_nn.functional.adaptive_pooling import *
from webgpu_torch_nn.functional.attention import *
from webgpu_torch_nn.functional.convolution import *
from webgpu_torch_nn.functional.distance import *
from webgpu_torch_nn.functional.dropout import *
from webgpu_torch_nn.functional.embedding import *
from webgpu_torch_nn.functional.fold import *
from webgpu_torch_nn.functional.grouped import *
from webgpu_torch_nn.functional.interpolation import *
from webgpu_torch_nn.functional.linear import *
from webgpu_torch_nn.functional.loss import *
from webgpu_torch_nn.functional.loss_classification import *
from webgpu_torch_nn.functional.loss_margin import *
from webgpu_torch_nn.functional.loss_sequence import *
from webgpu_torch_nn.functional.normalization import *
from webgpu_torch_nn.functional.padding import *
from webgpu_torch_nn.functional.pooling import *
from webgpu_torch_nn.functional.sampling import *

__all__ = _public_names(globals(), shared={name: getattr(_core.functional, name) for name in _core.functional.__all__})

for _name in __all__:
    _declared = globals()[_name]
    if _declared not in _PATHS:
        # Functions made of several operations follow their rule of autocast as a whole.
        _path = f"torch.nn.functional.{_name}"
        globals()[_name] = _public(_with_autocast(_name, _declared), _path, _declared, _written_in_python(_path))
        globals()[_name].__module__ = __name__

# Methods of tensors that PyTorch has of these, too.
_core.Tensor.prelu = _public(prelu.__wrapped__, "torch.Tensor.prelu")  # type: ignore[attr-defined]
_core.Tensor.hardshrink = _public(hardshrink.__wrapped__, "torch.Tensor.hardshrink")  # type: ignore[attr-defined]
