"""From rows to words, tables, charts, statements and verdicts on claims."""
