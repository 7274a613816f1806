"""Weights of spectral norm 1, by a hook; :mod:`webgpu_torch_nn.utils.parametrizations` has the newer form."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import webgpu_torch_core as torch
from webgpu_torch_core import Tensor

from webgpu_torch_nn.functional import normalize
from webgpu_torch_nn.parameter import Parameter, UninitializedParameter

if TYPE_CHECKING:
    from webgpu_torch_nn.modules.module import Module


class SpectralNorm:
    """The hook that divides a weight by its largest singular value, estimated by power iteration, before a forward pass.

    Raises:
        ValueError: there are no iterations to take.
    """

    #: of what is saved: since 1 the right vector is, and the divided weight is not
    _version: int = 1

    def __init__(self, name: str = "weight", n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12) -> None:
        if n_power_iterations <= 0:
            raise ValueError(
                f"Expected n_power_iterations to be positive, but got n_power_iterations={n_power_iterations}"
            )
        self.name = name
        self.dim = dim
        self.n_power_iterations = n_power_iterations
        self.eps = eps

    def reshape_weight_to_matrix(self, weight: Tensor) -> Tensor:
        """Return a matrix with a row for each output."""
        return weight.movedim(self.dim, 0).flatten(1) if weight.ndim > 1 else weight.reshape(weight.shape[0], -1)

    def compute_weight(self, module: Module, do_power_iteration: bool) -> Tensor:
        """Return the divided weight; the singular vectors move towards their limits in place first, if they shall."""
        weight: Any = getattr(module, self.name + "_orig")
        u: Any = getattr(module, self.name + "_u")
        v: Any = getattr(module, self.name + "_v")
        matrix = self.reshape_weight_to_matrix(weight)
        if do_power_iteration:
            with torch.no_grad():
                for _ in range(self.n_power_iterations):
                    v.copy_(normalize(torch.mv(matrix.t(), u), dim=0, eps=self.eps))
                    u.copy_(normalize(torch.mv(matrix, v), dim=0, eps=self.eps))
                # The gradient of this pass needs them as they are now, not as the next pass leaves them.
                u, v = u.clone(), v.clone()
        return weight / torch.dot(u, torch.mv(matrix, v))

    def remove(self, module: Module) -> None:
        """Make the divided weight the parameter."""
        with torch.no_grad():
            weight = self.compute_weight(module, do_power_iteration=False)
        for suffix in ("", "_u", "_v", "_orig"):
            delattr(module, self.name + suffix)
        module.register_parameter(self.name, Parameter(weight.detach()))

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self.name, self.compute_weight(module, do_power_iteration=module.training))

    def _start(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        with torch.no_grad():
            rows, columns = self.reshape_weight_to_matrix(weight).shape
            u = normalize(weight.new_empty(rows).normal_(0, 1), dim=0, eps=self.eps)
            return u, normalize(weight.new_empty(columns).normal_(0, 1), dim=0, eps=self.eps)

    @staticmethod
    def apply(module: Module, name: str, n_power_iterations: int, dim: int, eps: float) -> SpectralNorm:
        """Give a module's weight the hook; see :func:`spectral_norm`."""
        for hook in module._forward_pre_hooks.values():
            if isinstance(hook, SpectralNorm) and hook.name == name:
                raise RuntimeError(f"Cannot register two spectral_norm hooks on the same parameter {name}")
        made = SpectralNorm(name, n_power_iterations, dim, eps)
        weight = module._parameters[name]
        if weight is None:
            raise ValueError(f"`SpectralNorm` cannot be applied as parameter `{name}` is None")
        if isinstance(weight, UninitializedParameter):
            raise ValueError(
                "The module passed to `SpectralNorm` can't have uninitialized parameters. "
                "Make sure to run the dummy forward before applying spectral normalization"
            )
        u, v = made._start(weight)
        delattr(module, name)
        module.register_parameter(name + "_orig", weight)
        # A plain attribute that the hook replaces; not a parameter.
        setattr(module, name, weight.data)
        module.register_buffer(name + "_u", u)
        module.register_buffer(name + "_v", v)
        module.register_forward_pre_hook(made)
        module._register_state_dict_hook(SpectralNormStateDictHook(made))
        module._register_load_state_dict_pre_hook(SpectralNormLoadStateDictPreHook(made))
        return made

    def right_vector(self, matrix: Tensor, u: Tensor, sigma: Tensor) -> Tensor:
        """Return the v with ``u = normalize(W v)`` and ``u · W v = sigma``, which older files lack."""
        gram = torch.linalg.pinv(matrix.t().mm(matrix))
        v = gram.mm(matrix.t()).mv(u)
        return v * (sigma / torch.dot(u, torch.mv(matrix, v)))


