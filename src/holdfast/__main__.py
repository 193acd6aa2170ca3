"""``python -m holdfast``: the command line, also where the package is not installed."""

from holdfast.cli import main

if __name__ == "__main__":
    main()
