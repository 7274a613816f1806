"""Automatic differentiation, as ``torch.autograd``."""

from importlib.util import find_spec as _find_spec
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
from webgpu_torch_core.backend import profiling as _profiling
from webgpu_torch_core.record.grad_mode import is_multithreading_enabled as is_multithreading_enabled
from webgpu_torch_core.record.grad_mode import set_multithreading_enabled as set_multithreading_enabled

from .._C._autograd import SavedTensor as SavedTensor
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


def kineto_available() -> bool:
    """Return whether there is a profiler: webgpu-torch-tools brings it."""
    return _find_spec("webgpu_torch_tools") is not None


def _profiler_enabled() -> bool:
    """Return whether a profiler records."""
    return _profiling.listener is not None


if TYPE_CHECKING:
    from . import profiler as profiler
    from . import profiler_util as profiler_util
else:
    __getattr__ = _lazily(__name__, "profiler", "profiler_util")
