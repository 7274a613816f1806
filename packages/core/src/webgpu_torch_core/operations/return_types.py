"""Named tuples that operations with several results return, as ``torch.return_types``."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

#: by their fields, the types that ``torch.return_types`` has besides those for results that are written into ``out``
_TYPES = {
    "min max": "aminmax",
    "values indices": "cummax cummin kthvalue max median min mode nanmedian sort topk",
    "mantissa exponent": "frexp",
    "a tau": "geqrf",
    "hist bin_edges": "histogram histogramdd",
    "L info": "linalg_cholesky_ex",
    "eigenvalues eigenvectors": "linalg_eig linalg_eigh",
    "inverse info": "linalg_inv_ex",
    "LD pivots": "linalg_ldl_factor",
    "LD pivots info": "linalg_ldl_factor_ex",
    "solution residuals rank singular_values": "linalg_lstsq",
    "P L U": "linalg_lu lu_unpack",
    "LU pivots": "linalg_lu_factor",
    "LU pivots info": "linalg_lu_factor_ex",
    "Q R": "linalg_qr qr",
    "sign logabsdet": "linalg_slogdet slogdet",
    "result info": "linalg_solve_ex",
    "U S Vh": "linalg_svd",
    "U S V": "svd",
    "solution cloned_coefficient": "triangular_solve",
}
_types: dict[tuple[str, tuple[str, ...]], Any] = {}


def make(name: str, **fields: Any) -> Any:
    """Return a named tuple of type ``torch.return_types.<name>``."""
    key = (name, tuple(fields))
    kind = _types.get(key)
    if kind is None:
        kind = _types[key] = _kind(name, tuple(fields))
    return kind._make(fields.values())


def public_types() -> dict[str, type]:
    """Return the types that ``torch.return_types`` has, by name."""
    found: dict[str, type] = {}
    for fields, names in _TYPES.items():
        for name in names.split():
            for each in (name, f"{name}_out"):
                key = (each, tuple(fields.split()))
                found[each] = _types[key] if key in _types else _types.setdefault(key, _kind(*key))
    return found


def _kind(name: str, fields: tuple[str, ...]) -> Any:
    base: Any = namedtuple(name, fields)  # pyright: ignore[reportUntypedNamedTuple]

    def new(kind: type, *values: object, **named: object) -> object:
        # As PyTorch's, which are made of one sequence: programs that map over results call their types so.
        together = len(values) == 1 < len(fields) and not named
        return base.__new__(kind, *(values[0] if together else values), **named)  # type: ignore[misc]

    def show(self: Any) -> str:
        parts = ",\n".join(f"{field}={value!r}" for field, value in zip(fields, self, strict=True))
        return f"torch.return_types.{name}(\n{parts})"

    def reduce(self: Any) -> Any:
        return _restored, (name, fields, tuple(self))

    members = {
        "__slots__": (),
        "__new__": new,
        "__repr__": show,
        "__reduce__": reduce,
        "__module__": "torch.return_types",
    }
    return type(name, (base,), members)


def _restored(name: str, fields: tuple[str, ...], values: tuple[Any, ...]) -> Any:
    return make(name, **dict(zip(fields, values, strict=True)))
