"""The English of synthetic problems: faults that a machine can find, over some thousands of them."""

import re
from itertools import pairwise

import pytest

from dbtm.tasks.gsm8k.synthetic import tell
from dbtm.tasks.gsm8k.synthetic.words import MADE, PEOPLE, THINGS

N = 6000
NAMES = {name: he for name, he, _ in PEOPLE}
NAME = "|".join(NAMES)
SINGULAR = "|".join(one for one, _ in (*THINGS, *MADE))
PLURAL = "|".join(many for _, many in (*THINGS, *MADE))
UNITS = "year|hour|mile|page|day|week|cup|point|dollar|pound|minute|animal|people|song"


@pytest.fixture(scope="module")
def told():
    return [tell(key).question for key in range(N)]


@pytest.fixture(scope="module")
def corpus(told):
    return "\n".join(told)


FAULTS = {
    "an amount of money in words": r"\$(?!\d)",
    "one of a plural": r"(?<![$\d,])1(?![\d,%]) ",
    "a verb in the plural for one person": rf"\b(?:do|are|have|were) (?:he|she|{NAME})\b",
    "a verb in the singular for several": r"\b(?:does|is|has|was) they\b",
    "a plural verb after a name": rf"^(?:{NAME}) (?:have|are|give|buy|sell|lose|make|need)\b",
    "one thing, counted": rf"\b(?:[2-9]|\d\d+|two|three|four|five|six|seven|eight|nine|ten) (?:more |fewer )?"
    rf"(?:{SINGULAR}|{UNITS.replace('|people', '')})\b(?! price)",
    "several things, one by one": rf"\b(?:each|every|a) (?:remaining )?(?:{PLURAL})\b",
    "one thing of many": rf"\bHow many (?:more )?(?:{SINGULAR})\b",
    "an article before a vowel": r"\ba [aeiou]",
    "a word twice": r"\b(\w+) \1\b",
    "a sentence that does not begin": r"(?:^|[.?] )[a-z]",
    "a question that is none": r"(?<![.?])$",
    "a rest of nothing": r"^(?!.*(?:keeps \w+ of|are given to)).*(?:The rest are sold|every remaining)",
    "a share of which the rest is asked": r"How many (?:of the )?(?!miles|pages)\w+ are left\?",
    "a share of what is no longer there": r"(?:half|third|quarter|fifth) of (?:them|(?:all )?the \w+) get lost",
    "singing singers": r"singers sing|singers,? \w* ?sing\b",
}


@pytest.mark.parametrize("name", FAULTS)
def test_there_is_no(corpus, name):
    flags = re.MULTILINE | (re.IGNORECASE if name == "a word twice" else 0)
    found = re.search(FAULTS[name], corpus, flags)
    line = "" if found is None else corpus[corpus.rfind("\n", 0, found.start()) + 1 :].partition("\n")[0]
    assert found is None, line


def sentences(question: str) -> list[str]:
    return re.split(r"(?<=[.?]) ", question)


def test_a_pronoun_means_the_last_person_of_its_kind(told):
    """Wherever 'she' stands, the nearest sentence before it that names women names one."""
    kinds = {"he": "he", "his": "he", "him": "he", "she": "she", "her": "she"}
    word = re.compile(rf"\b(?:{NAME}|he|his|him|she|her)\b", re.IGNORECASE)
    for question in told:
        named: dict[str, set[str]] = {}
        for sentence in sentences(question):
            here: dict[str, set[str]] = {}
            for found in word.findall(sentence):
                if found in NAMES:
                    here.setdefault(NAMES[found], set()).add(found)
                else:
                    kind = kinds[found.lower()]
                    assert len(here.get(kind) or named.get(kind, ())) == 1, question
            named.update(here)


def test_it_and_them_stand_right_after_what_they_mean(told):
    """An aside has nothing to do with the story: no sentence that points back, and no question, comes next."""
    aside = re.compile(r"^(?:The radio|\S+ people are waiting|A museum|A poster|It takes .* bus|There are \S+ other)")
    back = re.compile(r"\b(?:it|its|they|them|their|this|others|rest)\b", re.IGNORECASE)
    for question in told:
        story = sentences(question)
        for text, after in pairwise(story):
            if aside.match(text):
                assert not back.search(after), question
                assert not after.endswith("?"), question


def test_people_are_introduced(told):
    for question in told:
        *story, asked = sentences(question)
        for name in set(re.findall(rf"\b(?:{NAME})\b", asked)):
            assert re.search(rf"\b{name}\b", " ".join(story)), question


def test_nobody_else_is_old_where_ages_are_asked_for(told):
    for question in told:
        if re.search(r"sum of their ages|How old are they", question):
            assert len(re.findall(r"years old\b", question)) == 1, question


def test_vehicles_keep_to_their_speed(told):
    speeds = [(found[1], int(found[2])) for q in told if (found := re.search(r" (\w+) (?:\w+) at (\d+) miles", q))]
    assert {vehicle for vehicle, _ in speeds} >= {"car", "boat"}
    assert all(speed <= {"boat": 30, "tram": 40, "bus": 65, "truck": 65}.get(name, 80) for name, speed in speeds)
    assert "cyclist" not in {name for name, _ in speeds}


def test_nothing_is_sold_without_a_price(told):
    for question in told:
        if question.endswith("make?") and "profit" not in question:
            assert all("$" in text for text in sentences(question) if "sells" in text), question
