"""Formulas: MathML made by the build, which browsers show without scripts or fonts from elsewhere."""

from __future__ import annotations

import ast
import re
from typing import Any

from latex2mathml.converter import convert

_GREEK = {
    "alpha", "beta", "gamma", "delta", "eps", "epsilon", "lambda", "mu", "nu", "sigma", "rho", "tau", "theta", "phi", "pi", "omega",
}  # fmt: skip
_NAMED = {"sqrt", "abs", "floor", "ceil", "exp2", "sum"}
_FUNCTIONS = {"sin", "cos", "tan", "sinh", "cosh", "tanh", "exp", "log", "max", "min", "det", "arg"}
_COMPARED: dict[type, str] = {
    ast.Lt: "<", ast.LtE: r"\le", ast.Gt: ">", ast.GtE: r"\ge", ast.Eq: "=", ast.NotEq: r"\ne",
}  # fmt: skip
_JOINED: dict[type, tuple[int, str]] = {
    ast.Add: (1, " + "), ast.Sub: (1, " - "), ast.Mult: (2, r" \, "), ast.MatMult: (2, r" \, "), ast.Mod: (2, r" \bmod "),
}  # fmt: skip


class _Latex(ast.NodeVisitor):
    """Prints an arithmetic expression of Python as LaTeX; :class:`ValueError` for what is not arithmetic."""

    def generic_visit(self, node: ast.AST) -> Any:
        raise ValueError(type(node).__name__)

    def inside(self, node: ast.expr, level: int) -> str:
        text = self.visit(node)
        own = (
            _JOINED.get(type(node.op), (9, ""))[0]
            if isinstance(node, ast.BinOp)
            else 1
            if isinstance(node, ast.UnaryOp)
            else 9
        )
        return rf"\left({text}\right)" if own < level else text

    def visit_BinOp(self, node: ast.BinOp) -> str:
        if isinstance(node.op, ast.Div):
            return rf"\frac{{{self.visit(node.left)}}}{{{self.visit(node.right)}}}"
        if isinstance(node.op, ast.Pow):
            base = self.visit(node.left)
            base = base if isinstance(node.left, ast.Name | ast.Constant) else rf"\left({base}\right)"
            return f"{base}^{{{self.visit(node.right)}}}"
        level, sign = _JOINED.get(type(node.op), (0, ""))
        if not level:
            raise ValueError("operator")
        return self.inside(node.left, level) + sign + self.inside(node.right, level + (sign == " - "))

    def visit_UnaryOp(self, node: ast.UnaryOp) -> str:
        if not isinstance(node.op, ast.USub):
            raise ValueError("operator")
        return f"-{self.inside(node.operand, 2)}"

    def visit_Name(self, node: ast.Name) -> str:
        name = {"lambd": "lambda", "eps": "epsilon", "inf": "infty"}.get(node.id, node.id)
        if name in _GREEK or name == "infty":
            return "\\" + name
        return name if len(name) == 1 else rf"\text{{{name}}}"

    def visit_Attribute(self, node: ast.Attribute) -> str:
        if node.attr in ("T", "mT"):
            return f"{self.visit(node.value)}^{{T}}"
        raise ValueError("attribute")

    def visit_Constant(self, node: ast.Constant) -> str:
        if isinstance(node.value, int | float) and not isinstance(node.value, bool):
            return str(node.value)
        raise ValueError("constant")

    def visit_Call(self, node: ast.Call) -> str:
        if node.keywords or not isinstance(node.func, ast.Name):
            raise ValueError("call")
        given = [self.visit(each) for each in node.args]
        name, inside = node.func.id, ", ".join(given)
        if name in _NAMED and len(given) == 1:
            return {
                "sqrt": rf"\sqrt{{{inside}}}", "abs": rf"\left|{inside}\right|", "floor": rf"\lfloor {inside} \rfloor",
                "ceil": rf"\lceil {inside} \rceil", "exp2": f"2^{{{inside}}}", "sum": rf"\sum {inside}",
            }[name]  # fmt: skip
        if name == "exp" and len(given) == 1:
            return f"e^{{{inside}}}"
        return (f"\\{name}" if name in _FUNCTIONS else self.visit(node.func)) + rf"\left({inside}\right)"

    def visit_Compare(self, node: ast.Compare) -> str:
        parts = [self.visit(node.left)]
        for sign, each in zip(node.ops, node.comparators, strict=True):
            if type(sign) not in _COMPARED:
                raise ValueError("comparison")
            parts += [_COMPARED[type(sign)], self.visit(each)]
        return " ".join(parts)

    def visit_Expression(self, node: ast.Expression) -> str:
        return self.visit(node.body)


def formula_of(sentence: str) -> str:
    """Return the formula that a sentence begins with (its first literal, where that computes something) as LaTeX, or nothing."""
    found = re.match(r"``([^`]+)``", sentence)
    if not found or not re.search(r"[-+*/(<>=]", found[1]):
        return ""
    code = re.sub(r"(?<![=<>!])=(?!=)", "==", found[1])
    try:
        return _Latex().visit(ast.parse(code, mode="eval"))
    except (SyntaxError, ValueError):
        return ""


def visit_math(self: Any, node: Any) -> None:
    """Write a formula of a line as MathML."""
    from docutils.nodes import SkipNode

    self.body.append(convert(node.astext()))
    raise SkipNode


def visit_math_block(self: Any, node: Any) -> None:
    """Write a formula of its own as MathML."""
    from docutils.nodes import SkipNode

    self.body.append(f'<div class="formula">{convert(node.astext(), display="block")}</div>')
    raise SkipNode
