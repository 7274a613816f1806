"""Every module, one family per file."""

from __future__ import annotations

from webgpu_torch_nn._exports import public_names

# torch.compile finds it by a method of modules.
from webgpu_torch_nn.modules import optimized_module as _optimized_module
from webgpu_torch_nn.modules._hooks import *
from webgpu_torch_nn.modules.activation import *
from webgpu_torch_nn.modules.adaptive import *
from webgpu_torch_nn.modules.batchnorm import *
from webgpu_torch_nn.modules.channelshuffle import *
from webgpu_torch_nn.modules.container import *
from webgpu_torch_nn.modules.conv import *
from webgpu_torch_nn.modules.conv_transpose import *
from webgpu_torch_nn.modules.distance import *
from webgpu_torch_nn.modules.dropout import *
from webgpu_torch_nn.modules.flatten import *
from webgpu_torch_nn.modules.fold import *
from webgpu_torch_nn.modules.instancenorm import *
from webgpu_torch_nn.modules.lazy import *
from webgpu_torch_nn.modules.linear import *
from webgpu_torch_nn.modules.linear_cross_entropy_options import *
from webgpu_torch_nn.modules.loss import *
from webgpu_torch_nn.modules.loss_margin import *
from webgpu_torch_nn.modules.module import *
from webgpu_torch_nn.modules.multihead_attention import *
from webgpu_torch_nn.modules.normalization import *
from webgpu_torch_nn.modules.padding import *
from webgpu_torch_nn.modules.pixelshuffle import *
from webgpu_torch_nn.modules.pooling import *
from webgpu_torch_nn.modules.rnn import *
from webgpu_torch_nn.modules.sparse import *
from webgpu_torch_nn.modules.transformer import *
from webgpu_torch_nn.modules.upsampling import *

_HOOKS = {name: value for name, value in globals().items() if name.startswith("register_module_")}
# These are imported from their family, as in PyTorch.
_LEAVE_OUT = ("LazyModuleMixin", "NonDynamicallyQuantizableLinear", "register_module_backward_hook")
__all__ = public_names(globals(), _HOOKS, _LEAVE_OUT)

#: where PyTorch has classes that have a file of their own here: prefixes of names, and the family
_FAMILIES = {
    "conv": ("ConvTranspose", "LazyConv"),
    "batchnorm": ("LazyBatchNorm",),
    "instancenorm": ("LazyInstanceNorm",),
    "linear": ("LazyLinear",),
    "loss": (
        "HingeEmbeddingLoss", "MultiLabel", "SoftMarginLoss", "CosineEmbeddingLoss", "MarginRankingLoss",
        "MultiMarginLoss", "TripletMargin",
    ),
}  # fmt: skip
for _family, _prefixes in _FAMILIES.items():
    for _name in [each for each in globals() if each.startswith(_prefixes)]:
        setattr(globals()[_family], _name, globals()[_name])
