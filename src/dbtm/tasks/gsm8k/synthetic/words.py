"""Words of the synthetic problems."""


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


def _pairs(text: str) -> tuple[tuple[str, str], ...]:
    """`apple/apples pear/pears` as ((apple, apples), (pear, pears))."""
    return tuple((one, many) for one, _, many in (word.partition("/") for word in text.split()))


_WOMEN = _words(
    "Anna Maria Sofia Emma Olivia Mia Lily Grace Chloe Zoe Nina Laura Carla Julia Helen Alice Rosa Ivy Ruth Wendy "
    "Tina Paula Diana Betty Hannah Leah Molly Nora Priya Mei Fatima Aisha Yuki Ingrid Lucia Elena Sara Clara Jane Kim"
)
_MEN = _words(
    "Tom Jack Ben Sam Max Leo Paul Mark Luke Adam Omar Ivan Carlos Diego Hugo Felix Oscar Peter Simon Victor "
    "James Henry Frank George Kevin Brian Eric Dan Tim Joe Ravi Kenji Wei Ali Jamal Marco Pedro Stefan Noah Ethan"
)
PEOPLE = (*((name, "she", "her") for name in _WOMEN), *((name, "he", "his") for name in _MEN))
"""(name, pronoun, possessive)"""

THINGS = _pairs(
    "apple/apples orange/oranges pear/pears peach/peaches mango/mangoes lemon/lemons cookie/cookies cupcake/cupcakes "
    "muffin/muffins candy/candies balloon/balloons marble/marbles sticker/stickers card/cards stamp/stamps coin/coins "
    "shell/shells button/buttons bead/beads pencil/pencils pen/pens crayon/crayons notebook/notebooks book/books "
    "magazine/magazines toy/toys puzzle/puzzles ball/balls bottle/bottles cup/cups plate/plates flower/flowers "
    "rose/roses tulip/tulips seed/seeds egg/eggs brick/bricks tile/tiles candle/candles ribbon/ribbons ticket/tickets "
    "photo/photos key/keys lamp/lamps shirt/shirts hat/hats scarf/scarves sandwich/sandwiches pie/pies bagel/bagels"
)
"""(one, many)"""
MADE = _pairs(
    "cookie/cookies cupcake/cupcakes muffin/muffins pie/pies bagel/bagels sandwich/sandwiches candle/candles "
    "scarf/scarves hat/hats toy/toys lamp/lamps basket/baskets bracelet/bracelets necklace/necklaces vase/vases "
    "puppet/puppets"
)
BOXES = _pairs("box/boxes bag/bags crate/crates jar/jars pack/packs drawer/drawers")
SHELVES = _pairs("shelf/shelves desk/desks table/tables tray/trays bench/benches")
GROUPS = _pairs("school/students club/members camp/campers company/workers choir/singers hospital/nurses")
RUNNERS = (
    ("car", "drives", 80),
    ("train", "travels", 80),
    ("bus", "travels", 65),
    ("truck", "drives", 65),
    ("tram", "runs", 40),
    ("boat", "sails", 30),
)
"""(vehicle, what it does, most miles per hour)"""
BIRDS = _words("chickens ducks geese turkeys")
CATTLE = _words("cows sheep goats horses pigs")
FRIENDS = _words("friends cousins classmates neighbors children teammates")
GOALS = _words("bicycle phone guitar camera laptop skateboard telescope drum tent")
FOODS = _words("flour sugar rice milk oats butter")
DAYS = _words("Monday Tuesday Wednesday Thursday Friday Saturday Sunday")
NUMBERS = _words("zero one two three four five six seven eight nine ten eleven twelve")
SHOPS = ("the store", "the market", "a shop", "the mall", "a fair", "a bazaar")
JOBS = ("babysitting", "tutoring", "mowing lawns", "washing cars", "walking dogs", "painting fences", "cleaning")
HOBBIES = ("play chess", "dance", "swim", "play the piano", "speak French", "ride a bike", "wear glasses", "like pizza")
DISHES = ("pancakes", "a cake", "soup", "bread", "cookies", "a pudding")
TIMES = {2: "twice", 3: "three times", 4: "four times", 5: "five times", 6: "six times"}
PARTS = {2: "half", 3: "a third", 4: "a quarter", 5: "a fifth"}
