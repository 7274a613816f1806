"""Short programs of ``torch.func``: batches, gradients, Jacobians, and batches of those."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any


def x(t: Any, *shape: int) -> Any:
    """Return a tensor of different numbers."""
    return (t.arange(float(math.prod(shape))).reshape(shape) + 1) / 3


def assigned(a: Any) -> Any:
    a[0] = 7
    a[1:] = a[:1] * 2
    return a


def without_gradients(t: Any) -> Any:
    with t.no_grad():
        return t.func.grad(lambda a: (a**2).sum())(x(t, 3).requires_grad_())


def own_rule(t: Any, answer: Callable[[Any, Any], Any], *, generated: bool = False, apart: bool = True) -> Any:
    """Return what ``vmap`` makes of a function that has a rule of its own for batches, and what ``grad`` does."""

    class Scaled(t.autograd.Function):
        generate_vmap_rule = generated

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad * 3, None

    if apart:
        Scaled.forward = staticmethod(lambda value, factor: value * factor)
        Scaled.setup_context = staticmethod(lambda ctx, inputs, output: None)
    else:
        Scaled.forward = staticmethod(lambda ctx, value, factor: value * factor)
    if answer is not None:
        Scaled.vmap = staticmethod(
            lambda info, in_dims, value, factor: answer(info, value.movedim(in_dims[0], 0) * factor)
        )
    mapped = t.vmap(Scaled.apply, in_dims=(0, None))(x(t, 2, 3), 2.0)
    gradient = t.func.grad(lambda value: Scaled.apply(value, 2.0).sum())(x(t, 3))
    return mapped, gradient


def written_into(t: Any) -> Any:
    """Return what becomes of arguments that functions write into, and of tensors like them."""
    start, tangent = x(t, 3, 2), x(t, 3, 2)

    def changes(a: Any) -> Any:
        a.mul_(2)
        a[0] = a[1] * 3
        return a, a.sin()

    def filled(a: Any, b: Any) -> Any:
        return b.new_zeros(4).copy_(a).sum() + b.new_full((), 2.0)

    products = t.vmap(lambda a, b: t.func.jvp(changes, (a,), (b,)))(start.clone(), tangent)
    return products, t.vmap(t.func.grad(filled))(x(t, 2, 4), x(t, 2))


def kept_elsewhere(t: Any, transform: Any) -> Any:
    with t.autograd.graph.save_on_cpu():
        return transform(lambda a: a.sin().sum())(x(t, 3))


def without_recording(t: Any) -> Any:
    start = x(t, 3).requires_grad_()
    value, back = t.func.vjp(lambda a: a**2, start)
    with t.no_grad():
        return value, back(x(t, 3))


def masks(t: Any) -> Any:
    """Return an attention mask from a function of four positions."""
    known = t.tensor([[True, True, True, False], [True, False, True, True]])

    def mask(batch: Any, head: Any, query: Any, key: Any) -> Any:
        return (key <= query) & known[batch, key] & (key > query - 3) & query.new_ones((), dtype=t.bool)

    for dims in [(None, None, None, 0), (None, None, 0, None), (None, 0, None, None), (0, None, None, None)]:
        mask = t.func.vmap(mask, in_dims=dims, out_dims=0)
    return mask(t.arange(2), t.arange(1), t.arange(4), t.arange(4))


def ensemble(t: Any) -> Any:
    """Return what several models make of one batch, and one model's gradient for each of its examples."""
    from copy import deepcopy

    models = []
    for number in range(3):
        model = t.nn.Sequential(t.nn.Linear(2, 4), t.nn.ReLU(), t.nn.LayerNorm(4), t.nn.Linear(4, 2))
        for scale, weight in enumerate(model.parameters()):
            weight.data = x(t, *weight.shape).sin() + (number - scale) / 4
        models.append(model)
    parameters, buffers = t.func.stack_module_state(models)
    base = deepcopy(models[0])

    def call(given: Any, rest: Any, data: Any) -> Any:
        return t.func.functional_call(base, (given, rest), (data,))

    def loss(given: Any, data: Any, label: Any) -> Any:
        result = t.func.functional_call(base, given, (data.unsqueeze(0),))
        return t.nn.functional.cross_entropy(result, label.unsqueeze(0))

    data = x(t, 5, 2).cos()
    outputs = t.func.vmap(call, (0, 0, None))(parameters, buffers, data)
    own = {name: each.detach() for name, each in base.named_parameters()}
    gradients = t.func.vmap(t.func.grad(loss), (None, 0, 0))(own, data, t.tensor([0, 1, 1, 0, 1]))
    return outputs.detach(), gradients


PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "add": lambda t: t.func.vmap(lambda a, b: a + b)(x(t, 3, 2), x(t, 3, 2)),
    "in_dims": lambda t: t.func.vmap(lambda a, b: a * b, in_dims=(0, None))(x(t, 3, 2), x(t, 2)),
    "in_dims1": lambda t: t.func.vmap(lambda a, b: a * b, in_dims=(1, 0), out_dims=1)(x(t, 2, 3), x(t, 3, 2)),
    "rank": lambda t: t.func.vmap(lambda a, b: a * b)(x(t, 3, 2), x(t, 3)),
    "dot": lambda t: t.func.vmap(lambda a, b: t.dot(a, b))(x(t, 3, 2), x(t, 3, 2)),
    "mv": lambda t: t.func.vmap(lambda a, b: t.mv(a, b), in_dims=(None, 0))(x(t, 3, 2), x(t, 4, 2)),
    "mm": lambda t: t.func.vmap(lambda a, b: a @ b)(x(t, 3, 2, 2), x(t, 3, 2, 2)),
    "sum": lambda t: t.func.vmap(
        lambda a: (a.sum(), a.sum(0), a.mean(-1), a.max(), a.max(0)[0], a.sum(dim=1, keepdim=True))
    )(x(t, 3, 2, 2)),
    "softmax": lambda t: t.func.vmap(lambda a: (t.softmax(a, 0), t.nn.functional.softmax(a, dim=-1)))(x(t, 3, 2, 2)),
    "nested": lambda t: t.func.vmap(t.func.vmap(lambda a, b: a + b, in_dims=(None, 0)), in_dims=(0, None))(
        x(t, 3), x(t, 2)
    ),
    "mask4": lambda t: masks(t),
    "views": lambda t: t.func.vmap(
        lambda a: (
            a.T,
            a.reshape(-1),
            a.view(4),
            a.unsqueeze(0),
            a.unsqueeze(-1),
            a.transpose(0, 1),
            a.permute(1, 0),
            a.flatten(),
            a.expand(2, 2, 2),
            a[0],
            a[:, 1],
            a[..., 0],
            a[None],
            a.repeat(2, 1),
        )
    )(x(t, 3, 2, 2)),
    "shape": lambda t: t.func.vmap(lambda a: a.reshape(a.shape[0] * a.size(1)))(x(t, 3, 2, 2)),
    "index": lambda t: t.func.vmap(lambda a, i: a[i])(x(t, 3, 4), t.tensor([0, 1, 3])),
    "index2": lambda t: t.func.vmap(lambda i, a: a[i], in_dims=(0, None))(t.tensor([0, 1, 3]), x(t, 4, 2)),
    "index3": lambda t: t.func.vmap(lambda i, a: a[:, i], in_dims=(0, None))(t.tensor([[0, 1], [1, 1]]), x(t, 4, 2)),
    "index4": lambda t: t.func.vmap(lambda i, a: a[i, 0:2], in_dims=(0, 0))(t.tensor([[0, 1], [1, 1]]), x(t, 2, 4, 3)),
    "cat": lambda t: t.func.vmap(lambda a, b: (t.cat([a, b]), t.stack([a, b], -1)), in_dims=(0, None))(
        x(t, 3, 2), x(t, 2)
    ),
    "where": lambda t: t.func.vmap(lambda a: t.where(a > 1, a, 0.0))(x(t, 3, 2)),
    "inplace": lambda t: t.func.vmap(lambda a: a.clone().add_(1).mul_(a))(x(t, 3, 2)),
    "setitem": lambda t: t.func.vmap(lambda a: assigned(a.clone()))(x(t, 3, 2)),
    "item": lambda t: t.func.vmap(lambda a: a.sum().item())(x(t, 3, 2)),
    "bool": lambda t: t.func.vmap(lambda a: a if a.sum() > 1 else -a)(x(t, 3, 2)),
    "nondim": lambda t: t.func.vmap(lambda a: t.ones(2))(x(t, 3, 2)),
    "nontensor": lambda t: t.func.vmap(lambda a: 3)(x(t, 3, 2)),
    "noargs": lambda t: t.func.vmap(lambda: 3)(),
    "sizes": lambda t: t.func.vmap(lambda a, b: a)(x(t, 3, 2), x(t, 2, 2)),
    "dimerr": lambda t: t.func.vmap(lambda a: a, in_dims=3)(x(t, 3, 2)),
    "dict": lambda t: t.func.vmap(lambda d: {"s": d["a"] + d["b"]}, in_dims=({"a": 0, "b": None},))(
        {"a": x(t, 3, 2), "b": x(t, 2)}
    ),
    "outdims": lambda t: t.func.vmap(lambda a: (a, a.sum()), out_dims=(1, 0))(x(t, 3, 2)),
    "chunk": lambda t: t.func.vmap(lambda a: a * 2, chunk_size=2)(x(t, 5, 2)),
    "einsum": lambda t: t.func.vmap(lambda a, b: t.einsum("ij,jk->ik", a, b), in_dims=(0, None))(
        x(t, 3, 2, 2), x(t, 2, 2)
    ),
    "linear": lambda t: t.func.vmap(lambda a, w, b: t.nn.functional.linear(a, w, b))(
        x(t, 3, 2), x(t, 3, 4, 2), x(t, 3, 4)
    ),
    "conv": lambda t: t.func.vmap(lambda a, w: t.nn.functional.conv1d(a, w), in_dims=(0, None))(
        x(t, 3, 2, 2, 5), x(t, 4, 2, 2)
    ),
    "convw": lambda t: t.func.vmap(lambda a, w: t.nn.functional.conv1d(a, w))(x(t, 3, 2, 2, 5), x(t, 3, 4, 2, 2)),
    "ln": lambda t: t.func.vmap(lambda a: t.nn.functional.layer_norm(a, (2,)))(x(t, 3, 2, 2)),
    "ce": lambda t: t.func.vmap(lambda a, y: t.nn.functional.cross_entropy(a, y))(
        x(t, 3, 2, 4), t.tensor([[0, 1], [1, 2], [3, 0]])
    ),
    "mse": lambda t: t.func.vmap(lambda a, y: t.nn.functional.mse_loss(a, y))(x(t, 3, 2, 4), x(t, 3, 2, 4) * 2),
    "fallback": lambda t: t.func.vmap(lambda a: t.cumsum(a.flip(0), 0))(x(t, 3, 4)),
    "fallback2": lambda t: t.func.vmap(lambda a: t.trace(a))(x(t, 3, 2, 2)),
    "sort": lambda t: t.func.vmap(lambda a: a.sort(descending=True))(x(t, 3, 4)),
    "topk": lambda t: t.func.vmap(lambda a: a.topk(2))(x(t, 3, 4)),
    "gather": lambda t: t.func.vmap(lambda a, i: a.gather(0, i))(x(t, 3, 4), t.tensor([[0, 1], [2, 3], [1, 1]])),
    "random": lambda t: t.func.vmap(lambda a: t.nn.functional.dropout(a, 0.5))(x(t, 3, 4)),
    "dtype": lambda t: t.func.vmap(lambda a, b: a * b, in_dims=(0, None))(t.tensor([1, 2]), x(t, 2).half()),
    "dtype0": lambda t: t.func.vmap(lambda a, b: a * b, in_dims=(0, None))(x(t, 2), x(t, 2).half()),
    "split": lambda t: t.func.vmap(lambda a: a.split(2))(x(t, 3, 4)),
    "unbind": lambda t: t.func.vmap(lambda a: t.stack([e * 2 for e in a]))(x(t, 3, 4)),
    "len": lambda t: t.func.vmap(lambda a: a * len(a))(x(t, 3, 4)),
    "newz": lambda t: t.func.vmap(lambda a: a.new_ones((2,)) + a)(x(t, 3, 2)),
    "grad": lambda t: t.func.grad(lambda a: (a**3).sum())(x(t, 3)),
    "gradgrad": lambda t: t.func.grad(lambda a: t.func.grad(lambda b: b**3)(a))(t.tensor(2.0)),
    "grad_aux": lambda t: t.func.grad(lambda a: ((a**2).sum(), a * 2), has_aux=True)(x(t, 3)),
    "gradval": lambda t: t.func.grad_and_value(lambda a, b: (a * b).sum(), argnums=(0, 1))(x(t, 3), x(t, 3)),
    "grad_tree": lambda t: t.func.grad(lambda p, a: (p["w"] * a + p["b"]).sum())({"w": x(t, 3), "b": x(t, 3)}, x(t, 3)),
    "grad_outer": lambda t: t.func.grad(lambda a: (a**2).sum())(x(t, 3).requires_grad_()),
    "grad_closure": lambda t: (lambda w: t.func.grad(lambda a: (a * w).sum())(x(t, 3)))(x(t, 3).requires_grad_()),
    "grad_nog": lambda t: without_gradients(t),
    "grad_vec": lambda t: t.func.grad(lambda a: a * 2)(x(t, 3)),
    "grad_unused": lambda t: t.func.grad(lambda a, b: (a * 2).sum(), argnums=1)(x(t, 3), x(t, 3)),
    "vjp": lambda t: (lambda o: (o[0], o[1](x(t, 3))))(t.func.vjp(lambda a: a.sin(), x(t, 3))),
    "vjp2": lambda t: (lambda o: (o[0], o[1]((x(t, 3), x(t, 3)))))(
        t.func.vjp(lambda a, b: (a.sin(), a * b), x(t, 3), x(t, 3))
    ),
    "jvp": lambda t: t.func.jvp(lambda a: a.sin() * a, (x(t, 3),), (x(t, 3),)),
    "jvp2": lambda t: t.func.jvp(lambda a, b: (a * b, a.sum()), (x(t, 3), x(t, 3)), (x(t, 3), x(t, 3) * 2)),
    "jacrev": lambda t: t.func.jacrev(lambda a: a.sin().outer(a))(x(t, 3)),
    "jacrev2": lambda t: t.func.jacrev(lambda a, b: (a * b, b.sum()), argnums=(0, 1))(x(t, 2), x(t, 2)),
    "jacfwd": lambda t: t.func.jacfwd(lambda a: a.sin() * a.sum())(x(t, 3)),
    "hessian": lambda t: t.func.hessian(lambda a: (a**3).sum() * a[0])(x(t, 3)),
    "vgrad": lambda t: t.func.vmap(t.func.grad(lambda a: (a**3).sum()))(x(t, 3, 2)),
    "persample": lambda t: t.func.vmap(t.func.grad(lambda w, a, y: ((a @ w - y) ** 2).sum()), in_dims=(None, 0, 0))(
        x(t, 2), x(t, 4, 2), x(t, 4)
    ),
    "vjacrev": lambda t: t.func.vmap(t.func.jacrev(lambda a: a.sin() * a.sum()))(x(t, 4, 2)),
    "vhess": lambda t: t.func.vmap(t.func.hessian(lambda a: a.sin().prod()))(x(t, 4, 2)),
    "jvmap": lambda t: t.func.jacrev(t.func.vmap(lambda a: a.sin().sum()))(x(t, 4, 2)),
    "gvmap": lambda t: t.func.grad(lambda a: t.func.vmap(lambda b: b.sin().sum())(a).sum())(x(t, 4, 2)),
    "vjpvmap": lambda t: (lambda o: t.func.vmap(o[1])(t.eye(3)))(t.func.vjp(lambda a: a.sin(), x(t, 3))),
    "outgrad": lambda t: (lambda a: t.autograd.grad(t.func.vmap(lambda b: b.sin().sum())(a).sum(), a))(
        x(t, 4, 2).requires_grad_()
    ),
    "linearize": lambda t: (lambda o: (o[0], o[1](x(t, 3))))(t.func.linearize(lambda a: a.sin(), x(t, 3))),
    "jacaux": lambda t: t.func.jacrev(lambda a: (a * 2, a.sum()), has_aux=True)(x(t, 3)),
    "argnum": lambda t: t.func.grad(lambda a: a.sum(), argnums=2)(x(t, 3)),
    "argmax": lambda t: t.func.vmap(
        lambda a: (a.argmax(), a.argmax(-1), a.any(), a.all(0), a.norm(), a.std(), a.var(0))
    )(x(t, 3, 2, 2)),
    "comparison": lambda t: t.func.vmap(lambda a, b: (a == b, a < b, ~(a > b), a != b, (a > 1) | (b > 1)))(
        x(t, 3, 2), x(t, 3, 2) * 2
    ),
    "reflected": lambda t: t.func.vmap(lambda a: (1 - a, 2 / a, 2**a, 7 // a, a // 2, a % 2, -a, abs(a)))(x(t, 3, 2)),
    "addmm": lambda t: t.func.vmap(lambda b, a, c: t.addmm(b, a, c), in_dims=(None, 0, 0))(
        x(t, 2), x(t, 3, 2, 2), x(t, 3, 2, 2)
    ),
    "bmm": lambda t: t.func.vmap(lambda a, c: t.bmm(a, c), in_dims=(1, None))(x(t, 2, 3, 2, 2), x(t, 2, 2, 2)),
    "rectangles": lambda t: t.func.vmap(lambda a: a.tril() + t.triu(a, 1) + t.zeros_like(a))(x(t, 3, 2, 2)),
    "types": lambda t: t.func.vmap(lambda a: (a.to(t.int32), a.long(), a.type(t.float16), a.bool()))(x(t, 3, 2)),
    "pad": lambda t: t.func.vmap(lambda a: t.nn.functional.pad(a, (1, 2)))(x(t, 3, 2)),
    "pool": lambda t: t.func.vmap(lambda a: t.nn.functional.max_pool2d(a, 2))(x(t, 3, 1, 2, 4, 4)),
    "embedding": lambda t: t.func.vmap(lambda i, w: t.nn.functional.embedding(i, w), in_dims=(0, None))(
        t.tensor([[0, 1], [2, 2]]), x(t, 3, 2)
    ),
    "attention": lambda t: t.func.vmap(lambda q: t.nn.functional.scaled_dot_product_attention(q, q, q))(
        x(t, 3, 2, 4, 2)
    ),
    "scatter": lambda t: t.func.vmap(lambda a, i: a.scatter_add(0, i, a))(x(t, 3, 4), t.tensor([[0, 0, 1, 2]] * 3)),
    "flip": lambda t: t.func.vmap(
        lambda a: (a.flip(0), a.roll(1, 0), a.diff(), a.unflatten(0, (2, 2)), a.narrow(0, 1, 2))
    )(x(t, 3, 4)),
    "diagonal": lambda t: t.func.vmap(lambda a: (a.diagonal(), t.diag_embed(a), a.diagonal(1, -1, 0)))(x(t, 3, 2, 3)),
    "inverse": lambda t: t.func.vmap(lambda a: (t.linalg.inv(a), t.linalg.det(a)))(x(t, 2, 2, 2).sin() + t.eye(2)),
    "squeezed": lambda t: t.func.vmap(lambda a: (a.squeeze(0), a.squeeze(-1), a.squeeze(), a.movedim(0, 1)))(
        x(t, 3, 1, 2)
    ),
    "swapped": lambda t: t.func.vmap(lambda a, b: (a.expand_as(b), b.view_as(b), a.unsqueeze(1).broadcast_to(2, 3)))(
        x(t, 3, 2), x(t, 3, 2, 2)
    ),
    "scalar": lambda t: t.func.vmap(lambda a: (a.sum(0), a.unsqueeze(0), a.cumsum(0), a.clamp(0.5, 1)))(x(t, 3)),
    "shared": lambda t: t.func.vmap(lambda a, b: (a, b * 2), in_dims=(0, None), out_dims=(0, None))(x(t, 3), x(t, 2)),
    "cross_entropy_weighted": lambda t: t.func.vmap(
        lambda a, y: t.nn.functional.cross_entropy(a, y, reduction="sum", ignore_index=0)
    )(x(t, 3, 2, 4), t.tensor([[0, 1], [1, 2], [3, 0]])),
    "losses": lambda t: t.func.vmap(
        lambda a, b: (
            t.nn.functional.l1_loss(a, b, reduction="sum"),
            t.nn.functional.smooth_l1_loss(a, b, reduction="none"),
        ),
        in_dims=(0, None),
    )(x(t, 3, 2), x(t, 2)),
    "group_norm": lambda t: t.func.vmap(lambda a: t.nn.functional.group_norm(a, 2))(x(t, 3, 2, 4, 2)),
    "layer_norm_of_batches": lambda t: t.func.vmap(lambda a, w: t.nn.functional.layer_norm(a, (2,), w, w))(
        x(t, 3, 4, 2), x(t, 3, 2)
    ),
    "three": lambda t: t.func.vmap(t.func.vmap(t.func.vmap(lambda a, b: a @ b, (None, 0)), (0, None)), (0, 0))(
        x(t, 2, 3, 2), x(t, 2, 4, 2)
    ),
    "wrong_randomness": lambda t: t.func.vmap(lambda a: a, randomness="some")(x(t, 2)),
    "out_of_range": lambda t: t.func.vmap(lambda a: a, out_dims=4)(x(t, 2)),
    "structure": lambda t: t.func.vmap(lambda a: a, in_dims=(0, 0))(x(t, 2)),
    "not_integer": lambda t: t.func.grad(lambda a: a.sum(), argnums=(0, 0))(x(t, 2)),
    "cotangents": lambda t: t.func.vjp(lambda a: a, x(t, 2))[1]((x(t, 2), x(t, 2))),
    "tangents": lambda t: t.func.jvp(lambda a: a, x(t, 2), x(t, 2)),
    "jacobian_of_trees": lambda t: t.func.jacrev(lambda p: {"out": p["w"] * p["b"]})({"w": x(t, 2), "b": x(t, 2)}),
    "hessian_of_two": lambda t: t.func.hessian(lambda a, b: (a * b).sum() ** 2, argnums=(0, 1))(x(t, 2), x(t, 2)),
    "products_of_hessians": lambda t: t.func.jvp(t.func.grad(lambda a: a.sin().prod()), (x(t, 3),), (t.ones(3),)),
    "differentiated_twice": lambda t: t.func.grad(lambda a: t.func.vjp(lambda b: b**3, a)[1](t.ones(3))[0].sum())(
        x(t, 3)
    ),
    "batches_of_products": lambda t: t.func.vmap(
        lambda v: t.func.jvp(lambda a: a.sin() * a.sum(), (x(t, 3),), (v,))[1]
    )(t.eye(3)),
    "in_graph": lambda t: (lambda a: t.autograd.grad(t.func.grad(lambda b: (b**3).sum())(a).sum(), a))(
        x(t, 3).requires_grad_()
    ),
    "ensemble": ensemble,
    "rule": lambda t: own_rule(t, lambda info, found: (found * info.batch_size, 0)),
    "rule of another place": lambda t: own_rule(t, lambda info, found: (found.t(), 1)),
    "rule of a sequence": lambda t: own_rule(t, lambda info, found: ((found, found + 1), (0, 0))),
    "rule for none": lambda t: own_rule(t, lambda info, found: (found[0], None)),
    "rule without places": lambda t: own_rule(t, lambda info, found: found),
    "rule with places of others": lambda t: own_rule(t, lambda info, found: (found, (None, None))),
    "rule generated": lambda t: own_rule(t, None, generated=True),
    "rule twice": lambda t: own_rule(t, lambda info, found: (found, 0), generated=True),
    "no rule": lambda t: own_rule(t, None),
    "no setup_context": lambda t: own_rule(t, lambda info, found: (found, 0), apart=False),
    "written into": written_into,
    "written into a leaf": lambda t: t.func.jacrev(lambda a: a.mul_(2))(x(t, 3)),
    "hooks grad": lambda t: kept_elsewhere(t, t.func.grad),
    "hooks jacrev": lambda t: kept_elsewhere(t, t.func.jacrev),
    "vjp without recording": without_recording,
    "requires_grad_ inside": lambda t: t.func.grad(lambda a: a.requires_grad_().sum())(x(t, 3)),
    "requires_grad_ of examples": lambda t: t.vmap(lambda a: a.requires_grad_())(x(t, 3)),
    "retain_grad inside": lambda t: t.func.grad(lambda a: (a * 2).retain_grad())(x(t, 3)),
    "complex input": lambda t: t.func.jacrev(lambda a: a * 2)(x(t, 2).to(t.complex64)),
    "complex output": lambda t: t.func.jacfwd(lambda a: a * 2j)(x(t, 2)),
    "argnums of floats": lambda t: t.func.jacrev(t.mul, argnums=(1, 0.0))(x(t, 2), x(t, 2)),
    "strict": lambda t: t.func.jvp(lambda a: x(t, 2), (x(t, 2),), (x(t, 2),), strict=True),
    "primals of numbers": lambda t: t.func.jvp(t.sin, (1.0,), (x(t, 2),)),
}
