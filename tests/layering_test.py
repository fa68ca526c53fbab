"""The arrows of docs/architecture.md, read off the include lines."""
import os
import re
from pathlib import Path

ROOT = Path(os.environ.get("PACELINE_SOURCE_DIR", Path(__file__).resolve().parent.parent))

# Each room and the rooms it may include, itself aside.
BASE = {"runtime/base"}
LOW = BASE | {"config", "runtime/device", "runtime/tokenizer"}
ALLOWED = {
    "runtime/base": set(),
    "config": BASE,
    "runtime/device": BASE,
    "runtime/tokenizer": BASE,
    "runtime/grammar": BASE | {"runtime/tokenizer"},
    "runtime/cpu": LOW,
    "runtime/model": LOW,
    "gpu": LOW,
    "runtime/kv": LOW,
    "runtime/sampling": LOW,
    "runtime/speculation": LOW | {"runtime/sampling", "runtime/kv", "runtime/model"},
}
RUNTIME = LOW | {"runtime/cpu", "runtime/model", "runtime/kv", "runtime/sampling", "runtime/speculation"}
ALLOWED["runtime/scheduling"] = RUNTIME - {"runtime/cpu"}
ALLOWED["runtime/rounds"] = ALLOWED["runtime/scheduling"] | {"runtime/scheduling"}
ALLOWED["protocol"] = RUNTIME - {"runtime/cpu"} | {"runtime/scheduling"}
ALLOWED["protocol/wire"] = LOW | {"runtime/grammar"}
ALLOWED["actors"] = ALLOWED["protocol"] | {"protocol", "runtime/rounds"}
ALLOWED["engine"] = ALLOWED["actors"] | {"actors", "runtime/cpu", "runtime/grammar", "gpu"}
ALLOWED["server"] = {"runtime/base", "runtime/grammar", "runtime/model", "runtime/tokenizer", "config", "engine", "protocol/wire"}
ALLOWED["apps"] = {"runtime/base", "runtime/model", "runtime/tokenizer", "config", "engine", "server", "protocol/wire"}
ALLOWED["apps/bench"] = ALLOWED["apps"] | {"apps", "gpu", "runtime/cpu", "runtime/device", "runtime/speculation"}  # it times devices, and predicts
ALLOWED["apps"] |= {"apps/bench"}

# What may include a library's headers.
LIBRARY_ROOMS = {
    "caf/": {"protocol", "actors", "engine", "server"},
    "cuda": {"gpu"},
    "boost/beast": {"server", "apps/bench"},
    "boost/asio": {"server", "apps"},
    "yaml-cpp/": {"config"},
    "CLI/": {"apps"},
    "xgrammar/": {"runtime/grammar"},
    "dlpack/": {"runtime/grammar"},
}
MAX_BEAST_FILES = 4  # it dominates the build time: heads and WebSocket of the server, and of the client that benches have


def room_of(path):
    """Longest room that holds `path`."""
    rooms = [r for r in ALLOWED if str(path).startswith(r + "/")]
    return max(rooms, key=len) if rooms else None


def sources():
    for room in {r.split("/")[0] for r in ALLOWED}:
        for suffix in ("*.hpp", "*.cpp", "*.cu", "*.cuh"):
            for file in (ROOT / room).rglob(suffix):
                yield file.relative_to(ROOT), file.read_text()


