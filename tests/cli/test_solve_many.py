"""`dbtm solve` on a file of many puzzles, and with several tries."""

import json

PUZZLES = [
    "530070000600195000098000060800060003400803001700020006060000280000419005000080079",
    "850002400720000009004000000000107002305000900040000000000080070017000000000036040",
]


def test_a_line_per_puzzle(command, tmp_path):
    (tmp_path / "many.txt").write_text("puzzle\n" + "\n".join(PUZZLES) + "\n")
    code, out, err = command("solve", tmp_path / "many.txt", "--nfe", 4, "--tries", 2)
    lines = out.splitlines()
    assert len(lines) == 2
    assert lines[0] == "534678912672195348198342567859761423426853791713924856961537284287419635345286179  solved"
    assert f"{sum('solved' in line for line in lines)} of 2 solved" in err
    assert code == (0 if all("  solved" in line for line in lines) else 1)


def test_as_json(command, tmp_path):
    (tmp_path / "many.csv").write_text("".join(f"{p},x\n" for p in PUZZLES[:1] * 2))
    code, out, _ = command("solve", tmp_path / "many.csv", "--json")
    found = [json.loads(line) for line in out.splitlines()]
    assert code == 0
    assert [each["puzzle"] for each in found] == PUZZLES[:1] * 2
    assert all(each["solved"] and each["violation"] is None and each["tries"] == 1 for each in found)


def test_a_bad_puzzle_is_named_by_its_number(command, tmp_path):
    (tmp_path / "many.txt").write_text(f"{PUZZLES[0]}\n{'5' + PUZZLES[0][:-1]}\n")
    code, _, err = command("solve", tmp_path / "many.txt")
    assert (code, "puzzle 2: " in err) == (2, True)


def test_a_wrong_answer_comes_without_advice_that_cannot_help(command, untrained):
    code, out, _ = command("solve", "--checkpoint", untrained, "--nfe", 1, "--tries", 2)
    assert (code, "2 of 2 tries" in out) == (1, True)
    assert "--seed" not in out
    code, out, _ = command("solve", "--checkpoint", untrained, "--nfe", 16)
    assert (code, "--nfe" in out) == (1, False)
