"""What every room reads: errors, files, limits, random streams, imports."""
