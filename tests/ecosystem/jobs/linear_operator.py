import torch
from linear_operator import to_linear_operator
from linear_operator.operators import DiagLinearOperator, KroneckerProductLinearOperator, LowRankRootLinearOperator


def solves():
    a = torch.randn(6, 6)
    operator = to_linear_operator(a @ a.T + 6 * torch.eye(6))
    right = torch.randn(6, 2)
    return [
        operator.solve(right),
        operator.logdet(),
        operator.diagonal(),
        (operator @ right),
        operator.cholesky().to_dense(),
    ]


def structured():
    one, other = torch.randn(3, 3), torch.randn(2, 2)
    product = KroneckerProductLinearOperator(to_linear_operator(one @ one.T), to_linear_operator(other @ other.T))
    low = LowRankRootLinearOperator(torch.randn(5, 2)) + DiagLinearOperator(torch.ones(5))
    return [product.to_dense(), low.to_dense(), low.solve(torch.ones(5, 1))]
