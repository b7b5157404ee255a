from dbtm.bench.backbones import BackboneTiming, summary
from dbtm.cli.bench_backbone import _table
from dbtm.cli.common import number


def test_large_numbers_have_no_exponent():
    assert [number(x) for x in (1780.4, 12345678.0, 999.6, 0.01234, 1.5)] == [
        "1,780",
        "12,345,678",
        "1,000",
        "0.0123",
        "1.5",
    ]


def test_the_table_of_backbones_has_none_either():
    rows = [BackboneTiming("attention", length, 1780.4 * length) for length in (1, 2)]
    table = _table(rows, summary(rows), "forward_ms", "forward")
    column = next(c for c in table.columns if c.header == "attention")
    assert list(column.cells)[:2] == ["1,780 ms", "3,561 ms"]
