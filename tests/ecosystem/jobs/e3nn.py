import torch
from e3nn import o3


def harmonics():
    return o3.spherical_harmonics([0, 1, 2], torch.randn(5, 3), normalize=True)


def linear():
    return o3.Linear("4x0e + 2x1o", "3x0e + 1x1o")(torch.randn(2, 10))


def tensor_product():
    return o3.FullyConnectedTensorProduct("2x0e + 1x1o", "1x0e + 1x1o", "2x0e + 1x1o")(
        torch.randn(3, 5), torch.randn(3, 4)
    )


def rotations():
    return [o3.rand_matrix(2), o3.wigner_3j(1, 1, 1)]
