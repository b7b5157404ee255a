"""Scenes of the synthetic problems about time, distance, age, area, pages and averages."""

from itertools import pairwise

from dbtm.tasks.gsm8k.synthetic import words
from dbtm.tasks.gsm8k.synthetic.story import Quantity, Story


def travel(s: Story) -> None:
    """One or two legs at constant speed; the distance, the rest of it, or the fuel."""
    vehicle, moves, most = s.pick(words.RUNNERS)
    speed, hours = s.let("speed", 5 * s.between(2, most // 5)), s.let("hours", s.between(2, 8))
    s.say(
        f"A {vehicle} {moves} at {speed.value} miles per hour for {s.number(hours.value)} hours.",
        f"For {s.number(hours.value)} hours, a {vehicle} {moves} at {speed.value} miles per hour.",
    )
    distance = s.set("distance", speed.times(hours))
    if s.chance(0.5):
        faster, longer = s.let("second speed", 5 * s.between(2, most // 5)), s.let("second hours", s.between(2, 6))
        s.say(
            f"Then it {moves} for {s.number(longer.value)} more hours at {faster.value} miles per hour.",
            f"After a break it {moves} at {faster.value} miles per hour for another {s.number(longer.value)} hours.",
        )
        second = s.set("second distance", faster.times(longer))
        distance = s.set("total distance", distance.plus(second))
    if s.chance(0.4):
        trip = s.let("trip", distance.value + s.between(5, 200))
        s.say(
            f"The whole trip is {s.number(trip.value)} miles.",
            f"The destination was {s.number(trip.value)} miles from the start.",
        )
        s.say("How many miles are left?", f"How far does the {vehicle} still have to go?")
        s.answer(trip.minus(distance))
        return
    s.say("How many miles is that in all?", f"How far does the {vehicle} go?")
    s.answer(distance)


def ages(s: Story) -> None:
    """Ages by comparison, now and in some years."""
    people = s.people(s.pick((2, 2, 3)))
    years = [s.let(f"{people[0].name} age", s.between(4, 20))]
    s.say(f"{people[0].name} is {s.number(years[0].value)} years old.")
    for before, who in pairwise(people):
        last, name = years[-1], f"{who.name} age"
        if s.chance(0.4) and last.value <= 15:
            factor = s.pick((2, 3, 4))
            s.say(f"{who.name} is {words.TIMES[factor]} as old as {before.name}.")
            years.append(s.set(name, last.times(factor)))
        elif s.chance(0.4) and last.value > 4:
            less = s.between(2, last.value - 2)
            s.say(f"{who.name} is {s.number(less)} years younger than {before.name}.")
            years.append(s.set(name, last.minus(less)))
        else:
            more = s.between(2, 30)
            s.say(f"{who.name} is {s.number(more)} years older than {before.name}.")
            years.append(s.set(name, last.plus(more)))
    asked = s.pick(("sum", "later", "last"))
    if asked == "sum":
        s.say("What is the sum of their ages?", "How old are they together?")
        total = years[0]
        for each in years[1:]:
            total = total.plus(each)
        s.answer(total)
    elif asked == "later":
        passed = s.between(2, 20)
        s.say(f"How old will {people[-1].name} be in {s.number(passed)} years?")
        s.answer(years[-1].plus(passed))
    else:
        s.say(f"How old is {people[-1].name}?")
        s.answer(years[-1])


def rectangle(s: Story) -> None:
    """Area or perimeter, and the cost of covering or fencing it."""
    around = s.chance(0.5)
    place = s.pick(("garden", "field", "lawn", "park") if around else ("floor", "wall", "room", "roof"))
    unit, units = s.pick((("foot", "feet"), ("meter", "meters"), ("yard", "yards")))
    width = s.let("width", s.between(3, 30))
    s.say(
        f"A rectangular {place} is {s.number(width.value)} {units} wide.",
        f"The width of a {place} is {s.number(width.value)} {units}.",
    )
    if s.chance(0.4):
        factor = s.pick((2, 3))
        s.say(f"It is {words.TIMES[factor]} as long as it is wide.", f"Its length is {words.TIMES[factor]} its width.")
        length = s.set("length", width.times(factor))
    else:
        more = s.between(2, 20)
        if s.chance(0.5):
            s.say(f"Its length is {s.number(more)} {units} more than its width.")
            length = s.set("length", width.plus(more))
        else:
            length = s.let("length", width.value + more)
            s.say(
                f"It is {s.number(length.value)} {units} long.",
                f"The {place} is {s.number(length.value)} {units} long.",
            )
    size = s.set("perimeter", length.plus(width).times(2)) if around else s.set("area", length.times(width))
    if s.chance(0.5):
        price = s.let("price", s.between(2, 15))
        what = f"a fence for ${price.value} per {unit}" if around else f"new paint for ${price.value} per square {unit}"
        s.say(f"Its owner buys {what}.", f"It gets {what}.")
        s.say(f"How much does the {'fence' if around else 'paint'} cost?", "How much money is spent?")
        s.answer(size.times(price))
        return
    s.say(
        f"What is its {'perimeter' if around else 'area'}?",
        f"Find the {'perimeter' if around else 'area'} of the {place}.",
    )
    s.answer(size)


def reading(s: Story) -> None:
    """Pages read and left, and the days that the rest takes."""
    who = s.people(1)[0]
    per_day, days = s.between(5, 30), s.between(2, 10)
    rest_days, rest_per_day = s.between(2, 10), s.between(5, 30)
    pages = s.let("pages", per_day * days + rest_days * rest_per_day)
    s.say(
        f"{who.name} is reading a book with {s.number(pages.value)} pages.",
        f"{who.name}'s book has {s.number(pages.value)} pages.",
    )
    daily, first = s.let("pages per day", per_day), s.let("days", days)
    s.say(
        f"{who.he} reads {s.number(per_day)} pages a day for {s.number(days)} days.",
        f"For the first {s.number(days)} days, {who.he} reads {s.number(per_day)} pages each day.",
    )
    read = s.set("pages read", daily.times(first))
    left = s.set("pages left", pages.minus(read))
    if s.chance(0.35):
        s.say("How many pages are left?", f"How many pages does {who.he} still have to read?")
        s.answer(left)
    elif s.chance(0.5):
        later = s.let("remaining days", rest_days)
        s.say(
            f"{who.he} wants to finish in {s.number(rest_days)} more days.",
            f"The book is due in {s.number(rest_days)} more days.",
        )
        s.say(f"How many pages must {who.he} read each day?", f"How many pages a day does {who.name} have to read?")
        s.answer(left.over(later))
    else:
        faster = s.let("new pages per day", rest_per_day)
        s.say(f"After that, {who.he} reads {s.number(rest_per_day)} pages a day.")
        s.say(
            "How many more days does it take to finish the book?", f"How many days does {who.name} need for the rest?"
        )
        s.answer(left.over(faster))


def recipe(s: Story) -> None:
    """A recipe scaled to another number of people."""
    who, food, dish = s.people(1)[0], s.pick(words.FOODS), s.pick(words.DISHES)
    each, servings, factor = s.between(2, 9), s.between(2, 8), s.between(2, 9)
    cups, people = s.let("cups", each * servings), s.let("servings", servings)
    s.say(
        f"{who.name} needs {s.number(cups.value)} cups of {food} to make {dish} for {s.number(servings)} people.",
        f"To make {dish} for {s.number(servings)} people, {who.name} uses {s.number(cups.value)} cups of {food}.",
    )
    guests = s.let("guests", servings * factor)
    per_person = s.set("cups per person", cups.over(people))
    s.say(
        f"This time {who.he} cooks for {s.number(guests.value)} people.",
        f"This time there are {s.number(guests.value)} people to feed.",
    )
    needed = s.set("cups needed", per_person.times(guests))
    if s.chance(0.4):
        has = s.let("cups at home", s.between(2, needed.value - 1))
        s.say(
            f"{who.he} has {s.number(has.value)} cups of {food} at home.",
            f"There are {s.number(has.value)} cups of {food} in the kitchen.",
        )
        s.say(f"How many more cups of {food} does {who.he} need?", f"How many cups of {food} must {who.name} buy?")
        s.answer(needed.minus(has))
        return
    s.say(f"How many cups of {food} does {who.he} need?", f"How many cups of {food} is that?")
    s.answer(needed)


def average(s: Story) -> None:
    """The mean of three or four numbers."""
    who, what = s.people(1)[0], s.pick(("points", "miles", "pages", "dollars"))
    verb, base = {
        "points": ("scored", "score"),
        "miles": ("drove", "drive"),
        "pages": ("read", "read"),
        "dollars": ("spent", "spend"),
    }[what]
    count = s.pick((2, 3, 4))
    mean = s.between(12, 60)
    values = [mean + s.between(-9, 9) for _ in range(count - 1)]
    values.append(count * mean - sum(values))
    if values[-1] < 2:
        values = [mean] * count
    first = s.between(0, len(words.DAYS) - count)
    days = words.DAYS[first : first + count]
    given = [s.let(day, value) for day, value in zip(days, values)]
    parts = [f"{s.number(value)} {what} on {day}" for day, value in zip(days, values)]
    s.say(f"{who.name} {verb} {', '.join(parts[:-1])} and {parts[-1]}.")
    total: Quantity = given[0]
    for each in given[1:]:
        total = total.plus(each)
    if s.chance(0.3):
        s.say(f"How many {what} did {who.name} {base} in total?")
        s.answer(total)
        return
    total = s.set("total", total)
    s.say(f"What is the average number of {what} per day?", f"On average, how many {what} is that a day?")
    s.answer(total.over(count))


def farm(s: Story) -> None:
    """Animals, their legs or what they eat."""
    many, others = s.pick(words.BIRDS), s.pick(words.CATTLE)
    first, second = s.let(many, s.between(3, 40)), s.let(others, s.between(3, 40))
    s.say(
        f"A farm has {s.number(first.value)} {many} and {s.number(second.value)} {others}.",
        f"There are {s.number(first.value)} {many} and {s.number(second.value)} {others} on a farm.",
    )
    total = s.set("animals", first.plus(second))
    if s.chance(0.4):
        sold = s.let("sold", s.between(2, total.value - 2))
        s.say(f"{s.number(sold.value)} of the animals are sold.", f"The farmer sells {s.number(sold.value)} animals.")
        total = s.set("animals left", total.minus(sold))
    if s.chance(0.6):
        food, days = s.let("pounds per day", s.between(2, 9)), s.let("days", s.between(2, 14))
        s.say(
            f"Each animal eats {s.number(food.value)} pounds of food a day.",
            f"Every animal gets {s.number(food.value)} pounds of food per day.",
        )
        daily = s.set("daily food", total.times(food))
        s.say(
            f"How many pounds of food are needed for {s.number(days.value)} days?",
            f"How much food, in pounds, do they eat in {s.number(days.value)} days?",
        )
        s.answer(daily.times(days))
        return
    s.say("How many animals are there?", "How many animals does the farm have now?")
    s.answer(total)


SCENES = (travel, ages, rectangle, reading, recipe, average, farm)
