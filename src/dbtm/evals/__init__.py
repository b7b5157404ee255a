"""How good a trained map is, as numbers with intervals and with what is needed to get them again."""
