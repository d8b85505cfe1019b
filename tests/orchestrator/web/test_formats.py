"""How single values look on pages."""

from __future__ import annotations

from pathlib import Path

from orchestrator.web.formats import place


def test_a_path_is_told_as_one_types_it_in_the_repository() -> None:
    repo = Path("/srv/work/parcel")
    assert place("/srv/work/parcel/loopwright.toml, line 3", repo) == "loopwright.toml, line 3"
    assert place(f"{Path.home()}/state/agent-T1", repo) == "~/state/agent-T1"
    for text in ("default", "/etc/loopwright.toml", "/srv/work/parcel-2/x", ""):
        assert place(text, repo) == text
