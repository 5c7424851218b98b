# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`python -m jpmhc.data` is the command `jpmhc-data`."""

import sys

from jpmhc.data.cli import main

sys.exit(main())
