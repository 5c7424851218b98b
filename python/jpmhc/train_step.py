# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Forward, backward and optimiser as one compiled program over arrays that it owns.

The program has two entries. `gradients` runs the loss forward and backward and writes every
gradient to its place in one buffer a group; `update` moves the parameters. A data-parallel sum of
gradients fits between the two without a copy.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from jpmhc import _tree, checkpoint, elementwise, memory, ops
from jpmhc._location import here
from jpmhc.compiler import Program, addresses_of, run_addresses
from jpmhc.cost import Cost
from jpmhc.derivatives import value_and_grad
from jpmhc.errors import ConfigError, DTypeError, ShapeError, shown
from jpmhc.functions import is_value
from jpmhc.nn.module import Module, Parameter, aligned_zeros, views
from jpmhc.nn.sparse import SparseRows
from jpmhc.optim import DenseOptimizer, SignSGD, check_rate
from jpmhc.profiling import Profile
from jpmhc.tracing import Operators, Spec, Tensor, scalar_spec, spec_of

_DENSE = ("decay", "no_decay")


class TrainStep:
    """One training step of a model: call it with a batch.

    Args:
        model: its parameters are trained; it is initialised with `seed` if it has no values.
        loss: traced function of the batch that returns the loss [], or (loss, auxiliary). With
            `carry`, it takes the carried state first and returns (loss, new state) or
            (loss, new state, auxiliary); no gradient flows from one step to the next.
        optimizer: for the dense parameters.
        specs: one spec (or array, or container of them) for each argument of the batch.
        sparse_optimizer: for tables of `nn.SparseEmbedding`.
        carry: arrays (or specs, for zeros) of the first carried state, of which the step keeps
            and updates its own.
        max_grad_norm: gradients of the dense parameters are scaled down to this global norm.
        target: as for `jpmhc.compile`.
        seed: for a model without values.

    Attributes:
        step: number of steps taken.
        model: as given.

    Raises:
        ConfigError: an option does not fit.
        JpmhcError: what tracing and compiling raise.
    """

    def __init__(
        self,
        model: Module,
        loss: Callable[..., Any],
        optimizer: DenseOptimizer,
        *specs: Any,
        sparse_optimizer: SignSGD | None = None,
        carry: Any = None,
        max_grad_norm: float | None = None,
        target: str = "cpu",
        seed: int = 0,
    ) -> None:
        _check_options(model, loss, optimizer, sparse_optimizer, max_grad_norm)
        if not all(parameter.is_initialized for parameter in model.parameters()):
            model.init(seed)
        self.model = model
        self.step = 0
        self._optimizer, self._sparse_optimizer = optimizer, sparse_optimizer
        self._max_grad_norm = max_grad_norm
        self._groups = {
            group: [p for p in model.parameters() if p.group == group]
            for group in _DENSE
            if group in model.buffers
        }
        self._allocate()
        self._program = Program()
        self._trace_gradients(loss, specs, carry)
        self._trace_update()
        self._program.compile(target)
        self._bind(carry)

    # ---- arrays that the optimiser works on ----

    def _allocate(self) -> None:
        def zeros() -> dict[str, np.ndarray]:
            return {g: aligned_zeros(self.model.buffers[g].size) for g in self._groups}

        self._gradients, self._first, self._second = zeros(), zeros(), zeros()
        self._places = {
            parameter: view
            for group, members in self._groups.items()
            for parameter, view in zip(members, views(self._gradients[group], members), strict=True)
        }

    # ---- tracing ----

    def _trace_gradients(self, loss: Callable[..., Any], specs: Any, carry: Any) -> None:
        carried = carry is not None

        def parts(*batch: Any) -> tuple[Any, Any, Any]:
            value, state, auxiliary = _parts(loss(*batch), carried)
            _check_loss(value)
            return value, state, auxiliary

        differentiated = value_and_grad(parts)
        self._dense: list[Parameter] = []
        self._sparse: list[tuple[Parameter, int]] = []

        def gradients(*batch: Any) -> Any:
            (value, state, auxiliary), found = differentiated(*batch)
            self._dense = [source for source in found if isinstance(source, Parameter)]
            rows = [source for source in found if isinstance(source, SparseRows)]
            leaves, _ = _tree.flatten(batch, is_value)
            self._sparse = [(r.parameter, _position(leaves, r.outer_ids())) for r in rows]
            self._check_sparse()
            if carried:
                _check_state(batch[0], state)
            return (
                value,
                state,
                auxiliary,
                [found[p] for p in self._dense],
                [found[r] for r in rows],
            )

        batch = (carry, *specs) if carried else specs
        self._entry = self._program.add("gradients", gradients, batch)

    def _check_sparse(self) -> None:
        if self._sparse and self._sparse_optimizer is None:
            raise ConfigError(
                "the model has sparse tables",
                expected="a sparse_optimizer",
                given="none",
                where=here(),
            )

    def _trace_update(self) -> None:
        sizes = [self.model.buffers[group].size for group in self._groups]
        flat = [Spec((size,), "f32") for size in sizes]
        tables = [parameter.spec for parameter, _ in self._sparse]
        ids, rows = self._row_specs()
        rates = (scalar_spec("f32"), scalar_spec("f32"), scalar_spec("i64"))
        args = (flat, flat, flat, tables, flat, ids, rows, *rates)
        inplace = range(3 * len(flat) + len(tables))
        self._update = self._program.add("update", self._updated, args, inplace=inplace)

    def _row_specs(self) -> tuple[list[Spec], list[Spec]]:
        """Ids and gradient rows of each sparse table, leading axes as one."""
        ids, rows = [], []
        for parameter, leaf in self._sparse:
            spec = self._entry.inputs[leaf]
            count = int(np.prod(spec.shape, dtype=np.int64))
            ids.append(Spec((count,), spec.dtype))
            rows.append(Spec((count, *parameter.shape[1:]), "f32"))
        return ids, rows

    def _updated(
        self,
        parameters: list[Tensor],
        first: list[Tensor],
        second: list[Tensor],
        tables: list[Tensor],
        gradients: list[Tensor],
        ids: list[Tensor],
        rows: list[Tensor],
        lr: Tensor,
        sparse_lr: Tensor,
        step: Tensor,
    ) -> Any:
        """The new state (each overwrites its argument) and the norm of the gradients, if asked."""
        norm = []
        if self._max_grad_norm is not None and gradients:
            gradients, total = _clipped(gradients, self._max_grad_norm)
            norm = [total]
        new = [
            self._optimizer.update(p, g, m, v, lr, step, group == "decay")
            for group, p, g, m, v in zip(
                self._groups, parameters, gradients, first, second, strict=True
            )
        ]
        moved = [
            self._sparse_optimizer.update_rows(table, chosen, grad, sparse_lr)
            for table, chosen, grad in zip(tables, ids, rows, strict=True)
        ]
        columns = [[item[i] for item in new] for i in range(3)]
        return *columns, moved, norm

    # ---- arrays and addresses ----

    def _bind(self, carry: Any) -> None:
        entry, update = self._entry, self._update
        self._numbers = self._program.number(entry), self._program.number(update)
        first_gradient = len(entry.outputs) - len(self._dense) - len(self._sparse)
        results = [memory.zeros(s.shape, s.numpy) for s in entry.outputs[:first_gradient]]
        self._rows = [
            memory.zeros(s.shape, s.numpy)
            for s in entry.outputs[first_gradient + len(self._dense) :]
        ]
        places = [self._places[parameter] for parameter in self._dense]
        self._outputs = [*results, *places, *self._rows]
        initial = [] if carry is None else _tree.flatten(carry, _has_spec)[0]
        self._state = [_initial(value) for value in initial]
        self._captured = [parameter.array for parameter in entry.captured]
        self._rates = np.zeros((), np.float32), np.zeros((), np.float32), np.zeros((), np.int64)
        norms = len(update.outputs) - 3 * len(self._groups) - len(self._sparse)
        self._norm = [np.zeros((), np.float32) for _ in range(norms)]

    def _update_addresses(self, batch: list[np.ndarray]) -> list[int]:
        buffers = [self.model.buffers[group] for group in self._groups]
        tables = [parameter.array for parameter, _ in self._sparse]
        ids = [batch[leaf] for _, leaf in self._sparse]
        arrays = [
            *buffers,
            *self._first.values(),
            *self._second.values(),
            *tables,
            *self._gradients.values(),
            *ids,
            *self._rows,
            *self._rates,
            *self._norm,
        ]
        return addresses_of(arrays)

    # ---- running ----

    def __call__(self, *batch: Any, lr: float | None = None, sparse_lr: float | None = None) -> Any:
        """Takes one step.

        Args:
            batch: arrays as the specs say.
            lr: learning rate of this step; the optimiser's own by default.
            sparse_lr: likewise of the sparse optimiser.

        Returns:
            the loss, or (loss, auxiliary) where the loss function returns such. Auxiliary arrays
            are the step's own and hold until the next call.

        Raises:
            ConfigError: a rate is negative or not finite; nothing has run.
            JpmhcError: an argument does not fit; nothing has run.
        """
        sparse = self._sparse_optimizer
        self._rates[0][...] = check_rate(self._optimizer.lr if lr is None else lr)
        self._rates[1][...] = (
            0.0 if sparse is None else check_rate(sparse.lr if sparse_lr is None else sparse_lr)
        )
        inputs = self._inputs(batch)
        result = self._run_gradients(inputs)
        self._rates[2][...] = self.step + 1
        run_addresses(self._program.executable, self._numbers[1], self._update_addresses(inputs))
        self.step += 1
        return result

    def _inputs(self, batch: tuple[Any, ...]) -> list[np.ndarray]:
        entry = self._entry
        leaves, structure = _tree.flatten(batch, _is_argument)
        expected = entry.input_structure[1:] if self._state else entry.input_structure
        if structure != expected:
            raise DTypeError(
                "batch does not have the structure it was compiled for",
                expected=expected,
                given=structure,
                where=here(),
            )
        return entry.checked([*self._state, *leaves])

    def _run_gradients(self, inputs: list[np.ndarray]) -> Any:
        aliases = self._program.aliases(self._entry)
        sources = [*inputs, *self._captured]
        written = [o for o, alias in zip(self._outputs, aliases, strict=True) if alias < 0]
        addresses = addresses_of((*sources, *written))
        run_addresses(self._program.executable, self._numbers[0], addresses)
        for output, alias in zip(self._outputs, aliases, strict=True):
            if alias >= 0:  # a result that is an argument unchanged
                output[...] = sources[alias]
        loss, _, auxiliary, _, _ = _tree.unflatten(self._entry.output_structure, self._outputs)
        count = len(self._state)
        # What was written becomes the state; its old arrays take the next step's.
        self._outputs[1 : 1 + count], self._state = self._state, self._outputs[1 : 1 + count]
        value = float(loss)
        return value if auxiliary is None else (value, auxiliary)

    # ---- looking in, saving ----

    @property
    def carry(self) -> list[np.ndarray]:
        """The arrays of the carried state, in order; replaced by each step."""
        return self._state

    @property
    def gradients(self) -> dict[str, np.ndarray]:
        """The gradient buffer of each dense group, laid out as `model.buffers`."""
        return self._gradients

    def gradient_norms(self, depth: int = 2) -> dict[str, float]:
        """Euclidean norms of the last step's gradients, by layer, before clipping.

        Args:
            depth: parts of a parameter's dotted name that make a layer.
        """
        squares: dict[str, float] = {}
        for name, parameter in self.model.named_parameters():
            if parameter not in self._places:
                continue
            layer = ".".join(name.split(".")[:depth])
            flat = self._places[parameter].ravel()
            squares[layer] = squares.get(layer, 0.0) + float(np.dot(flat, flat))
        return {layer: square**0.5 for layer, square in squares.items()}

    @property
    def grad_norm(self) -> float | None:
        """Global norm of the last step's gradients before clipping; None without clipping."""
        return float(self._norm[0]) if self._norm else None

    @property
    def compilation(self) -> dict[str, Any]:
        """What compiling did; see `jpmhc.compiler.Program.compilation`."""
        return self._program.compilation

    @property
    def planned_peak_bytes(self) -> int:
        """Bytes of temporaries that a step needs at once."""
        return self._program.planned_peak_bytes

    def cost(self, times: Profile | None = None) -> Cost:
        """What each kernel of a step computes and moves; see `jpmhc.cost`."""
        return self._program.cost(times)

    @property
    def state_bytes(self) -> int:
        """Bytes of parameters, gradients, moments, carried state and results."""
        buffers = [self._gradients, self._first, self._second, self.model.buffers]
        arrays = [array for group in buffers for array in group.values()]
        results = [o for o in self._outputs if not any(o is p for p in self._places.values())]
        return sum(a.nbytes for a in (*arrays, *self._state, *results))

    def print_ir(self, stage: str = "graph", *, debug_info: bool = False) -> str:
        """The program as text at a stage, one of `stages`."""
        return self._program.print_ir(stage, debug_info=debug_info)

    @property
    def stages(self) -> list[str]:
        """The stages that `print_ir` knows."""
        return self._program.stages

    def write_ptx(
        self, folder: str | os.PathLike, chip: str = "sm_100a", *, measured: TrainStep | None = None
    ) -> dict[str, Any]:
        """Writes the step's kernels as PTX; see `jpmhc.compiler.Program.write_ptx`.

        Args:
            measured: a step of the same model that ran on the target "emulator", of any batch size;
                the report then says what its kernels moved.

        Returns:
            what `report.json` adds up to: the number of kernels, how they were assembled, the most
            registers, the kernels that spill, and the largest ratio of bytes moved to the floor.

        Raises:
            ConfigError, CompileError, InternalError: as there.
        """
        source = None if measured is None else measured._program
        self._program.write_ptx(folder, chip=chip, name="train_step", measured=source)
        with open(os.path.join(folder, "report.json"), encoding="utf-8") as file:
            return _summary(json.load(file))

    def sections(self) -> dict[str, dict[str, np.ndarray]]:
        """All arrays that a checkpoint needs, live, by section and name."""
        optimizer = {}
        for group in self._groups:
            optimizer[f"{group}.m"] = self._first[group]
            optimizer[f"{group}.v"] = self._second[group]
        state = {str(i): array for i, array in enumerate(self._state)}
        sections = {"model": self.model.state_dict(), "optimizer": optimizer, "carry": state}
        return {name: arrays for name, arrays in sections.items() if arrays}

    def save(
        self,
        path: str | os.PathLike,
        *,
        rng_state: Mapping | None = None,
        config: Mapping | None = None,
    ) -> None:
        """Writes a checkpoint; raises as `jpmhc.checkpoint.save` does."""
        checkpoint.save(path, self.sections(), step=self.step, rng_state=rng_state, config=config)

    def load(self, path: str | os.PathLike) -> checkpoint.Metadata:
        """Continues from a checkpoint; nothing changes unless all of it fits.

        Raises:
            CheckpointError: see `jpmhc.checkpoint.load`.
        """
        metadata = checkpoint.load(path, self.sections())
        self.step = metadata.step
        return metadata


