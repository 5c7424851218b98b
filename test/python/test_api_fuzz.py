# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Every public function, called with one or two arguments that make no sense.

What makes no sense to it is an error of jpmhc, never a bare one of Python; only Python's own
complaint about the number or the names of arguments is let through. What is accepted still has to
give a program that verifies.
"""

import random

import ml_dtypes
import numpy as np
import pytest

import jpmhc
from jpmhc import errors, nn, ops, optim
from jpmhc.compiler import Program
from jpmhc.nn import initializers

SEED, SINGLE, PAIRS = 20, 2500, 500


def _self_containing():
    items = []
    items.append(items)
    return items


def _nan_array():
    return np.full((2, 3), np.nan, np.float32)


HOSTILE = {
    "none": lambda t: None,
    "true": lambda t: True,
    "zero": lambda t: 0,
    "minus one": lambda t: -1,
    "fraction": lambda t: 1.5,
    "nan": lambda t: float("nan"),
    "infinity": lambda t: float("inf"),
    "huge": lambda t: 10**30,
    "large": lambda t: 2**40,
    "unwritable": lambda t: 10**5000,
    "list of unwritable": lambda t: [-(10**5000), 10**5000],
    "complex": lambda t: 1j,
    "text": lambda t: "x",
    "no text": lambda t: "",
    "bytes": lambda t: b"x",
    "tuple": lambda t: (),
    "list": lambda t: [],
    "list of text": lambda t: ["a", None],
    "list of minus": lambda t: [-1, -1],
    "list of huge": lambda t: [2**40, 2**40],
    "list of fractions": lambda t: [1.5, 2.0],
    "list within itself": lambda t: _self_containing(),
    "dict": lambda t: {1: 2},
    "set": lambda t: {1, 2},
    "generator": lambda t: (i for i in range(3)),
    "object": lambda t: object(),
    "type": lambda t: bool,
    "function": lambda t: lambda *args: None,
    "ellipsis": lambda t: ...,
    "slice": lambda t: slice("a", None),
    "nan number": lambda t: np.float64("nan"),
    "bool number": lambda t: np.bool_(True),
    "bf16 number": lambda t: ml_dtypes.bfloat16(1.5),
    "date": lambda t: np.datetime64("2020"),
    "empty array": lambda t: np.zeros(0, np.float32),
    "array": lambda t: _nan_array(),
    "integers": lambda t: np.array([[5, -7]]),
    "unsigned": lambda t: np.array([5], np.uint16),
    "objects": lambda t: np.array([None, "a"], object),
    "complex array": lambda t: np.ones(3, np.complex64),
    "records": lambda t: np.zeros(2, [("a", "f4")]),
    "texts": lambda t: np.array(["a", "b"]),
    "swapped": lambda t: np.ones(3, ">f4"),
    "scalar": lambda t: t["scalar"],
    "mask": lambda t: t["mask"],
    "ids": lambda t: t["ids"],
    "row": lambda t: t["row"],
    "empty": lambda t: t["empty"],
    "deep": lambda t: t["deep"],
    "parameter": lambda t: nn.Linear(3, 2).weight,
    "stranger": lambda t: _stranger(),
}

SPECS = {
    "x": jpmhc.spec((4, 3)),
    "x3": jpmhc.spec((2, 4, 6)),
    "x4": jpmhc.spec((1, 4, 2, 6)),
    "row": jpmhc.spec((3,)),
    "one": jpmhc.spec(()),
    "scalar": jpmhc.scalar_spec(),
    "step": jpmhc.scalar_spec("i64"),
    "width": jpmhc.scalar_spec("index"),
    "ids": jpmhc.spec((4,), "i32"),
    "segments": jpmhc.spec((2, 4), "i32"),
    "mask": jpmhc.spec((4, 3), "i1"),
    "gate": jpmhc.spec((16,)),
    "square": jpmhc.spec((3, 3)),
    "streams": jpmhc.spec((4, 2, 3)),
    "maps": jpmhc.spec((12, 6)),
    "raw": jpmhc.spec((4, 4)),
    "empty": jpmhc.spec((0, 3)),
    "deep": jpmhc.spec((1, 1, 1, 1, 1, 2), "bf16"),
}


class _T(str):
    """The name of a traced value in `SPECS`."""


def T(name):  # noqa: N802
    return _T(name)


def _on(value):
    """A value whose methods are tried; those of anything else are not ours."""
    if not isinstance(value, (jpmhc.Tensor, nn.Parameter)):
        raise errors.DTypeError("no traced value")
    return value


_X, _ROW = T("x"), T("row")
_UNARY = (
    "abs cos erf exp log log2 rsqrt sigmoid silu sin softplus sqrt tanh logical_not softmax"
).split()
_BINARY = "maximum minimum logical_and logical_or".split()
CALLS = {
    **{f"jpmhc.{name}": (getattr(jpmhc, name), [_X]) for name in _UNARY},
    **{f"jpmhc.{name}": (getattr(jpmhc, name), [_X, _X]) for name in _BINARY},
    "matmul": (jpmhc.matmul, [_X, T("square")]),
    "linear": (jpmhc.linear, [_X, T("square"), _ROW]),
    "where": (jpmhc.where, [T("mask"), _X, _X]),
    "clip": (jpmhc.clip, [_X, 0.0, 1.0]),
    "arange": (jpmhc.arange, [3, "i32"]),
    "constant": (jpmhc.constant, [np.ones(3, np.float32), "f32"]),
    "full": (jpmhc.full, [(2, 3), 1.0, "f32"]),
    "broadcast_to": (jpmhc.broadcast_to, [_ROW, (2, 3)]),
    "concatenate": (jpmhc.concatenate, [[_X, _X], 0]),
    "stack": (jpmhc.stack, [[_X, _X], 0]),
    "split": (jpmhc.split, [_X, 2, 0]),
    "expand_dims": (jpmhc.expand_dims, [_X, 0]),
    "tribox": (lambda *a: ops.tribox(a[0], a[1], passes=a[2], segments=a[3]),
               [T("x3"), T("width"), 1, T("segments")]),
    "dense_tribox": (ops.dense_tribox, [T("x3"), _ROW]),
    "coverage_gate": (ops.coverage_gate,
                      [T("width"), 8, T("gate"), T("gate"), T("gate"), T("one"), T("one")]),
    "side_path": (lambda *a: ops.side_path(*a[:4], passes=a[4], segments=a[5]),
                  [T("x3"), T("x3"), T("one"), T("width"), 2, T("segments")]),
    "project": (ops.project, [T("raw"), "free", 2]),
    "project rounds": (lambda r: ops.project(T("raw"), "birkhoff", 2, rounds=r), [20]),
    "hyper_connection": (
        lambda *a: ops.hyper_connection(
            *a[:3], manifold=a[3], norm=a[4], read_write=a[5], alpha=a[6], eps=a[7], tau=a[8],
            post_scale=a[9], scale=a[10]),
        [T("streams"), T("maps"), lambda v: v, "free", "layer", "softmax", _ROW, 1e-5, 1.0, 1.0,
         1.0]),
    "rms_norm": (lambda *a: ops.rms_norm(*a[:2], eps=a[2]), [_X, _ROW, 1e-5]),
    "layer_norm": (lambda *a: ops.layer_norm(*a[:3], eps=a[3]), [_X, _ROW, _ROW, 1e-5]),
    "rope": (lambda x, theta: ops.rope(x, theta=theta), [T("x4"), 10000.0]),
    "attention": (lambda *a: ops.attention(*a[:3], causal=a[3], window=a[4], segment_ids=a[5]),
                  [T("x4"), T("x4"), T("x4"), True, 2, None]),
    "swiglu": (ops.swiglu, [_X, T("square"), T("square"), T("square")]),
    "embedding": (ops.embedding, [_X, T("ids")]),
    "stop_gradient": (ops.stop_gradient, [_X]),
    "softmax_cross_entropy": (
        lambda x, t, i: ops.softmax_cross_entropy(x, t, ignore_index=i), [_X, T("ids"), -100]),
    "stablemax_cross_entropy": (
        lambda x, t, i: ops.stablemax_cross_entropy(x, t, ignore_index=i), [_X, T("ids"), -100]),
    **{f"random_{kind}": (
        lambda *a, kind=kind: getattr(ops, f"random_{kind}")(*a[:3], site=a[3]),
        [(2, 3), 1, T("step"), None]) for kind in ("bits", "uniform", "normal")},
    "dropout": (lambda *a: ops.dropout(*a[:4], site=a[4]), [_X, 0.1, 1, T("step"), None]),
    "global_norm": (ops.global_norm, [_X]),
    "adamw": (lambda *a: ops.adamw(*a[:4], lr=a[4], step=a[5], betas=a[6], eps=a[7],
                                   weight_decay=a[8]),
              [_ROW, _ROW, _ROW, _ROW, T("scalar"), T("step"), (0.9, 0.99), 1e-8, 0.1]),
    "adam_atan2": (lambda *a: ops.adam_atan2(*a[:4], lr=a[4], step=a[5], betas=a[6],
                                             weight_decay=a[7], bias_correction=a[8]),
                   [_ROW, _ROW, _ROW, _ROW, 0.1, 3, (0.9, 0.99), 0.1, "inside"]),
    "sign_sgd_rows": (lambda *a: ops.sign_sgd_rows(*a[:3], lr=a[3], weight_decay=a[4]),
                      [_X, T("ids"), _X, 0.1, 0.1]),
    "index": (lambda x, i: _on(x)[i], [_X, 0]),
    "reshape": (lambda x, s: _on(x).reshape(s), [_X, (3, 4)]),
    "transpose": (lambda x, a: _on(x).transpose(a), [_X, (1, 0)]),
    "astype": (lambda x, d: _on(x).astype(d), [_X, "f32"]),
    "sum": (lambda x, a, k: _on(x).sum(a, k), [_X, 0, False]),
    "mean": (lambda x, a, k: _on(x).mean(a, k), [_X, 0, False]),
    "max": (lambda x, a, k: _on(x).max(a, k), [_X, 0, False]),
    **{f"operator {i}": (f, [_X, _X]) for i, f in enumerate((
        lambda a, b: a + _on(b), lambda a, b: a - _on(b), lambda a, b: a * _on(b),
        lambda a, b: a / _on(b),
        lambda a, b: _on(a)**b, lambda a, b: a @ _on(b).T, lambda a, b: a < _on(b),
        lambda a, b: _on(a).equal(b),
    ))},
    "spec": (lambda *a: jpmhc.spec(*a[:2], high=a[2], allowed=a[3]), [(2, 3), "i32", 5, -1]),
    "scalar_spec": (jpmhc.scalar_spec, ["f32"]),
    "value_and_grad": (lambda fn, wrt, x: jpmhc.value_and_grad(fn, wrt)(x),
                       [lambda x: jpmhc.abs(x).sum(), 0, _X]),
    "vjp": (lambda fn, wrt, c, x: jpmhc.vjp(fn, wrt)(c, x), [lambda x: jpmhc.abs(x), 0, _X, _X]),
    "function": (lambda fn, x: jpmhc.function(fn)(x), [lambda x: jpmhc.abs(x), _X]),
    "Linear": (nn.Linear, [3, 2]),
    "Embedding": (nn.Embedding, [3, 2]),
    "RMSNorm": (lambda d, e, x: nn.RMSNorm(d, eps=e)(x), [3, 1e-5, _X]),
    "LayerNorm": (lambda d, e, x: nn.LayerNorm(d, eps=e)(x), [3, 1e-5, _X]),
    "Attention": (lambda d, h, w, t, x: nn.Attention(d, h, window=w, theta=t)(x),
                  [6, 3, 0, 1e4, T("x3")]),
    "SwiGLU": (nn.SwiGLU, [3, 2]),
    "Parameter": (lambda s, i, g: nn.Parameter(s, i, group=g),
                  [(2, 3), initializers.ones, "decay"]),
    "Linear init": (lambda i: nn.Linear(3, 2, init=i).init(0), [initializers.ones]),
    "init": (lambda s: nn.Linear(3, 2).init(s), [0]),
    "load_state_dict": (lambda s: nn.Linear(3, 2, bias=False).init().load_state_dict(s),
                        [{"weight": np.ones((2, 3), np.float32)}]),
    "load weight": (lambda w: nn.Linear(3, 2, bias=False).init().load_state_dict({"weight": w}),
                    [np.ones((2, 3), np.float32)]),
    "AdamW": (lambda *a: optim.AdamW(lr=a[0], weight_decay=a[1], betas=a[2], eps=a[3]),
              [1e-3, 0.1, (0.9, 0.99), 1e-8]),
    "AdamAtan2": (lambda *a: optim.AdamAtan2(lr=a[0], weight_decay=a[1], betas=a[2],
                                             bias_correction=a[3]),
                  [1e-3, 0.1, (0.9, 0.99), "inside"]),
    "SignSGD": (lambda *a: optim.SignSGD(lr=a[0], weight_decay=a[1]), [1e-3, 0.1]),
    "result": (lambda r: r, [_X]),
    "nested result": (lambda r: {"a": [r, (r,)]}, [_X]),
}  # fmt: skip

_kept = []


def _stranger():
    """A value of a trace that has ended."""
    if not _kept:
        Program().add("f", lambda a: _kept.append(a), [SPECS["x"]])
    return _kept[0]


def _made(value, traced):
    if isinstance(value, _T):
        return traced[value]
    return [_made(v, traced) for v in value] if isinstance(value, list) else value


def _call(name, replaced):
    """What is wrong with how a call of hostile arguments ended; None if nothing is."""
    fn, arguments = CALLS[name]
    program = Program()

    def body(*values):
        traced = dict(zip(SPECS, values, strict=True))
        given = [
            HOSTILE[replaced[i]](traced) if i in replaced else _made(a, traced)
            for i, a in enumerate(arguments)
        ]
        if name == "project rounds":
            return ops.project(traced["raw"], "birkhoff", 2, rounds=given[0])
        result = fn(*given)
        return result if "result" in name or isinstance(result, jpmhc.Tensor) else None

    try:
        program.add("f", body, list(SPECS.values()))
        program.trace.graph.verify()
    except errors.InternalError as error:
        return f"InternalError: {error}"
    except errors.JpmhcError as error:
        return None if len(str(error)) < 5000 else f"a message of {len(str(error))} characters"
    except Exception as error:
        if isinstance(error, TypeError) and "positional argument" in str(error):
            return None
        return f"{type(error).__name__}: {error}"
    return None


def _report(cases):
    wrong = []
    for name, replaced in cases:
        problem = _call(name, replaced)
        if problem is not None:
            wrong.append(f"{name} {replaced}: {problem[:200]}")
    return wrong


@pytest.mark.parametrize("name", CALLS)
def test_the_call_without_replacements_is_right(name):
    """Otherwise the fuzz would not get beyond the first argument."""
    fn, arguments = CALLS[name]
    if name in ("jpmhc.logical_not", "jpmhc.logical_and", "jpmhc.logical_or"):
        pytest.skip("of booleans")
    if name == "project rounds":
        return

    def body(*values):
        fn(*[_made(a, dict(zip(SPECS, values, strict=True))) for a in arguments])

    Program().add("f", body, list(SPECS.values()))


def test_one_hostile_argument():
    cases = [
        (name, {i: hostile})
        for name, (_, arguments) in CALLS.items()
        for i in range(len(arguments))
        for hostile in HOSTILE
    ]
    wrong = _report(random.Random(SEED).sample(cases, SINGLE))
    assert not wrong, f"{len(wrong)} of {SINGLE}:\n" + "\n".join(wrong)


def test_two_hostile_arguments():
    draws = random.Random(SEED)
    names = [name for name, (_, arguments) in CALLS.items() if len(arguments) > 1]
    cases = []
    for _ in range(PAIRS):
        name = draws.choice(names)
        places = draws.sample(range(len(CALLS[name][1])), 2)
        cases.append((name, {i: draws.choice(list(HOSTILE)) for i in places}))
    wrong = _report(cases)
    assert not wrong, f"{len(wrong)} of {len(cases)}:\n" + "\n".join(wrong)
