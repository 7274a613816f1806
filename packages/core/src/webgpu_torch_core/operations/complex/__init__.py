"""Complex tensors: a storage of interleaved real and imaginary floats, and every operation written over its real view."""
