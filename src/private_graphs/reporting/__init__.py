"""Published values, tables, figures and the site: everything a reader sees of finished runs."""
