"""`python -m dbtm`, and so `torchrun ... -m dbtm train RECIPE`."""

from dbtm.cli import main

main()
