"""`dbtm`, `python -m dbtm`, and so `torchrun ... -m dbtm train RECIPE`."""

import sys


def main() -> None:
    """Import the command and run it; Ctrl-C during the import ends as silently as later."""
    try:
        from dbtm.cli import main as run
    except KeyboardInterrupt:
        sys.exit(130)
    run()


if __name__ == "__main__":
    main()
