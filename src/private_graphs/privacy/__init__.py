"""Privacy guarantees of training runs: events, accountants, calibration, statements
(docs/privacy.md)."""
