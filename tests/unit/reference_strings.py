"""A client of unknown strings in plain Python, written from docs/wire-format.md alone.

It needs SHA-256 and Unicode's normal form C, and shares only that page with the package. If both produce the same
bytes, the page is right.
"""

import hashlib
import json
import unicodedata

from tests.unit import reference_client as reference

MAPS = 4


class Strings:
    """The strings of a query, by its canonical JSON."""

    def __init__(self, canonical):
        self.definition = json.loads(canonical)
        self.digest = hashlib.sha256(canonical.encode()).digest()[:8]
        domain = self.definition["domain"]
        self.length, self.bits, self.normal = domain["length"], domain["cells"], domain["normal"]
        self.alphabet = domain.get("alphabet")
        self.size = 255 if self.alphabet is None else len(self.alphabet)
        self.chunks = [min(self.length, self.most(1 << self.bits))]
        while sum(self.chunks) < self.length:
            self.chunks.append(min(self.most(2048), self.length - sum(self.chunks)))
        self.levels = len(self.chunks)
        self.slots = 5 * self.levels + 3 * MAPS

    def most(self, limit):
        symbols = 1
        while (self.size + 1) ** (symbols + 1) <= limit:
            symbols += 1
        return symbols

    def symbols(self, text):
        if self.normal != "none":
            text = unicodedata.normalize("NFC", text)
        if self.normal == "NFC lower":
            text = "".join(symbol.lower() if "A" <= symbol <= "Z" else symbol for symbol in text)
        if self.alphabet is None:
            codes = [byte or 255 for byte in text.encode()]
        else:
            codes = [self.alphabet.find(symbol) + 1 or self.size for symbol in text]
        return (codes + [0] * self.length)[: self.length]

    def name(self, text):
        codes = [code for code in self.symbols(text) if code]
        if self.alphabet is None:
            name = bytes(codes).decode(errors="replace")
        else:
            name = "".join(self.alphabet[code - 1] for code in codes)
        return name + "\u2026" * (len(codes) == self.length)

    def numbers(self, text):
        codes = self.symbols(text)
        numbers = []
        for count in self.chunks:
            number = 0
            for _ in range(count):
                number = number * (self.size + 1) + codes.pop(0)
            numbers.append(number)
        return numbers

    def cell(self, text, part):
        """Return the cell of a level, or of a map as part L + map."""
        cell = 0
        for i, number in enumerate(self.numbers(text)[: part + 1]):
            block = self.digest + i.to_bytes(2, "little") + number.to_bytes(4, "little") + bytes([part // 8])
            word = hashlib.sha256(block).digest()[4 * (part % 8) :][:4]
            cell ^= int.from_bytes(word, "little") % (1 << self.bits)
        return cell

    def part(self, stream):
        slot = stream.below(self.slots)
        return slot // 5 if slot < 5 * self.levels else self.levels + (slot - 5 * self.levels) // 3

    def report(self, text, stream):
        """Return the report that these random bytes make."""
        part = self.part(stream)
        return self.answer(text, part, stream, stream, stream)

    def keyed(self, text, key, mode, start):
        """Return the report of a device with a key in a round, or its fresh answer of that number."""
        part = self.part(reference.Keyed(key, self.digest, 0, mode, 0, start, ()))
        rows = reference.Keyed(key, self.digest, part, mode, 1, start, ())
        table = reference.Keyed(key, self.digest, part, mode, 2, start, (-1,))

        def of_class(answer_class):
            return reference.Keyed(key, self.digest, part, mode, 2, start, (answer_class,))

        return self.answer(text, part, rows, table, of_class)

    def answer(self, text, part, rows, table, answer):
        name = self.definition["oracle"]
        epsilon = self.definition["epsilon"]
        about = reference.parameters(name, epsilon, 1 << self.bits)
        cell = self.cell(text, part)
        own_rows = reference.words(name, about, rows)
        answer_class = reference.hashed(name, about, own_rows, cell)
        if "table" in self.definition:
            g = 1 << about["l"]
            points = self.definition["table"]
            law = reference.integers_of_table(g, points, epsilon)
            bucket = reference.draw_table(g, points, *law, table)[answer_class]
            integer = bucket | sum(row << (about["l"] + j * about["k"]) for j, row in enumerate(own_rows))
        else:
            stream = answer(answer_class) if callable(answer) else answer
            integer = reference.bucketed(about, own_rows, answer_class, stream)
        return part.to_bytes(2, "little") + integer.to_bytes(about["width"], "little")
