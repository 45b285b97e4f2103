"""The newcomer's path: a fresh clone, its own environment, and all commands of the tutorial.

`make newcomer` runs it. It clones the commit that is checked out, installs it as the tutorial says,
starts an empty PostgreSQL server, and types the tutorial's commands into a shell without Java. Each
command must print what the tutorial shows, and all together must take less than three minutes.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests" / "cli"), str(ROOT / "tests" / "postgres")]

from consoles import TOOLS, commands, steady  # noqa: E402
from server import served  # noqa: E402

MOST_SECONDS = 180
MARK = "<<< the next command"


def installed(folder: Path) -> Path:
    """Clones the project and installs it; returns where its programs are."""
    run = subprocess.check_call
    run(["git", "clone", "-q", ROOT, folder / "deltaproduce"])
    run([sys.executable, "-m", "venv", "--without-pip", folder / ".venv"])
    pip = [sys.executable, "-m", "pip", "--python", folder / ".venv" / "bin" / "python"]
    run([*pip, "install", "-q", f"{folder}/deltaproduce[postgres]"])
    return folder / ".venv" / "bin"


def typed(folder: Path, programs: Path, address: str) -> list[str]:
    """What each command of the tutorial prints."""
    tools = folder / "tools"
    tools.mkdir()
    for name in TOOLS:
        (tools / name).symlink_to(str(shutil.which(name)))
    script = "\n".join(f"echo '{MARK}'\n{command.line}" for command in commands("tutorial"))
    env = {
        "PATH": f"{programs}:{tools}",
        "HOME": str(folder),
        "DATABASE_URL": address,
        "LC_ALL": "C.UTF-8",
    }
    ran = subprocess.run(
        ["bash", "-e", "-c", script], cwd=folder, env=env, stdout=subprocess.PIPE, text=True
    )
    if ran.returncode:
        sys.exit(f"a command failed:\n{ran.stdout}")
    return ran.stdout.split(f"{MARK}\n")[1:]


def main() -> None:
    folder = Path(tempfile.mkdtemp(prefix="newcomer-"))
    folder.chmod(0o755)
    try:
        started = time.perf_counter()
        programs = installed(folder)
        print(f"installed in {time.perf_counter() - started:.0f} s")
        with served() as server:
            started = time.perf_counter()
            said = typed(folder, programs, server.address())
            seconds = time.perf_counter() - started
        for command, text in zip(commands("tutorial"), said, strict=True):
            if steady(text) != steady(command.shown):
                sys.exit(f"{command.line}\nshows\n{command.shown}\nand printed\n{text}")
        print(f"{len(said)} commands of docs/tutorial.md in {seconds:.0f} s, without Java")
        if seconds > MOST_SECONDS:
            sys.exit(f"that is more than {MOST_SECONDS} s")
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    os.environ.pop("PYTHONPATH", None)  # of this checkout: the clone is what is run
    main()
