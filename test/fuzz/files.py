# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Fuzzes what reads files: checkpoints, conformance cases and the compiler, programs and jpmhc-opt.

python test/fuzz/files.py checkpoints|cases|programs [--seconds 600] [--seed 0] [--findings DIR]

An input is one of the corpus or of the tests, mutated by bytes or within its structure: at places
of the JSON it holds, with what is sealed by a checksum sealed again, or by types, numbers and ops
of a program. It may be taken, or be refused by a typed error or a diagnostic; another exception,
death of the process, or more than `TIMEOUT` seconds of one input is a finding. Each input lies in
the folder of findings while it is tried, and stays there if it was one.

The programs are run by the jpmhc-opt of the build that `JPMHC_BUILD` names, each in a process of
its own, which makes them few; OptFuzzer tries many more, by bytes alone.
"""

from __future__ import annotations

import argparse
import copy
import faulthandler
import functools
import gzip
import json
import math
import os
import pathlib
import random
import re
import resource
import subprocess
import sys
import tempfile
import time
import traceback
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import jpmhc.checkpoint as checkpoint
from jpmhc.conformance import load_cases, run_case
from jpmhc.errors import CheckpointError, DataError

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
CORPUS = pathlib.Path(__file__).resolve().parent / "corpus"
TIMEOUT = 60  # seconds an input may take: a case compiles twice, perhaps under a sanitizer
PROGRAM_TIMEOUT = 2  # seconds of a processor that jpmhc-opt may take
LARGEST = 4000  # bytes of a case that is worth mutating

ODD = [
    None, True, False, 0, 1, -1, 2, 3, 7, 64, 2**31 - 1, 2**31, -(2**31), 2**63, -(2**63) - 1,
    2**70, 10**400, 0.0, -0.0, 0.5, 1e-30, -1.5, 1e39, 1e308, float("inf"), float("-inf"),
    float("nan"), "", "x", "nan", "inf", "0", "\0", "\ud800", "a/b", "F32", "F8_E4M3", "float",
    "int", "rms_norm", [], [0], [-1], [[1]], [None], [2, 2], [2**40, 2**40], ["x"], {}, {"x": 1},
    {"type": "float", "shape": [], "data": [1.0]},
]  # fmt: skip
"""Values that stand where another was meant."""


@dataclass(frozen=True)
class Target:
    """What is fuzzed: a folder of the corpus, further seeds, a mutator, and what is tried."""

    folder: str
    suffix: str
    seeds: Callable[[], list[bytes]]
    mutate: Callable[[random.Random, bytes], bytes]
    check: Callable[[pathlib.Path], None]


# ---- mutation ----


def mutated_bytes(rng: random.Random, data: bytes) -> bytes:
    """`data` with bits flipped, or a piece cut out, doubled, overwritten or put elsewhere."""
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 8))):
        at, size = rng.randrange(len(out) + 1), rng.choice((1, 1, 2, 4, 8, 32))
        piece = bytes(out[at : at + size])
        kind = rng.randrange(5)
        if kind == 0 and piece:
            out[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            del out[at : at + size]
        elif kind == 2:
            out[at:at] = piece
        elif kind == 3:
            out[at : at + size] = rng.randbytes(len(piece))
        else:
            to = rng.randrange(len(out) + 1)
            out[to : to + len(piece)] = piece
    return bytes(out[: rng.randrange(len(out) + 1)] if rng.random() < 0.1 else out)


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every (container, key) of a JSON value."""
    if isinstance(value, (dict, list)):
        keys = value if isinstance(value, dict) else range(len(value))
        for key in keys:
            yield value, key
            yield from places(value[key])


def mutate_json(rng: random.Random, value: Any, others: Any) -> None:
    """Replaces, removes, doubles or exchanges values in place; `others` lends some."""
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        found = list(places(value))
        if not found:
            return
        container, key = rng.choice(found)
        kind = rng.randrange(6)
        if kind <= 2:
            container[key] = copy.deepcopy(rng.choice(ODD))
        elif kind == 3:
            lent, at = rng.choice(list(places(others)))
            container[key] = copy.deepcopy(lent[at])
        elif kind == 4:
            del container[key]
        elif isinstance(container, dict):
            name = rng.choice((f"{key}x", key[:1], "", "\0", "a/b", key.upper()))
            container[name] = container.pop(key)
        else:
            container.insert(key, copy.deepcopy(container[key]))


