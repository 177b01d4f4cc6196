"""What a training run may claim: events, accountants, calibration, statements (docs/privacy.md)."""
