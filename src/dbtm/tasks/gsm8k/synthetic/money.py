"""Scenes of the synthetic problems about money: shopping, wages, savings, selling."""

from dbtm.tasks.gsm8k.synthetic import words
from dbtm.tasks.gsm8k.synthetic.story import Story


def shopping(s: Story) -> None:
    """One to three kinds of things, a discount, and the change."""
    who, things = s.people(1)[0], s.things(s.pick((1, 2, 2, 3)))
    shop = s.pick(words.SHOPS)
    parts, costs = [], []
    for one, many in things:
        count, price = s.let(many, s.between(2, 12)), s.let(f"{one} price", s.between(2, 25))
        parts.append(f"{s.number(count.value)} {many} for ${price.value} each")
        costs.append(s.set(f"{many} cost", count.times(price)))
    listed = parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
    s.say(
        f"{who.name} buys {listed} at {shop}.",
        f"At {shop}, {who.name} bought {listed}.",
        f"{who.name} went to {shop} and got {listed}.",
    )
    total = costs[0]
    for cost in costs[1:]:
        total = total.plus(cost)
    if len(costs) > 1:
        total = s.set("total cost", total)
    if len(costs) < 3 and s.chance(0.35):
        off = s.let("coupon", s.between(1, min(10, total.value - 1)))
        s.say(f"{who.he} has a coupon for ${off.value} off.", f"The cashier takes ${off.value} off the bill.")
        total = s.set("final cost", total.minus(off))
    elif total.value % 10 == 0 and s.chance(0.6):
        percent = s.let("discount percent", s.pick((10, 20, 30, 40, 50)))
        s.say(f"{who.he} gets a {percent.value}% discount.", f"The cashier takes {percent.value}% off the bill.")
        saved = s.set("discount", total.times(percent).over(100))
        total = s.set("final cost", total.minus(saved))
    if s.chance(0.45):
        paid = s.let("paid", next(note for note in (20, 50, 100, 200, 500, 1000, 2000) if note > total.value))
        s.say(f"{who.he} pays with {s.dollars(paid.value)}.", f"{who.name} hands over {s.dollars(paid.value)}.")
        s.say(f"How much change does {who.he} get?", f"How many dollars does {who.name} get back?")
        s.answer(paid.minus(total))
        return
    s.say(
        f"How much does {who.name} pay in total?",
        f"How much money did {who.he} spend?",
        "How much is the bill in the end?",
    )
    s.answer(total)


def wages(s: Story) -> None:
    """Hours, days and weeks at an hourly wage, less what is spent."""
    who, job = s.people(1)[0], s.pick(words.JOBS)
    wage, hours = s.let("hourly wage", s.between(5, 30)), s.let("hours per day", s.between(2, 9))
    s.say(
        f"{who.name} earns ${wage.value} an hour for {job}.", f"For {job}, {who.name} is paid ${wage.value} per hour."
    )
    daily = s.set("daily pay", wage.times(hours))
    days = s.let("days", s.between(2, 7))
    s.say(
        f"{who.he} works {s.number(hours.value)} hours a day, {s.number(days.value)} days a week.",
        f"Each week {who.he} works {s.number(days.value)} days, {s.number(hours.value)} hours every day.",
    )
    pay = s.set("weekly pay", daily.times(days))
    period = "a week"
    if s.chance(0.5):
        weeks = s.let("weeks", s.between(2, 10))
        pay, period = s.set("total pay", pay.times(weeks)), f"{s.number(weeks.value)} weeks"
    if s.chance(0.45):
        spent = s.let("spent", s.between(10, pay.value - 1))
        s.say(
            f"In {period}, {who.he} spends {s.dollars(spent.value)} on food.",
            f"{who.he} pays {s.dollars(spent.value)} for rent in {period}.",
        )
        s.say(f"How much money does {who.name} have left after {period}?", f"How much is left after {period}?")
        s.answer(pay.minus(spent))
        return
    s.say(f"How much does {who.name} earn in {period}?", f"How many dollars does {who.he} make in {period}?")
    s.answer(pay)


def saving(s: Story) -> None:
    """How long until there is enough for something?"""
    who, goal = s.people(1)[0], s.pick(words.GOALS)
    per_week, weeks = s.between(5, 40), s.between(3, 25)
    start = s.between(10, 150)
    cost = s.let(f"{goal} cost", start + per_week * weeks)
    s.say(
        f"{who.name} wants to buy a {goal} that costs {s.dollars(cost.value)}.",
        f"A {goal} costs {s.dollars(cost.value)}, and {who.name} wants one.",
    )
    has = s.let("saved", start)
    s.say(f"{who.he} already has ${has.value}.", f"So far {who.he} has saved ${has.value}.")
    needed = s.set("needed", cost.minus(has))
    if s.chance(0.3) and needed.value > per_week * 2:
        gift = s.let("gift", per_week)
        s.say(f"{who.name}'s grandparents add ${gift.value}.", f"For {who.his} birthday, {who.he} gets ${gift.value}.")
        needed = s.set("still needed", needed.minus(gift))
    if s.chance(0.3):
        s.say(f"How much more money does {who.name} need?", "How many dollars are still missing?")
        s.answer(needed)
        return
    weekly = s.let("saved per week", per_week)
    s.say(f"{who.he} saves ${weekly.value} every week.", f"Each week {who.he} puts ${weekly.value} aside.")
    s.say(
        f"How many weeks does it take until {who.he} can buy the {goal}?",
        f"After how many weeks does {who.name} have enough?",
    )
    s.answer(needed.over(weekly))


def selling(s: Story) -> None:
    """Things made at a cost and sold at a price: revenue or profit."""
    who, (one, many) = s.people(1)[0], s.pick(words.MADE)
    made, days = s.let(f"{many} per day", s.between(4, 40)), s.let("days", s.between(2, 10))
    s.say(
        f"{who.name} makes {s.number(made.value)} {many} a day.",
        f"Every day, {who.name} makes {s.number(made.value)} {many}.",
    )
    s.say(
        f"{who.he} does this for {s.number(days.value)} days.",
        f"{who.he} keeps this up for {s.number(days.value)} days.",
    )
    total = s.set(f"total {many}", made.times(days))
    everything = f"All the {many} are", f"every {one}"
    if s.chance(0.4):
        everything = "The rest are", f"every remaining {one}"
        kept = s.let("kept", s.between(2, total.value - 2))
        s.say(
            f"{who.he} keeps {s.number(kept.value)} of the {many}.",
            f"{s.number(kept.value)} of the {many} are given to {who.his} family.",
        )
        total = s.set(f"{many} to sell", total.minus(kept))
    price = s.let("price", s.between(3, 20))
    s.say(f"{everything[0]} sold for ${price.value} each.", f"{who.he} then sells {everything[1]} for ${price.value}.")
    revenue = s.set("revenue", total.times(price))
    if s.chance(0.5) and revenue.value > 20:
        cost = s.let("cost", s.between(5, revenue.value - 1))
        s.say(f"The materials cost {s.dollars(cost.value)}.", f"{who.he} spent {s.dollars(cost.value)} on materials.")
        s.say(f"How much profit does {who.name} make?", f"What is {who.name}'s profit?")
        s.answer(revenue.minus(cost))
        return
    s.say(f"How much money does {who.name} take in?", f"How many dollars does {who.he} get for them?")
    s.answer(revenue)


SCENES = (shopping, shopping, wages, saving, selling)
