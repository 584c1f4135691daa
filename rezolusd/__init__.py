"""rezolusd: an always-on Linux telemetry daemon."""

import sys
from pathlib import Path

__version__ = "0.1.0"

# In a wheel the other rooms (pipeline, sinks, config, ...) lie inside this package, so that nothing called
# `config` lands in site-packages; here they get back the plain names they are imported by. In a checkout
# the folder does not exist and the names resolve by themselves.
_packages = Path(__file__).parent / "_packages"
if _packages.is_dir() and str(_packages) not in sys.path:
    sys.path.insert(0, str(_packages))
