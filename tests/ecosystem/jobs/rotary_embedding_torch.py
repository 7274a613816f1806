import torch
from rotary_embedding_torch import RotaryEmbedding


def rotate():
    rotary = RotaryEmbedding(dim=8)
    return [
        rotary.rotate_queries_or_keys(torch.randn(1, 2, 6, 16)),
        RotaryEmbedding(dim=8, freqs_for="pixel", max_freq=16).get_axial_freqs(3, 4),
    ]
