"""Arguments of types that a function does not take, told in PyTorch's words.

What a function takes is what its signature declares. Options, which nothing else may look at, are looked at before a call:
once for each class that is given for one. Tensors are looked at when a call has failed. So calls that are right pay for a
look into a set at most, and those of nothing but tensors for nothing.
"""

from __future__ import annotations

import inspect
import sys
from collections import defaultdict
from collections.abc import Callable
from functools import cache, lru_cache
from typing import NamedTuple, SupportsFloat, SupportsIndex, TypeGuard

from ..ir.dtypes import dtype
from ..tensors.memory_formats import memory_format
from ..tensors.tensor import Tensor
from .numpy_names import NAMES
from .output_errors import RefusedOutputType
from .overloads import declarations, declared


def _is_number(value: object) -> bool:
    if isinstance(value, Tensor):
        # A number has no gradient that could be asked for.
        return not value.ndim and not value.requires_grad
    return isinstance(value, int | float) or (hasattr(value, "__float__") and not getattr(value, "ndim", 0))


def is_real(value: object) -> TypeGuard[SupportsFloat]:
    """Return whether a value is a number that is not complex: Python's or NumPy's."""
    return _is_number(value) and not isinstance(value, Tensor)


def is_whole(value: object, first: bool = True) -> TypeGuard[SupportsIndex]:
    """Return whether a value stands for one integer: an int, one of NumPy's, a tensor of one integer.

    Truth values do not, but after the ``first`` of several integers, where PyTorch looks no more.
    """
    if isinstance(value, int):
        return not (first and isinstance(value, bool))
    if isinstance(value, Tensor):
        return value.dtype.category == 1 and value.numel() == 1
    # NumPy's arrays have the method, whatever is in them.
    kind = getattr(getattr(value, "dtype", None), "kind", "i")
    return hasattr(value, "__index__") and not getattr(value, "ndim", 0) and kind in "iu"


def _are_whole(value: object) -> bool:
    return isinstance(value, tuple | list) and all(is_whole(each, not place) for place, each in enumerate(value))


class _Kind(NamedTuple):
    """What a part of an annotation takes, and what PyTorch's errors call it; ``several``: what tuples and lists hold is asked, too."""

    takes: Callable[[object], bool]
    title: str
    several: bool = False


_SIZES = _Kind(lambda value: is_whole(value) or _are_whole(value), "tuple of ints", True)
_NONE = _Kind(lambda value: value is None, "None")
_TENSOR = _Kind(lambda value: isinstance(value, Tensor), "Tensor")
_KINDS = {
    "Tensor": _TENSOR,
    "Number": _Kind(lambda value: isinstance(value, complex) or _is_number(value), "Number"),
    "float": _Kind(_is_number, "float"),
    "int": _Kind(is_whole, "int"),
    "bool": _Kind(lambda value: isinstance(value, bool), "bool"),
    "str": _Kind(lambda value: isinstance(value, str), "str"),
    "dtype": _Kind(
        lambda value: isinstance(value, dtype) or any(value is each for each in (float, int, bool, complex)),
        "torch.dtype",
    ),
    "Dimensions": _Kind(lambda value: value is None or _SIZES.takes(value), "tuple of ints", True),
    "Sizes": _SIZES,
    "Sequence[int]": _Kind(_are_whole, "tuple of ints", True),
    "Sequence[float]": _Kind(
        lambda value: isinstance(value, tuple | list) and all(map(_is_number, value)), "tuple of floats", True
    ),
    "OutputSize": _Kind(
        lambda value: value is None or _SIZES.takes(value) or isinstance(value, tuple | list), "tuple of ints", True
    ),
    "memory_format": _Kind(lambda value: isinstance(value, memory_format), "torch.memory_format"),
    "EllipsisType": _Kind(lambda value: value is ..., "ellipsis"),
    "None": _NONE,
}
#: what a parameter without annotation takes by the class of its default; an operand has none
_BY_DEFAULT = {bool: "bool", str: "str", int: "Number", float: "Number"}
#: options that functions which PyTorch writes in Python do not look at the type of: flags that count by their truth, names that
#: are looked up
_UNCHECKED = frozenset(
    ("inplace", "size_average", "reduce", "return_indices", "center", "antialias", "recompute_scale_factor", "_stacklevel") +
    ("unbiased", "add_zero_attn", "use_separate_proj_weight", "reduction", "mode", "padding_mode", "compute_mode") +
    ("get_infos", "sym", "q_proj_weight", "k_proj_weight", "v_proj_weight")
)  # fmt: skip
#: such options of single functions: they look at other things first
_UNCHECKED_OF = {
    "interpolate": ("size", "align_corners"), "upsample": ("size", "align_corners"), "upsample_nearest": ("size",),
    "upsample_bilinear": ("size",), "max_unpool1d": ("kernel_size", "stride", "padding", "output_size"),
    "linear_cross_entropy": ("ignore_index",), "pca_lowrank": ("q",), "svd_lowrank": ("q",), "multi_margin_loss": ("p",),
    "multi_head_attention_forward": ("num_heads", "dropout_p"), "normalize": ("p",),
    "max_unpool2d": ("kernel_size", "stride", "padding", "output_size"),
    "max_unpool3d": ("kernel_size", "stride", "padding", "output_size"),
}  # fmt: skip


