"""Tensors from numbers, memory and other tensors: factories, conversions, what other libraries lend."""
