"""Shared base without imports from other packages: errors, random numbers, files, signals, devices, registries."""
