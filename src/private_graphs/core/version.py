"""Version of the program, which results state."""

__version__ = "0.2.0"
