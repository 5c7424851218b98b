# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The subcommands of `jpmhc-data`, one a module of this package.

A module `NAME.py` is the subcommand NAME and has:

* a docstring, the first line of which is its help;
* `add_arguments(parser)`, which adds its own options (the common ones are there already: see
  `jpmhc.data.cli`);
* `run(options)`, which does the work and raises the errors of `jpmhc.errors`.

A name that begins with an underscore is no subcommand.
"""
