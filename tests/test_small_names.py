"""Small functions that libraries take from all over PyTorch: they do what PyTorch's do."""

from __future__ import annotations

import contextlib
import importlib
import warnings
from typing import Any, Optional

import pytest
import torch as reference
import webgpu_torch as ours
from webgpu_torch.utils import _contextlib

FOREACH = sorted(name for name in dir(reference) if name.startswith("_foreach_"))
#: what the functions take beside the first list
ARGUMENTS: dict[str, Any] = {
    "addcdiv": lambda t: (t, t, [1.0, 2.0]), "addcmul": lambda t: (t, t, 3.0), "lerp": lambda t: (t, 0.25),
    "copy": lambda t: (t,), "norm": lambda t: (1,), "pow": lambda t: ([2.0, 3.0],), "mm": lambda t: (t,),
    "powsum": lambda t: (3,), "add": lambda t: (t,), "sub": lambda t: (2.0,), "mul": lambda t: ([2.0, 0.5],), "div": lambda t: (t,),
    "maximum": lambda t: (0.6,), "minimum": lambda t: (t,), "clamp_max": lambda t: ([0.5, 0.3],), "clamp_min": lambda t: (0.5,),
}  # fmt: skip


def _lists(module: Any) -> list[Any]:
    return [module.tensor([[0.25, 0.5], [0.75, 0.125]]), module.tensor([[0.3, 0.9], [0.1, 0.7]])]


def _numbers(values: Any) -> Any:
    return [each.tolist() for each in values]


@pytest.mark.parametrize("name", FOREACH)
def test_foreach(name: str) -> None:
    """Every ``_foreach_`` function gives PyTorch's values, and changes its list where it should."""
    kind = name.removeprefix("_foreach_").rstrip("_")
    results = []
    for module in (reference, ours):
        tensors = _lists(module)
        arguments = ARGUMENTS.get(kind, lambda t: ())(_lists(module))
        made = getattr(module, name)(tensors, *arguments)
        results.append((_numbers(made), _numbers(tensors), made is tensors))
    (expected, changed, same), (found, ours_changed, ours_same) = results
    assert same is ours_same
    for one, other in ((found, expected), (ours_changed, changed)):
        for a, b in zip(one, other, strict=True):
            assert ours.allclose(ours.tensor(a), ours.tensor(b), rtol=1e-5, atol=1e-6)


def test_foreach_errors() -> None:
    for module in (reference, ours):
        with pytest.raises(RuntimeError, match="at least one tensor"):
            module._foreach_add([], 1)
        with pytest.raises(RuntimeError, match="same number of tensors, got 2 and 1"):
            module._foreach_add(_lists(module), _lists(module)[:1])


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("module", [reference, ours])
def test_marks_and_assertions(module: Any) -> None:
    """Marks return what they mark, and assertions raise."""
    jit = importlib.import_module(f"{module.__name__}.jit")
    assert jit.annotate(list[int], [1]) == [1] and jit.export(_numbers) is _numbers and not jit.is_scripting()
    assert issubclass(jit.TracerWarning, Warning) and issubclass(jit.ScriptModule, module.nn.Module)
    assert (
        jit.isinstance([1], list[int])
        and not jit.isinstance(["a"], list[int])
        and jit.isinstance({"a": 1}, dict[str, int])
    )
    assert jit.isinstance(None, Optional[int]) and jit.wait(jit.fork(lambda x: x + 1, 2)) == 3
    with pytest.raises(AssertionError, match="told"):
        module._assert(False, "told")
    module._assert(module.tensor(True), "")
    module._assert_async(module.tensor(1))
    with pytest.raises(RuntimeError):
        module._assert_async(module.tensor(0))
    assert module._shape_as_tensor(module.zeros(2, 3)).tolist() == [2, 3]
    assert (module.sym_max(2, 3.0), module.sym_min(2, 3), module.sym_int(-2.5), module.sym_not(True)) == (
        3.0,
        2,
        -2,
        False,
    )
    assert type(module.sym_max(4, 3.0)) is float and module.sym_ite(True, 1, 2) == 1