# ---- checkpoints ----


def checkpoint_seeds() -> list[bytes]:
    """A checkpoint of every dtype, and an empty one."""
    arrays = {
        str(dtype): np.arange(6).reshape(2, 3).astype(dtype)
        for dtype in checkpoint._DTYPE_NAMES  # noqa: SLF001
    }
    contents = ({"model": arrays, "optimizer": {"count": np.array(3)}, "carry": {}}, {})
    seeds = []
    with tempfile.TemporaryDirectory() as folder:
        for content in contents:
            path = pathlib.Path(folder) / "seed.safetensors"
            checkpoint.save(path, content, step=3, rng_state={"seed": [1, 2]}, config={"d": 96})
            seeds.append(path.read_bytes())
    return seeds


def mutate_checkpoint(rng: random.Random, data: bytes) -> bytes:
    """Bytes, the header, or the metadata within the header, sealed again."""
    header, rest = _header(data)
    if header is None or rng.random() < 0.3:
        return mutated_bytes(rng, data)
    entries = header.get("__metadata__")
    if isinstance(entries, dict) and rng.random() < 0.5:
        try:
            content = json.loads(entries["json"])
        except (KeyError, TypeError, ValueError):
            content = {}
        mutate_json(rng, content, header)
        entries["json"] = json.dumps(content)
        entries["json_crc32"] = str(zlib.crc32(entries["json"].encode(errors="surrogatepass")))
    else:
        mutate_json(rng, header, header)
    if rng.random() < 0.2:
        rest = mutated_bytes(rng, rest)
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + rest


def _header(data: bytes) -> tuple[dict | None, bytes]:
    """The header of a safetensors file and what follows; None where it has no object."""
    end = 8 + int.from_bytes(data[:8], "little")
    try:
        header = json.loads(data[8:end])
    except ValueError:
        return None, b""
    return (header, data[end:]) if isinstance(header, dict) else (None, b"")


def check_checkpoint(path: pathlib.Path) -> None:
    """It is read and loaded, or refused by CheckpointError, and then no array has changed."""
    for read in (checkpoint.read, checkpoint.read_metadata):
        try:
            read(path)
        except CheckpointError as error:
            _check_message(error, path)
    arrays = {"model": {"float32": np.full((2, 3), 7, np.float32)}, "carry": {}}
    try:
        checkpoint.load(path, arrays)
    except CheckpointError:
        if not np.all(arrays["model"]["float32"] == 7):
            raise AssertionError("an array changed though loading failed") from None


def _check_message(error: Exception, path: pathlib.Path) -> None:
    text = str(error)
    if path.name not in text or len(text) > 3000:
        raise AssertionError(f"expected a short message that names the file, got {text[:4000]}")


# ---- conformance cases ----


def case_seeds() -> list[bytes]:
    """The small cases among the vectors of the tests, one a file."""
    seeds = []
    for path in sorted((ROOT / "test" / "data" / "vectors").glob("*.json.gz")):
        for case in json.loads(gzip.decompress(path.read_bytes()))["cases"]:
            text = json.dumps({"format": 1, "cases": [case]}).encode()
            if len(text) <= LARGEST:
                seeds.append(text)
    return seeds


def mutate_case(rng: random.Random, data: bytes) -> bytes:
    """Bytes, any JSON value, or a tensor that stays one: another size or other numbers."""
    try:
        content = json.loads(data)
    except ValueError:
        return mutated_bytes(rng, data)
    kind = rng.random()
    if kind < 0.15:
        data = mutated_bytes(rng, data)
        return gzip.compress(data) if rng.random() < 0.2 else data
    if kind < 0.5:
        _resize(rng, content)
    else:
        # Most of the numbers of a case are data, and say little.
        attributes = [
            value["attrs"] for value in _cases(content) if isinstance(value.get("attrs"), dict)
        ]
        part = rng.choice([content, content, *attributes, *attributes])
        mutate_json(rng, part, content)
    return json.dumps(content).encode()


def _cases(content: Any) -> list[dict]:
    cases = content.get("cases") if isinstance(content, dict) else None
    return [case for case in cases if isinstance(case, dict)] if isinstance(cases, list) else []


