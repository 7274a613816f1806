"""``torch.backends``: PyTorch's own back ends, none of which is here."""

from __future__ import annotations

from . import cpu as cpu
from . import cuda as cuda
from . import cudnn as cudnn
from . import mha as mha
from . import mkldnn as mkldnn
from . import mps as mps
from . import opt_einsum as opt_einsum
from . import quantized as quantized
from . import xpu as xpu


def disable_global_flags() -> None:
    """Do nothing: flags of other libraries' kernels are read back as they were set, and change nothing."""
