"""PyTorch's CPU random numbers, bit for bit: the stream of words, and the distributions drawn from it."""