def _resize(rng: random.Random, content: Any) -> None:
    """Gives one of the tensors another shape, and every tensor of that shape along with it."""
    holders = [
        value
        for container, key in [*places(content)]
        if isinstance(value := container[key], dict)
        and isinstance(value.get("shape"), list)
        and isinstance(value.get("data"), list)
    ]
    if not holders:
        return
    old = list(rng.choice(holders)["shape"])
    new = [rng.choice((0, 1, 2, 3, 5, 8, size)) if type(size) is int else 1 for size in old]
    if rng.random() < 0.3:
        new = rng.choice((new[1:], [*new, 2], []))
    count = math.prod(new)
    every = rng.random() < 0.7
    for holder in holders:
        if holder["shape"] == old and (every or rng.random() < 0.5) and count <= 10_000:
            data = holder["data"] or [0]
            holder["shape"] = list(new)
            holder["data"] = [rng.choice(data) for _ in range(count)]


def check_case(path: pathlib.Path) -> None:
    """It is refused by DataError, or every case of it comes to an outcome."""
    try:
        cases = load_cases(path)
    except DataError as error:
        _check_message(error, path)
        return
    for case in cases[:2]:
        json.dumps(run_case(case).as_dict())


# ---- programs ----

NUMBERS = ("0", "1", "-1", "2", "3", "5", "64", "4294967296", "9223372036854775807", "1.0e39",
           "-0.5", "0x7FC00000", "true")  # fmt: skip
ELEMENTS = ("f32", "bf16", "f16", "f64", "i1", "i8", "i32", "i64", "index", "complex<f32>",
            "f8E4M3FN", "si32", "vector<4xf32>", "none")  # fmt: skip
SIZES = ("0", "1", "2", "3", "7", "64", "?", "4294967296", "9223372036854775807")
PIPELINES = ("--jpmhc-to-cpu", "--jpmhc-to-ptx=chip=sm_90a", "--jpmhc-cost")


def program_seeds() -> list[bytes]:
    """Every program of the lit tests."""
    seeds = []
    for path in sorted((ROOT / "test" / "lit").rglob("*.mlir")):
        for part in re.split(r"^// -----.*$", path.read_text(), flags=re.MULTILINE):
            code = [line for line in part.splitlines() if not line.lstrip().startswith("//")]
            seeds.append("\n".join(code).encode())
    return seeds


def mutate_program(rng: random.Random, data: bytes) -> bytes:
    """Another type in every place of one, another number, op, value or attribute, or lines."""
    text = data.decode(errors="replace")
    kind = rng.randrange(8)
    if kind <= 2:
        types = re.findall(r"tensor<[^<>]*>", text)
        if types:
            old = rng.choice(types)
            new = _other_type(rng, old)
            return text.replace(old, new, -1 if rng.random() < 0.8 else 1).encode()
    if kind <= 4:
        pattern = r"(?<![\w%.#@x])-?\d+(?:\.\d+)?(?:e[+-]?\d+)?(?![\wx])"
        return _replace_one(rng, text, pattern, lambda _: rng.choice(NUMBERS))
    if kind == 5:
        pattern = r"%\w+"
        values = re.findall(pattern, text) or ["%x"]
        return _replace_one(rng, text, pattern, lambda _: rng.choice(values))
    if kind == 6:
        pattern = r"(?:jpmhc|arith|math|linalg|tensor)\.\w+"
        names = _program_words()
        return _replace_one(rng, text, pattern, lambda _: rng.choice(names))
    lines = text.splitlines()
    if not lines:
        return data
    at = rng.randrange(len(lines))
    if rng.random() < 0.5:
        del lines[at]
    else:
        lines.insert(at, rng.choice(lines))
    return "\n".join(lines).encode()


def _other_type(rng: random.Random, old: str) -> str:
    *sizes, element = old[len("tensor<") : -1].split("x") if "," not in old else ["2", "f32"]
    kind = rng.randrange(4)
    if kind == 0 or not sizes:
        element = rng.choice(ELEMENTS)
    elif kind == 1:
        sizes[rng.randrange(len(sizes))] = rng.choice(SIZES)
    elif kind == 2:
        del sizes[rng.randrange(len(sizes))]
    else:
        sizes.insert(rng.randrange(len(sizes) + 1), rng.choice(SIZES))
    return f"tensor<{'x'.join([*sizes, element])}>"