def includes(text):
    return re.findall(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', text, re.M)


def violations(files):
    found = []
    for path, text in files:
        room = room_of(path)
        for header in includes(text):
            other = room_of(header)
            if other and other != room and other not in ALLOWED[room]:
                found.append(f"{path} includes {header}: {room} may not use {other}")
            for prefix, rooms in LIBRARY_ROOMS.items():
                if header.startswith(prefix) and room.split("/")[0] not in rooms and room not in rooms:
                    found.append(f"{path} includes {header}")
    return found


def test_includes_point_one_way():
    files = list(sources())
    assert len(files) > 100
    assert violations(files) == []


def test_an_upward_include_is_found():
    assert violations([(Path("runtime/kv/x.hpp"), '#include "actors/behaviors.hpp"\n')])
    assert violations([(Path("runtime/kv/x.hpp"), "#include <caf/all.hpp>\n")])
    assert not violations([(Path("engine/x.hpp"), '#include "actors/behaviors.hpp"\n')])


def reached_from(header):
    """The project's headers that a header includes, directly or not."""
    found, open_ = set(), [header]
    while open_:
        for other in includes((ROOT / open_.pop()).read_text()):
            if other not in found and (ROOT / other).exists():
                found.add(other)
                open_.append(other)
    return found


# Headers of these folders with data that messages carry; the others there are machinery.
CARRIED = {
    "runtime/device": {"fence.hpp", "row_batch.hpp"},
    "runtime/kv": {"lease.hpp", "pool_figures.hpp"},
    "runtime/scheduling": {"admitted_request.hpp", "pool_commands.hpp", "round.hpp", "scheduler_counters.hpp"},
    "runtime/speculation": {"drafters/draft.hpp", "trees/token_tree.hpp"},
}


def test_messages_include_data_and_no_machinery():
    free = {"runtime/base", "protocol"}
    others = [h for h in reached_from("protocol/messages.hpp") if room_of(h) not in free]
    allowed = {f"{room}/{name}" for room, names in CARRIED.items() for name in names}
    assert others and set(others) - allowed == set()


def test_beast_stays_in_few_files():
    users = [p for p, text in sources() if any(h.startswith("boost/beast") for h in includes(text)) and p.suffix == ".cpp"]
    assert len(users) <= MAX_BEAST_FILES, users


def test_every_test_file_is_registered():
    # Outside clients need environments of their own, which the script makes.
    listed = "".join(f.read_text() for f in [*(ROOT / "tests").rglob("CMakeLists.txt"), ROOT / "deploy/clients.sh"])
    on_disk = [f for pattern in ("*_test.cpp", "*_test.py", "test_*.py") for f in (ROOT / "tests").rglob(pattern)]
    assert on_disk
    words = set(re.findall(r"[\w.]+", listed))  # a loop over names lists them without the ending
    missing = [str(f.relative_to(ROOT)) for f in on_disk if not {f.name, f.name.removesuffix("_test.py")} & words]
    assert missing == []


def hidden_functions(text):
    """Names that a Python file defines twice at its top level: the later test replaces the earlier one, which then never runs."""
    names = re.findall(r"^(?:async )?def (\w+)\(", text, re.M)
    return sorted({name for name in names if names.count(name) > 1})


def test_no_test_hides_another():
    hidden = {str(f.relative_to(ROOT)): names for f in (ROOT / "tests").rglob("*.py") if (names := hidden_functions(f.read_text()))}
    assert hidden == {}
    assert hidden_functions("def test_a():\n    pass\n\n\ndef test_b(x):\n    pass\n\n\ndef test_a(y):\n    pass\n") == ["test_a"]


def test_the_architecture_page_names_files_that_exist():
    """A walk that names a file which has moved leads nowhere."""
    text = (ROOT / "docs/architecture.md").read_text()
    named = re.findall(r"`((?:\w+/)+[\w*.]+)`", text)
    assert len(named) > 30
    missing = [name for name in named if not list(ROOT.glob(name))]
    assert missing == []


# Paths that pages may name though no file of the repository has them.
NOT_IN_THE_REPOSITORY = {
    "runtime/speculation/drafters/echo_drafter.cpp": "the example of docs/adding_a_drafter.md, which a reader writes",
}


def leads_somewhere(name):
    """True if a file or folder has the name. A decision may be named by its number alone."""
    decision = re.fullmatch(r"docs/decisions/\d{4}", name)
    return bool(list(ROOT.glob(name + "-*.md" if decision else name.rstrip("/"))))


def missing_names(text):
    """Names in back quotes that look like paths of the repository, but are not files. Files that a build makes are not checked."""
    folders = {entry.name for entry in ROOT.iterdir() if entry.is_dir()} - {"build"}
    folders |= {room.split("/")[0] for room in ALLOWED}
    named = {name for name in re.findall(r"`((?:[\w-]+/)+[\w*.-]*)`", text) if name.split("/")[0] in folders}
    return sorted(name for name in named - NOT_IN_THE_REPOSITORY.keys() if not leads_somewhere(name))


def test_pages_name_files_that_exist():
    """A page that names a file which has moved leads nowhere."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    assert len(pages) > 8
    missing = {page.name: missing_names(page.read_text()) for page in pages}
    assert {name: found for name, found in missing.items() if found} == {}


def test_a_name_that_leads_nowhere_is_found():
    assert missing_names("`runtime/scheduling/sequence_gone.hpp`, `runtime/gone/`, `docs/decisions/9999`") == [
        "docs/decisions/9999", "runtime/gone/", "runtime/scheduling/sequence_gone.hpp"]
    assert missing_names("`docs/architecture.md`, `runtime/kv/`, `text/event-stream`, `build/release/bin/paceline`") == []
