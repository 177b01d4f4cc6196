"""Studies, jobs, their execution and their results."""
