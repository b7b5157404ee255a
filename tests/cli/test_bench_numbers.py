from dbtm.cli.bench import number


def test_large_numbers_have_no_exponent():
    assert [number(x) for x in (1780.4, 12345678.0, 999.6, 0.01234, 1.5)] == [
        "1,780",
        "12,345,678",
        "1,000",
        "0.0123",
        "1.5",
    ]
