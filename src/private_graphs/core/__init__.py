"""What everybody reads first: jobs, studies, tasks, methods, the runner and its results."""
