# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The command `jpmhc-data`: make, look at and count the data sets of the experiments.

    jpmhc-data SUBCOMMAND ... [--preview N] [--stats] [-o FOLDER] [--quiet]

Every subcommand has these options; the rest are its own. The subcommands are the modules of
`jpmhc.data.commands`.
"""

from __future__ import annotations

import argparse
import importlib
import pkgutil
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from jpmhc._pipes import ends_with_its_reader
from jpmhc.data import commands
from jpmhc.errors import ConfigError, JpmhcError

__all__ = ["PROGRAM", "main", "parser"]

PROGRAM = "jpmhc-data"


def parser() -> argparse.ArgumentParser:
    """The command line; a parsed one has the subcommand's module as `module`."""
    result = argparse.ArgumentParser(prog=PROGRAM, description=__doc__.splitlines()[0])
    subparsers = result.add_subparsers(dest="command", metavar="SUBCOMMAND", required=True)
    for module in _modules():
        summary = module.__doc__.splitlines()[0]
        name = module.__name__.rpartition(".")[2]
        sub = subparsers.add_parser(name, help=summary, description=summary)
        module.add_arguments(sub)
        _add_common(sub)
        sub.set_defaults(module=module)
    return result


def _modules() -> list[ModuleType]:
    names = [found.name for found in pkgutil.iter_modules(commands.__path__)]
    return [
        importlib.import_module(f"{commands.__name__}.{name}")
        for name in sorted(names)
        if not name.startswith("_")
    ]


def _add_common(sub: argparse.ArgumentParser) -> None:
    common = sub.add_argument_group("common options")
    add = common.add_argument
    add("-o", "--output", type=Path, metavar="FOLDER", help="write the data set here")
    add("--preview", type=int, default=0, metavar="N", help="show N examples")
    add("--stats", action="store_true", help="print counts")
    add("--quiet", action="store_true", help="no progress")


@ends_with_its_reader
def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a subcommand; the exit code is 1 after an error, which is said in one line.

    `run` gets the parsed options with `command_line` added, for the data card.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    options = parser().parse_args(given)
    options.command_line = shlex.join([PROGRAM, *given])
    try:
        if options.preview < 0:
            raise ConfigError("--preview", expected="at least 0", given=options.preview)
        options.module.run(options)
    except JpmhcError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted; the same command goes on where this one stopped", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
