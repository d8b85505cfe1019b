"""Which parts of a repository a worktree gets, and the pointers that are not believed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from runtime.errors import IsolationError, PlantedPointerError
from runtime.isolation.git_paths import git_paths

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.runtime.isolation.conftest import Site


def common(site: Site) -> Path:
    return site.repo / ".git"


def registered(site: Site) -> Path:
    return common(site) / "worktrees" / "own"


def test_only_objects_own_branches_and_own_registration_are_writable(site: Site) -> None:
    found = git_paths(site.own, common(site))
    assert set(found.writable) == {
        common(site) / "objects",
        common(site) / "refs" / "heads" / "agent",
        common(site) / "logs" / "refs" / "heads" / "agent",
        registered(site),
    }
    assert found.hidden == (common(site) / "worktrees",)
    kept = {common(site) / "objects" / "pack", registered(site) / "commondir", site.own / ".git"}
    assert kept <= set(found.readable)


def plant_symlink(site: Site) -> None:
    (site.own / ".git").rename(site.own / "git")
    (site.own / ".git").symlink_to("git")


def plant_other(site: Site) -> None:
    (site.own / ".git").write_text(f"gitdir: {common(site)}/worktrees/other\n")


def plant_repository(site: Site) -> None:
    (site.own / ".git").unlink()
    (site.own / ".git").mkdir()


def plant_own_folder(site: Site) -> None:
    (site.own / "mine").mkdir()
    (site.own / ".git").write_text("gitdir: mine\n")


def plant_main(site: Site) -> None:
    (site.own / ".git").write_text(f"gitdir: {common(site)}\n")


def plant_nothing(site: Site) -> None:
    (site.own / ".git").unlink()


def plant_back_pointer(site: Site) -> None:
    (registered(site) / "gitdir").write_text(f"{site.other}/.git\n")


def plant_common_dir(site: Site) -> None:
    (registered(site) / "commondir").write_text(f"{site.own}\n")


def plant_linked_common_dir(site: Site) -> None:
    (registered(site) / "commondir").rename(site.own / "commondir")
    (registered(site) / "commondir").symlink_to(site.own / "commondir")


def plant_linked_registration(site: Site) -> None:
    registered(site).rename(site.own / "moved")
    registered(site).symlink_to(site.own / "moved")


@pytest.mark.parametrize(
    "plant",
    [
        *(plant_symlink, plant_other, plant_repository, plant_own_folder, plant_main),
        *(plant_nothing, plant_back_pointer, plant_common_dir, plant_linked_common_dir),
        plant_linked_registration,
    ],
)
def test_a_planted_pointer_is_refused(plant: Callable[[Site], None], site: Site) -> None:
    git_paths(site.own, common(site))
    plant(site)
    with pytest.raises(PlantedPointerError, match=r"repare"):
        git_paths(site.own, common(site))


def test_another_repository_than_the_recorded_one_is_refused(site: Site, tmp_path: Path) -> None:
    other = tmp_path / "other.git"
    other.mkdir()
    with pytest.raises(PlantedPointerError):
        git_paths(site.own, other)


def test_a_repository_with_one_table_of_refs_is_refused(site: Site) -> None:
    (common(site) / "reftable").mkdir()
    with pytest.raises(IsolationError, match="level process"):
        git_paths(site.own, common(site))


def test_settings_of_the_worktree_that_a_person_made_stay(site: Site) -> None:
    settings = registered(site) / "config.worktree"
    settings.write_text("[core]\n\tsparseCheckout = true\n")
    assert settings in git_paths(site.own, common(site)).readable
    assert "sparseCheckout" in settings.read_text()
