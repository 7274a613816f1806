"""Random numbers: generators, the draws that use them, and the methods that overwrite with them."""
