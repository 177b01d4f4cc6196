"""Studies: one folder per paper, with ``study.yaml``, printed numbers in ``published``, methods
and readers that no other study uses, claims, and modules that define its exhibits."""
