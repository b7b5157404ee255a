"""Scenes of the synthetic problems about counting things: what people have, share, pack and compare."""

from itertools import pairwise

from dbtm.tasks.gsm8k.synthetic import words
from dbtm.tasks.gsm8k.synthetic.story import Person, Quantity, Story


def holdings(s: Story) -> None:
    """Someone has things; they come and go; how many are there now, or what do they sell for?"""
    (who, friend), (one, many) = s.people(2), s.things(1)[0]
    if who.he == friend.he:  # 'she' would be ambiguous
        who = who._replace(he=who.name)
    have = s.let(many, s.between(20, 90))
    n = s.number(have.value)
    s.say(
        f"{who.name} has {n} {many}.", f"{who.name} collected {n} {many}.", f"There are {n} {many} in {who.name}'s bag."
    )
    for _ in range(s.pick((1, 1, 2, 2, 3))):
        have = s.pick((_gain, _gain, _lose, _lose, _part, _multiple))(s, who, friend, many, have)
    if s.chance(0.3) and have.value > 0:
        price = s.let("price", s.between(2, 9))
        s.say(
            f"{who.name} sells all of {who.his} {many} for {s.dollars(price.value)} each.",
            f"Then {who.name} sells every {one} for {s.dollars(price.value)}.",
        )
        s.say(f"How much money does {who.name} make?", f"How many dollars does {who.he} get for them?")
        s.answer(have.times(price))
        return
    s.say(
        f"How many {many} does {who.name} have now?",
        f"How many {many} does {who.he} have in the end?",
        f"With how many {many} does {who.name} end up?",
    )
    s.answer(have)


def _gain(s: Story, who: Person, friend: Person, many: str, have: Quantity) -> Quantity:
    more = s.let("more", s.between(3, 60))
    n = s.number(more.value)
    s.say(
        f"{friend.name} gives {who.name} {n} more {many}.",
        f"{who.he} buys {n} more {many}.",
        f"Then {who.name} finds {n} more {many}.",
        f"On {s.pick(words.DAYS)}, {who.he} gets another {n} {many}.",
    )
    return s.set(f"{many} after gain", have.plus(more))


def _lose(s: Story, who: Person, friend: Person, many: str, have: Quantity) -> Quantity:
    if have.value < 4:
        return _gain(s, who, friend, many, have)
    fewer = s.let("given away", s.between(2, have.value - 1))
    n = s.number(fewer.value)
    s.say(
        f"{who.he} gives {n} {many} to {friend.name}.",
        f"{who.name} loses {n} of the {many}.",
        f"{n} of the {many} are broken and {who.he} throws them away.",
        f"Later {who.name} hands out {n} {many} to {who.his} {s.pick(words.FRIENDS)}.",
    )
    return s.set(f"{many} left", have.minus(fewer))


def _part(s: Story, who: Person, friend: Person, many: str, have: Quantity) -> Quantity:
    whole = [parts for parts in words.PARTS if have.value % parts == 0 and have.value > parts]
    if not whole:
        return _gain(s, who, friend, many, have)
    parts = s.pick(whole)
    s.say(
        f"{who.he} gives {words.PARTS[parts]} of {who.his} {many} to {friend.name}.",
        f"{who.name} donates {words.PARTS[parts]} of {who.his} {many}.",
        f"Then {words.PARTS[parts]} of {who.name}'s {many} get lost.",
    )
    gone = s.set(f"{many} gone", have.over(parts))
    return s.set(f"{many} left", have.minus(gone))


def _multiple(s: Story, who: Person, friend: Person, many: str, have: Quantity) -> Quantity:
    if have.value > 300:
        return _lose(s, who, friend, many, have)
    if s.chance(0.5):
        s.say(
            f"By the next week, the number of {who.name}'s {many} doubles.",
            f"{who.he} works hard and doubles {who.his} {many}.",
        )
        return s.set(f"{many} doubled", have.times(2))
    s.say(
        f"By the next month, {who.he} has three times as many {many}.",
        f"After that, the number of {who.name}'s {many} triples.",
    )
    return s.set(f"{many} tripled", have.times(3))


