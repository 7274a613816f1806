"""Pruning: parameters with a mask that zeroes the elements that matter least."""

from __future__ import annotations

import numbers
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor
from webgpu_torch_core.record.devices import host_device

from webgpu_torch_nn.utils.convert_parameters import parameters_to_vector

if TYPE_CHECKING:
    from webgpu_torch_nn.modules.module import Module


def _validate_pruning_amount_init(amount: Any) -> None:
    if not isinstance(amount, numbers.Real):
        raise TypeError(f"Invalid type for amount: {amount}. Must be int or float.")
    if amount < 0 or (not isinstance(amount, numbers.Integral) and float(amount) > 1):
        raise ValueError(f"amount={amount} should either be a float in the range [0, 1] or a non-negative integer")


def _count(amount: float, size: int) -> int:
    """Return how many of ``size`` elements to prune.

    Raises:
        ValueError: more than there are.
    """
    _validate_pruning_amount(amount, size)
    return _compute_nparams_toprune(amount, size)


def _compute_nparams_toprune(amount: float, tensor_size: int) -> int:
    return int(amount) if isinstance(amount, numbers.Integral) else round(amount * tensor_size)


def _validate_pruning_amount(amount: float, tensor_size: int) -> None:
    if isinstance(amount, numbers.Integral) and amount > tensor_size:
        raise ValueError(f"amount={amount} should be smaller than the number of parameters to prune={tensor_size}")


def _validate_structured_pruning(tensor: Tensor) -> None:
    if tensor.ndim <= 1:
        raise ValueError(
            "Structured pruning can only be applied to multidimensional tensors. "
            f"Found tensor of shape {tensor.shape} with {tensor.ndim} dims"
        )


def _validate_pruning_dim(tensor: Tensor, dim: int) -> None:
    if dim >= tensor.ndim:
        raise IndexError(f"Invalid index {dim} for tensor of size {tensor.shape}")


def _without_smallest(scores: Tensor, mask: Tensor, count: int, largest: bool = False) -> Tensor:
    """Return a copy of a mask with zeros where the smallest (or the largest) of the scores are."""
    result = mask.clone(memory_format=torch.contiguous_format)
    if count:
        result.view(-1)[torch.topk(scores.reshape(-1), count, largest=largest).indices] = 0
    return result


def _only_channels(tensor: Tensor, dim: int, kept: Tensor, mask: Tensor) -> Tensor:
    """Return a mask without all channels but some, which ``kept`` numbers or tells with booleans."""
    result = torch.zeros_like(tensor)
    result[(slice(None),) * (dim % tensor.ndim) + (kept,)] = 1
    return result.mul_(mask.to(result.dtype))


