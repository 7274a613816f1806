"""What PyTorch warns of, we warn of: the same kinds of warnings from the same calls, at the caller's line."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import torch as reference
import webgpu_torch as ours
from webgpu_torch_core.notices import Notices

CALLS = """
F.softmax(x)
F.log_softmax(x)
F.softmin(x)
F.softmax(x, 1)
nn.Softmax()(x)
nn.LogSoftmax()(x)
F.gumbel_softmax(x, eps=1e-5)
F.mse_loss(x, x[:1])
F.mse_loss(x, x, reduce=False)
nn.CrossEntropyLoss(size_average=True)
nn.L1Loss(reduce=True)
nn.PoissonNLLLoss(size_average=True)
F.conv2d(torch.ones(1, 1, 4, 4), torch.ones(1, 1, 2, 2), padding="same")
F.conv1d(torch.ones(1, 1, 4), torch.ones(1, 1, 2), padding="same", dilation=2)
nn.Conv1d(1, 1, 2, padding="same")(torch.ones(1, 1, 4))
nn.Conv2d(1, 1, 3, padding="same")(torch.ones(1, 1, 4, 4))
nn.utils.weight_norm(nn.Linear(2, 2))
nn.utils.parametrizations.weight_norm(nn.Linear(2, 2))
x.T
x[None].T
x[0].T
x[0, 0].T
x[None].mT
x.volatile
torch.autograd.Variable(x, volatile=True)
torch.autograd.Variable(x)
torch.stft(torch.randn(64), 16, return_complex=True)
torch.istft(torch.stft(torch.randn(64), 16, return_complex=True, window=torch.ones(16)), 16)
torch.meshgrid(x[0], x[1])
torch.meshgrid(x[0], x[1], indexing="ij")
torch.cartesian_prod(x[0], x[1])
torch.combinations(x[0])
torch.tensor(x)
x.new_tensor(x)
torch.as_tensor(x)
x.new(x[0].int().tolist())
float(w[0])
complex(w[0])
int(w[0])
bool(w[0])
w[0].item()
torch.cross(torch.ones(3, 4), torch.ones(3, 4))
torch.cross(torch.ones(3, 4), torch.ones(3, 4), dim=0)
x[torch.ones(3, 4, dtype=torch.uint8)]
x[torch.ones(3, dtype=torch.uint8)]
x[torch.ones(3, dtype=torch.uint8), 0]
torch.where(torch.ones(3, 4, dtype=torch.uint8), x, x)
torch.cholesky(torch.eye(3))
torch.eye(3).cholesky(True)
torch.qr(torch.ones(3, 3))
torch.lu(torch.eye(3))
torch.eye(3).lu(get_infos=True)
torch.lu_solve(torch.ones(3, 1), *torch.linalg.lu_factor(torch.eye(3)))
torch.linalg.lu_solve(*torch.linalg.lu_factor(torch.eye(3)), torch.ones(3, 1))
torch.triangular_solve(torch.ones(3, 1), torch.eye(3))
torch.chain_matmul(torch.eye(3), torch.eye(3))
torch.add(x, x, out=torch.empty(5, 5))
torch.add(x, x, out=torch.empty(0))
torch.sum(x, 0, out=torch.empty(9))
torch.cumsum(x, 0, out=torch.empty(5, 5))
torch.mm(x, x.t(), out=torch.empty(9))
torch.sort(x, out=(torch.empty(5), torch.empty(5, dtype=torch.long)))
w.sum().backward(create_graph=True)
torch.autograd.backward(w.sum(), create_graph=True)
torch.autograd.grad(w.sum(), w, create_graph=True)
torch.std(torch.ones(1))
torch.ones(1).std()
torch.ones(2, 0).var(1)
torch.var(torch.ones(2), correction=2)
torch.var(torch.ones(2), correction=1)
torch.std_mean(torch.ones(1))
torch.var_mean(torch.ones(1))
torch.cov(x[:, :1])
torch.cov(x)
torch.is_autocast_cpu_enabled()
torch.get_autocast_cpu_dtype()
torch.is_autocast_enabled()
torch.cuda.amp.custom_fwd(lambda a: a)
torch.cuda.amp.GradScaler()
x.to(torch.complex64).float()
"""


@pytest.fixture(autouse=True, scope="module")
def always() -> Iterator[None]:
    """What comes once in a process comes every time."""
    for library in (reference, ours):
        library.set_warn_always(True)
    yield
    for library in (reference, ours):
        library.set_warn_always(False)


def _given(library: Any, call: str) -> list[tuple[str, str]]:
    """Return the kinds of warnings of a call, and the words that they begin with; all of them name this file's line."""
    library.manual_seed(0)
    names = {
        "torch": library, "nn": library.nn, "F": library.nn.functional, "x": library.randn(3, 4),
        "w": library.ones(2, requires_grad=True),
    }  # fmt: skip
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        eval(compile(call, "the call", "eval"), names)
    assert library is reference or all(each.filename == "the call" for each in caught), [
        each.filename for each in caught
    ]
    return sorted((each.category.__name__, str(each.message).partition(" (Triggered")[0][:60]) for each in caught)


@pytest.mark.parametrize("call", CALLS.strip().splitlines())
def test_the_same_warnings(call: str) -> None:
    expected = _given(reference, call)
    # However often: what was warned of is not remembered without its warning.
    for _ in range(3):
        assert _given(ours, call) == expected


def test_what_comes_once_comes_once() -> None:
    ours.set_warn_always(False)
    Notices.said.clear()
    with pytest.warns(UserWarning, match="indexing argument") as caught:
        warnings.simplefilter("always")
        for _ in range(3):
            ours.meshgrid(ours.ones(1), ours.ones(2))
    assert len(caught) == 1


def test_storages_are_deprecated_once() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(3):
            ours.ones(1).storage()
    assert len(caught) <= 1
