"""Folders of a kind are found below the named ones, within depth and number, and links are not followed."""

from dbtm.service.finding import find_folders


def is_one(folder):
    return (folder / "mark").is_file()


def make(folder):
    folder.mkdir(parents=True)
    (folder / "mark").touch()


def test_folders_are_named_by_their_place(tmp_path):
    for name in ("one/a", "one/b/c/d", "two/a", "one/.hidden", "one/b/c/e/too-deep", "one/a/inside-another"):
        make(tmp_path / name)
    (tmp_path / "one" / "link").symlink_to(tmp_path / "two", target_is_directory=True)
    names = find_folders([tmp_path / "one", tmp_path / "two", tmp_path / "two" / "a"], is_one, 10)
    want = {"a": "one/a", "b/c/d": "one/b/c/d", "a'": "two/a"}
    assert names == {name: tmp_path / place for name, place in want.items()}


def test_the_most_holds_over_all_places(tmp_path):
    for name in ("one/a", "one/b", "two/c", "three/d"):
        make(tmp_path / name)
    assert len(find_folders([tmp_path / name for name in ("one", "two", "three")], is_one, 3)) == 3
