# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Hyper-connections (JPmHC) around a sub-layer that PyTorch runs.

A block is two ops with the sub-layer between them: `streams_read` makes the maps of every token and
the sub-layer's input, `streams_write` mixes the streams and adds the sub-layer's output. Each is
one compiled function, and so is its reverse-mode rule.

The gradient of the streams has a part from either op. For the two to meet inside a function, and
not in an addition that reads and writes all of it again, `streams_read` also gives a token, zeros
of the streams' shape that take no memory. `streams_write` takes it, and sends its part of the
gradient there instead of to the streams.
"""

from __future__ import annotations

import ast
import functools
import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import torch

from jpmhc import _text
from jpmhc.errors import ConfigError, unknown_name
from jpmhc.torch._engine import (
    Operator,
    Result,
    expect_dtype,
    expect_rank,
    expect_shape,
    product,
)
from jpmhc.torch._projection import decode
from jpmhc.tracing import Tensor as Traced
from jpmhc.tracing import emit

Tensor = torch.Tensor

_READ_INPUTS = "Tensor x, Tensor weight, Tensor? alpha, Tensor? bias, Tensor? gain, Tensor? shift"


def _check_streams(x: Tensor) -> None:
    expect_rank(x, "streams", "[N, n, p]", 3)
    expect_dtype(x, "streams")


@dataclass(frozen=True)
class BlockOptions:
    """What the maps of a block are made with; see `jpmhc.ops.hyper_connection`.

    `parameters` are the manifold's own, encoded.

    Raises:
        ConfigError: an unknown kind, or a number out of its range.
    """

    manifold: str
    parameters: str
    norm: str
    read_write: str
    eps: float = 1e-5
    tau: float = 1.0
    post_scale: float = 1.0

    def __post_init__(self) -> None:
        for what, known in {"norm": ("layer", "rms"), "read_write": ("softmax", "sigmoid")}.items():
            if getattr(self, what) not in known:
                raise unknown_name(what, getattr(self, what), known)
        for what in ("eps", "tau", "post_scale"):
            value = getattr(self, what)
            if not (value > 0 and math.isfinite(value)):
                raise ConfigError(
                    f"{what} of a hyper-connection", expected="a finite number > 0", given=value
                )

    def encode(self) -> str:
        """The options as the one text that the ops take."""
        return repr(tuple(getattr(self, item.name) for item in fields(self)))

    def rows(self, n: int) -> int:
        """Rows of the weight: raw numbers a token for read, write and mixer."""
        size = n * n if self.read_write == "softmax" else n
        return 2 * size + decode(self.manifold, self.parameters).raw_size(n)

    @property
    def logits(self) -> dict[str, str]:
        """Attributes of `jpmhc.stream_logits`."""
        return {"norm": f"#jpmhc.norm<{self.norm}>", "eps": _text.f32(self.eps)}

    def maps(self, n: int) -> dict[str, str]:
        """Attributes of `jpmhc.stream_maps` for n streams."""
        return {
            "manifold": decode(self.manifold, self.parameters).attribute,
            "read_write": f"#jpmhc.read_write<{self.read_write}>",
            "streams": _text.i64(n),
            "tau": _text.f32(self.tau),
            "post_scale": _text.f32(self.post_scale),
        }


@functools.lru_cache(maxsize=1024)
def _options(text: str) -> BlockOptions:
    return BlockOptions(*ast.literal_eval(text))


def _infer_read(
    x: Tensor,
    weight: Tensor,
    alpha: Tensor | None,
    bias: Tensor | None,
    gain: Tensor | None,
    shift: Tensor | None,
    options: str,
) -> list[Result]:
    _check_streams(x)
    rows, n, channels = x.shape
    n = int(n)
    m, d = _options(options).rows(n), n * channels
    parameters = {
        "weight": (weight, (m, d)),
        "alpha": (alpha, (3,)),
        "bias": (bias, (m,)),
        "gain": (gain, (d,)),
        "shift": (shift, (d,)),
    }
    for what, (value, shape) in parameters.items():
        expect_shape(value, f"{what} of a hyper-connection", shape)
        expect_dtype(value, f"{what} of a hyper-connection")
    f32 = torch.float32
    return [
        Result((rows, channels), x.dtype),
        Result((rows, n), f32),
        Result((rows, n, n), f32),
        Result((rows, n, channels), x.dtype, token=True),
        Result((rows, m), f32),
        Result((rows, n), f32),
    ]


def _program_read(
    x: Traced,
    weight: Traced,
    alpha: Traced | None,
    bias: Traced | None,
    gain: Traced | None,
    shift: Traced | None,
    options: str,
) -> tuple[Traced, ...]:
    chosen = _options(options)
    (z,) = emit("jpmhc.stream_logits", [x, weight, gain, shift], chosen.logits)
    read, write, mixer = emit("jpmhc.stream_maps", [z, alpha, bias], chosen.maps(x.shape[1]))
    (x_in,) = emit("jpmhc.stream_read", [x, read])
    return x_in, write, mixer, z, read


def _infer_read_vjp(
    x: Tensor,
    weight: Tensor,
    alpha: Tensor | None,
    bias: Tensor | None,
    gain: Tensor | None,
    shift: Tensor | None,
    z: Tensor,
    read: Tensor,
    d_input: Tensor,
    d_write: Tensor,
    d_mixer: Tensor,
    d_token: Tensor | None,
    options: str,
) -> list[Result]:
    results = _infer_read(x, weight, alpha, bias, gain, shift, options)
    given = [d_input, d_write, d_mixer, d_token, z, read]
    names = ["input", "write", "mixer", "token", "logits", "read"]
    for what, value, result in zip(names, given, results, strict=True):
        expect_shape(value, f"{what} of a hyper-connection's gradient", result.shape)
        expect_dtype(value, f"{what} of a hyper-connection's gradient", (result.dtype,))
    # An absent parameter has an empty gradient: the op's results are always as many.
    parameters = [weight, alpha, bias, gain, shift]
    return [
        Result(tuple(x.shape), x.dtype),
        *(
            Result((0,), torch.float32) if p is None else Result(tuple(p.shape), p.dtype)
            for p in parameters
        ),
    ]


def _program_read_vjp(
    x: Traced,
    weight: Traced,
    alpha: Traced | None,
    bias: Traced | None,
    gain: Traced | None,
    shift: Traced | None,
    z: Traced,
    read: Traced,
    d_input: Traced,
    d_write: Traced,
    d_mixer: Traced,
    d_token: Traced | None,
    options: str,
) -> list[Traced]:
    rows, n, channels = x.shape
    d_in = d_input.astype("f32").reshape(rows, 1, channels)
    d_read = (x.astype("f32") * d_in).sum(2)
    chosen = _options(options)
    dz, *d_maps = emit(
        "jpmhc.stream_maps_vjp",
        [z, d_read, d_write, d_mixer, alpha, bias],
        chosen.maps(x.shape[1]),
        [z.type, *(value.type for value in (alpha, bias) if value is not None)],
    )
    dx_logits, d_weight, *d_affine = emit(
        "jpmhc.stream_logits_vjp",
        [x, weight, dz, gain, shift],
        chosen.logits,
        [x.type, weight.type, *(value.type for value in (gain, shift) if value is not None)],
    )
    # The three parts of the streams' gradient meet in one pass.
    dx = read.reshape(rows, n, 1) * d_in + dx_logits.astype("f32")
    if d_token is not None:
        dx = dx + d_token.astype("f32")
    dx = dx.astype(x.dtype)
    return [dx, d_weight, *d_maps, *d_affine]


class _ReadVjp(Operator):
    """Fills in the empty gradients of absent parameters."""

    def _compile(self, args: tuple) -> Any:
        run = super()._compile(args)
        absent = [i for i in range(1, 6) if args[i] is None]
        if not absent or any(args[i] is not None and args[i].numel() == 0 for i in self._tensors):
            return run

        def padded(args: tuple) -> list[Tensor]:
            results = run(args)
            for position in absent:
                results.insert(position, torch.zeros(0))
            return results

        return padded


_read = Operator(
    f"streams_read({_READ_INPUTS}, str options)"
    " -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)",
    _infer_read,
    _program_read,
)
_read_vjp = _ReadVjp(
    f"streams_read_vjp({_READ_INPUTS}, Tensor z, Tensor read, Tensor d_input, Tensor d_write,"
    f" Tensor d_mixer, Tensor? d_token, str options)"
    " -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)",
    _infer_read_vjp,
    _program_read_vjp,
)


def _setup_read(ctx: Any, inputs: tuple, output: tuple) -> None:
    *_, z, read = output
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(*inputs[:6], z, read)
    ctx.options = inputs[6]


def _backward_read(
    ctx: Any,
    d_input: Tensor | None,
    d_write: Tensor | None,
    d_mixer: Tensor | None,
    d_token: Tensor | None,
    d_z: None,
    d_read: None,
) -> tuple:
    x, *parameters, z, read = ctx.saved_tensors
    rows, n, channels = x.shape
    if d_input is None:
        d_input = x.new_zeros((rows, channels))
    if d_write is None:
        d_write = read.new_zeros((rows, n))
    if d_mixer is None:
        d_mixer = read.new_zeros((rows, n, n))
    dx, *gradients = _read_vjp(
        x, *parameters, z, read, d_input, d_write, d_mixer, d_token, ctx.options
    )
    gradients = [
        None if parameter is None else gradient
        for parameter, gradient in zip(parameters, gradients, strict=True)
    ]
    return dx, *gradients, None


_read.differentiate(_backward_read, _setup_read)


# ---- write ----


def _infer_write(
    x: Tensor, token: Tensor, mixer: Tensor, write: Tensor, y: Tensor, scale: float
) -> list[Result]:
    _check_streams(x)
    rows, n, channels = x.shape
    expect_shape(token, "token of a hyper-connection", x.shape)
    expect_shape(mixer, "mixers", (rows, n, n))
    expect_shape(write, "write vectors", (rows, n))
    expect_shape(y, "output of a sub-layer", (rows, channels))
    expect_dtype(mixer, "mixers", (torch.float32,))
    expect_dtype(write, "write vectors", (torch.float32,))
    expect_dtype(y, "output of a sub-layer", (x.dtype,))
    if not math.isfinite(scale):
        raise ConfigError("scale of the write", expected="a finite number", given=scale)
    return [Result(tuple(x.shape), x.dtype)]


def _program_write(
    x: Traced, mixer: Traced, write: Traced, y: Traced, scale: float
) -> list[Traced]:
    attributes = {"scale": _text.f32(scale)}
    return emit("jpmhc.stream_write", [x, mixer, write, y], attributes, [x.type])


def _infer_write_vjp(
    x: Tensor, mixer: Tensor, write: Tensor, y: Tensor, grad: Tensor, scale: float
) -> list[Result]:
    _infer_write(x, grad, mixer, write, y, scale)
    expect_dtype(grad, "gradient of the streams", (x.dtype,))
    return [Result(tuple(value.shape), value.dtype) for value in (x, mixer, write, y)]


def _program_write_vjp(
    x: Traced, mixer: Traced, write: Traced, y: Traced, grad: Traced, scale: float
) -> list[Traced]:
    return emit(
        "jpmhc.stream_write_vjp",
        [x, mixer, write, y, grad],
        {"scale": _text.f32(scale)},
        [x.type, mixer.type, write.type, y.type],
    )


_write = Operator(
    "streams_write(Tensor x, Tensor token, Tensor mixer, Tensor write, Tensor y, float scale)"
    " -> Tensor",
    _infer_write,
    _program_write,
    unread=(1,),
)
_write_vjp = Operator(
    "streams_write_vjp(Tensor x, Tensor mixer, Tensor write, Tensor y, Tensor grad, float scale)"
    " -> (Tensor, Tensor, Tensor, Tensor)",
    _infer_write_vjp,
    _program_write_vjp,
)


def _setup_write(ctx: Any, inputs: tuple, output: Tensor) -> None:
    x, _, mixer, write, y, ctx.scale = inputs
    ctx.save_for_backward(x, mixer, write, y)


def _backward_write(ctx: Any, grad: Tensor) -> tuple:
    dx, d_mixer, d_write, dy = _write_vjp(*ctx.saved_tensors, grad, ctx.scale)
    return None, dx, d_mixer, d_write, dy, None


_write.differentiate(_backward_write, _setup_write)


def hyper_connection(
    x: Tensor,
    weight: Tensor,
    sublayer: Callable[[Tensor], Tensor],
    options: str,
    *,
    alpha: Tensor | None = None,
    bias: Tensor | None = None,
    gain: Tensor | None = None,
    shift: Tensor | None = None,
    scale: float = 1.0,
) -> Tensor:
    """The block on streams [..., n, p] around F: [..., p] → [..., p].

    Args:
        options: of a `BlockOptions`, encoded.
        others: as for `jpmhc.ops.hyper_connection`.
    """
    *lead, n, channels = x.shape
    streams = x.reshape(product(lead), n, channels)
    x_in, write, mixer, token, _, _ = torch.ops.jpmhc.streams_read(
        streams, weight, alpha, bias, gain, shift, options
    )
    y = sublayer(x_in.reshape(*lead, channels))
    expect_shape(y, "output of a sub-layer", (*lead, channels))
    y = y.to(x.dtype).reshape(x_in.shape)
    return torch.ops.jpmhc.streams_write(streams, token, mixer, write, y, scale).reshape(x.shape)
