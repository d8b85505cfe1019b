"""What people install: a virtual environment with the wheel, built from the sources git knows."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import zipfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
COMMAND = """#!{0} -P
import sys
from orchestrator.cli.main import main
sys.exit(main())
"""


@dataclass(frozen=True, slots=True)
class Installed:
    """An environment that holds the wheel, and its dependencies from the one that runs the test."""

    python: Path
    site: Path

    def run(
        self, *args: str | Path, cwd: Path, env: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run its Python in a folder."""
        return subprocess.run(
            (str(self.python), "-P", *map(str, args)),
            cwd=cwd, env=env, capture_output=True, text=True, timeout=55, check=False,
        )  # fmt: skip


def install(folder: Path) -> Installed:
    """Build the wheel and install it as an installer does."""
    listed = subprocess.run(
        ("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"),
        cwd=ROOT, capture_output=True, check=True,
    )  # fmt: skip
    for name in listed.stdout.decode().split("\0"):
        source = ROOT / name
        if name and source.is_file():
            target = folder / "source" / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(source.read_bytes())
    build = (sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder / "dist"))
    subprocess.run(build, cwd=folder / "source", capture_output=True, check=True)
    [wheel] = (folder / "dist").iterdir()
    subprocess.run((sys.executable, "-m", "venv", "--without-pip", folder / "venv"), check=True)
    python = folder / "venv" / "bin" / "python"
    found = subprocess.run(
        (python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"),
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    site = Path(found.stdout.strip())
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(site)
    # Only what the wheel needs: path files of the folder that is added here are not read.
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    command = python.with_name("loopwright")
    command.write_text(COMMAND.format(python))
    command.chmod(0o755)
    return Installed(python, site)
