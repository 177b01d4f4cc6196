"""Pages and recorded results of all studies."""
