"""Privacy guarantees of runs: events, accountants, calibration, statements (docs/privacy.md)."""