def _summary(report: dict[str, Any]) -> dict[str, Any]:
    kernels = report["kernels"]
    spills = [k["kernel"] for k in kernels if k.get("spill_store_bytes", 0) > 0]
    return {
        "kernels": len(kernels),
        "assembler": report["assembler"],
        "most_registers": max((k.get("registers", 0) for k in kernels), default=0),
        "kernels_that_spill": spills,
        "most_bytes_over_floor": max((k.get("bytes_over_floor", 0) for k in kernels), default=0),
    }


def _check_options(
    model: Any, loss: Any, optimizer: Any, sparse_optimizer: Any, max_grad_norm: Any
) -> None:
    sparse_fits = sparse_optimizer is None or isinstance(sparse_optimizer, SignSGD)
    for what, value, fits, expected in (
        ("model", model, isinstance(model, Module), "a jpmhc.nn.Module"),
        ("loss", loss, callable(loss), "a function"),
        ("optimizer", optimizer, isinstance(optimizer, DenseOptimizer), "AdamW or AdamAtan2"),
        ("sparse_optimizer", sparse_optimizer, sparse_fits, "SignSGD or None"),
    ):
        if not fits:
            given = type(value).__name__
            raise ConfigError(f"{what} of TrainStep", expected=expected, given=given, where=here())
    if max_grad_norm is None:
        return
    is_number = isinstance(max_grad_norm, (int, float, np.number))
    if isinstance(max_grad_norm, bool) or not is_number or not max_grad_norm > 0:
        raise ConfigError(
            "max_grad_norm", expected="a number > 0", given=shown(max_grad_norm), where=here()
        )


