"""The table of docs/board.md beside other pages: a test shows each row that this page claims."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
SHOWING, PAGE, LINKS = "browser/test_showing_page.py", "browser/test_page.py", "unit/test_viewers.py"
ROWS = {
    "presets and free ends of time, in the address": {
        PAGE: ["test_the_charts_and_a_link_keep_the_selected_time"],
        SHOWING: ["test_a_stretch_of_time_and_the_one_before_are_in_the_address"],
    },
    "the period before": {
        SHOWING: [
            "test_a_stretch_of_time_and_the_one_before_are_in_the_address",
            "test_changes_offers_only_windows_that_exist",
        ],
    },
    "data out of a panel": {
        PAGE: ["test_csv_has_the_visible_table"],
        SHOWING: ["test_what_is_seen_is_saved_with_its_levels", "test_a_chart_is_a_picture_of_its_own"],
    },
    "light, dark and system": {SHOWING: ["test_the_theme_is_remembered"]},
    "keys with a sheet": {SHOWING: ["test_keys_move_and_search_and_can_be_turned_off"]},
    "empty states that say what to do next": {
        PAGE: ["test_the_page_explains_the_wait_before_the_first_report"],
        SHOWING: ["test_a_small_crowd_has_a_sentence_in_place_of_numbers"],
    },
    "annotations": {
        SHOWING: ["test_notes_are_numbered_lines_of_the_charts_and_of_their_pictures"],
        "unit/test_annotations.py": ["test_a_version_says_which_settings_are_new"],
    },
    "a public link without rights to more": {LINKS: []},
    "errors, proofs and withheld windows": {
        PAGE: ["test_the_page_shows_the_numbers_of_the_api"],
        "browser/test_small_crowds.py": [],
    },
}
"""The tests of each row, by the files of `tests`. An empty list stands for all tests of a file."""


def table():
    """Return the rows of the table, each with what this page has."""
    page = (ROOT / "docs" / "board.md").read_text(encoding="utf-8")
    section = page.partition("### Beside other pages\n")[2].partition("\n#")[0]
    rows = re.findall(r"^\| ([^|]+) \| [^|]+ \| ([^|]+) \|$", section, re.MULTILINE)
    return {name: text for name, text in rows if name.strip()}


def test_each_row_of_the_table_has_its_tests():
    assert list(table()) == list(ROWS)
    assert not [name for name, text in table().items() if text in ("no", "alerts only")]
    for files in ROWS.values():
        for name, tests in files.items():
            tree = ast.parse((ROOT / "tests" / name).read_text(encoding="utf-8"))
            functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
            assert {*tests} <= functions
            assert any(function.startswith("test_") for function in functions)
