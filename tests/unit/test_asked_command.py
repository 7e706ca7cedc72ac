"""`hubbub asked`: the way of a list from a query file to two signatures."""

import json
import re

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from hubbub.__main__ import main
from tests.asked import KEYS, PEOPLE
from tests.queries import make_text

TEXTS = {"about": "How often a person saved", "purpose": "Judge a button", "contact": "privacy@example.org"}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with a query file, the keys of two people, and a place for lists."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "asked").mkdir()
    write_queries(tmp_path)
    for name, key in zip(("ann", "ben"), PEOPLE, strict=False):
        (tmp_path / f"{name}.pem").write_bytes(pem(key))
    return tmp_path


def write_queries(folder, **keys):
    table = {"domain": ["never", "once"], "until": "UNTIL", **TEXTS, **keys}
    (folder / "hubbub.toml").write_text(make_text("saves", **table).replace('"UNTIL"', "2099-01-01"))


def pem(key):
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def new(number, *more):
    before = ["--previous", f"asked/{number - 1}.json"] if number > 1 else []
    names = ["--application", "Example Notes", "--expires", "2098-01-01", "--output", f"asked/{number}.json"]
    return main(["asked", "new", *names, *before, *more])


def test_the_way_of_a_list(folder, capsys):
    assert new(1) == 0
    printed = capsys.readouterr().out
    assert "saves is new. What: How often a person saved" in printed
    assert "next: hubbub asked sign asked/1.json" in printed

    verify = ["asked", "verify", "asked", "--keys", ",".join(KEYS[:2]), "--threshold", "2"]
    assert main(verify) == 1
    assert "signed by 0 of 2 known keys, and needs 2" in capsys.readouterr().err
    assert main(["asked", "sign", "asked/1.json", "--key", "ann.pem"]) == 0
    assert f"list 1 has the signature of key {KEYS[0]}" in capsys.readouterr().out
    assert main(verify) == 1
    assert main(["asked", "sign", "asked/1.json", "--key", "ben.pem"]) == 0
    capsys.readouterr()
    assert main(verify) == 0
    assert "1 lists of Example Notes; list 1 is signed by 2 of 2 keys" in capsys.readouterr().out

    write_queries(folder, epsilon=2.0, budget=8.0)
    assert new(2) == 0
    assert "saves changes: budget was 4.0, is 8.0; " in capsys.readouterr().out
    assert main(["asked", "sign", "asked/2.json", "--key", "ann.pem"]) == 0
    assert main(verify) == 1
    assert "list 2 is signed by 1 of 2" in capsys.readouterr().err


def test_a_query_without_its_texts_is_refused_and_nothing_is_written(folder, capsys):
    (folder / "hubbub.toml").write_text(make_text("saves", domain=["never", "once"]))
    assert new(1) == 2
    assert "query saves: a list needs about, purpose, contact, until" in capsys.readouterr().err
    assert not [*(folder / "asked").iterdir()]


def test_a_list_is_never_overwritten(folder, capsys):
    assert new(1) == 0
    before = (folder / "asked" / "1.json").read_bytes()
    assert new(1) == 2
    assert "a list never changes, so choose the next number" in capsys.readouterr().err
    assert (folder / "asked" / "1.json").read_bytes() == before


def test_only_a_key_of_ed25519_signs_and_its_file_is_never_quoted(folder, capsys):
    assert new(1) == 0
    (folder / "rsa.pem").write_bytes(pem(generate_private_key(65_537, 2048)))
    (folder / "text.pem").write_text("secret words")

    assert main(["asked", "sign", "asked/1.json", "--key", "rsa.pem"]) == 2
    assert "is not of Ed25519; make one with: openssl genpkey" in capsys.readouterr().err
    assert main(["asked", "sign", "asked/1.json", "--key", "text.pem"]) == 2
    assert "secret" not in capsys.readouterr().err
    assert main(["asked", "sign", "asked/1.json", "--key", "none.pem"]) == 2
    assert "none.pem cannot be read" in capsys.readouterr().err
    assert main(["asked", "sign", "asked/1.json", "--key", "ann.pem"]) == 0
    assert main(["asked", "sign", "asked/1.json", "--key", "ann.pem"]) == 1


def test_a_changed_byte_is_the_first_fault(folder, capsys):
    assert new(1) == 0
    path = folder / "asked" / "1.json"
    path.write_bytes(path.read_bytes().replace(b"Judge a button", b"Judge a person"))
    assert main(["asked", "verify", "asked", "--keys", KEYS[0]]) == 1
    assert "asked/1.json: not a list of what is asked: saves: the document does not have" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["verify", "asked", "--keys", "ab"], "a public key must have 64 hexadecimal digits"),
        (["verify", "asked", "--keys", KEYS[0], "--threshold", "2"], "threshold must be from 1 to 1"),
        (["verify", "away", "--keys", KEYS[0]], "away cannot be read"),
    ],
)
def test_a_wrong_option_says_what_is_right(folder, capsys, arguments, words):
    assert new(1) == 0
    assert main(["asked", *arguments]) in (1, 2)
    assert words in capsys.readouterr().err


def test_check_finds_a_query_that_no_device_would_answer(folder, capsys):
    assert new(1) == 0
    capsys.readouterr()
    check = ["check", "hubbub.toml", "--asked", "asked"]
    assert main(check) == 0
    assert re.search(r"asked +list 1 of Example Notes ends in [0-9,]+ days", capsys.readouterr().out)

    write_queries(folder, budget=8.0)
    assert main(check) == 1
    error = capsys.readouterr().err
    assert "saves: list 1 has another definition of it, so devices that check lists are silent" in error
    (folder / "hubbub.toml").write_text(make_text("other", domain=["yes", "no"]))
    assert main(check) == 1
    assert "other: list 1 does not have it" in capsys.readouterr().err
    assert main([*check, "--format", "json"]) == 1
    assert json.loads(capsys.readouterr().out)["asked"][0].startswith("list 1 of Example Notes ends in")


def test_check_needs_lists_that_follow_each_other(folder, capsys):
    assert main(["check", "hubbub.toml", "--asked", "asked"]) == 1
    assert "asked has no list" in capsys.readouterr().err
