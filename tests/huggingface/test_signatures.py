"""Parameter names, order and defaults of everything public are PyTorch's, and the other names it takes work too."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import signature_oracle as oracle
import torch
import webgpu_torch as ours

#: calls that reach other parameters by the types of their arguments, in both libraries: each is in CALLS
BY_TYPE = {
    "arange", "max", "min", "nuclear_norm", "randint", "randint_like", "random_", "repeat_interleave", "scatter", "std",
    "std_mean", "var", "var_mean", "norm", "to", "fractional_max_pool2d", "fractional_max_pool3d",
}  # fmt: skip
#: what PyTorch's stubs say and its functions do not do: one may not call them so
WRONG_STUBS = {"linspace", "logspace", "tensor", "new_tensor", "requires_grad_", "numel", "vander", "cpu"} | {
    "scaled_modified_bessel_k0", "scaled_modified_bessel_k1", "spherical_bessel_j0",
}  # fmt: skip
#: functions that differ, and where
KNOWN = {
    # results in another type: CUDA only
    "addmm": {"out_dtype"}, "baddbmm": {"out_dtype"}, "bmm": {"out_dtype"}, "mm": {"out_dtype"},
    # named tensors and cuDNN's switch, which this library has not
    "full": {"names"}, "group_norm": {"cudnn_enabled"}, "layer_norm": {"cudnn_enable"},
    # under ``torch`` they are the functions of networks, whose parameter is called ``training``
    "alpha_dropout": {"train"}, "dropout": {"train"}, "feature_alpha_dropout": {"train"}, "rrelu": {"generator"},
    "rrelu_": {"generator"}, "threshold": {"out"},
    # positions only
    "result_type": {"tensor", "other", "scalar", "scalar1", "scalar2"}, "detach_": {"input"},
    "new": {"storage", "other", "size"}, "dequantize": {"tensors"}, "quantize_per_tensor": {"tensors", "scales", "zero_points"},
    "subtract": {"with 3 arguments by position: too many positional arguments"},
    # documented under a name that they do not take
    "matrix_rank": {"A"}, "pinv": {"A"},
    # results that are sparse are new ones
    "hspmm": {"out"}, "sspaddmm": {"out"},
    "save": {"with 6 arguments by position: too many positional arguments"},
}  # fmt: skip


def _differences(table: oracle.Overloads, owner: Any, bound: bool = False) -> list[str]:
    found = []
    for name, ways in sorted(table.items()):
        function = getattr(owner, name, None)
        if name.startswith("_") or function is None or name in BY_TYPE | WRONG_STUBS:
            continue
        for overload in ways:
            if "self" in overload[0] and {"alpha", "beta", "value"} & set(overload[0]):
                # The order of old releases, with numbers first; PyTorch warns of it.
                continue
            problem = oracle.problems(function, overload, bound)
            if problem and not set(problem.removeprefix("lacks ").split(", ")) <= KNOWN.get(name, set()):
                found.append(f"{name} {problem}")
    return found


def test_functions() -> None:
    """Every overload of every function under ``torch``."""
    assert len(oracle.functions()) > 500
    assert _differences(oracle.functions(), ours) == []


def test_methods() -> None:
    """Every overload of every method of a tensor."""
    assert len(oracle.methods()) > 500
    assert _differences(oracle.methods(), ours.Tensor, bound=True) == []


def test_network_functions() -> None:
    """Every function of ``torch.nn.functional``."""
    assert len(oracle.network_functions()) > 100
    assert _differences(oracle.network_functions(), ours.nn.functional) == []


@pytest.mark.parametrize(
    "namespace", ["linalg", "fft", "special", "nn.init", "nn.utils", "optim", "optim.lr_scheduler"]
)
def test_namespaces(namespace: str) -> None:
    """Functions and classes that PyTorch writes in Python, and those whose documentation starts with a signature."""
    theirs, own = torch, ours
    for part in namespace.split("."):
        theirs, own = getattr(theirs, part), getattr(own, part)
    table = oracle.documented(theirs)
    assert table
    assert _differences(table, own) == []


def test_modules() -> None:
    """The constructors and ``forward`` of all modules."""
    kinds = {
        name: kind
        for name, kind in vars(torch.nn).items()
        if isinstance(kind, type) and issubclass(kind, torch.nn.Module) and hasattr(ours.nn, name)
    }
    assert len(kinds) > 140
    found = []
    for name, kind in kinds.items():
        for what in (None, "forward"):
            pair = [each if what is None else getattr(each, what) for each in (kind, getattr(ours.nn, name))]
            overload = oracle.of_python(pair[0])
            problem = overload and oracle.problems(pair[1], overload, bound=what is not None)
            if problem:
                found.append(f"{name}.{what or '__init__'} {problem}")
    assert found == []


#: calls with every other name that PyTorch takes, and with its own where an overload has them
CALLS = """
torch.lu_solve(input=x,LU_data=x,LU_pivots=torch.ones(3,dtype=torch.int32))
torch.swapaxes(x,axis0=0,axis1=1)
torch.swapdims(x,dim0=0,dim1=1)
x.clone().copy_(other=x)
torch.hsplit(x,sections=1)
torch.hsplit(x,indices=[1])
torch.tensor_split(x,sections=3)
torch.tensor_split(x,indices=[1])
torch.tensor_split(x,tensor_indices_or_sections=torch.tensor([1]))
torch.isin(element=1,test_elements=x)
torch.isin(elements=x,test_element=1)
torch.triangular_solve(input=x,A=x)
torch.unsafe_split(input=x,split_size=1)
x.unsafe_split(split_size=1)
x.split(split_size=1)
x.resize_(size=(3,3))
x.view(size=(9,))
torch.ormqr(x,input2=x[0],input3=x)
torch.searchsorted(x[0],self=1)
torch.bucketize(self=1,boundaries=x[0])
torch.histogram(x)
torch.histogram(x,3)
torch.histogramdd(x,3,None)
torch.var(x,True)
torch.std(x,False)
torch.var_mean(x,False)
torch.max(x,other=x)
torch.max(x,x)
torch.scatter(x,0,torch.zeros(1,1,dtype=torch.long),1.)
torch.scatter(x,0,torch.zeros(1,1,dtype=torch.long),value=1.)
torch.repeat_interleave(repeats=torch.tensor([1,2]))
torch.where(condition=x>0,self=1,other=x)
torch.nuclear_norm(x,True)
x.random_(5)
x.random_(to=5)
x.random_(2,5)
x.norm(2,0,False,torch.float32)
torch.rsub(x,1,2)
torch.rrelu(x,.1,.3,True,None)
torch.orgqr(x,x[0],out=torch.empty(0))
torch.slogdet(x,out=(x[0,0],x[0,1]))
torch.fill_(input=x,value=1)
torch.zero_(input=x)
torch.resize_as_(input=x,the_template=x)
torch.index_put_(input=x,indices=(torch.tensor([0]),),values=torch.tensor(1.))
torch.index_put(input=x,indices=(torch.tensor([0]),),values=torch.tensor(1.))
torch.xlogy(self=1,other=x)
torch.pow(self=2,exponent=x)
torch.remainder(self=1,other=x)
torch.bitwise_and(self=1,other=x.int())
torch.full((1,),1,pin_memory=False)
torch.ones_like(x,pin_memory=False)
torch.rand_like(x,pin_memory=False,memory_format=torch.preserve_format)
torch.tril_indices(2,2,requires_grad=False,pin_memory=False)
torch.argsort(x,stable=True,out=x.long())
torch.hardshrink(x,out=x)
torch.float_power(self=2.,exponent=x)
torch.randint(5,(2,))
torch.randint(high=5,size=(2,))
torch.randint_like(x,high=5,generator=None)
x.map_(x,lambda a,b:a+b)
torch.arange(end=5)
torch.arange(start=1,end=5)
torch.sum(x,axis=0,keepdims=True)
torch.add(x1=x,x2=x)
torch.cat([x,x],axis=1)
torch.cat(tensors=[x,x],dim=1)
torch.stack([x,x],axis=1)
torch.concatenate([x,x],axis=1)
torch.flip(x,dims=(0,))
torch.roll(x,1,dims=0)
torch.exp(x=x)
torch.zeros(size=(2,3))
torch.reshape(input=x,shape=(9,))
x.reshape(shape=(9,))
x.permute(dims=(1,0))
x.expand(size=(3,3))
x.repeat(repeats=(2,2))
x.sum(axis=-1,keepdims=True)
x.mean(axis=(0,1))
x.argmax(axis=1)
x.max(axis=1)
x.max(axis=1,keepdims=True).values
x.softmax(axis=-1)
x.squeeze(axis=0)
x.unsqueeze(axis=0)
x.cumsum(axis=0)
x.flatten(start_dim=0,end_dim=1)
x.chunk(chunks=3,dim=0)
x.any(axis=1)
x.sort(axis=1)
x.topk(2,axis=1)
x.gather(axis=1,index=x.long())
x.index_select(axis=1,index=torch.tensor([0]))
x.select(axis=1,index=0)
x.narrow(axis=0,start=0,length=1)
x.unbind(axis=0)
x.flip(0)
x.std(axis=1,keepdims=True)
x.to(dtype=float)
torch.zeros(2,dtype=int)
torch.zeros(2,dtype=bool)
torch.logsumexp(x,axis=1)
torch.softmax(x,axis=1)
torch.nn.functional.softmax(x,dim=1)
torch.linalg.norm(x,axis=1)
torch.linalg.vector_norm(x,dim=1,keepdims=True)
torch.linalg.vector_norm(x,axis=1)
torch.linspace(start=0,end=1,steps=3)
torch.swapaxes(input=x,axis0=0,axis1=1)
torch.tile(x,dims=(2,))
torch.masked_fill(x,mask=x>0,value=3)
x.masked_fill(mask=x>0,value=3)
x.scatter_(dim=0,index=torch.zeros(1,1,dtype=torch.long),value=2)
x.clamp(min=0,max=1)
x.clip(0,1)
torch.einsum('ij,jk->ik',[x,x])
torch.meshgrid([x[0],x[0]],indexing='ij')
torch.broadcast_to(x,size=(2,3,3))
torch.full(size=(2,),fill_value=1)
torch.full_like(x,fill_value=1)
x.new_full(size=(2,),fill_value=1)
x.new_zeros(size=(2,))
torch.unflatten(x,dim=0,sizes=(1,3))
x.unfold(dimension=0,size=2,step=1)
x.type(dtype=torch.int32)
x.view(dtype=torch.int32)
torch.index_select(input=x,dim=0,index=torch.tensor([0]))
torch.baddbmm(input=x[None],batch1=x[None],batch2=x[None],beta=1,alpha=2)
x.cpu(memory_format=torch.preserve_format)
x.contiguous(memory_format=torch.contiguous_format)
torch.empty(2,3,memory_format=torch.contiguous_format,pin_memory=False,layout=torch.strided)
""".strip().splitlines()
#: calls whose results are random, or undefined
RANDOM = ("rand", "empty", "resize_", "rrelu", "dropout")


def _plain(value: Any) -> Any:
    if isinstance(value, torch.Tensor | ours.Tensor):
        return str(value.dtype), tuple(value.shape), _plain(value.tolist())
    if isinstance(value, float):
        return float(f"{value:.5g}")
    if isinstance(value, tuple | list):
        return [_plain(each) for each in value]
    return value if isinstance(value, int | float) else str(value)


@pytest.mark.parametrize("call", CALLS)
def test_calls(call: str) -> None:
    """PyTorch takes a call's names, so do we, and the results agree."""
    results = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for library in (torch, ours):
            found = eval(call, {"torch": library, "x": library.eye(3)})
            results.append(_plain(found))
    if any(each in call for each in RANDOM):
        return
    assert repr(results[1]) == repr(results[0])  # NaN equals NaN in writing