def compare(s: Story) -> None:
    """Two to four people, each compared with the one before; the total, the difference, or the last one."""
    people, many = s.people(s.pick((2, 2, 3, 3, 4))), s.things(1)[0][1]
    verb = s.pick(("has", "picked", "bought", "sold", "counted"))
    have = [s.let(f"{people[0].name} {many}", 12 * s.between(1, 12))]
    s.say(f"{people[0].name} {verb} {s.number(have[0].value)} {many}.")
    for before, who in pairwise(people):
        last, name = have[-1], f"{who.name} {many}"
        way = s.pick(("more", "fewer", "times", "part"))
        if way == "fewer" and last.value > 3:
            less = s.between(2, last.value - 2)
            s.say(f"{who.name} {verb} {s.number(less)} fewer {many} than {before.name}.")
            have.append(s.set(name, last.minus(less)))
        elif way == "times" and last.value < 200:
            factor = s.pick(tuple(words.TIMES))
            s.say(f"{who.name} {verb} {words.TIMES[factor]} as many {many} as {before.name}.")
            have.append(s.set(name, last.times(factor)))
        elif way == "part" and (whole := [n for n in words.PARTS if last.value % n == 0 and last.value > n]):
            parts = s.pick(whole)
            s.say(f"{who.name} {verb} {words.PARTS[parts]} as many {many} as {before.name}.")
            have.append(s.set(name, last.over(parts)))
        else:
            more = s.between(2, 40)
            s.say(f"{who.name} {verb} {s.number(more)} more {many} than {before.name}.")
            have.append(s.set(name, last.plus(more)))
    first, last = have[0], have[-1]
    asked = s.pick(("total", "total", "difference", "last"))
    base = {"has": "have", "picked": "pick", "bought": "buy", "sold": "sell", "counted": "count"}[verb]
    do, does = ("do", "does") if verb == "has" else ("did", "did")
    if asked == "total":
        s.say(f"How many {many} {do} they {base} altogether?", f"How many {many} {do} they {base} in total?")
        total = first
        for each in have[1:]:
            total = total.plus(each)
        s.answer(total)
    elif asked == "difference" and first.value != last.value:
        more, less = (0, -1) if first.value > last.value else (-1, 0)
        s.say(f"How many more {many} {does} {people[more].name} {base} than {people[less].name}?")
        s.answer(have[more].minus(have[less]))
    else:
        s.say(f"How many {many} {does} {people[-1].name} {base}?")
        s.answer(last)


