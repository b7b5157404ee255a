"""Short stories of two sentences, which a map of 64 channels learns to write in a minute on a CPU.

Tokens depend on each other: the verb decides which objects follow it, and the second sentence has the pronoun of the
first one's subject. Tokens drawn independently get both wrong, which raises the judge's perplexity.
"""

import numpy as np

SUBJECTS = {
    "She": ("Anna", "The queen", "My sister", "The old woman"),
    "He": ("Peter", "The king", "My brother", "The young man"),
}
OBJECTS = {
    "eats": ("apple", "soup", "bread", "cake"),
    "reads": ("book", "letter", "poem", "newspaper"),
    "opens": ("door", "window", "box", "gate"),
    "drives": ("car", "bus", "truck", "train"),
}
ADJECTIVES = ("small", "old", "new", "big")
ENDINGS = ("likes it", "is very happy", "goes home", "does it again")


def story(key: int) -> str:
    """The story with this number."""
    rng = np.random.default_rng(key)

    def one(of: tuple[str, ...]) -> str:
        return of[int(rng.integers(len(of)))]

    pronoun = one(tuple(SUBJECTS))
    verb = one(tuple(OBJECTS))
    first = f"{one(SUBJECTS[pronoun])} {verb} the {one(ADJECTIVES)} {one(OBJECTS[verb])}."
    return f"{first} {pronoun} {one(ENDINGS)}."
