"""The command line, one module a command."""

import signal
import sys

# While modules are imported, Ctrl-C ends the process at once; later, `main` tells of it in a line.
if sys.argv[0].endswith("gsvc") and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