def _kinds(parameter: inspect.Parameter, in_python: bool, function: str = "") -> tuple[_Kind, ...]:
    """Return what a parameter of a function takes, nothing where that cannot be told from its declaration.

    ``in_python``: PyTorch writes the function in Python.
    """
    several = parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    name = parameter.name
    if several or (in_python and (name in _UNCHECKED or name in _UNCHECKED_OF.get(function, ()))):
        return ()
    declared, default = parameter.annotation, parameter.default
    parts = _BY_DEFAULT.get(type(default), "") if declared is parameter.empty else str(declared)
    found = tuple(_KINDS.get(each.strip().removeprefix("torch.")) for each in parts.split("|"))
    known = tuple(each for each in found if each is not None)
    if len(known) < len(found):
        return ()
    # Of what makes tensors PyTorch takes None for no.
    return (*known, _NONE) if default is None or parameter.name in ("requires_grad", "pin_memory") else known


class _Classes(set[type]):
    """The classes that were given for one parameter and are right whatever the value; ``kinds``: what it takes."""

    def __init__(self, kinds: tuple[_Kind, ...] = ()) -> None:
        super().__init__()
        self.kinds = kinds

    def learn(self, value: object) -> bool:
        """Return whether a value is right, and remember its class where that decides."""
        kind = type(value)
        several = isinstance(value, tuple | list) and any(each.several for each in self.kinds)
        right = not self.kinds or several or any(each.takes(value) for each in self.kinds)
        if right and (_TENSOR in self.kinds or not issubclass(kind, Tensor)):
            self.add(kind)
        return right


@lru_cache(maxsize=1024)
def _signature(function: Callable[..., object]) -> inspect.Signature | None:
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        return None


def _declared(function: Callable[..., object]) -> Callable[..., object]:
    """Return the function that declares what another takes: what writes in place hands its arguments on."""
    return getattr(function, "takes_arguments_of", function)


def _class_of(value: object) -> object:
    """Return what decides whether a declaration takes a value, None where the value itself does."""
    if isinstance(value, tuple | list):
        kinds = tuple(map(type, value))
        return (type(value), *kinds) if _INTEGERS.issuperset(kinds) or not any(map(_is_tensor, value)) else None
    return type(value)


_INTEGERS = frozenset((int,))


def _is_tensor(value: object) -> bool:
    return isinstance(value, Tensor)


class Overloads:
    """The declarations of a function that has several, and the classes of the arguments of calls that fitted one."""

    __slots__ = ("_choices", "_function", "_own", "_path", "_plain", "_right")

    def __init__(self, function: Callable[..., object], path: str) -> None:
        self._function, self._path = function, path
        #: read at the first call: few functions are ever called
        self._choices: list[inspect.Signature] = []
        self._own: frozenset[str] = frozenset()
        self._right: set[object] = set()
        #: those of the calls whose arguments are no sequences, in one row
        self._plain: set[object] = set()

    def _prepare(self) -> None:
        self._choices = declared(self._path)
        signature = _signature(self._function)
        if signature is not None:
            self._own = frozenset(signature.parameters).difference(*(each.parameters for each in self._choices))

    def require(self, args: tuple[object, ...], kwargs: dict[str, object]) -> None:
        """Look at a call as a whole.

        Raises:
            TypeError: no declaration takes it.
        """
        plain = (*map(type, args), *kwargs, *map(type, kwargs.values())) if kwargs else tuple(map(type, args))
        if plain in self._plain:
            return
        classes = (tuple(map(_class_of, args)), tuple((name, _class_of(value)) for name, value in kwargs.items()))
        if classes in self._right:
            return
        if not self._choices:
            self._prepare()
        given = {NAMES.get(name, name): value for name, value in kwargs.items() if name not in self._own}
        by_value = False
        for each in self._choices:
            try:
                bound = each.bind(*args, **given).arguments
            except TypeError:
                continue
            kinds = {name: _kinds(each.parameters[name], False) for name in bound}
            if all(not kinds[name] or any(kind.takes(bound[name]) for kind in kinds[name]) for name in bound):
                by_value = any(isinstance(bound[name], Tensor) and _TENSOR not in kinds[name] for name in bound)
                break
        else:
            raise self._refusal(args, kwargs)
        if not by_value and None not in (*classes[0], *(each for _, each in classes[1])):
            self._right.add(classes)
            if not any(isinstance(each, tuple | list) for each in (*args, *kwargs.values())):
                self._plain.add(plain)

    def _refusal(self, args: tuple[object, ...], kwargs: dict[str, object]) -> TypeError:
        bound, alone = bound_of(self._path), self._choices[0].parameters
        if len(self._choices) == 1:
            left = [*alone.values()][len(args) :]
            missing = [each.name for each in left if each.default is each.empty and each.name not in kwargs]
            if missing:
                return _missing(name_of(self._path), missing)
            unknown = [each for each in kwargs if NAMES.get(each, each) not in alone]
            if unknown:
                return TypeError(f"{name_of(self._path)}() got an unexpected keyword argument '{unknown[0]}'")
        return _combination(self._path, bound, args, kwargs, self._choices)