@pytest.mark.parametrize("module", [reference, ours])
def test_futures(module: Any) -> None:
    futures = importlib.import_module(f"{module.__name__}.futures")
    first, second = futures.Future(), futures.Future()
    after = first.then(lambda future: future.value() + 1)
    both = futures.collect_all([first, second])
    assert not first.done() and not both.done()
    first.set_result(2)
    second.set_result(5)
    assert (
        after.wait() == 3
        and [each.wait() for each in both.wait()] == [2, 5]
        and futures.wait_all([first, second]) == [2, 5]
    )
    with pytest.raises(RuntimeError):
        first.set_result(3)
    failed = futures.Future()
    failed.set_exception(ValueError("lost"))
    with pytest.raises(ValueError, match="lost"):
        failed.wait()


@pytest.mark.parametrize("module", [reference, ours])
def test_decorating_contexts(module: Any) -> None:
    """Contexts made from the base class decorate functions and generators."""
    base = importlib.import_module(f"{module.__name__}.utils._contextlib")._DecoratorContextManager
    seen: list[str] = []

    class Noted(base):
        def __init__(self, name: str = "") -> None:
            self.name = name

        def __enter__(self) -> None:
            seen.append(f"in {self.name}")

        def __exit__(self, *problem: object) -> None:
            seen.append(f"out {self.name}")

        def clone(self) -> Any:
            return Noted(self.name)

    assert Noted("a")(lambda: len(seen))() == 1 and seen == ["in a", "out a"]

    @Noted("b")
    def generates() -> Any:
        yield len(seen)

    assert list(generates()) and seen[2] == "in b"


def test_context_of_a_function_without_arguments() -> None:
    """A manager that takes no arguments decorates without being called."""

    class Quiet(_contextlib._NoParamDecoratorContextManager, contextlib.nullcontext):  # type: ignore[type-arg]
        def __enter__(self) -> None: ...

        def __exit__(self, *problem: object) -> None: ...

    assert Quiet(lambda: 3)() == 3  # type: ignore[operator]


@pytest.mark.parametrize("module", [reference, ours])
def test_joined_tensors(module: Any) -> None:
    utils = importlib.import_module(f"{module.__name__}._utils")
    tensors = [module.arange(4.0).reshape(2, 2), module.ones(3)]
    flat = utils._flatten_dense_tensors(tensors)
    assert flat.tolist() == [0, 1, 2, 3, 1, 1, 1]
    assert [tuple(each.shape) for each in utils._unflatten_dense_tensors(flat, tensors)] == [(2, 2), (3,)]
    assert utils._element_size(module.float64) == 8


@pytest.mark.parametrize("module", [reference, ours])
def test_cuda_without_cuda(module: Any) -> None:
    """What programs ask of CUDA where there is none."""
    cuda = module.cuda
    with cuda.stream(None), cuda.device(-1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scaler = cuda.amp.GradScaler()
        with cuda.amp.autocast():
            assert (module.ones(2, 2) @ module.ones(2, 2)).dtype is module.float32
    assert (
        not scaler.is_enabled()
        and cuda.get_arch_list() == []
        and not cuda.is_tf32_supported()
        and issubclass(cuda.OutOfMemoryError, RuntimeError)
    )


def test_states_of_random_streams() -> None:
    """Checkpointing's functions save and restore the accelerator's stream."""
    from webgpu_torch.utils import checkpoint

    if not ours.webgpu.is_available():
        pytest.skip("no WebGPU device")
    x = ours.zeros(2, device="webgpu")
    numbers, states = checkpoint.get_device_states(x, 3)
    first = ours.rand(3, device="webgpu").tolist()
    checkpoint.set_device_states(numbers, states)
    assert numbers == [0] and ours.rand(3, device="webgpu").tolist() == first
    with checkpoint.set_checkpoint_early_stop(False):
        assert checkpoint.DefaultDeviceType.get_device_type() == "webgpu"


def test_sizes_given_to_typed_tensors() -> None:
    for module in (reference, ours):
        assert tuple(module.FloatTensor(module.Size([2, 3])).shape) == (2, 3)


def test_memory_of_accelerators() -> None:
    """What is in use, and at most was, by the names that PyTorch's statistics have."""
    kept = ours.ones(1000, device="webgpu")
    kept.sum().item()
    for module in (ours.accelerator, ours.webgpu):
        found = module.memory_stats()
        assert found["allocated_bytes.all.current"] == module.memory_allocated() >= 4000
        assert found["allocated_bytes.all.peak"] == module.max_memory_allocated()
        assert found["reserved_bytes.all.current"] == module.memory_reserved()
        assert found["reserved_bytes.all.peak"] == module.max_memory_reserved()
    with pytest.raises(RuntimeError, match="memory_stats"):
        ours.accelerator.get_memory_info()
    ours.accelerator.empty_host_cache()
