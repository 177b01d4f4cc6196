"""The mechanisms: the door through which private data leave a run, and its replay."""
