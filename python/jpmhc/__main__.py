# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`python -m jpmhc`: the command `jpmhc`."""

import sys

from jpmhc.cli import main

sys.exit(main())