class SpectralNormStateDictHook:
    """Notes the version of what is saved."""

    def __init__(self, fn: SpectralNorm) -> None:
        self.fn = fn

    def __call__(self, module: Module, state_dict: Any, prefix: str, local_metadata: dict[str, Any]) -> None:
        versions = local_metadata.setdefault("spectral_norm", {})
        key = self.fn.name + ".version"
        if key in versions:
            raise RuntimeError(f"Unexpected key in metadata['spectral_norm']: {key}")
        versions[key] = self.fn._version


class SpectralNormLoadStateDictPreHook:
    """Makes the right singular vector of files that hold the divided weight instead."""

    def __init__(self, fn: SpectralNorm) -> None:
        self.fn = fn

    def __call__(
        self, state_dict: dict[str, Any], prefix: str, local_metadata: dict[str, Any], strict: bool,
        missing_keys: list[str], unexpected_keys: list[str], error_msgs: list[str],
    ) -> None:  # fmt: skip
        version = local_metadata.get("spectral_norm", {}).get(self.fn.name + ".version")
        if version is not None and version >= 1:
            return
        key = prefix + self.fn.name
        if (
            version is None
            and key not in state_dict
            and all(key + each in state_dict for each in ("_orig", "_u", "_v"))
        ):
            return
        missing = [key + each for each in ("_orig", "", "_u") if key + each not in state_dict]
        if missing:
            missing_keys += missing if strict else []
            return
        with torch.no_grad():
            original, weight = state_dict[key + "_orig"], state_dict.pop(key)
            matrix = self.fn.reshape_weight_to_matrix(original)
            sigma = (original / weight).mean()
            state_dict[key + "_v"] = self.fn.right_vector(matrix, state_dict[key + "_u"], sigma)


def spectral_norm(
    module: Module, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> Module:
    """Divide a weight by its largest singular value before every forward pass (Miyato et al., 2018).

    Args:
        module: whose weight; parameter ``name_orig`` and buffers ``name_u``, ``name_v`` take its place.
        name: the weight's name.
        n_power_iterations: steps of power iteration in each forward pass in training mode.
        eps: added where norms are divided by.
        dim: the dimension of outputs; by default 0, of transposed convolutions 1.

    Raises:
        RuntimeError: the weight has the hook already.
        ValueError: the weight is None or has no shape yet, or ``n_power_iterations`` is not positive.
    """
    from webgpu_torch_nn.modules.conv_transpose import ConvTranspose1d, ConvTranspose2d, ConvTranspose3d

    if dim is None:
        dim = 1 if isinstance(module, ConvTranspose1d | ConvTranspose2d | ConvTranspose3d) else 0
    SpectralNorm.apply(module, name, n_power_iterations, dim, eps)
    return module


def remove_spectral_norm(module: Module, name: str = "weight") -> Module:
    """Undo :func:`spectral_norm`; the weight keeps its present value.

    Raises:
        ValueError: the weight has no such hook.
    """
    for hooks, wanted in (
        (module._forward_pre_hooks, SpectralNorm),
        (module._state_dict_hooks, SpectralNormStateDictHook),
        (module._load_state_dict_pre_hooks, SpectralNormLoadStateDictPreHook),
    ):
        for key, hook in list(hooks.items()):
            # Hooks that are registered with their module are wrapped.
            hook = getattr(hook, "hook", hook)
            owner: Any = getattr(hook, "fn", hook)
            if isinstance(hook, wanted) and owner.name == name:
                if isinstance(hook, SpectralNorm):
                    hook.remove(module)
                del hooks[key]
                break
        else:
            if wanted is SpectralNorm:
                raise ValueError(f"spectral_norm of '{name}' not found in {module}")
    return module


__all__ = [
    "SpectralNorm", "SpectralNormLoadStateDictPreHook", "SpectralNormStateDictHook", "remove_spectral_norm",
    "spectral_norm",
]  # fmt: skip
