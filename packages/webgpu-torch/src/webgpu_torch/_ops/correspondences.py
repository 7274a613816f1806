"""Functions of networks that PyTorch writes in Python around one operation: which operation, and which argument is which.

Both ways follow from one table: what a call of the function means in terms of operations, and what computes the operation here.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import NamedTuple

from webgpu_torch_core.dispatch.torch_dispatch import Value

from .schemas import FunctionSchema

REDUCTIONS = ("none", "mean", "sum")


class Correspondence(NamedTuple):
    """A function of ``torch.nn.functional`` and the operation that it calls.

    Fields:
        operation: the operation's name.
        renamed: the function's names of arguments, by the operation's, where they differ.
        fixed: arguments of the operation that the function has not.
        only_default: arguments of the function that the operation has not: calls that give them mean another operation.
        ignored: arguments of the function that change nothing.
    """

    operation: str
    renamed: Mapping[str, str] = {}
    fixed: Mapping[str, object] = {}
    only_default: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()


def _loss(operation: str, **renamed: str) -> Correspondence:
    return Correspondence(operation, {"self": "input", **renamed}, ignored=("size_average", "reduce"))


def _in_place_too(operation: str) -> Correspondence:
    return Correspondence(operation, {"self": "input"})


def _pooled(operation: str) -> Correspondence:
    return Correspondence(operation, {"self": "input"}, only_default=("return_indices",))


_NORMALISED = {"cudnn_enabled": True}
#: by the function's name
CORRESPONDENCES: dict[str, Correspondence] = {
    "embedding": Correspondence("embedding", {"indices": "input"}, only_default=("max_norm", "norm_type")),
    "batch_norm": Correspondence("batch_norm", fixed=_NORMALISED),
    "instance_norm": Correspondence("instance_norm", fixed=_NORMALISED),
    "group_norm": Correspondence("group_norm", fixed=_NORMALISED),
    "layer_norm": Correspondence("layer_norm", fixed={"cudnn_enable": True}),
    "softmax": Correspondence("softmax", {"self": "input"}, ignored=("_stacklevel",)),
    "log_softmax": Correspondence("log_softmax", {"self": "input"}, ignored=("_stacklevel",)),
    "dropout": Correspondence("dropout", {"train": "training"}),
    "alpha_dropout": Correspondence("alpha_dropout", {"train": "training"}),
    "dropout1d": Correspondence("feature_dropout", {"train": "training"}),
    "dropout2d": Correspondence("feature_dropout", {"train": "training"}),
    "dropout3d": Correspondence("feature_dropout", {"train": "training"}),
    "feature_alpha_dropout": Correspondence("feature_alpha_dropout", {"train": "training"}),
    "ctc_loss": Correspondence("ctc_loss"),
    "cross_entropy": _loss("cross_entropy_loss"),
    "nll_loss": _loss("nll_loss_nd"),
    "kl_div": _loss("kl_div"),
    "multi_margin_loss": _loss("multi_margin_loss"),
    "poisson_nll_loss": _loss("poisson_nll_loss", input="input"),
    **{name: _loss(name) for name in (
        "binary_cross_entropy", "binary_cross_entropy_with_logits", "soft_margin_loss", "multilabel_margin_loss",
        "hinge_embedding_loss",
    )},
    **{name: Correspondence(name, {"self": "input"}, only_default=("weight",), ignored=("size_average", "reduce")) for name in (
        "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss",
    )},
    "margin_ranking_loss": _loss("margin_ranking_loss"),
    "cosine_embedding_loss": _loss("cosine_embedding_loss"),
    "triplet_margin_loss": _loss("triplet_margin_loss"),
    **{name: _in_place_too(name) for name in (
        "relu", "relu6", "elu", "selu", "celu", "leaky_relu", "hardtanh", "hardswish", "hardsigmoid", "silu", "mish", "threshold",
    )},
    "rrelu": _in_place_too("rrelu"),
    "logsigmoid": Correspondence("log_sigmoid", {"self": "input"}),
    **{f"max_pool{count}d": _pooled(f"max_pool{count}d") for count in (1, 2, 3)},
}  # fmt: skip
#: functions that compute an operation, of the several that mean it
_MEANING = {"feature_dropout": "dropout2d"}
_BY_OPERATION = {each.operation: name for name, each in reversed(CORRESPONDENCES.items())} | _MEANING


@functools.cache
def _signature(name: str) -> inspect.Signature:
    from webgpu_torch.nn import functional

    return inspect.signature(getattr(functional, name))


def called(name: str, args: tuple[Value, ...], kwargs: dict[str, Value]) -> tuple[str, dict[str, Value]] | None:
    """Return the operation that a call of a function means, and its arguments by name; None where it is not one operation."""
    rule = CORRESPONDENCES.get(name)
    if rule is None:
        return None
    signature = _signature(name)
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError:
        return None
    bound.apply_defaults()
    given = bound.arguments
    if any(given[each] != signature.parameters[each].default for each in rule.only_default if each in given):
        return None
    in_place = given.get("inplace", False)
    theirs = {value: key for key, value in rule.renamed.items()}
    left_out = {"inplace", *rule.only_default, *rule.ignored}
    found = {theirs.get(key, key): value for key, value in given.items() if key not in left_out}
    if "reduction" in found:
        if found["reduction"] not in REDUCTIONS:
            return None
        found["reduction"] = REDUCTIONS.index(found["reduction"])
    if rule.operation == "embedding" and (found["padding_idx"] or 0) < 0:
        found["padding_idx"] += found["weight"].shape[0]
    return rule.operation + ("_" if in_place else ""), {**found, **rule.fixed}


def computing(operation: str, schemas: tuple[FunctionSchema, ...]) -> Callable[..., Value] | None:
    """Return what computes an operation of the table; None for others."""
    in_place = operation.endswith("_")
    name = _BY_OPERATION.get(operation.removesuffix("_"))
    if name is None or not schemas:
        return None
    rule = CORRESPONDENCES[name]
    order = [each.name for each in schemas[0].arguments]

    def compute(*args: Value, **kwargs: Value) -> Value:
        from webgpu_torch.nn import functional

        given = {**dict(zip(order, args)), **kwargs}
        given = {rule.renamed.get(key, key): value for key, value in given.items() if key not in rule.fixed}
        if isinstance(given.get("reduction"), int):
            given["reduction"] = REDUCTIONS[given["reduction"]]
        if given.get("padding_idx", 0) < 0 and operation == "embedding":
            del given["padding_idx"]
        # What the operation has a default for, the function has, too.
        given = {key: value for key, value in given.items() if not (isinstance(value, list) and not value)}
        return getattr(functional, name)(**given, **({"inplace": True} if in_place else {}))

    return compute
