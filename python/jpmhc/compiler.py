# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""From traced functions to something that runs on arrays."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from jpmhc import _core, _reproducer, _tree, arguments, memory
from jpmhc._location import here
from jpmhc.cost import Cost, cost_table
from jpmhc.elementwise import broadcast_to
from jpmhc.errors import (
    CompileError,
    ConfigError,
    DTypeError,
    InternalError,
    JpmhcError,
    NotFiniteError,
    OutOfMemoryError,
    RangeError,
    UnsupportedError,
    is_known,
    unknown_name,
)
from jpmhc.functions import flatten_results
from jpmhc.nn.module import Parameter
from jpmhc.profiling import Profile
from jpmhc.tracing import IdRange, Spec, Trace, spec_of, to_error

TARGETS = ("cpu", "emulator")


def ptx_chips() -> list[str]:
    """The GPUs that PTX is written for, oldest first."""
    return list(_core.ptx_chips())


@dataclass
class Entry:
    """A function of a program that can be called from outside.

    `inputs` describes the user's arguments; `captured` the parameters whose arrays follow them;
    `outputs` the results; `ranges` what is checked of ids before a run.
    """

    name: str
    inputs: list[Spec]
    input_structure: Any
    input_names: list[str]
    captured: list[Parameter]
    outputs: list[Spec]
    output_structure: Any
    ranges: list[IdRange]

    def checked(self, leaves: Sequence[Any]) -> list[np.ndarray]:
        """The user's arguments as arrays that the entry may run on.

        Raises:
            JpmhcError: one does not fit; see `jpmhc.arguments.check`.
        """
        arrays = [
            arguments.check(leaf, spec, name)
            for leaf, spec, name in zip(leaves, self.inputs, self.input_names, strict=True)
        ]
        for item in self.ranges:
            if item.position < len(arrays):
                name = self.inputs[item.position].name or self.input_names[item.position]
                arguments.check_range(
                    arrays[item.position], item.high, item.allowed, name, low=item.low
                )
        return arrays


