"""``python -m private_graphs``: the command line."""

from private_graphs.cli import main

if __name__ == "__main__":
    main()