def _combination(
    path: str, bound: int, args: tuple[object, ...], kwargs: dict[str, object], choices: list[inspect.Signature]
) -> TypeError:
    given = [type(each).__name__ for each in args[bound:]]
    given += [f"{name}={type(value).__name__}" for name, value in kwargs.items()]
    expected = "".join(
        f"\n * ({', '.join(str(one) for one in [*each.parameters.values()][bound:])})".replace("'", "")
        for each in choices
    )
    return TypeError(
        f"{name_of(path)}() received an invalid combination of arguments - got ({', '.join(given)}), but expected one of:"
        f"{expected}"
    )


def combination_refused(
    function: Callable[..., object], path: str, args: tuple[object, ...], kwargs: dict[str, object]
) -> TypeError:
    """Return the error for arguments that fit no declaration of a function, together."""
    found = declared(path) or [each for each in (_signature(_declared(function)),) if each is not None]
    return _combination(path, bound_of(path), args, kwargs, found)


#: kinds of calls of one function whose classes are remembered
MOST_KINDS = 256


class Options:
    """The parameters of a function that are no tensors, and the classes of what has been given for them.

    Attributes:
        first: the number of the first of them.
        in_python: whether PyTorch writes the function in Python.
        by_place, by_name: the classes that were right so far; empty until a call is looked at.
    """

    __slots__ = ("_function", "_names", "_right", "by_name", "by_place", "first", "in_python")

    def __init__(self, function: Callable[..., object]) -> None:
        self._function = function
        self.in_python = False
        self.first = 0
        self.by_place: list[_Classes] = [_Classes()]
        self.by_name: defaultdict[str, _Classes] = defaultdict(_Classes)
        self._names: tuple[str, ...] | None = None
        #: the classes of arguments by place that were right whatever their values
        self._right: set[tuple[type, ...]] = set()

    def _prepare(self) -> None:
        signature = _signature(self._function)
        parameters = () if signature is None else tuple(signature.parameters.values())
        self._names = tuple(each.name for each in parameters)
        places: list[_Classes] = []
        self.by_name.clear()
        for each in parameters:
            kinds = _kinds(each, self.in_python, self._function.__name__)
            found = self.by_name[each.name] = _Classes(kinds if {*kinds} != {_TENSOR} else ())
            if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD):
                places.append(found)
        for alias, name in NAMES.items():
            if name in self.by_name and alias not in self.by_name:
                self.by_name[alias] = self.by_name[name]
        self.by_place[:] = places
        # Where there are none, no call has as many arguments.
        self.first = next((number for number, each in enumerate(places) if each.kinds), sys.maxsize - 1)

    def require(self, args: tuple[object, ...], kwargs: dict[str, object], path: str) -> None:
        """Look at what is given for options; ``path``: under which name of the public API.

        Raises:
            TypeError: the declaration excludes it.
        """
        classes = tuple(map(type, args))
        if classes not in self._right:
            self._require_places(args, classes, path)
        for name, value in kwargs.items():
            found = self.by_name[name]
            if value.__class__ not in found and not found.learn(value):
                raise self._refusal(path, name, None, found.kinds, value)

    def _require_places(self, args: tuple[object, ...], classes: tuple[type, ...], path: str) -> None:
        if self._names is None:
            self._prepare()
        for place in range(self.first, min(len(args), len(self.by_place))):
            found, value = self.by_place[place], args[place]
            if value.__class__ not in found and not found.learn(value):
                raise self._refusal(path, (self._names or ())[place], place + 1 - bound_of(path), found.kinds, value)
        looked = zip(classes[self.first :], self.by_place[self.first :], strict=False)
        if all(each in found for each, found in looked) and len(self._right) < MOST_KINDS:
            self._right.add(classes)

    def wrong(self, args: tuple[object, ...], kwargs: dict[str, object], path: str) -> TypeError | None:
        """Return the error that names the first argument which its declaration excludes, None if all may be right."""
        signature = _signature(_declared(self._function))
        if signature is None:
            return None
        try:
            given = signature.bind_partial(*args, **kwargs)
        except TypeError:
            return None
        for position, (name, value) in enumerate(given.arguments.items(), 1 - bound_of(path)):
            kinds = _kinds(signature.parameters[name], self.in_python, self._function.__name__)
            if kinds and not any(each.takes(value) for each in kinds):
                return self._refusal(path, name, None if name in kwargs else position, kinds, value)
        return None

    def _refusal(
        self, path: str, name: str, position: int | None, kinds: tuple[_Kind, ...], value: object
    ) -> TypeError:
        place = "" if position is None else f" (position {position})"
        function = name_of(path) if path.startswith(_PREFIXED) else self._function.__name__
        refused = RefusedOutputType if name == "out" else TypeError
        return refused(f"{function}(): argument '{name}'{place} must be {kinds[0].title}, not {type(value).__name__}")


