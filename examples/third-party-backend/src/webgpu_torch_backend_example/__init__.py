"""An example backend for webgpu-torch: kernels as Python loops."""