def _replace_one(rng: random.Random, text: str, pattern: str, make: Callable[[str], str]) -> bytes:
    found = list(re.finditer(pattern, text))
    if found:
        one = rng.choice(found)
        text = text[: one.start()] + make(one.group()) + text[one.end() :]
    return text.encode()


@functools.cache
def _program_words() -> list[str]:
    """The ops of the seeds."""
    words = set()
    for seed in program_seeds():
        words.update(re.findall(r"\bjpmhc\.\w+|\b(?:arith|math)\.\w+", seed.decode()))
    return sorted(words)


def check_program(path: pathlib.Path) -> None:
    """jpmhc-opt ends well or with a diagnostic on every pipeline, in time."""
    build = pathlib.Path(os.environ.get("JPMHC_BUILD", ROOT / "build"))
    tool = build / "bin" / "jpmhc-opt"
    # Instrumented code is some ten times slower.
    limit = PROGRAM_TIMEOUT * (10 if "ASAN_OPTIONS" in os.environ else 1)
    for pipeline in PIPELINES:
        done = subprocess.run(
            [tool, path, pipeline, "-o", os.devnull],
            capture_output=True,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 1)),
        )
        said = done.stderr.decode(errors="replace")
        refused = done.returncode == 1 and "error:" in said
        if done.returncode and not refused:
            raise AssertionError(f"{pipeline}: ended with {done.returncode}: {said[-3000:]}")


TARGETS = {
    "programs": Target("programs", ".mlir", program_seeds, mutate_program, check_program),
    "checkpoints": Target(
        "checkpoints", ".safetensors", checkpoint_seeds, mutate_checkpoint, check_checkpoint
    ),
    "cases": Target("cases", ".json", case_seeds, mutate_case, check_case),
}


# ---- the loop ----


def try_input(target: Target, path: pathlib.Path) -> str | None:
    """What is wrong with how an input was taken, if anything."""
    start = time.monotonic()
    # A hang in native code ends the process, and leaves the input where it is.
    faulthandler.dump_traceback_later(2 * TIMEOUT, exit=True)
    try:
        target.check(path)
    except Exception:  # noqa: BLE001 - that is what is looked for
        return traceback.format_exc()
    finally:
        faulthandler.cancel_dump_traceback_later()
    took = time.monotonic() - start
    return f"took {took:.0f} s" if took > TIMEOUT else None


def inputs(target: Target, seed: int) -> Iterator[bytes]:
    """The corpus as it is, then mutations of it and of the seeds, for ever."""
    rng = random.Random(seed)
    kept = [path.read_bytes() for path in sorted((CORPUS / target.folder).iterdir())]
    yield from kept
    pool = kept + target.seeds()
    while True:
        data = target.mutate(rng, rng.choice(pool))
        while rng.random() < 0.2:
            data = target.mutate(rng, data)
        yield data


def fuzz(
    name: str,
    findings: pathlib.Path,
    *,
    seconds: float = float("inf"),
    count: int | None = None,
    seed: int = 0,
) -> tuple[int, dict[str, str]]:
    """Tries inputs until the time or the count is up; the number tried, and findings by file."""
    target = TARGETS[name]
    stop = time.monotonic() + seconds
    wrong: dict[str, str] = {}
    tried = 0
    for number, data in enumerate(inputs(target, seed)):
        if number == count or time.monotonic() > stop:
            break
        path = findings / f"{target.folder}-{seed}-{number}{target.suffix}"
        path.write_bytes(data)
        tried += 1
        problem = try_input(target, path)
        if problem:
            wrong[path.name] = problem
            print(f"{path}\n{problem}", file=sys.stderr, flush=True)
        else:
            path.unlink()
    return tried, wrong


def main() -> int:
    """1 if anything was found."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("target", choices=TARGETS)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--findings", type=pathlib.Path, default=ROOT / "build" / "fuzz")
    options = parser.parse_args()
    options.findings.mkdir(parents=True, exist_ok=True)
    tried, wrong = fuzz(
        options.target, options.findings, seconds=options.seconds, seed=options.seed
    )
    print(f"{options.target}: {tried} inputs, {len(wrong)} findings")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
