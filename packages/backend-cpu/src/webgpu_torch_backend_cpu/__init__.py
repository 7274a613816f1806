"""The CPU backend: kernels printed as NumPy source, contractions through BLAS."""
