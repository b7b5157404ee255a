"""What every room may use and which uses none of them: errors, random numbers, files, signals, devices, registries."""
