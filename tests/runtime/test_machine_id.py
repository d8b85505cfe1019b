"""A machine keeps its name, and no two containers of one image have the same."""

from __future__ import annotations

from pathlib import Path

from runtime.machine_id import machine_id

NOWHERE = (Path("/nonexistent"),)


def named(folder: Path, name: str) -> tuple[Path, ...]:
    (folder / "machine-id").write_text(f"{name}\n")
    return (folder / "machine-id",)


def test_the_name_of_the_system_is_told_as_a_hash(tmp_path: Path) -> None:
    environ, system = {"HOME": str(tmp_path / "home")}, named(tmp_path, "0" * 32)
    name = machine_id(environ, system=system, containers=NOWHERE)
    assert name == machine_id(environ, system=system, containers=NOWHERE)
    assert name != machine_id(environ, system=named(tmp_path, "1" * 32), containers=NOWHERE)
    assert "0000" not in name
    assert not (tmp_path / "home").exists()


def test_containers_of_one_image_have_names_of_their_own(tmp_path: Path) -> None:
    system = named(tmp_path, "0" * 32)
    names = []
    for home in ("one", "one", "two"):
        environ = {"XDG_STATE_HOME": str(tmp_path / home), "container": "podman"}
        names.append(machine_id(environ, system=system, containers=NOWHERE))
    assert names[0] == names[1]
    assert names[0] != names[2]


def test_what_marks_a_container_is_a_file_too(tmp_path: Path) -> None:
    environ, system = {"XDG_STATE_HOME": str(tmp_path / "state")}, named(tmp_path, "0" * 32)
    name = machine_id(environ, system=system, containers=system)
    assert (tmp_path / "state" / "loopwright" / "machine-id").read_text() == f"{name}\n"


def test_a_container_that_can_keep_nothing_has_a_name_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file, so no folder")
    environ = {"XDG_STATE_HOME": str(tmp_path / "state"), "container": "docker"}
    name = machine_id(environ, system=NOWHERE, containers=NOWHERE)
    assert name == machine_id(environ, system=NOWHERE, containers=NOWHERE)
    assert len(name) == 16


def test_a_name_that_is_set_counts(tmp_path: Path) -> None:
    environ = {"LOOPWRIGHT_MACHINE_ID": "worker-3", "HOME": str(tmp_path)}
    assert machine_id(environ, system=NOWHERE, containers=NOWHERE) == "worker-3"
