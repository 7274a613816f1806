"""Signal processing, as ``torch.signal``."""

from webgpu_torch_core.api.signal import windows as windows
