"""Signal processing, as ``torch.signal``."""

from webgpu_torch_core.signal import windows as windows
