import tensorly
import torch
from tensorly.decomposition import parafac, tucker

tensorly.set_backend("pytorch")


def decompositions():
    x = torch.randn(4, 5, 3)
    core, factors = tucker(x, [2, 2, 2], random_state=0)
    weights, parts = parafac(x, 2, random_state=0, n_iter_max=20)
    return [tensorly.tucker_to_tensor((core, factors)), tensorly.cp_to_tensor((weights, parts))]


def layers():
    import tltorch

    return tltorch.FactorizedLinear.from_linear(
        torch.nn.Linear(8, 8), in_tensorized_features=(2, 4), out_tensorized_features=(4, 2), factorization="cp", rank=4
    )(torch.randn(2, 8)).shape
