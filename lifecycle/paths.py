"""Where the state of a repository lives: names of folders and files, and nothing else.

What each attempt asks for is written as one text, because joining paths costs ten times as much,
and remembered for a while, because several ask.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

STATE_FOLDER = ".loopwright"
_path = lru_cache(maxsize=1024)(Path)


@dataclass(frozen=True, slots=True, kw_only=True)
class Paths:
    """The `.loopwright` folder of one repository."""

    root: Path
    database: Path
    """The canonical records."""
    search: Path
    """What of the records can be searched; made of them, and again when it is removed."""
    ci: Path
    """What the local CI provider keeps."""
    templates: Path
    """The user's own templates, which come before ours."""
    programs: Path
    """Where agents find `loopwright` when their PATH does not lead to it."""
    ports: Path
    """Which lifecycle has which range of ports."""
    instances: Path
    """Folders and logs of the agents that a spawner starts."""

    @classmethod
    def of(cls, repo: Path) -> Paths:
        """Name the state folder of a repository, and what is in it."""
        root = repo / STATE_FOLDER
        return cls(
            root=root,
            database=root / "state.db",
            search=root / "search.db",
            ci=root / "ci",
            templates=root / "templates",
            programs=root / "bin",
            ports=root / "ports.json",
            instances=root / "instances",
        )

    def log(self, agent_id: str, attempt: int) -> Path:
        """What the agent of one attempt printed."""
        return _path(f"{self.root}/logs/{agent_id}/{attempt}.log")

    def gate_log(self, agent_id: str, attempt: int, number: int, label: str = "gate") -> Path:
        """What one verify command printed; attempt 0 is the baseline."""
        return self.root / "logs" / agent_id / f"{attempt}.{label}-{number}.log"

    def review_log(self, agent_id: str, attempt: int, number: int) -> Path:
        """What a reviewer of an attempt printed; the number counts all reviews of the agent."""
        return self.root / "logs" / agent_id / f"{attempt}.review-{number}.log"

    def setup_log(self, agent_id: str, attempt: int, number: int) -> Path:
        """What one set-up command printed; attempt 0 is what ran before the first."""
        return self.root / "logs" / agent_id / f"{attempt}.setup-{number}.log"

    def setup(self, agent_id: str) -> Path:
        """What is known of the set-up of one agent's workspace and judging checkout."""
        return _path(f"{self.root}/setup/{agent_id}")

    def summary(self, agent_id: str, attempt: int) -> Path:
        """The summary that an attempt starts with."""
        return _path(f"{self.root}/summaries/{agent_id}/{attempt}.md")

    def edited(self, agent_id: str, attempt: int) -> Path:
        """A person's text that replaces that summary."""
        return _path(f"{self.root}/summaries/{agent_id}/{attempt}.edited.md")

    def prompt(self, agent_id: str, attempt: int) -> Path:
        """All that an attempt reads on its standard input."""
        return _path(f"{self.root}/summaries/{agent_id}/{attempt}.prompt.md")

    def snapshot(self, agent_id: str, attempt: int) -> Path:
        """The facts that the summary was rendered from."""
        return _path(f"{self.root}/snapshots/{agent_id}/{attempt}.json")

    def config(self, agent_id: str, attempt: int) -> Path:
        """Settings that the agent's program is given for one attempt alone."""
        return _path(f"{self.root}/config/{agent_id}/{attempt}")

    def all_of(self, agent_id: str) -> tuple[Path, ...]:
        """Every folder that belongs to one agent alone, its worktree left out."""
        names = ("logs", "summaries", "snapshots", "config", "setup")
        return tuple(self.root / name / agent_id for name in names)
