"""`python -m gsvc`: the command `gsvc`, where its script is not on the path."""

import sys

from gsvc.codec.command.main import main

if __name__ == "__main__":
    sys.exit(main())
