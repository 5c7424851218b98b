# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The generated pages are current, and the example of every op parses and verifies."""

from __future__ import annotations

import functools
import os
import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("JPMHC_BUILD", ROOT / "build"))
LLVM = pathlib.Path("/usr/lib/llvm-22")
PAGES = {
    "dialect.md": [
        "-gen-dialect-doc",
        "-dialect=jpmhc",
        "include/jpmhc/Dialect/JPMHC/IR/JPMHCOps.td",
    ],
    "passes.md": ["-gen-pass-doc", "docs/passes.td"],
}
# What an example refers to besides its operands.
PRELUDE = {
    "launch": "func.func private @kernel_0(index, index, memref<8x4xf32>, memref<8x4xf32>)",
}


@functools.cache
def page(name: str) -> str:
    *options, source = PAGES[name]
    command = [LLVM / "bin/mlir-tblgen", "-I", ROOT / "include", "-I", LLVM / "include"]
    run = subprocess.run(
        [*command, *options, ROOT / source], capture_output=True, text=True, check=True
    )
    return run.stdout


@pytest.mark.parametrize("name", PAGES)
def test_page_is_current(name: str) -> None:
    assert (ROOT / "docs" / name).read_text() == page(name), "run `make docs`"


def op_sections() -> dict[str, str]:
    parts = re.split(r"^### `jpmhc\.(\w+)`.*$", page("dialect.md"), flags=re.M)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def parse(prelude: str, example: str, types: dict[str, str]) -> str:
    """The parser's complaints about an example whose free values have these types."""
    arguments = ", ".join(f"{name}: {type_}" for name, type_ in types.items())
    text = f"{prelude}\nfunc.func @example({arguments}) {{\n{example}\nreturn\n}}\n"
    command = [BUILD / "bin/jpmhc-opt", "-", "--verify-roundtrip", "-o", os.devnull]
    return subprocess.run(command, input=text, capture_output=True, text=True).stderr


@pytest.mark.parametrize("op", op_sections())
def test_example_of_op_parses(op: str) -> None:
    if op == "yield":
        pytest.skip("a terminator: it is part of its parent's example")
    found = re.search(r"Example:\s*```mlir\n(.*?)```", op_sections()[op], re.S)
    assert found, f"jpmhc.{op} has no example"
    functions = re.compile(r"^func\.func.*?^}\n", re.M | re.S)
    example = functions.sub("", found.group(1))
    prelude = "".join(functions.findall(found.group(1))) + PRELUDE.get(op, "")
    defined = set()
    for results in re.findall(r"^\s*((?:%\w+(?::\d+)?\s*,?\s*)+)=", example, re.M):
        defined |= set(re.findall(r"%\w+", results))
    defined |= set(re.findall(r"(%\w+)\s*:\s*(?:tensor|f32|index)", example)) & set(
        re.findall(r"\^bb0\([^)]*?(%\w+)", example)
    )
    free = sorted(set(re.findall(r"%[A-Za-z_]\w*", example)) - defined)
    # The parser names the type that a use expects: start from none and learn.
    types = dict.fromkeys(free, "none")
    for _ in range(len(free) + 1):
        message = parse(prelude, example, types)
        wrong = re.search(
            r"use of value '(%\w+)' expects different type than prior uses: '(.+?)' vs", message
        )
        if not wrong:
            break
        types[wrong.group(1)] = wrong.group(2)
    assert not message, message


def test_manifold_example_is_the_tested_one() -> None:
    source = (ROOT / "test/unit/Manifolds/AveragingManifold.cpp").read_text()
    assert source in (ROOT / "docs/adding-a-manifold.md").read_text()