#: modules whose functions PyTorch names by the module, too
_PREFIXED = ("torch.fft.", "torch.linalg.", "torch.special.")


def name_of(path: str) -> str:
    """Return what errors call the function with a path of the public API."""
    return path.removeprefix("torch.").removeprefix("Tensor.").removeprefix("nn.functional.").replace(".", "_")


def _missing(name: str, missing: list[str]) -> TypeError:
    """Return PyTorch's error, plural and singular as it has them, for a call without these arguments."""
    told = ", ".join('"input"' if each == "self" else f'"{each}"' for each in missing)
    return TypeError(f"{name}() missing {len(missing)} required positional argument{'s' * (len(missing) == 1)}: {told}")


def misfit(
    function: Callable[..., object], path: str, args: tuple[object, ...], kwargs: dict[str, object], looked_at: bool
) -> TypeError | None:
    """Return PyTorch's error for a call with too many arguments, too few, or unknown ones; None if it has what it needs.

    ``looked_at``: the arguments that are there were found wrong, which PyTorch says before it misses others.
    """
    signature = _signature(_declared(function))
    several = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    if signature is None or any(each.kind in several for each in signature.parameters.values()):
        return None
    bound = bound_of(path)
    name = name_of(path)
    taken = [each for each in signature.parameters.values() if each.name != "out" or not bound][bound:]
    by_place = [each for each in taken if each.kind is not each.KEYWORD_ONLY]
    given = len(args) - bound
    if bound and not taken and (given or kwargs):
        what = "keyword arguments" if kwargs else f"arguments ({given} given)"
        return TypeError(f"TensorBase.{name}() takes no {what}")
    needed = [each for each in by_place if each.default is each.empty]
    most = len(by_place)
    if given > most:
        counts = str(most) if len(needed) == most else f"from {len(needed)} to {most}"
        plural = "s" if most != 1 or len(needed) != most else ""
        return TypeError(
            f"{name}() takes {counts} positional argument{plural} but {given} {'was' if given == 1 else 'were'} given"
        )
    if looked_at:
        return None
    named = {NAMES.get(each, each) if each not in signature.parameters else each: each for each in kwargs}
    missing = [each.name for each in needed if each not in by_place[:given]]
    while missing and missing[0] in named:
        # PyTorch lists all from the first that is missing.
        del missing[0]
    unknown = [each for each in named if each not in (one.name for one in taken)]
    twice = [each for each in named if each in (one.name for one in by_place[:given])]
    if not (missing or unknown or twice):
        return None
    known = {each: kwargs[alias] for each, alias in named.items() if each not in (*unknown, *twice)}
    wrong = options_of(function).wrong(args, known, path)
    if wrong is not None:
        return wrong
    if missing:
        return _missing(name, missing)
    if unknown:
        return TypeError(f"{name}() got an unexpected keyword argument '{named[unknown[0]]}'")
    return TypeError(f"{name}() got multiple values for argument '{named[twice[0]]}'")


@cache
def overloads_of(function: Callable[..., object], path: str) -> Overloads | None:
    """Return the declarations of a function at a path of the public API, None if it has one only."""
    return Overloads(function, path) if declarations(path) else None


_options: dict[Callable[..., object], Options] = {}


def bound_of(path: str) -> int:
    """Return how many arguments what has a path of the public API has that PyTorch does not count: the tensor of a method."""
    return int(path.startswith("torch.Tensor."))


def options_of(function: Callable[..., object], in_python: bool = False) -> Options:
    """Return the options of a function; ``in_python``: whether PyTorch writes it in Python, which one of its names tells."""
    found = _options.get(function)
    if found is None:
        found = _options[function] = Options(function)
    found.in_python |= in_python
    return found
