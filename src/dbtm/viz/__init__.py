"""Traces to look at: in the terminal (`grid`) and as a page that replays them (`page`)."""
