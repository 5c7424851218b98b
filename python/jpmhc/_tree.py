# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Nested tuples, lists and dictionaries flattened to a list of leaves and put together again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class _Leaf:
    def __repr__(self) -> str:
        return "*"


LEAF = _Leaf()


def _replace(node: Any, is_leaf: Callable[[Any], bool], new: Callable[[Any], Any]) -> Any:
    """The tree with `new(leaf)` for each leaf, in order.

    Not a closure that calls itself: such a cycle would hold the arrays until the next collection.
    """
    if is_leaf(node):
        return new(node)
    if isinstance(node, dict):
        return {key: _replace(node[key], is_leaf, new) for key in node}
    if isinstance(node, tuple) and hasattr(node, "_fields"):
        return type(node)(*(_replace(item, is_leaf, new) for item in node))
    if isinstance(node, (tuple, list)):
        return type(node)(_replace(item, is_leaf, new) for item in node)
    return node


def flatten(tree: Any, is_leaf: Callable[[Any], bool]) -> tuple[list[Any], Any]:
    """Leaves in order and the structure with `LEAF` in their places.

    Whatever is neither a container nor a leaf stays in the structure as it is.
    """
    leaves: list[Any] = []

    def take(leaf: Any) -> Any:
        leaves.append(leaf)
        return LEAF

    structure = _replace(tree, is_leaf, take)
    return leaves, structure


def unflatten(structure: Any, leaves: list[Any]) -> Any:
    """The inverse of `flatten`."""
    remaining = iter(leaves)
    return _replace(structure, lambda node: node is LEAF, lambda _: next(remaining))


def names(structure: Any, prefix: str = "") -> list[str]:
    """A readable path of each leaf, such as ``batch.tokens`` or ``[0]``."""
    found: list[str] = []

    def walk(node: Any, path: str) -> None:
        if node is LEAF:
            found.append(path or "value")
        elif isinstance(node, dict):
            for key in node:
                walk(node[key], f"{path}.{key}" if path else str(key))
        elif isinstance(node, tuple) and hasattr(node, "_fields"):
            for key, item in zip(node._fields, node, strict=True):
                walk(item, f"{path}.{key}" if path else str(key))
        elif isinstance(node, (tuple, list)):
            for i, item in enumerate(node):
                walk(item, f"{path}[{i}]")

    walk(structure, prefix)
    return found
