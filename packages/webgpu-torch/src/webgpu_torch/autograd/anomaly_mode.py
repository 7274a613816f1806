"""Finding the forward call behind a failing backward, as ``torch.autograd.anomaly_mode``."""

from webgpu_torch_core.autograd import detect_anomaly as detect_anomaly
from webgpu_torch_core.autograd import set_detect_anomaly as set_detect_anomaly
