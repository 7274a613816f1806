"""Trailing dimensions as space: sliding windows, interpolation, sampling at grids of positions."""
