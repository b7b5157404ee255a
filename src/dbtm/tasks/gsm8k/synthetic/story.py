"""A word problem under construction: sentences and program lines are added together, so that the answer is right.

Every number is a `Quantity`: its name in the program and its value. Arithmetic on quantities writes the expression and
computes the value at once. Random draws use only `random.Random.random`, whose sequence Python guarantees.
"""

import random
import re
from collections.abc import Sequence
from typing import NamedTuple, TypeVar

from dbtm.tasks.gsm8k.synthetic import words

T = TypeVar("T")


SUM, PRODUCT, ATOM = 1, 2, 3  # how tightly an expression binds
_POINTS_BACK = re.compile(r"\b(it|its|they|them|their|this|that|others|rest)\b", re.IGNORECASE)
"""A sentence with one of these must directly follow the sentence that it refers to."""


class Quantity(NamedTuple):
    """An expression of the program, and its value."""

    text: str
    value: int
    binds: int = ATOM

    def plus(self, other: "Quantity | int") -> "Quantity":
        right = _quantity(other)
        return Quantity(f"{self.text} + {right.text}", self.value + right.value, SUM)

    def minus(self, other: "Quantity | int") -> "Quantity":
        right = _quantity(other)
        return Quantity(f"{self.text} - {right.within(PRODUCT)}", self.value - right.value, SUM)

    def times(self, other: "Quantity | int") -> "Quantity":
        right = _quantity(other)
        return Quantity(f"{self.within(PRODUCT)} * {right.within(ATOM)}", self.value * right.value, PRODUCT)

    def over(self, other: "Quantity | int") -> "Quantity":
        """Exact division: problems are made so that every division is exact."""
        right = _quantity(other)
        value, rest = divmod(self.value, right.value)
        assert not rest, f"{self.value} / {right.value} does not come out even"
        return Quantity(f"{self.within(PRODUCT)} / {right.within(ATOM)}", value, PRODUCT)

    def within(self, tightness: int) -> str:
        """The expression as an operand of an operator of this precedence."""
        return self.text if self.binds >= tightness else f"({self.text})"


def _quantity(value: "Quantity | int") -> Quantity:
    return value if isinstance(value, Quantity) else Quantity(str(value), value)


class Person(NamedTuple):
    name: str
    he: str
    his: str


class Story:
    """One problem; all draws are a function of the key alone."""

    def __init__(self, key: int):
        self._random = random.Random(key % (1 << 128)).random
        self.sentences: list[str] = []
        self.lines: list[str] = []
        self.value = 0
        self._taken: set[str] = set()  # names of variables
        self._known: set[object] = set()  # people and things

    # -- chance --------------------------------------------------------------------------------------------------------

    def pick(self, options: Sequence[T]) -> T:
        return options[int(self._random() * len(options))]

    def between(self, low: int, high: int) -> int:
        """A whole number, both ends included."""
        return low + int(self._random() * (high - low + 1))

    def chance(self, share: float) -> bool:
        return self._random() < share

    def people(self, n: int) -> list[Person]:
        """n people who are new to the story."""
        return [Person(*self._new(words.PEOPLE)) for _ in range(n)]

    def things(self, n: int) -> list[tuple[str, str]]:
        """n things that are new to the story, (one, many) each."""
        return [self._new(words.THINGS) for _ in range(n)]

    def _new(self, options: Sequence[T]) -> T:
        while (chosen := self.pick(options)) in self._known:
            pass
        self._known.add(chosen)
        return chosen

    # -- words ---------------------------------------------------------------------------------------------------------

    def say(self, *variants: str) -> None:
        """One of several ways to say the same."""
        self.sentences.append(self.pick(variants))

    def number(self, value: int) -> str:
        """A number as people write it: mostly digits, small ones sometimes as words, large ones with commas."""
        if 2 <= value <= 12 and self.chance(0.15):
            return words.NUMBERS[value]
        return f"{value:,}" if value >= 1000 and self.chance(0.5) else str(value)

    def dollars(self, value: int) -> str:
        """An amount of money: always in digits."""
        return f"${value:,}" if value >= 1000 and self.chance(0.5) else f"${value}"

    def distract(self) -> None:
        """Add a sentence with an irrelevant number: about someone else at the start, or about something in between."""
        places = [i for i, text in enumerate(self.sentences[:-1]) if i and not _POINTS_BACK.search(text)]
        if places and self.chance(0.5):
            self.sentences.insert(self.pick(places), self._aside())
        else:
            self.sentences.insert(0, self._opening())

    def _opening(self) -> str:
        """About a person. It comes first, so that no later 'she' means them; no ages or miles if the story has them."""
        person, thing = self.people(1)[0].name, self.things(1)[0][1]
        count, told = self.number(self.between(2, 60)), " ".join(self.sentences)
        variants = [f"{person} has {count} {thing} at home."]
        if " old" not in told:
            variants.append(f"{person} is {count} years old.")
        if " miles" not in told:
            variants.append(f"The day before, {person} had walked {count} miles.")
            variants.append(f"{person}, who lives {count} miles away, heard this story.")
        return self.pick(variants)

    def _aside(self) -> str:
        """About something that the story does not mention."""
        thing, value = self.things(1)[0][1], self.between(2, 60)
        count = self.number(value)
        return self.pick(
            (
                f"The radio plays {count} songs in the meantime.",
                f"{count} people are waiting at a bus stop nearby.",
                f"A museum in the city shows {count} {thing}.",
                f"A poster on the wall costs ${value}.",
            )
        )

    # -- the program ---------------------------------------------------------------------------------------------------

    def let(self, name: str, value: int) -> Quantity:
        """A number of the text."""
        return self.set(name, Quantity(str(value), value))

    def set(self, name: str, quantity: Quantity) -> Quantity:
        """A step: a variable for an expression, under the name or, if that is taken, the name with a number."""
        name = name.lower().replace(" ", "_").replace("-", "_")
        unique, n = name, 2
        while unique in self._taken:
            unique, n = f"{name}_{n}", n + 1
        self._taken.add(unique)
        self.lines.append(f"{unique} = {quantity.text}")
        return Quantity(unique, quantity.value)

    def answer(self, quantity: Quantity) -> None:
        """The last step."""
        self.lines += [f"result = {quantity.text}", "return result"]
        self.value = quantity.value

    def question(self) -> str:
        return " ".join(sentence[0].upper() + sentence[1:] for sentence in self.sentences)

    def code(self) -> str:
        return "\n    ".join(["def simple_math_problem():", *self.lines])
