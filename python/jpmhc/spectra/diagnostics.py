# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Is a representation collapsing? Diagnostics of arrays, and of a model while it is trained.

They are those of TRSP (section 4.1, appendix A.4), of token representations H [T, d] of a layer:
stable rank ``‖H‖_F² / ‖H‖₂²`` (1: all tokens along one direction), anisotropy (mean cosine of
pairs of tokens), spectral flatness (geometric over arithmetic mean of the singular values), and
the signal propagation rate, how much a small perturbation of the embeddings grows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from jpmhc.errors import ConfigError, DTypeError, ShapeError
from jpmhc.spectra import _compiler, output
from jpmhc.spectra.operators import integer

__all__ = [
    "Diagnosis",
    "DiagnosticsCallback",
    "LayerProbe",
    "anisotropy",
    "diagnose",
    "diagnose_contexts",
    "draw_contexts",
    "gradient_norms",
    "randomized_svd",
    "signal_propagation_rate",
    "spectral_flatness",
    "stable_rank",
]

_LARGE = 1024  # beyond this many channels and tokens the largest singular value is sketched
_MOST_NAMED = 14  # lines in a legend
_PERTURBATION = 1e-3  # σ of TRSP's appendix A.4


# Of an array.


def _representation(h: Any) -> np.ndarray:
    """[..., T, d] of finite real numbers, in double."""
    array = np.asarray(h)
    if array.dtype.kind not in "fiuV":
        raise DTypeError("representation", expected="real numbers", given=array.dtype)
    array = array.astype(np.float64)
    if array.ndim < 2 or 0 in array.shape:
        raise ShapeError("representation", expected="[..., T, d]", given=list(array.shape))
    if not np.isfinite(array).all():
        raise ConfigError("representation", expected="finite numbers", given="a NaN or infinity")
    return array