class BasePruningMethod(ABC):
    """A way of pruning: :meth:`compute_mask` says what stays. The object is the hook that applies the mask."""

    PRUNING_TYPE: str = "unstructured"
    _tensor_name: str

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self._tensor_name, self.apply_mask(module))

    @abstractmethod
    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Return the mask of a tensor with scores ``t``, on top of a mask that is there already."""

    def apply_mask(self, module: Module) -> Tensor:
        """Return the original parameter times its mask."""
        if self._tensor_name is None:
            raise AssertionError(f"Module {module} has to be pruned")
        original: Any = getattr(module, self._tensor_name + "_orig")
        return getattr(module, self._tensor_name + "_mask").to(original.dtype) * original

    @classmethod
    def _joined(cls, module: Module, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> BasePruningMethod:
        """Return the new method, or with an earlier one of the same tensor, which it ends, both in a container."""
        found = [
            key
            for key, hook in module._forward_pre_hooks.items()
            if isinstance(hook, BasePruningMethod) and hook._tensor_name == name
        ]
        if len(found) > 1:
            raise AssertionError(
                f"Avoid adding multiple pruning hooks to the same tensor {name} of module {module}. "
                "Use a PruningContainer."
            )
        old: Any = module._forward_pre_hooks.pop(found[0]) if found else None
        method = cls(*args, **kwargs)
        method._tensor_name = name
        if old is None:
            return method
        container = old if isinstance(old, PruningContainer) else PruningContainer(old)
        container.add_pruning_method(method)
        return container

    @classmethod
    def apply(
        cls, module: Module, name: str, *args: Any, importance_scores: Tensor | None = None, **kwargs: Any
    ) -> BasePruningMethod:
        """Prune a parameter: ``name_orig`` and the buffer ``name_mask`` take its place, ``name`` is their product.

        Raises:
            AssertionError: the scores have another shape.
        """
        method = cls._joined(module, name, args, kwargs)
        first = not isinstance(method, PruningContainer)
        tensor: Any = getattr(module, name)
        if importance_scores is not None and importance_scores.shape != tensor.shape:
            raise AssertionError(
                f"importance_scores should have the same shape as parameter {name} of {module}, "
                f"got {importance_scores.shape} vs {tensor.shape}"
            )
        if first:
            module.register_parameter(name + "_orig", tensor)
            del module._parameters[name]
            mask = torch.ones_like(tensor)
        else:
            mask = getattr(module, name + "_mask").detach().clone(memory_format=torch.contiguous_format)
        try:
            scores = tensor if importance_scores is None else importance_scores
            with torch.no_grad():
                mask = method.compute_mask(scores, default_mask=mask)
            module.register_buffer(name + "_mask", mask)
            setattr(module, name, method.apply_mask(module))
            module.register_forward_pre_hook(method)
        except Exception:
            if first:
                module.register_parameter(name, module._parameters.pop(name + "_orig"))
            raise
        return method

    def prune(self, t: Tensor, default_mask: Tensor | None = None, importance_scores: Tensor | None = None) -> Tensor:
        """Return a tensor times its mask, no module involved.

        Raises:
            AssertionError: the scores have another shape.
        """
        if importance_scores is not None and importance_scores.shape != t.shape:
            raise AssertionError(
                f"importance_scores should have the same shape as tensor t, got {importance_scores.shape} vs {t.shape}"
            )
        mask = torch.ones_like(t) if default_mask is None else default_mask
        return t * self.compute_mask(t if importance_scores is None else importance_scores, default_mask=mask)

    def remove(self, module: Module) -> None:
        """Make the pruned tensor the parameter; the zeros stay."""
        name = self._tensor_name
        if name is None:
            raise AssertionError(f"Module {module} has to be pruned before pruning can be removed")
        weight = self.apply_mask(module)
        if hasattr(module, name):
            delattr(module, name)
        original: Any = module._parameters.pop(name + "_orig")
        original.data = weight.data
        del module._buffers[name + "_mask"]
        setattr(module, name, original)


class PruningContainer(BasePruningMethod):
    """Several ways of pruning one after the other on the same tensor; each sees what the ones before left."""

    def __init__(self, *args: BasePruningMethod) -> None:
        self._pruning_methods: tuple[Any, ...] = ()
        if len(args) == 1:
            self._tensor_name = args[0]._tensor_name
        for method in args:
            self.add_pruning_method(method)

    def add_pruning_method(self, method: Any) -> None:
        """Add a way of pruning.

        Raises:
            TypeError: it is none.
            ValueError: it is for another tensor.
        """
        if method is not None and not isinstance(method, BasePruningMethod):
            raise TypeError(f"{type(method)} is not a BasePruningMethod subclass")
        if method is not None and self._tensor_name != method._tensor_name:
            raise ValueError(
                f"Can only add pruning methods acting on the parameter named '{self._tensor_name}' to "
                f"PruningContainer {self}. Found '{method._tensor_name}'"
            )
        self._pruning_methods += (method,)

    def __len__(self) -> int:
        return len(self._pruning_methods)

    def __iter__(self) -> Iterator[BasePruningMethod]:
        return iter(self._pruning_methods)

    def __getitem__(self, idx: Any) -> Any:
        return self._pruning_methods[idx]

    @staticmethod
    def _left(method: BasePruningMethod, t: Tensor, mask: Tensor) -> Any:
        """Return the index of what the masks before have left for a method."""
        kind = method.PRUNING_TYPE
        if kind == "unstructured":
            return mask == 1
        if kind == "structured":
            if not hasattr(method, "dim"):
                raise AttributeError(
                    'Pruning methods of PRUNING_TYPE "structured" need to have the attribute `dim` defined.'
                )
            dim: int = method.dim  # type: ignore[attr-defined]
            if dim < -t.ndim:
                raise IndexError(f"Index is out of bounds for tensor with dimensions {t.ndim}")
            others = [each for each in range(t.ndim) if each != dim % t.ndim]
            return (slice(None),) * (dim % t.ndim) + (mask.sum(others) != 0,)
        if kind == "global":
            return (slice(None),) * t.ndim
        raise ValueError(f"Unrecognized PRUNING_TYPE {kind}")

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Return the mask before with what the last method prunes of the rest."""
        method = self._pruning_methods[-1]
        left = self._left(method, t, default_mask)
        result = default_mask.to(t.dtype, copy=True)
        result[left] = method.compute_mask(t[left], default_mask=default_mask[left]).to(result.dtype)
        return result


