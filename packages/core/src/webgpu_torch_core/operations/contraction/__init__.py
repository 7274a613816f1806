"""Sums of products: matrix products, einsum, convolution."""