def _parts(value: Any, carried: bool) -> tuple[Any, Any, Any]:
    """Loss, new state and auxiliary results of what a loss function returned."""
    if not carried:
        if isinstance(value, tuple):
            if len(value) != 2:
                raise ShapeError(
                    "result of a loss function",
                    expected="loss or (loss, auxiliary)",
                    given=f"{len(value)} values",
                    where=here(),
                )
            return value[0], None, value[1]
        return value, None, None
    if not isinstance(value, tuple) or len(value) not in (2, 3):
        raise ShapeError(
            "result of a loss function with carried state",
            expected="(loss, state) or (loss, state, auxiliary)",
            given=f"{len(value)} values" if isinstance(value, tuple) else type(value).__name__,
            where=here(),
        )
    return (*value, None)[:3]


def _check_loss(loss: Any) -> None:
    """That the loss is one traced number."""
    if not isinstance(loss, Operators) or loss.shape != ():
        raise ShapeError(
            "result of a loss function",
            expected="a traced loss of shape []",
            given=f"shape {loss.shape}" if isinstance(loss, Operators) else type(loss).__name__,
            where=here(),
        )


def _check_state(before: Any, after: Any) -> None:
    old = [t.type for t in _tree.flatten(before, is_value)[0]]
    new = [t.type for t in _tree.flatten(after, is_value)[0]]
    if old != new:
        raise ShapeError("carried state", expected=old, given=new, where=here())


def _clipped(gradients: list[Tensor], limit: float) -> tuple[list[Tensor], Tensor]:
    """Gradients scaled down to a global norm, and the norm they had."""
    squares = [ops.global_norm(g) ** 2 for g in gradients]
    total = squares[0]
    for square in squares[1:]:
        total = total + square
    norm = elementwise.sqrt(total)
    factor = elementwise.minimum(limit / elementwise.maximum(norm, 1e-30), 1.0)
    return [g * factor for g in gradients], norm


def _position(leaves: list[Any], ids: Tensor) -> int:
    return next(i for i, leaf in enumerate(leaves) if leaf is ids)


def _has_spec(item: Any) -> bool:
    return spec_of(item) is not None


def _is_argument(item: Any) -> bool:
    return isinstance(item, (np.ndarray, np.generic, int, float))


def _initial(value: Any) -> np.ndarray:
    if isinstance(value, Spec):
        return memory.zeros(value.shape, value.numpy)
    return np.array(value, copy=True, order="C")
