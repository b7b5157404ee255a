"""Streams of random numbers within a training step: each is folded into the samples' keys, so none repeats another."""

NOISE, TIME, FRACTION, CONTEXT, ROUND, START, TURN, CONTEXT_TIME, AGAIN, ONE, OWN, LOOPS, KNOWN, REFLOW = range(14)