class Identity(BasePruningMethod):
    """Prunes nothing, but makes mask and original."""

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Return the mask that is there."""
        return default_mask


class _Unstructured(BasePruningMethod):
    def __init__(self, amount: Any) -> None:
        _validate_pruning_amount_init(amount)
        self.amount = amount


class RandomUnstructured(_Unstructured):
    """Prunes elements at random: a share, or a number of them."""

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Return the mask without elements drawn at random."""
        count = _count(self.amount, t.numel())
        return _without_smallest(torch.rand_like(t) if count else t, default_mask, count, largest=True)


class L1Unstructured(_Unstructured):
    """Prunes the elements of smallest magnitude: a share, or a number of them."""

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Return the mask without the elements of smallest magnitude."""
        return _without_smallest(torch.abs(t), default_mask, _count(self.amount, t.numel()))


class RandomStructured(BasePruningMethod):
    """Prunes channels at random: a share, or a number of them."""

    PRUNING_TYPE = "structured"

    def __init__(self, amount: Any, dim: int = -1) -> None:
        _validate_pruning_amount_init(amount)
        self.amount = amount
        self.dim = dim

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Return the mask without channels drawn at random."""
        _validate_structured_pruning(t)
        _validate_pruning_dim(t, self.dim)
        count = _count(self.amount, t.shape[self.dim])
        if count == 0:
            return default_mask
        drawn = torch.rand(t.shape[self.dim], device=host_device())
        kept = drawn > torch.kthvalue(drawn, count).values
        return _only_channels(t, self.dim, kept.to(t.device), default_mask)


class LnStructured(BasePruningMethod):
    """Prunes the channels of smallest norm: a share, or a number of them."""

    PRUNING_TYPE = "structured"

    def __init__(self, amount: Any, n: Any, dim: int = -1) -> None:
        _validate_pruning_amount_init(amount)
        self.amount = amount
        self.n = n
        self.dim = dim

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Return the mask without the channels of smallest norm."""
        _validate_structured_pruning(t)
        _validate_pruning_dim(t, self.dim)
        size = t.shape[self.dim]
        count = _count(self.amount, size)
        if count == 0:
            return default_mask
        others = [each for each in range(t.ndim) if each != self.dim % t.ndim]
        norms = torch.norm(t, p=self.n, dim=others)
        return _only_channels(t, self.dim, torch.topk(norms, size - count).indices, default_mask)


class CustomFromMask(BasePruningMethod):
    """Prunes what a given mask leaves out."""

    PRUNING_TYPE = "global"

    def __init__(self, mask: Tensor) -> None:
        self.mask = mask

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Return the product of both masks."""
        if default_mask.shape != self.mask.shape:
            raise AssertionError(
                f"default_mask shape {default_mask.shape} must match self.mask shape {self.mask.shape}"
            )
        return default_mask * self.mask.to(default_mask.dtype)


def identity(module: Module, name: str) -> Module:
    """Give a parameter a mask of ones."""
    Identity.apply(module, name)
    return module


