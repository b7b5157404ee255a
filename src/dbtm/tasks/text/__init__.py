"""Text: sources, tokenizers, preparation into shards of tokens, the standard corpora, and the task that reads them."""
