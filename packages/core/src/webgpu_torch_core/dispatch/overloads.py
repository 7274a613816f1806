"""Functions of several declarations: a call has to fit one of them as a whole.

Where a function is declared once, each argument is looked at by itself (:mod:`.argument_types`). The functions here are
several in PyTorch, under one name: what is right for one of them is not right beside the arguments of another.
"""

from __future__ import annotations

import ast
import inspect

#: dimensions, or the flag of Bessel's correction in their place, or the correction as a number
_MOMENTS = (
    "input: Tensor, unbiased: bool = True",
    "input: Tensor, dim: Dimensions, unbiased: bool = True, keepdim: bool = False",
    "input: Tensor, dim: Dimensions = None, *, correction: Number | None = None, keepdim: bool = False",
)
_MIDDLE = ("input: Tensor", "input: Tensor, dim: int, keepdim: bool = False")
_EXTREMES = (*_MIDDLE, "input: Tensor, other: Tensor")
_LIST_OF_SIZES = ("input: Tensor, dims: Sequence[int]",)
_OF_TWO = ("input: Tensor, s: Dimensions = None, dim: Sizes = (-2, -1), norm: str | None = None",)
#: the declarations of each such function, by its name, or by its path where its method has others; what is given by name and in none of them is declared by the function itself
DECLARATIONS: dict[str, tuple[str, ...]] = {
    "max": _EXTREMES, "min": _EXTREMES, "median": _MIDDLE, "nanmedian": _MIDDLE,
    "var": _MOMENTS, "std": _MOMENTS, "var_mean": _MOMENTS, "std_mean": _MOMENTS,
    "mm": ("input: Tensor, mat2: Tensor", "input: Tensor, mat2: Tensor, out_dtype: dtype"),
    "bmm": ("input: Tensor, mat2: Tensor", "input: Tensor, mat2: Tensor, out_dtype: dtype"),
    "addmm": (
        "input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Number = 1, alpha: Number = 1",
        "input: Tensor, mat1: Tensor, mat2: Tensor, out_dtype: dtype, *, beta: Number = 1, alpha: Number = 1",
    ),
    "baddbmm": (
        "input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: Number = 1, alpha: Number = 1",
        "input: Tensor, batch1: Tensor, batch2: Tensor, out_dtype: dtype, *, beta: Number = 1, alpha: Number = 1",
    ),
    "arange": ("end: Number", "start: Number, end: Number, step: Number = 1"),
    "eye": ("n: int", "n: int, m: int"),
    "histogram": (
        "input: Tensor, bins: int = 100, *, range: Sequence[float] | None = None, weight: Tensor | None = None, density: bool = False",
        "input: Tensor, bins: Tensor, *, weight: Tensor | None = None, density: bool = False",
    ),
    "scatter": (
        "input: Tensor, dim: int, index: Tensor, src: Tensor", "input: Tensor, dim: int, index: Tensor, value: Number",
        "input: Tensor, dim: int, index: Tensor, src: Tensor, *, reduce: str",
        "input: Tensor, dim: int, index: Tensor, value: Number, *, reduce: str",
    ),
    "linalg.matrix_rank": (
        "input: Tensor, *, atol: Tensor | float | None = None, rtol: Tensor | float | None = None, hermitian: bool = False",
        "input: Tensor, tol: Tensor | float, hermitian: bool = False",
    ),
    "linalg.pinv": (
        "input: Tensor, *, atol: Tensor | float | None = None, rtol: Tensor | float | None = None, hermitian: bool = False",
        "input: Tensor, rcond: Tensor | float, hermitian: bool = False",
    ),
    "to_sparse": (
        "input: Tensor, sparse_dim: int", "input: Tensor, *, layout: object = None, blocksize: object = None, dense_dim: int | None = None",
    ),
    "randint_like": ("input: Tensor, high: int", "input: Tensor, low: int, high: int"),
    "torch.flip": _LIST_OF_SIZES, "torch.tile": _LIST_OF_SIZES,
    "fft.fft2": _OF_TWO, "fft.ifft2": _OF_TWO, "fft.rfft2": _OF_TWO, "fft.irfft2": _OF_TWO, "fft.hfft2": _OF_TWO,
    "fft.ihfft2": _OF_TWO,
    "torch.randint": (
        "high: int, size: Sequence[int]", "low: int, high: int, size: Sequence[int]",
    ),
    "movedim": (
        "input: Tensor, source: int, destination: int", "input: Tensor, source: Sequence[int], destination: Sequence[int]",
    ),
    "expand_copy": ("input: Tensor, size: Sequence[int], *, implicit: bool = False",),
    "view_copy": ("input: Tensor, size: Sequence[int]", "input: Tensor, dtype: dtype"),
    "permute_copy": _LIST_OF_SIZES,
    "squeeze": ("input: Tensor", "input: Tensor, dim: Sizes"),
}  # fmt: skip


def _parameters(declaration: str) -> list[inspect.Parameter]:
    """Return the parameters that a declaration lists."""
    definition = ast.parse(f"def declared({declaration}): ...").body[0]
    if not isinstance(definition, ast.FunctionDef):
        raise TypeError(f"{declaration!r} is no list of parameters")
    given = definition.args
    absent = [None] * (len(given.args) - len(given.defaults))
    made = []
    for several, kind, defaults in (
        (given.args, inspect.Parameter.POSITIONAL_OR_KEYWORD, [*absent, *given.defaults]),
        (given.kwonlyargs, inspect.Parameter.KEYWORD_ONLY, given.kw_defaults),
    ):
        for each, default in zip(several, defaults, strict=True):
            value = inspect.Parameter.empty if default is None else ast.literal_eval(default)
            annotation = "" if each.annotation is None else ast.unparse(each.annotation)
            made.append(inspect.Parameter(each.arg, kind, default=value, annotation=annotation))
    return made


def declarations(path: str) -> tuple[str, ...]:
    """Return the declarations of the function at a path of the public API as they are written, none if it has one only."""
    return DECLARATIONS.get(path, DECLARATIONS.get(path.removeprefix("torch.").removeprefix("Tensor."), ()))


def declared(path: str) -> list[inspect.Signature]:
    """Return the declarations of the function at a path of the public API, none if it has one only."""
    return [inspect.Signature(_parameters(each)) for each in declarations(path)]