def random_unstructured(module: Module, name: str, amount: Any) -> Module:
    """Prune elements of a parameter at random: a share (float) or a number (int) of them."""
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(module: Module, name: str, amount: Any, importance_scores: Tensor | None = None) -> Module:
    """Prune the elements of smallest magnitude, or of smallest score: a share (float) or a number (int) of them."""
    L1Unstructured.apply(module, name, amount=amount, importance_scores=importance_scores)
    return module


def random_structured(module: Module, name: str, amount: Any, dim: int) -> Module:
    """Prune channels of a parameter at random: a share (float) or a number (int) of them."""
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(
    module: Module, name: str, amount: Any, n: Any, dim: int, importance_scores: Tensor | None = None
) -> Module:
    """Prune the channels of smallest norm: a share (float) or a number (int) of them.

    Args:
        module: whose parameter.
        name: its name.
        amount: how many.
        n: the order of the norm.
        dim: the dimension of channels.
        importance_scores: what counts instead of the parameter's values.
    """
    LnStructured.apply(module, name, amount=amount, n=n, dim=dim, importance_scores=importance_scores)
    return module


def global_unstructured(
    parameters: Any, pruning_method: type[BasePruningMethod], importance_scores: Any = None, **kwargs: Any
) -> None:
    """Prune several parameters as if they were one.

    Args:
        parameters: pairs of a module and a name.
        pruning_method: a class that prunes element by element.
        importance_scores: scores by such pairs, where not the values count.
        kwargs: arguments of the class.

    Raises:
        TypeError: the class prunes channels, or an argument has the wrong type.
    """
    if not isinstance(parameters, Iterable):
        raise TypeError("global_unstructured(): parameters is not an Iterable")
    scores = {} if importance_scores is None else importance_scores
    if not isinstance(scores, dict):
        raise TypeError("global_unstructured(): importance_scores must be of type dict")
    pairs: list[tuple[Module, str]] = list(parameters)
    tensors: list[Any] = [getattr(module, name) for module, name in pairs]
    masks: list[Any] = [
        getattr(module, name + "_mask", torch.ones_like(tensor))
        for (module, name), tensor in zip(pairs, tensors, strict=True)
    ]
    method = pruning_method(**kwargs)
    if method.PRUNING_TYPE != "unstructured":
        raise TypeError(
            'Only "unstructured" PRUNING_TYPE supported for the `pruning_method`. '
            f"Found method {pruning_method} of type {method.PRUNING_TYPE}"
        )
    method._tensor_name = "temp"
    with torch.no_grad():
        values = parameters_to_vector([scores.get(pair, tensor) for pair, tensor in zip(pairs, tensors, strict=True)])
        mask = PruningContainer(method).compute_mask(values, parameters_to_vector(masks))
    pieces = mask.split([tensor.numel() for tensor in tensors])
    for (module, name), tensor, piece in zip(pairs, tensors, pieces, strict=True):
        custom_from_mask(module, name, mask=piece.view_as(tensor))


def custom_from_mask(module: Module, name: str, mask: Tensor) -> Module:
    """Prune a parameter by a mask of its shape."""
    CustomFromMask.apply(module, name, mask)
    return module


def remove(module: Module, name: str) -> Module:
    """Make the pruned tensor the parameter; the zeros stay.

    Raises:
        ValueError: it is not pruned.
    """
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook, BasePruningMethod) and hook._tensor_name == name:
            hook.remove(module)
            del module._forward_pre_hooks[key]
            return module
    raise ValueError(f"Parameter '{name}' of module {module} has to be pruned before pruning can be removed")


def is_pruned(module: Module) -> bool:
    """Return whether a module, or one inside of it, is pruned.

    Raises:
        AssertionError: it is no module.
    """
    return any(
        isinstance(hook, BasePruningMethod) for each in module.modules() for hook in each._forward_pre_hooks.values()
    )


__all__ = [
    "BasePruningMethod", "CustomFromMask", "Identity", "L1Unstructured", "LnStructured", "PruningContainer",
    "RandomStructured", "RandomUnstructured", "custom_from_mask", "global_unstructured", "identity", "is_pruned",
    "l1_unstructured", "ln_structured", "random_structured", "random_unstructured", "remove",
]  # fmt: skip
