"""``torch.xpu``: no such device; the GPU is reached through WebGPU, as ``device("webgpu")``."""

from .mps import device_count as device_count
from .mps import empty_cache as empty_cache
from .mps import is_available as is_available
from .mps import manual_seed as manual_seed
from .mps import manual_seed_all as manual_seed_all
