"""The WebGPU backend: kernels printed as WGSL, plans replayed as a few large submits."""
