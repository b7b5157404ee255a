"""How good a trained model is, as numbers with intervals and with what is needed to get them again."""
