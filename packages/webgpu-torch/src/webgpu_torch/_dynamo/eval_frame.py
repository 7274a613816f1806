"""The type of compiled modules."""

from webgpu_torch_nn.modules.optimized_module import OptimizedModule as OptimizedModule
