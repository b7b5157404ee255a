"""The registry's entries, a module for every kind."""
