"""What things cost on this machine: ratios measured in one run, beside floors counted by hand (`dbtm bench`)."""
