"""Automatic differentiation, as ``torch.autograd``."""

from typing import TYPE_CHECKING

from webgpu_torch_core.autograd import Function as Function
from webgpu_torch_core.autograd import backward as backward
from webgpu_torch_core.autograd import detect_anomaly as detect_anomaly
from webgpu_torch_core.autograd import enable_grad as enable_grad
from webgpu_torch_core.autograd import grad as grad
from webgpu_torch_core.autograd import inference_mode as inference_mode
from webgpu_torch_core.autograd import no_grad as no_grad
from webgpu_torch_core.autograd import set_detect_anomaly as set_detect_anomaly
from webgpu_torch_core.autograd import set_grad_enabled as set_grad_enabled

from .._parts import lazily as _lazily
from . import anomaly_mode as anomaly_mode
from . import forward_ad as forward_ad
from . import function as function
from . import functional as functional
from . import grad_mode as grad_mode
from . import graph as graph
from . import variable as variable
from .gradcheck import gradcheck as gradcheck
from .gradcheck import gradgradcheck as gradgradcheck
from .variable import Variable as Variable

if TYPE_CHECKING:
    from . import profiler as profiler
    from . import profiler_util as profiler_util
else:
    __getattr__ = _lazily(__name__, "profiler", "profiler_util")
