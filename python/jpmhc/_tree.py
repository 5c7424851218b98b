# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Nested tuples, lists and dictionaries flattened to a list of leaves and put together again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jpmhc._location import here
from jpmhc.errors import ConfigError

MOST_NESTING = 100
"""Levels of containers that arguments and results may have."""


class _Leaf:
    def __repr__(self) -> str:
        return "*"


LEAF = _Leaf()


def _replace(
    node: Any,
    is_leaf: Callable[[Any], bool],
    new: Callable[[Any], Any],
    outer: tuple[Any, ...] = (),
) -> Any:
    """The tree with `new(leaf)` for each leaf, in order; `outer` are the containers around it.

    Not a closure that calls itself: such a cycle would hold the arrays until the next collection.
    """
    if is_leaf(node):
        return new(node)
    if not isinstance(node, (dict, tuple, list)):
        return node
    if len(outer) >= MOST_NESTING or any(node is container for container in outer):
        raise ConfigError(
            "nested containers",
            expected=f"at most {MOST_NESTING} levels, none within itself",
            given=type(node).__name__,
            where=here(),
        )
    outer = (*outer, node)
    if isinstance(node, dict):
        return {key: _replace(node[key], is_leaf, new, outer) for key in node}
    if isinstance(node, tuple) and hasattr(node, "_fields"):
        return type(node)(*(_replace(item, is_leaf, new, outer) for item in node))
    return type(node)(_replace(item, is_leaf, new, outer) for item in node)


def flatten(tree: Any, is_leaf: Callable[[Any], bool]) -> tuple[list[Any], Any]:
    """Leaves in order and the structure with `LEAF` in their places.

    Whatever is neither a container nor a leaf stays in the structure as it is.

    Raises:
        ConfigError: a container holds itself, or containers nest too deep.
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
