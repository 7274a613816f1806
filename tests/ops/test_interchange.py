"""Tensors go to and come from NumPy, DLPack, buffers, pickles and Python's numbers as PyTorch's do."""

from __future__ import annotations

import copy
import operator
import pickle
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import webgpu_torch as ours
from ops_oracle import compare

KINDS = (
    "bool",
    "uint8",
    "int8",
    "int16",
    "int32",
    "int64",
    "float16",
    "bfloat16",
    "float32",
    "float64",
    "complex64",
    "complex128",
)


def outcome(function: Callable[[Any], Any], library: Any) -> Any:
    """Return what a function gives, or the class and text of what it raises or warns."""
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        try:
            result = function(library)
        except Exception as error:  # noqa: BLE001 - whatever the oracle raises is the expectation
            return type(error).__name__
    # NumPy asks for a parameter that PyTorch's __array__ has not, and here has.
    return plain(result), [each.category.__name__ for each in heard if each.category is not DeprecationWarning]


def plain(value: Any) -> Any:
    if isinstance(value, torch.Tensor | ours.Tensor):
        return ("tensor", repr(value.dtype), tuple(value.shape), value.requires_grad, str(value.tolist()))
    if isinstance(value, np.ndarray | np.generic):
        return (type(value).__name__, str(value.dtype), value.shape, str(value.tolist()))
    if isinstance(value, tuple | list):
        return type(value).__name__, tuple(plain(each) for each in value)
    return (type(value).__name__, str(value))


def agree(function: Callable[[Any], Any]) -> None:
    mine, theirs = outcome(function, ours), outcome(function, torch)
    assert mine == theirs


# NumPy


