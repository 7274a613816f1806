import torch
from vector_quantize_pytorch import FSQ, LFQ, RandomProjectionQuantizer, ResidualVQ, SimVQ, VectorQuantize


def codebook():
    quantizer = VectorQuantize(dim=8, codebook_size=16, decay=0.8, commitment_weight=1.0)
    x = torch.randn(2, 12, 8, requires_grad=True)
    quantized, indices, loss = quantizer(x)
    (quantized.sum() + loss.sum()).backward()
    return [quantized, indices, loss, x.grad, quantizer.codebook]


def kmeans():
    quantizer = VectorQuantize(dim=4, codebook_size=6, kmeans_init=True, kmeans_iters=4, use_cosine_sim=True)
    return quantizer(torch.randn(1, 64, 4))


def residual():
    quantizer = ResidualVQ(dim=8, num_quantizers=3, codebook_size=16)
    x = torch.randn(1, 20, 8)
    for _ in range(2):
        quantized, indices, losses = quantizer(x)
    return [quantized, indices, losses, quantizer.eval()(x, return_all_codes=True)[3]]


def without_codebooks():
    finite, free = FSQ([5, 4, 3]), LFQ(codebook_size=16, dim=4, entropy_loss_weight=0.1)
    values, indices = finite(torch.randn(2, 6, 3))
    return [values, indices, finite.indices_to_codes(indices), free(torch.randn(1, 4, 4, 4))]


def projected():
    quantizer = RandomProjectionQuantizer(dim=8, num_codebooks=2, codebook_dim=4, codebook_size=16)
    return [quantizer(torch.randn(1, 10, 8)), SimVQ(dim=8, codebook_size=16)(torch.randn(1, 10, 8))]