def packing(s: Story) -> None:
    """Boxes of things, some taken out or added, then shared or packed again."""
    who, (_, many) = s.people(1)[0], s.things(1)[0]
    (box, boxes), (shelf, shelves) = s.pick(words.BOXES), s.pick(words.SHELVES)
    count, each = s.let(boxes, s.between(2, 15)), s.let(f"{many} per {box}", s.between(3, 24))
    a, b = s.number(count.value), s.number(each.value)
    s.say(
        f"{who.name} has {a} {boxes} with {b} {many} in each {box}.",
        f"{who.name} counts {a} {boxes} of {many}, and each {box} holds {b} {many}.",
        f"Each {box} contains {b} {many}, and {who.name} has {a} {boxes}.",
    )
    total = s.set(f"total {many}", count.times(each))
    if s.chance(0.5) and total.value > 10:
        bad = s.let("damaged", s.between(2, total.value // 2))
        s.say(
            f"{s.number(bad.value)} of the {many} are damaged and thrown away.",
            f"{s.number(bad.value)} {many} go missing.",
        )
        total = s.set(f"{many} left", total.minus(bad))
    if s.chance(0.4):
        loose = s.let("loose", s.between(2, 40))
        s.say(
            f"{who.he} also has {s.number(loose.value)} loose {many}.",
            f"{who.name} adds {s.number(loose.value)} single {many}.",
        )
        total = s.set(f"all {many}", total.plus(loose))
    fits = [n for n in range(2, 16) if total.value % n == 0]
    if fits and s.chance(0.6):
        groups = s.let(shelves, s.pick(fits))
        n = s.number(groups.value)
        s.say(
            f"All the {many} are divided equally among {n} {shelves}.",
            f"{who.he} puts the same number on each of {n} {shelves}.",
        )
        s.say(f"How many {many} are on each {shelf}?", f"How many {many} does each {shelf} get?")
        s.answer(total.over(groups))
        return
    s.say(f"How many {many} are there in the end?", f"How many {many} does {who.name} have now?")
    s.answer(total)


def sharing(s: Story) -> None:
    """Several piles, put together and shared among friends."""
    who, (_, many), friends = s.people(1)[0], s.things(1)[0], s.pick(words.FRIENDS)
    share, heads = s.between(3, 15), s.between(3, 12)
    piles = s.pick((1, 2, 2, 3))
    whole = share * heads
    sizes = [whole // (piles + 1)] * (piles - 1)
    sizes.append(whole - sum(sizes))
    colors = ["red", "blue", "green"]
    given = [s.let(f"{color} {many}" if piles > 1 else many, size) for color, size in zip(colors, sizes)]
    listed = [
        f"{s.number(q.value)} {color} {many}" if piles > 1 else f"{s.number(q.value)} {many}"
        for color, q in zip(colors, given)
    ]
    text = " and ".join([", ".join(listed[:-1]), listed[-1]]) if piles > 1 else listed[0]
    s.say(f"{who.name} has {text}.", f"{who.name} brought {text}.")
    total = given[0]
    for pile in given[1:]:
        total = total.plus(pile)
    if piles > 1:
        total = s.set(f"total {many}", total)
    n = s.number(heads)
    people = s.let(friends, heads)
    s.say(f"{who.he} shares them equally among {n} {friends}.", f"{n} {friends} split them equally.")
    s.say(f"How many {many} does each of the {friends} get?", f"How many {many} are there for each one?")
    s.answer(total.over(people))


def crowd(s: Story) -> None:
    """A group, a share of it, and the rest."""
    place, members = s.pick(words.GROUPS)
    first, second = s.pick(words.HOBBIES), s.pick(words.HOBBIES)
    whole = s.let(members, 60 * s.between(1, 12))
    s.say(
        f"A {place} has {s.number(whole.value)} {members}.",
        f"There are {s.number(whole.value)} {members} in a {place}.",
    )
    if s.chance(0.5):
        percent = s.let("percent", s.pick((5, 10, 20, 25, 30, 40, 50, 60, 75)))
        s.say(f"{percent.value}% of the {members} {first}.", f"Of the {members}, {percent.value}% {first}.")
        share = s.set("first group", whole.times(percent).over(100))
    else:
        parts = s.pick(tuple(words.PARTS))
        s.say(f"{words.PARTS[parts]} of the {members} {first}.", f"Of them, {words.PARTS[parts]} {first}.")
        share = s.set("first group", whole.over(parts))
    rest = s.set("rest", whole.minus(share))
    fits = [parts for parts in words.PARTS if rest.value % parts == 0]
    if second != first and fits and s.chance(0.6):
        parts = s.pick(fits)
        s.say(f"{words.PARTS[parts]} of the others {second}.", f"Of the rest, {words.PARTS[parts]} {second}.")
        chosen = s.set("second group", rest.over(parts))
        if s.chance(0.5):
            s.say(f"How many {members} {second} but do not {first}?")
            s.answer(chosen)
        else:
            s.say(f"How many of the {members} do neither?", f"How many {members} do neither?")
            s.answer(rest.minus(chosen))
        return
    s.say(f"How many {members} do not {first}?", f"How many of the {members} do not {first}?")
    s.answer(rest)


SCENES = (holdings, holdings, compare, compare, packing, sharing, crowd)