class Program:
    """Traced entries that are compiled together; `compile` makes them callable."""

    def __init__(self) -> None:
        self.trace = Trace()
        self.entries: dict[str, Entry] = {}
        self._executable: Any = None
        self._aliases: dict[str, list[int]] = {}

    def add(
        self,
        name: str,
        fn: Callable[..., Any],
        args: Sequence[Any],
        *,
        inplace: Sequence[int] = (),
    ) -> Entry:
        """Traces `fn` as the entry `name`.

        Args:
            args: one spec, array (for its shape and type) or nested container of them for each
                argument; anything else is passed through as it is.
            inplace: numbers of argument leaves that the function overwrites and returns.
        """
        leaves, structure = _tree.flatten(tuple(args), lambda item: spec_of(item) is not None)
        specs = [spec_of(leaf) for leaf in leaves]
        names = _tree.names(structure)
        with self.trace.function(name, [spec.type for spec in specs]) as frame:
            for argument in inplace:
                self.trace.call(
                    self.trace.graph.set_argument_attribute, argument, "jpmhc.inplace", "unit"
                )
            result = fn(*_tree.unflatten(structure, list(frame.arguments)))
            results, output_structure = flatten_results(result)
            # What leaves a program is an array.
            results = [broadcast_to(r, ()) if r.is_scalar else r for r in results]
            self.trace.finish(results)
        entry = Entry(
            frame.name,
            specs,
            structure,
            names,
            _parameters(frame.captured),
            [Spec(r.shape, r.dtype) for r in results],
            output_structure,
            list(dict.fromkeys(frame.ranges)),
        )
        self.entries[name] = entry
        return entry

    def compile(self, target: str = "cpu") -> None:
        """Compiles all entries for a target.

        Raises:
            ConfigError: the target is unknown.
            CompileError: the program cannot be compiled; names the user's line.
            InternalError: the compiler failed; names the reproducer.
        """
        if not is_known(target, TARGETS):
            raise unknown_name("target", target, TARGETS, where=here())

        def build() -> Any:
            self.trace.graph.verify()
            return _core.compile(self.trace.graph, target)

        self._executable = self._guarded(build)
        self._aliases = {
            name: self._executable.aliases(entry.name) for name, entry in self.entries.items()
        }

    def write_ptx(
        self,
        folder: str | os.PathLike,
        *,
        chip: str = "sm_100a",
        name: str = "program",
        measured: Program | None = None,
    ) -> None:
        """Writes the program's kernels as PTX, with a C header, a manifest and a report.

        Args:
            folder: gets `kernels.ptx`, `{name}.h`, `manifest.json` and `report.json`.
            chip: one of `jpmhc.compiler.ptx_chips()`.
            measured: the same program compiled for the emulator and run; the report then says what
                its kernels moved.

        Raises:
            ConfigError: the chip is unknown.
            CompileError, InternalError: as `compile`.
        """
        if not is_known(chip, ptx_chips()):
            raise unknown_name("chip", chip, ptx_chips(), where=here())
        source = None if measured is None else measured.executable
        self._guarded(
            lambda: _core.write_ptx(self.trace.graph, os.fspath(folder), chip, name, source)
        )

    def _guarded(self, part: Callable[[], Any]) -> Any:
        """Runs a part of the compiler; its failures become typed errors."""
        try:
            return part()
        except _core.DiagnosticError as error:
            if "failed to legalize" in error.args[0]:
                raise self._failure(to_error(error)) from None
            raise to_error(error) from None
        except _core.CompilerFailure as error:
            raise self._failure(error) from None
        except _core.RunError as error:
            raise _run_error(error) from None

    def _failure(self, error: Exception) -> InternalError:
        module = self.trace.graph.print(debug_info=True)
        return InternalError(str(error), reproducer=_reproducer.write(module))

    @property
    def executable(self) -> Any:
        """The compiled module.

        Raises:
            CompileError: `compile` has not been called.
        """
        if self._executable is None:
            raise CompileError("the program has not been compiled", expected="a call of compile()")
        return self._executable

    def print_ir(self, stage: str = "graph", *, debug_info: bool = False) -> str:
        """The program as text at a stage: "graph" (as traced) or one of `stages`."""
        if stage == "graph":
            return self.trace.graph.print(debug_info=debug_info)
        if not is_known(stage, self.stages):
            raise unknown_name("stage", stage, self.stages, where=here())
        return self.trace.call(_core.print_stage, self.trace.graph, stage, debug_info)

    @property
    def stages(self) -> list[str]:
        """The stages that `print_ir` knows, in order."""
        return ["graph", *_core.stages()]

    @property
    def compilation(self) -> dict[str, Any]:
        """What compiling did: `from_cache` (the whole program was), `compiled_kernels` (those that
        were not), and seconds: `lowering_seconds`, `code_seconds`, `link_seconds`."""
        return self.executable.compilation

    @property
    def planned_peak_bytes(self) -> int:
        """Bytes of temporaries that the compiled program needs at once."""
        return self.executable.planned_peak_bytes

    def cost(self, times: Profile | None = None) -> Cost:
        """What each kernel computes and moves; see `jpmhc.cost`.

        Args:
            times: a profile of runs of this program; its times a run stand beside.
        """
        return cost_table(self._guarded(lambda: _core.cost(self.trace.graph)), times)

    def aliases(self, entry: Entry) -> list[int]:
        """For each result the argument whose buffer it is, or -1."""
        return self._aliases[entry.name]

    def run(self, entry: Entry, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Runs an entry on checked arrays, inputs and captured in order; returns new arrays.

        A result that is an argument unchanged is a copy of it.
        """
        outputs = [memory.empty(spec.shape, spec.numpy) for spec in entry.outputs]
        written = []
        for output, alias in zip(outputs, self.aliases(entry), strict=True):
            if alias < 0:
                written.append(output)
            else:
                output[...] = inputs[alias]
        run_addresses(self.executable, self.number(entry), addresses_of((*inputs, *written)))
        return outputs

    def number(self, entry: Entry) -> int:
        """The entry's number in the executable."""
        return self.executable.find(entry.name)


def addresses_of(arrays: Iterable[np.ndarray]) -> list[int]:
    """Where the arrays' data lies."""
    return [array.ctypes.data for array in arrays]


_ERRORS = {
    _core.INDEX_OUT_OF_RANGE: RangeError,
    _core.UNSUPPORTED: UnsupportedError,
    _core.NOT_FINITE: NotFiniteError,
}
"""By the status of a run; any other one is a failure of jpmhc's own."""


def run_addresses(executable: Any, number: int, addresses: list[int]) -> None:
    """Runs an entry.

    Raises:
        RangeError: an id lies outside its table.
        UnsupportedError: the device does not serve something.
        NotFiniteError: the knob `check` found a NaN or an infinity.
        InternalError: anything else that failed while running.
    """
    try:
        executable.run(number, addresses)
    except _core.RunError as error:
        raise _run_error(error) from None


def _run_error(error: _core.RunError) -> JpmhcError:
    """The typed error for what the runtime reported."""
    status, message = error.args
    if status == _core.OUT_OF_MEMORY:
        given = f"{memory.available_bytes()} bytes available"
        return OutOfMemoryError(f"temporaries of a program: {message}", given=given)
    return _ERRORS.get(status, InternalError)(message)


def _parameters(captured: Sequence[Any]) -> list[Parameter]:
    for source in captured:
        if not isinstance(source, Parameter):
            raise CompileError(
                "an entry uses a value of another trace",
                expected="parameters",
                given=type(source).__name__,
            )
    return list(captured)


class Compiled:
    """A compiled function: call it with arrays.

    Parameters that the function uses are read from their modules at each call, without a copy.
    """

    def __init__(self, fn: Callable[..., Any], args: Sequence[Any], target: str) -> None:
        self._program = Program()
        name = getattr(fn, "__name__", type(fn).__name__)
        name = name if name.isidentifier() else "main"
        self._entry = self._program.add(name, fn, args)
        self._program.compile(target)

    def __call__(self, *args: Any) -> Any:
        entry = self._entry
        leaves, structure = _tree.flatten(
            tuple(args), lambda item: isinstance(item, (np.ndarray, np.generic, int, float))
        )
        if structure != entry.input_structure:
            raise DTypeError(
                "arguments do not have the structure they were compiled for",
                expected=entry.input_structure,
                given=structure,
                where=here(),
            )
        inputs = entry.checked(leaves)
        inputs += [parameter.array for parameter in entry.captured]
        return _tree.unflatten(entry.output_structure, self._program.run(entry, inputs))

    @property
    def output_shapes(self) -> list[tuple[int, ...]]:
        """Shapes of the results' leaves."""
        return [spec.shape for spec in self._entry.outputs]

    def run_into(self, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray]) -> None:
        """Runs on leaves that are right already, into arrays that exist.

        Nothing is checked or copied. A result that is an argument unchanged is not written.
        """
        entry = self._entry
        aliases = self._program.aliases(entry)
        written = [o for o, alias in zip(outputs, aliases, strict=True) if alias < 0]
        captured = [parameter.array for parameter in entry.captured]
        number = self._program.number(entry)
        addresses = addresses_of((*inputs, *captured, *written))
        run_addresses(self._program.executable, number, addresses)

    def print_ir(self, stage: str = "graph", *, debug_info: bool = False) -> str:
        """The program as text: as traced ("graph") or at a later stage."""
        return self._program.print_ir(stage, debug_info=debug_info)

    @property
    def stages(self) -> list[str]:
        """The stages that `print_ir` knows."""
        return self._program.stages

    @property
    def compilation(self) -> dict[str, Any]:
        """What compiling did; see `Program.compilation`."""
        return self._program.compilation

    @property
    def planned_peak_bytes(self) -> int:
        """Bytes of temporaries that a call needs at once."""
        return self._program.planned_peak_bytes

    def cost(self, times: Profile | None = None) -> Cost:
        """What each kernel computes and moves; see `Program.cost`."""
        return self._program.cost(times)


def compile(fn: Callable[..., Any], *args: Any, target: str = "cpu") -> Compiled:  # noqa: A001
    """Traces a function or module on abstract arguments and compiles it.

    Args:
        fn: works on traced tensors; uses any parameters it likes.
        args: for each argument a spec (`jpmhc.spec`), an array of that shape and type, or a
            container of them.
        target: "cpu", or "emulator" for the GPU kernels run on the CPU.

    Returns:
        a callable on arrays of those shapes and types.

    Raises:
        JpmhcError: of the kind that fits, at the line of the user's program that is wrong.
    """
    if not callable(fn):
        raise ConfigError("compile", expected="a function", given=type(fn).__name__, where=here())
    return Compiled(fn, args, target)
