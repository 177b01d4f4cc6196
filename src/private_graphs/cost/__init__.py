"""How long training jobs take, before they start: work counted from plans, times from jobs."""
