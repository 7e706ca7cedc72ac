"""Write the core as one file, `hubbub.c`, which compiles alone beside `hubbub.h`: `python3 amalgamate.py FILE`.

Review the sources in `src`, not this file. All functions inside of the core become static.
"""

import re
import sys
from pathlib import Path

FOLDER = Path(__file__).parent
HEADERS = ("core.h", "text.h", "query.h", "state.h")
START = """/* The core of hubbub's clients in one file, made by amalgamate.py. Review the sources instead. */
#define HB_INSIDE static
"""
_OWN_INCLUDE = re.compile(r'^#include "(?!hubbub\.h)[a-z_]+\.h"\n', re.MULTILINE)
_MACRO = re.compile(r"^#define (\w+)", re.MULTILINE)


def amalgamation() -> str:
    """Return the text of the file."""
    headers = [FOLDER / "src" / name for name in HEADERS]
    sources = sorted((FOLDER / "src").glob("*.c"))
    return START + "".join(map(_part, headers)) + "".join(map(_part, sources))


def _part(path: Path) -> str:
    """Return a source without the headers that stand above it. Its own macros end with it."""
    text = _OWN_INCLUDE.sub("", path.read_text())
    macros = _MACRO.findall(text) if path.suffix == ".c" else []
    return f"\n/* {path.name} */\n{text}" + "".join(f"#undef {name}\n" for name in macros)


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(amalgamation())