class TestNumpy:
    @pytest.mark.parametrize("kind", [each for each in KINDS if each != "bfloat16"])
    def test_there_and_back(self, kind: str) -> None:
        array = np.arange(12).reshape(3, 4).astype(kind if kind != "bool" else "bool_")
        for view in (array, array[:, ::2], array.T, array[1:], array[:, 1], array[1, 1:2], np.array(array[1, 2])):
            agree(lambda t: t.from_numpy(view))
            agree(lambda t: t.from_numpy(view).stride())
            agree(lambda t: t.from_numpy(view).numpy())
            agree(lambda t: t.tensor(view))
            agree(lambda t: t.as_tensor(view))
            agree(lambda t: t.asarray(view))

    def test_memory_is_shared(self) -> None:
        for library in (ours, torch):
            array = np.zeros((3, 4), np.float32)
            for view in (array, array[:, ::2], array.T, array[1:]):
                tensor = library.from_numpy(view)
                tensor.add_(1)
                view[0] += 5
                assert (tensor.numpy() == view).all()
            assert array.sum() == {"float32": array.sum()}["float32"] and array[2, 2] == 4
            tensor = library.zeros(4)
            whole, part = tensor.numpy(), tensor[1:3].numpy()
            part[0] = 3
            assert tensor.tolist() == [0, 3, 0, 0] and whole[1] == 3
            tensor.fill_(2)
            assert whole.tolist() == [2] * 4
            assert tensor.t().numpy().base is not None

    def test_refusals(self) -> None:
        agree(lambda t: t.from_numpy(np.arange(4)[::-1]))
        agree(lambda t: t.from_numpy([1, 2]))
        agree(lambda t: t.from_numpy(np.array(["a"])))
        agree(lambda t: t.from_numpy(np.array([object()])))
        agree(lambda t: t.tensor(np.array(["a"])))
        agree(lambda t: t.ones(2, requires_grad=True).numpy())
        agree(lambda t: t.ones(2, requires_grad=True).detach().numpy())
        agree(lambda t: t.ones(2, requires_grad=True).numpy(force=True))
        agree(lambda t: t.ones(2, dtype=t.bfloat16).numpy())
        agree(lambda t: np.asarray(t.ones(2, requires_grad=True)))
        agree(lambda t: t.ones(2, device="meta").numpy())
        frozen = np.arange(3.0)
        frozen.setflags(write=False)
        agree(lambda t: t.from_numpy(frozen))
        agree(lambda t: t.tensor(np.arange(4)[::-1]))

    def test_array_protocol(self) -> None:
        agree(lambda t: np.asarray(t.arange(3)))
        agree(lambda t: np.asarray(t.arange(3), dtype="float32"))
        agree(lambda t: np.array(t.arange(3.0)))
        agree(lambda t: np.array(t.arange(3.0), dtype=np.int8))
        agree(lambda t: np.sqrt(t.arange(3.0)))
        agree(lambda t: np.add(t.arange(3.0), 1))
        agree(lambda t: np.concatenate([t.arange(3), t.arange(2)]))
        for library in (ours, torch):
            tensor = library.zeros(3)
            shared, copied = tensor.numpy(), np.array(tensor.numpy()) if library is torch else np.array(tensor)
            tensor[0] = 1
            assert shared[0] == 1 and copied[0] == 0

    def test_scalars_take_part(self) -> None:
        for scalar in (np.float32(2), np.float64(2.5), np.int64(3), np.int8(2), np.bool_(True)):
            for function in (
                operator.add,
                operator.mul,
                operator.sub,
                operator.truediv,
                operator.pow,
                operator.eq,
                operator.lt,
            ):
                agree(lambda t: function(t.tensor([1.0, 2.0]), scalar))
            agree(lambda t: t.tensor([1.0, 2.0]) + scalar)
            agree(lambda t: t.full((2,), scalar))
            agree(lambda t: t.tensor(scalar))
            agree(lambda t: t.tensor([scalar, scalar]))
            agree(lambda t: t.clamp(t.tensor([1.0, 9.0]), max=scalar))
        agree(lambda t: t.tensor([1, 2]) + np.int64(3))
        agree(lambda t: t.tensor([1, 2])[np.int64(1)])
        agree(lambda t: t.arange(6).reshape(2, 3)[np.array([0, 1]), np.array([1, 2])])
        agree(lambda t: t.arange(6)[np.array([True, False] * 3)])
        agree(lambda t: t.zeros(np.int64(2), np.int32(3)))
        agree(lambda t: t.ones(2, 3).sum(np.int64(1)))
        agree(lambda t: t.arange(np.int64(3)))

    def test_reversed_operands(self) -> None:
        for function in (
            operator.add,
            operator.mul,
            operator.sub,
            operator.truediv,
            operator.floordiv,
            operator.pow,
            operator.mod,
        ):
            agree(lambda t: function(2, t.tensor([1.0, 2.0])))
            agree(lambda t: function(2.5, t.tensor([1, 2])))
        for function in (operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift):
            agree(lambda t: function(6, t.tensor([1, 2])))
            agree(lambda t: function(t.tensor([5, 2]), t.tensor([1, 1])))
        agree(lambda t: t.tensor([[1.0, 2.0]]) @ t.tensor([[1.0], [2.0]]))
        agree(lambda t: ~t.tensor([1, 2]))
        agree(lambda t: ~t.tensor([True, False]))
        agree(lambda t: -t.tensor([1, 2]))
        agree(lambda t: +t.tensor([1, 2]))
        agree(lambda t: abs(t.tensor([-1, 2])))
        agree(lambda t: round(t.tensor([1.26]), decimals=1))
        agree(lambda t: divmod(7, 2))


