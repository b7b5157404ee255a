"""Checkpoints: folders on the disk, their configurations old and new, and how a trained model is loaded."""