def randomized_svd(
    a: np.ndarray, rank: int, *, oversampling: int = 10, passes: int = 4, seed: int = 0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Largest singular values and vectors from a random block Krylov space: ``A ≈ U diag(s) Vᵀ``.

    The space is that of AΩ, (AAᵀ)AΩ, …, (AAᵀ)^passes AΩ with a Gaussian Ω (Musco & Musco, 2015,
    algorithm 2), more precise than its last part alone where singular values are near each other.

    Args:
        a: [m, n].
        rank: how many.
        oversampling: directions more than that in the sketch.
        passes: powers of AAᵀ.
        seed: of the sketch.

    Returns:
        U [m, rank], s [rank] descending, Vᵀ [rank, n].

    Raises:
        ShapeError, DTypeError, ConfigError: the array is no matrix of finite numbers, or a number
            is out of range.
    """
    a = _representation(a)
    if a.ndim != 2:
        raise ShapeError("matrix", expected="[m, n]", given=list(a.shape))
    rank = integer("rank", rank, 1)
    if rank > min(a.shape):
        raise ConfigError("rank", expected=f"at most {min(a.shape)}", given=rank)
    width = min(rank + integer("oversampling", oversampling, 0), *a.shape)
    block = a @ np.random.default_rng(seed).standard_normal((a.shape[1], width))
    blocks = [np.linalg.qr(block)[0]]
    for _ in range(integer("passes", passes, 0)):
        blocks.append(np.linalg.qr(a @ (a.T @ blocks[-1]))[0])
    basis, _ = np.linalg.qr(np.concatenate(blocks, 1))
    u, s, vt = np.linalg.svd(basis.T @ a, full_matrices=False)
    return basis @ u[:, :rank], s[:rank], vt[:rank]


def stable_rank(h: np.ndarray, *, seed: int = 0) -> np.ndarray | float:
    """``‖H‖_F² / ‖H‖₂²`` of each matrix [..., T, d]; between 1 and the rank, NaN of zeros.

    Where both sizes exceed 1024, ‖H‖₂ is that of a randomised decomposition.

    Raises:
        ShapeError, DTypeError, ConfigError: it is no array of finite matrices.
    """
    h = _representation(h)
    energy = np.sum(h * h, axis=(-2, -1))
    if min(h.shape[-2:]) > _LARGE:
        flat = h.reshape(-1, *h.shape[-2:])
        largest = np.array([randomized_svd(m, 1, passes=12, seed=seed)[1][0] for m in flat])
        largest = largest.reshape(h.shape[:-2])
    else:
        largest = np.linalg.norm(h, 2, axis=(-2, -1))
    with np.errstate(invalid="ignore"):
        return _scalar(energy / largest**2)


def anisotropy(h: np.ndarray) -> np.ndarray | float:
    """Mean cosine of all pairs of different tokens of each matrix [..., T, d].

    ``(‖Σ_t u_t‖² - T) / (T (T - 1))`` with unit vectors u_t, exact where the paper samples pairs. A
    token of zeros has no direction and counts as orthogonal to all.

    Raises:
        ShapeError, DTypeError, ConfigError: there are less than two tokens, or as above.
    """
    h = _representation(h)
    tokens = h.shape[-2]
    if tokens < 2:
        raise ShapeError("representation", expected="at least 2 tokens", given=tokens)
    norms = np.linalg.norm(h, axis=-1, keepdims=True)
    unit = np.divide(h, norms, out=np.zeros_like(h), where=norms > 0)
    own = np.sum(unit * unit, axis=(-2, -1))
    together = np.sum(np.sum(unit, axis=-2) ** 2, axis=-1)
    return _scalar((together - own) / (tokens * (tokens - 1)))


def spectral_flatness(h: np.ndarray) -> np.ndarray | float:
    """Geometric over arithmetic mean of the min(T, d) singular values of each matrix: 1 if they
    are equal, 0 if one is 0 (below rounding), NaN of zeros.

    Raises:
        ShapeError, DTypeError, ConfigError: as `stable_rank`.
    """
    h = _representation(h)
    values = np.linalg.svd(h, compute_uv=False)
    rounding = max(h.shape[-2:]) * np.finfo(np.float64).eps * values[..., :1]
    values = np.where(values > rounding, values, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        geometric = np.exp(np.mean(np.log(values), axis=-1))
        return _scalar(geometric / values.mean(axis=-1))


def _scalar(value: np.ndarray) -> np.ndarray | float:
    return float(value) if np.ndim(value) == 0 else value


def signal_propagation_rate(
    function: Callable[[np.ndarray], Any],
    x: np.ndarray,
    *,
    sigma: float = _PERTURBATION,
    seed: int = 0,
) -> float | list[float]:
    """``‖f(x + δ) - f(x)‖ / ‖δ‖`` for δ ~ N(0, σ²) an element.

    Args:
        function: of an array like x to an array, or to a list of arrays, one a layer.
        x: where, such as the embeddings.
        sigma: small enough for f to be linear, large enough for its rounding.
        seed: of δ.

    Returns:
        the rate, or one for each of the function's arrays.

    Raises:
        ConfigError: σ is not positive.
    """
    if not (np.isfinite(sigma) and sigma > 0):
        raise ConfigError("sigma", expected="a finite number > 0", given=sigma)
    x = np.asarray(x)
    noise = np.random.default_rng(seed).standard_normal(x.shape) * sigma
    moved = (x + noise).astype(x.dtype)
    delta = float(np.linalg.norm(moved.astype(np.float64) - x))
    before, after = function(x), function(moved)
    if isinstance(before, (list, tuple)):
        return [_gain(b, a, delta) for b, a in zip(before, after, strict=True)]
    return _gain(before, after, delta)


def _gain(before: Any, after: Any, delta: float) -> float:
    change = np.asarray(after, np.float64) - np.asarray(before, np.float64)
    return float(np.linalg.norm(change)) / delta


# Of all layers.


@dataclass(frozen=True)
class Diagnosis:
    """Numbers by layer.

    Attributes:
        layers: names.
        stable_rank, anisotropy, spectral_flatness: [layers], means over the batch.
        signal_propagation: [layers], or None where it was not asked for.
        context: T.
    """

    layers: list[str]
    stable_rank: np.ndarray
    anisotropy: np.ndarray
    spectral_flatness: np.ndarray
    signal_propagation: np.ndarray | None
    context: int

    def as_dict(self) -> dict[str, Any]:
        """Everything, for JSON."""
        return dict(vars(self))

    def text(self) -> str:
        """A table, a row a layer."""
        names = ["layer", "stable rank", "anisotropy", "flatness"]
        columns = [self.layers, self.stable_rank, self.anisotropy, self.spectral_flatness]
        if self.signal_propagation is not None:
            names.append("propagation")
            columns.append(self.signal_propagation)
        return output.table(names, list(zip(*columns, strict=True)))

    def means(self) -> dict[str, float]:
        """The mean of each number over layers, such as the metrics of a step."""
        result = {name: float(np.mean(getattr(self, name))) for name in _MEASURES[:3]}
        if self.signal_propagation is not None:
            result["signal_propagation"] = float(np.mean(self.signal_propagation))
        return result


_MEASURES = "stable_rank", "anisotropy", "spectral_flatness", "signal_propagation"


def diagnose(
    states: Mapping[str, Any] | Sequence[Any], *, signal_propagation: Sequence[float] | None = None
) -> Diagnosis:
    """The diagnostics of every layer's representation.

    Args:
        states: [..., T, d] by name, or a sequence, whose names then are numbers. Streams
            [N, n, p] of a hyper-connected model are to be reshaped to [T, n p] first.
        signal_propagation: rates that were measured, to go with them.

    Raises:
        ShapeError, DTypeError, ConfigError: a state is no array of finite matrices.
    """
    named = states if isinstance(states, Mapping) else {str(k): h for k, h in enumerate(states)}
    if not named:
        raise ShapeError("states", expected="at least one layer", given="none")
    arrays = {name: _representation(h) for name, h in named.items()}
    measured = [
        [float(np.mean(measure(h))) for h in arrays.values()]
        for measure in (stable_rank, anisotropy, spectral_flatness)
    ]
    rates = None if signal_propagation is None else np.asarray(signal_propagation, np.float64)
    if rates is not None and rates.shape != (len(arrays),):
        expected = f"{len(arrays)} rates"
        raise ShapeError("signal_propagation", expected=expected, given=list(rates.shape))
    context = next(iter(arrays.values())).shape[-2]
    return Diagnosis(list(arrays), *map(np.array, measured), rates, context)


def gradient_norms(step: Any, depth: int = 2) -> dict[str, float]:
    """Norm of the last step's gradient by layer of the model.

    Args:
        step: a `jpmhc.TrainStep` that has taken a step.
        depth: components of a parameter's name that name its layer: 2 for "layers.3.mlp.up".

    Raises:
        ConfigError: depth < 1.
    """
    from jpmhc.nn.module import views

    depth = integer("depth", depth, 1)
    squares: dict[str, float] = {}
    names = {id(parameter): name for name, parameter in step.model.named_parameters()}
    for group, buffer in step.gradients.items():
        members = [p for p in step.model.parameters() if p.group == group]
        for parameter, gradient in zip(members, views(buffer, members), strict=True):
            layer = ".".join(names[id(parameter)].split(".")[:depth])
            total = float(np.sum(gradient.astype(np.float64) ** 2))
            squares[layer] = squares.get(layer, 0.0) + total
    return {layer: math.sqrt(total) for layer, total in squares.items()}


# Of a model.


class LayerProbe:
    """Runs a model and gives the outputs of its layers.

    The outputs are taken where each layer is called while the model is traced, so that any model
    serves whose layers are modules that return [B, T, d] or [T, d].

    Args:
        model: initialised.
        layers: the modules to look at; by default the attribute `layers` of the model.
        embedding: the module whose output is perturbed for the signal propagation rate; by
            default the attribute `embedding`. None to do without.
        specs: of the model's arguments.

    Raises:
        ConfigError: the model has no such attribute, or a layer was not called once.
        JpmhcError: what tracing and compiling raise.
    """

    def __init__(
        self,
        model: Any,
        *specs: Any,
        layers: Sequence[Any] | None = None,
        embedding: Any = "embedding",
    ) -> None:
        jpmhc = _compiler.require("a probe of a model")
        layers = getattr(model, "layers", None) if layers is None else layers
        if not layers:
            raise ConfigError("layers to probe", expected="modules", given=layers)
        if isinstance(embedding, str):
            embedding = getattr(model, embedding, None)
        self._names = _names_of(model, layers)
        self._batch = specs
        self._embedding = embedding
        self._perturbed = None

        def states(*batch: Any) -> Any:
            with _recorded(layers) as outputs:
                model(*batch)
            return _once(outputs, self._names)

        self._states = jpmhc.compile(states, *specs)
        if embedding is not None:
            self._perturbed = self._compile_perturbed(model, layers)

    def _compile_perturbed(self, model: Any, layers: Sequence[Any]) -> Any:
        jpmhc = _compiler.require("a probe of a model")

        def embedded(*batch: Any) -> Any:
            with _recorded([self._embedding]) as outputs:
                model(*batch)
            return _once(outputs, ["embedding"])[0]

        shape = jpmhc.compile(embedded, *self._batch)(*_zeros(self._batch)).shape

        def perturbed(noise: Any, *batch: Any) -> Any:
            with _recorded(layers) as outputs, _added(self._embedding, noise):
                model(*batch)
            return _once(outputs, self._names)

        self._shape = shape
        return jpmhc.compile(perturbed, jpmhc.spec(shape), *self._batch)

    def states(self, *batch: Any) -> dict[str, np.ndarray]:
        """The layers' outputs of a batch, by name."""
        return dict(zip(self._names, self._states(*batch), strict=True))

    def __call__(self, *batch: Any, sigma: float = _PERTURBATION, seed: int = 0) -> Diagnosis:
        """Diagnose a batch; the signal propagation rate too, where there is an embedding."""
        if self._perturbed is None:
            return diagnose(self.states(*batch))
        found: list[Any] = []

        def layers(noise: np.ndarray) -> Any:
            found.append([np.array(h) for h in self._perturbed(noise, *batch)])
            return found[-1]

        zeros = np.zeros(self._shape, np.float32)
        rates = signal_propagation_rate(layers, zeros, sigma=sigma, seed=seed)
        return diagnose(dict(zip(self._names, found[0], strict=True)), signal_propagation=rates)


def _names_of(model: Any, layers: Sequence[Any]) -> list[str]:
    """The attribute's place of each layer, or its number."""
    own = {id(layer): f"layers.{k}" for k, layer in enumerate(getattr(model, "layers", ()))}
    return [own.get(id(layer), str(k)) for k, layer in enumerate(layers)]


def _zeros(specs: Sequence[Any]) -> list[np.ndarray]:
    return [np.zeros(spec.shape, spec.numpy) for spec in specs]


@contextmanager
def _recorded(modules: Sequence[Any]) -> Iterator[list[list[Any]]]:
    """Within the block, what each module returns is appended to its list."""
    outputs: list[list[Any]] = [[] for _ in modules]
    try:
        for module, found in zip(modules, outputs, strict=True):
            module.forward = _keeping(module.forward, found)
        yield outputs
    finally:
        for module in modules:
            vars(module).pop("forward", None)  # the class's own again


def _keeping(forward: Callable[..., Any], found: list[Any]) -> Callable[..., Any]:
    def keep(*args: Any, **kwargs: Any) -> Any:
        result = forward(*args, **kwargs)
        found.append(result)
        return result

    return keep


@contextmanager
def _added(module: Any, noise: Any) -> Iterator[None]:
    """Within the block the module returns its output plus the noise."""
    former = module.forward
    module.forward = lambda *args, **kwargs: former(*args, **kwargs) + noise
    try:
        yield
    finally:
        vars(module).pop("forward", None)


def _once(outputs: Sequence[Sequence[Any]], names: Sequence[str]) -> list[Any]:
    for name, found in zip(names, outputs, strict=True):
        if len(found) != 1:
            raise ConfigError(f"calls of layer {name}", expected="one", given=len(found))
    return [found[0] for found in outputs]


class DiagnosticsCallback:
    """Diagnoses a model now and then while it is trained.

    Call it after every step::

        callback = DiagnosticsCallback(LayerProbe(model, spec), tokens, every=100, writer=metrics)
        for number in range(steps):
            step(tokens, targets)
            callback(step)

    Args:
        probe: of the model that is trained; it sees the parameters as they are.
        batch: the arguments of the model to look at, the same each time.
        every: steps between two diagnoses; the first is after the first step.
        writer: a `jpmhc.training.MetricsWriter` that gets a record of each.

    Attributes:
        history: step, diagnosis and gradient norms of each.
    """

    def __init__(
        self, probe: LayerProbe, *batch: Any, every: int = 100, writer: Any = None
    ) -> None:
        self._probe, self._batch = probe, batch
        self._every = integer("every", every, 1)
        self._writer = writer
        self.history: list[tuple[int, Diagnosis, dict[str, float]]] = []

    def __call__(self, step: Any) -> Diagnosis | None:
        """After a step of a `TrainStep`; the diagnosis if one was due."""
        if (step.step - 1) % self._every:
            return None
        diagnosis = self._probe(*self._batch)
        norms = gradient_norms(step)
        self.history.append((step.step, diagnosis, norms))
        if self._writer is not None:
            record = {**diagnosis.means(), "gradient_norms": norms}
            self._writer.write(step.step, **{f"spectra_{k}": v for k, v in record.items()})
        return diagnosis

    def figure(self) -> Any:
        """The diagnostics of each layer and the gradient norms over steps.

        Raises:
            MissingDependencyError: matplotlib is not installed.
            ConfigError: nothing has been diagnosed.
        """
        if not self.history:
            raise ConfigError("nothing to draw", expected="at least one step", given="none")
        steps = [step for step, _, _ in self.history]
        names = [n for n in _MEASURES if getattr(self.history[0][1], n) is not None]
        figure = output.new_figure(10.5, 6, "Representations during training")
        *axes, legend = figure.subplots(2, 3).ravel()
        for place, name in zip(axes, names, strict=False):
            values = np.array([getattr(diagnosis, name) for _, diagnosis, _ in self.history])
            _draw_layers(place, steps, values, self.history[0][1].layers)
            output.dress(place, name.replace("_", " "), "step")
        for unused in axes[len(names) : -1]:
            unused.set_axis_off()
        norms = {key: [n[key] for _, _, n in self.history] for key in self.history[0][2]}
        _draw_layers(axes[-1], steps, np.array(list(norms.values())).T, list(norms))
        axes[-1].set_yscale("log")
        output.dress(axes[-1], "gradient norm", "step")
        legend.set_axis_off()
        for place, x, heading in ((axes[0], 0.0, "layers"), (axes[-1], 0.45, "gradients of")):
            lines = place.get_lines()[:_MOST_NAMED]
            drawn = legend.legend(
                lines, [line.get_label() for line in lines], title=heading, frameon=False,
                fontsize=8, loc="upper left", bbox_to_anchor=(x, 1.0), alignment="left",
            )  # fmt: skip
            if place is not axes[-1]:  # a second legend would take the place of the first
                legend.add_artist(drawn)
        return figure


def _draw_layers(axes: Any, x: Sequence[float], values: np.ndarray, names: Sequence[str]) -> None:
    """A line for each layer, from light to dark."""
    from matplotlib import colormaps

    shades = colormaps["viridis"](np.linspace(0.9, 0.0, max(len(names), 2)))
    for k, name in enumerate(names):
        axes.plot(x, values[:, k], color=shades[k], marker="o", markersize=3, label=name)


# Over context length.


def diagnose_contexts(
    probe: Callable[[int], Diagnosis], contexts: Sequence[int]
) -> list[Diagnosis]:
    """A diagnosis at each context length.

    Args:
        probe: called with T; such as one that cuts a text to T tokens and runs a `LayerProbe`.
        contexts: lengths, ascending.

    Raises:
        ConfigError: there is none, or they do not ascend.
    """
    lengths = [integer("context", context, 2) for context in contexts]
    if not lengths or any(b <= a for a, b in zip(lengths, lengths[1:], strict=False)):
        raise ConfigError("contexts", expected="ascending lengths", given=lengths)
    return [probe(context) for context in lengths]


def draw_contexts(models: Mapping[str, Sequence[Diagnosis]], title: str = "") -> Any:
    """Means over layers against context length, a line a model, as TRSP's figure 4.

    Args:
        models: diagnoses by the model's name, as `diagnose_contexts` gives.
        title: above all.

    Raises:
        MissingDependencyError: matplotlib is not installed.
        ConfigError: there is no diagnosis.
    """
    if not models or not all(models.values()):
        raise ConfigError("nothing to draw", expected="at least one diagnosis", given="none")
    means = {name: [d.means() for d in found] for name, found in models.items()}
    keys = list(next(iter(means.values()))[0])
    figure = output.new_figure(3.3 * len(keys), 3.5, title or "Representations over context length")
    axes = np.atleast_1d(figure.subplots(1, len(keys)))
    for place, key in zip(axes, keys, strict=True):
        for (name, found), colour in zip(models.items(), output.COLOURS * 8, strict=False):
            lengths = [diagnosis.context for diagnosis in found]
            values = [mean[key] for mean in means[name]]
            place.plot(lengths, values, color=colour, marker="o", markersize=4, label=name)
        place.set_xscale("log", base=2)
        place.set_ylim(0, 1.08 * max(max(mean[key] for mean in found) for found in means.values()))
        output.dress(place, key.replace("_", " "), "context length T")
    axes[0].legend(frameon=False, fontsize=8.5)
    return figure