class TestDlpack:
    @pytest.mark.parametrize("kind", KINDS)
    def test_with_the_oracle(self, kind: str) -> None:
        whole = torch.arange(12).reshape(3, 4).to(getattr(torch, kind))
        for view in (whole, whole[:, ::2], whole.t(), whole[1:], whole[1, 1]):
            mine = ours.from_dlpack(view)
            compare(mine, view)
            assert mine.stride() == view.stride()
            back = torch.from_dlpack(mine)
            assert back.data_ptr() == view.data_ptr() and back.stride() == view.stride()
            assert torch.equal(back, view)

    def test_with_the_oracle_where_functions_are_overridden(self) -> None:
        """PyTorch's tensors are no overriding arguments, though their class has the handler."""

        class Overriding(ours.Tensor):
            @classmethod
            def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
                return super().__torch_function__(func, types, args, kwargs or {})

        for given in (torch.arange(3.0), torch.nn.Parameter(torch.arange(3.0)).detach()):
            assert ours.from_dlpack(given).tolist() == [0, 1, 2]
        with pytest.raises(TypeError):
            ours.add(torch.ones(2), torch.nn.Parameter(torch.ones(2)))
        assert type(ours.ones(2).as_subclass(Overriding) + 1) is Overriding

    @pytest.mark.parametrize("kind", [each for each in KINDS if each != "bfloat16"])
    def test_with_numpy(self, kind: str) -> None:
        array = np.arange(12).reshape(3, 4).astype(kind if kind != "bool" else "bool_")
        for view in (array, array[:, ::2], array.T, array[1:]):
            mine = ours.from_dlpack(view)
            assert mine.stride() == tuple(each // view.itemsize for each in view.strides)
            assert (np.from_dlpack(mine) == view).all()

    def test_nothing_is_copied(self) -> None:
        array = np.zeros(4, np.float32)
        tensor = ours.from_dlpack(array)
        array[1] = 5
        tensor[2] = 7
        assert array.tolist() == tensor.tolist() == [0, 5, 7, 0]
        mine = ours.zeros(4)
        theirs = torch.from_dlpack(mine)
        theirs[0] = 1
        mine[1] = 2
        assert mine.tolist() == theirs.tolist() == [1, 2, 0, 0]

    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize("version", [None, (0, 8), (1, 0), (1, 1)])
    def test_capsules_of_versions(self, kind: str, version: Any) -> None:
        mine, theirs = (library.arange(3).to(getattr(library, kind)) for library in (ours, torch))
        capsules = [each.__dlpack__(max_version=version) for each in (mine, theirs)]
        assert [repr(each).split('"')[1] for each in capsules] == [
            "dltensor_versioned" if version and version[0] else "dltensor"
        ] * 2
        back = torch.utils.dlpack.from_dlpack(capsules[0])
        assert back.dtype is theirs.dtype
        back[0] = 1
        assert mine.tolist() == back.tolist() == [1, 1, kind == "bool" or 2]
        agree(lambda t: t.ones(2).__dlpack__(stream=1))

    def test_numpy_may_write(self) -> None:
        for library in (torch, ours):
            tensor = library.zeros(3)
            array = np.from_dlpack(tensor)
            array[1] = 5
            assert tensor.tolist() == [0, 5, 0]

    def test_capsules(self) -> None:
        mine = ours.arange(6.0).reshape(2, 3)
        assert mine.__dlpack_device__() == torch.arange(6.0).__dlpack_device__() == (1, 0)
        assert torch.utils.dlpack.from_dlpack(ours.utils.dlpack.to_dlpack(mine)).tolist() == mine.tolist()
        capsule = torch.utils.dlpack.to_dlpack(torch.ones(3))
        assert ours.utils.dlpack.from_dlpack(capsule).tolist() == [1, 1, 1]
        with pytest.raises(RuntimeError):
            ours.utils.dlpack.from_dlpack(capsule)

    def test_refusals(self) -> None:
        agree(lambda t: t.ones(2, requires_grad=True).__dlpack__())
        agree(lambda t: t.from_dlpack([1, 2]))
        agree(lambda t: t.ones(2, requires_grad=True).detach().__dlpack__() is not None)
        frozen = np.arange(3.0)
        frozen.setflags(write=False)
        mine = ours.from_dlpack(frozen)
        assert mine.tolist() == [0, 1, 2]


class TestMaking:
    def test_buffers(self) -> None:
        data = bytearray(range(16))
        for kind in ("uint8", "int16", "int32", "int64", "float32", "float64", "bool", "float16"):
            agree(lambda t: t.frombuffer(data, dtype=getattr(t, kind)).view(t.uint8))
        agree(lambda t: t.frombuffer(data, dtype=t.int16, count=2, offset=4))
        agree(lambda t: t.frombuffer(data, dtype=t.int32, count=9))
        agree(lambda t: t.frombuffer(data, dtype=t.int32, offset=3))
        agree(lambda t: t.frombuffer(data, dtype=t.int32, offset=16))
        agree(lambda t: t.frombuffer(data, dtype=t.int32, count=0))
        agree(lambda t: t.frombuffer(bytearray(), dtype=t.int32))
        agree(lambda t: t.frombuffer(bytes(8), dtype=t.int32))
        agree(lambda t: t.frombuffer(bytearray(8), dtype=t.float32, requires_grad=True))
        for library in (ours, torch):
            shared = bytearray(4)
            tensor = library.frombuffer(shared, dtype=library.uint8)
            shared[1] = 9
            tensor[2] = 4
            assert tensor.tolist() == list(shared) == [0, 9, 4, 0]

    def test_data(self) -> None:
        with warnings.catch_warnings():
            # Both say once that rows that are arrays are slow; another test may have heard one of them.
            warnings.simplefilter("ignore")
            for library in (torch, ours):
                library.tensor([np.arange(2)])
        for data in (
            1, 2.5, True, 1j, [1, 2], [1, 2.5], [True, 2], [[1], [2]], [], [[]], [[], []], (1, 2), [(1, 2), [3, 4]],
            [1, 2j], [[True, False]], range(3), [np.float32(1), 2], [np.int8(1), np.int8(2)], np.float64(2), np.arange(3),
            [np.arange(2), np.arange(2)], 2**40, [2**63 - 1], [[1, 2], [3]], "a", ["a"], None, [None], {}, [1, [2]],
            [-1], 1e300, [float("nan")], b"ab",
        ):  # fmt: skip
            agree(lambda t: t.tensor(data))
            if not isinstance(data, list) or not isinstance(next(iter(data), None), np.ndarray):
                agree(lambda t: t.as_tensor(data))
        for kind in KINDS:
            agree(lambda t: t.tensor([1, 0, 2], dtype=getattr(t, kind)))
            agree(lambda t: t.tensor([1.7, -0.5], dtype=getattr(t, kind)))
        agree(lambda t: t.tensor([300], dtype=t.uint8))
        agree(lambda t: t.tensor([-1], dtype=t.uint8))
        agree(lambda t: t.tensor([2**40], dtype=t.int32))
        agree(lambda t: t.tensor([1e300], dtype=t.float32))
        agree(lambda t: t.tensor([t.tensor(1), t.tensor(2)]))
        agree(lambda t: t.tensor([t.tensor(1.5), 2]))
        agree(lambda t: t.tensor([t.ones(1), t.ones(1)]))
        agree(lambda t: t.tensor([1], requires_grad=True))
        agree(lambda t: t.tensor([1.0], requires_grad=True))

    def test_asarray(self) -> None:
        agree(lambda t: t.asarray([1, 2]))
        agree(lambda t: t.asarray(2.5))
        agree(lambda t: t.asarray(np.arange(3), dtype=t.float32))
        agree(lambda t: t.asarray(t.arange(3), copy=True))
        agree(lambda t: t.asarray(t.ones(2, requires_grad=True), requires_grad=False))
        assert ours.asarray(ours.ones(2, requires_grad=True)).requires_grad
        agree(lambda t: t.asarray(np.arange(3.0), dtype=t.float32, copy=False))
        agree(lambda t: t.asarray(bytearray(4), dtype=t.uint8))
        for library in (ours, torch):
            array = np.zeros(3, np.float32)
            library.asarray(array)[0] = 1
            library.asarray(array, copy=True)[1] = 1
            tensor = library.zeros(2)
            assert array.tolist() == [1, 0, 0] and library.asarray(tensor) is tensor

    def test_numbers_out(self) -> None:
        for kind in KINDS:
            agree(lambda t: t.tensor([[1, 0], [2, 3]]).to(getattr(t, kind)).tolist())
            agree(lambda t: t.tensor(2).to(getattr(t, kind)).item())
            for function in (int, float, bool, complex, operator.index, hash, len, list, iter, str):
                if function not in (hash, iter):
                    agree(lambda t: function(t.tensor(2).to(getattr(t, kind))))
                    agree(lambda t: function(t.tensor([2]).to(getattr(t, kind))))
                    agree(lambda t: function(t.tensor([2, 1]).to(getattr(t, kind))))
        agree(lambda t: t.tensor([]).item())
        agree(lambda t: bool(t.tensor([])))
        agree(lambda t: [each.shape for each in t.ones(2, 3)])
        agree(lambda t: list(t.arange(3)))
        agree(lambda t: list(reversed(t.arange(3))))
        agree(lambda t: [1, 2, 3][t.tensor(1)])
        agree(lambda t: [0] * t.tensor(3))
        agree(lambda t: range(t.tensor(3)))
        agree(lambda t: 2 in t.arange(3))
        agree(lambda t: 5 in t.arange(3))
        agree(lambda t: t.tensor(1) in t.arange(3))
        agree(lambda t: "a" in t.arange(3))
        agree(lambda t: f"{t.tensor(1.5):.3f}")
        agree(lambda t: f"{t.tensor(3):>5d}")
        agree(lambda t: f"{t.ones(2):>5}")
        agree(lambda t: f"{t.ones(2)}")
        agree(lambda t: t.ones(2) == None)  # noqa: E711
        agree(lambda t: t.ones(2) == "a")
        agree(lambda t: t.ones(2) != [1, 1])
        agree(lambda t: len({t.ones(1), t.ones(1)}))
        agree(lambda t: t.ones(2) == t.ones(3))
        agree(lambda t: bool(t.ones(2) == t.ones(2)))
        agree(lambda t: t.arange(3).__getitem__("a"))
        agree(lambda t: t.ones(2) + "a")
        agree(lambda t: t.ones(2) + None)
        agree(lambda t: t.ones(2) < "a")
        agree(lambda t: t.ones(2) @ 3)
        agree(lambda t: t.ones(3)[1.5])


class TestCopies:
    def test_pickles(self) -> None:
        base = ours.arange(6.0).reshape(2, 3)
        first, second = base[0], base.t()
        for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
            a, b, c = pickle.loads(pickle.dumps((base, first, second), protocol))
            assert a.tolist() == base.tolist() and c.stride() == second.stride() and b.tolist() == first.tolist()
            b.fill_(9)
            # One memory stays one memory.
            assert a[0].tolist() == [9.0] * 3 and c[:, 0].tolist() == [9.0] * 3
        for kind in KINDS:
            tensor = ours.tensor([1, 0, 3]).to(getattr(ours, kind))
            again = pickle.loads(pickle.dumps(tensor))
            assert again.dtype is tensor.dtype and again.tolist() == tensor.tolist()
        leaf = ours.ones(2, requires_grad=True)
        assert pickle.loads(pickle.dumps(leaf)).requires_grad
        parameter = pickle.loads(pickle.dumps(ours.nn.Parameter(ours.ones(2))))
        assert type(parameter) is ours.nn.Parameter and parameter.requires_grad
        network = ours.nn.Linear(2, 3)
        assert pickle.loads(pickle.dumps(network)).weight.tolist() == network.weight.tolist()
        for value in (ours.float32, ours.Size([1, 2]), ours.device("cpu"), ours.channels_last):
            assert pickle.loads(pickle.dumps(value)) == value
        assert type(pickle.loads(pickle.dumps(ours.Size([1, 2])))) is ours.Size
        generator = ours.Generator().manual_seed(4)
        assert (
            ours.rand(2, generator=pickle.loads(pickle.dumps(generator))).tolist()
            == ours.rand(2, generator=generator).tolist()
        )

    def test_deep_copies(self) -> None:
        for library in (ours, torch):
            base = library.arange(6.0)
            view = base[2:4]
            leaf = library.ones(2, requires_grad=True)
            (leaf * 3).sum().backward()
            leaf.tag = ["kept"]
            twice = [base, view, base, leaf, {"again": leaf}]
            copied = copy.deepcopy(twice)
            assert copied[0] is copied[2] and copied[3] is copied[4]["again"] and copied[3] is not leaf
            copied[1].fill_(9)
            assert copied[0].tolist() == [0, 1, 9, 9, 4, 5] and base.tolist() == [0, 1, 2, 3, 4, 5]
            assert copied[3].grad.tolist() == [3, 3] and copied[3].grad is not leaf.grad and copied[3].requires_grad
            assert copied[3].tag == ["kept"] and copied[3].tag is not leaf.tag
            assert copied[1].storage_offset() == 2
            transposed = copy.deepcopy(library.ones(2, 3).t())
            assert transposed.stride() == (1, 3)
            shallow = copy.copy(leaf)
            assert shallow.tolist() == [1, 1] and shallow is not leaf
        agree(lambda t: copy.deepcopy(t.ones(2, requires_grad=True) * 2))
        agree(lambda t: copy.deepcopy(t.nn.Parameter(t.ones(2))))
        agree(lambda t: type(copy.deepcopy(t.nn.Parameter(t.ones(2)))).__name__)
