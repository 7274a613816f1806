"""Behaviours to choose that PyTorch may make its own one day, as ``torch.__future__``."""

from webgpu_torch_nn.modules._future import (
    get_overwrite_module_params_on_conversion as get_overwrite_module_params_on_conversion,
)
from webgpu_torch_nn.modules._future import (
    get_swap_module_params_on_conversion as get_swap_module_params_on_conversion,
)
from webgpu_torch_nn.modules._future import (
    set_overwrite_module_params_on_conversion as set_overwrite_module_params_on_conversion,
)
from webgpu_torch_nn.modules._future import (
    set_swap_module_params_on_conversion as set_swap_module_params_on_conversion,
)
