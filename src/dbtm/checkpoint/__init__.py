"""Checkpoints: folders on disk, configurations of all versions, and loading of trained models."""
