"""The registry's entries, a module per kind."""
