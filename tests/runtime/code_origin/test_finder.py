"""Commands that would use the code of another checkout are found before they are believed."""

from __future__ import annotations

import json
import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from runtime.code_origin.finder import find
from runtime.code_origin.scripts import calls
from runtime.code_origin.working_trees import Trees

if TYPE_CHECKING:
    from pathlib import Path

    from runtime.code_origin.findings import ForeignCode

VERSION = "python3.11"


class Place:
    """A user's repository, a judging checkout elsewhere, and an environment of Python outside."""

    def __init__(self, folder: Path) -> None:
        self.repo, self.folder, self.home = folder / "repo", folder / "checkout", folder / "home"
        self.env = folder / "env"
        for each in (self.repo / "src" / "calc", self.folder, self.home):
            each.mkdir(parents=True)
        (self.repo / ".git" / "refs").mkdir(parents=True)
        (self.repo / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
        self.site = self.python(self.env)

    def python(self, prefix: Path) -> Path:
        """Make a virtual environment by hand; returns its folder of packages."""
        site = prefix / "lib" / VERSION / "site-packages"
        site.mkdir(parents=True)
        (prefix / "bin").mkdir()
        (prefix / "pyvenv.cfg").write_text("home = /usr/bin\n")
        for name in ("python", "python3", "pytest"):
            program = prefix / "bin" / name
            program.write_text(f"#!{prefix}/bin/python\n")
            program.chmod(0o755)
        return site

    def find(self, *commands: str, **variables: str) -> tuple[ForeignCode, ...]:
        own = [f"{self.folder}/.venv/bin"] if (self.folder / ".venv").exists() else []
        path = os.pathsep.join([*own, str(self.env / "bin"), os.defpath])
        environ = {"PATH": path, "HOME": str(self.home), **variables}
        return find(self.folder, Trees.of(self.repo), commands, environ)

    def editable(self, site: Path) -> None:
        (site / "__editable__.calc-0.1.pth").write_text(f"{self.repo}/src\n")


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path.resolve())


def path_line(place: Place) -> None:
    place.editable(place.site)


def finder_hook(place: Place) -> None:
    (place.site / "__editable__.calc-0.1.pth").write_text(
        "import __editable___calc_0_1_finder; __editable___calc_0_1_finder.install()\n"
    )
    (place.site / "__editable___calc_0_1_finder.py").write_text(
        f"MAPPING: dict[str, str] = {{'calc': '{place.repo}/src/calc'}}\n"
    )


def record(place: Place) -> None:
    info = place.site / "calc-0.1.dist-info"
    info.mkdir()
    (info / "direct_url.json").write_text(
        json.dumps({"url": f"file://{place.repo}", "dir_info": {"editable": True}})
    )


def copy(place: Place) -> None:
    info = place.site / "calc-0.1.dist-info"
    info.mkdir()
    (info / "direct_url.json").write_text(
        json.dumps({"url": f"file://{place.repo}", "dir_info": {}})
    )


def egg_link(place: Place) -> None:
    (place.site / "calc.egg-link").write_text(f"{place.repo}/src\n.")


def through_a_link(place: Place) -> None:
    alias = place.repo.parent / "alias"
    alias.symlink_to(place.repo)
    (place.site / "calc.pth").write_text(f"{alias}/src\n")


@pytest.mark.parametrize(
    "install", [path_line, finder_hook, record, copy, egg_link, through_a_link]
)
@pytest.mark.parametrize("command", ["pytest -q", "cd . && python -m pytest src", "make test"])
def test_an_editable_install_of_the_users_checkout_is_found_in_each_form(
    place: Place, install: object, command: str
) -> None:
    assert callable(install)
    assert place.find(command) == ()
    install(place)
    (place.folder / "pyproject.toml").write_text("[project]\n")
    (finding,) = place.find(command)
    assert str(place.repo) in finding.text or "alias" in finding.text
    assert "setup = " in finding.remedy
    assert not finding.committed


def test_an_environment_of_the_folder_itself_comes_first_and_is_right(place: Place) -> None:
    place.editable(place.site)
    own = place.python(place.folder / ".venv")
    (own / "__editable__.calc-0.1.pth").write_text(f"{place.folder}/src\n")
    assert place.find("pytest -q") == ()
    place.editable(own)
    assert len(place.find("pytest -q")) == 1


def test_an_editable_install_that_the_folder_comes_before_is_no_finding(place: Place) -> None:
    place.editable(place.site)
    assert place.find("PYTHONPATH=src python -m pytest") == ()
    assert place.find("export PYTHONPATH=src; pytest -q") == ()
    assert len(place.find("PYTHONPATH=lib pytest -q")) == 1
    (place.folder / "pyproject.toml").write_text('[tool.pytest.ini_options]\npythonpath = "src"\n')
    assert place.find("pytest -q") == ()
    (place.folder / "pyproject.toml").unlink()
    (place.folder / "Makefile").write_text("test:\n\tPYTHONPATH=src pytest\n")
    (place.folder / "setup.cfg").write_text("")
    assert place.find("make test") == ()


@pytest.mark.parametrize(
    "command",
    [
        "./test.sh",
        "sh -e test.sh",
        "timeout -k 5 60 python -m pytest src",
        "nice -n 5 python -m pytest src",
        "env -i PATH={env}:/bin python -m pytest src",
        "if true; then python -m pytest src; fi",
        "for each in a b; do python -m pytest src; done",
        "time -p python -m pytest src",
        "sh -c 'cd . && python -m pytest src'",
        ". {env}/activate && pytest",
        "./runner",
        "npm test",
        "cd . && npm run --silent all",
        "npm test --workspaces",
    ],
)
def test_a_python_is_found_in_the_everyday_forms_of_commands(place: Place, command: str) -> None:
    command = command.format(env=place.env / "bin")
    for name, text in {
        "test.sh": "#!/bin/sh\n# don't\nset -e\nexec ./more/tests.sh \"$@\"  # it's all\n",
        "more/tests.sh": "#!/bin/sh\npython=${PYTHON:-python3}\n$python -m pytest src\n",
        "runner": "\0ELF",
        "package.json": '{"scripts": {"pretest": "python -m pytest src", "test": "node --test", '
        '"all": "npm test"}}',
        "tests/test_it.py": "",
    }.items():
        file = place.folder / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
        file.chmod(0o755)
    assert place.find(command) == ()
    place.editable(place.site)
    (finding,) = place.find(command)
    assert f"calc would be the code in {place.repo}/src" in finding.text
    own = place.python(place.folder / ".venv")
    (own / "calc.pth").write_text(f"{place.folder}/src\n")
    assert len(place.find(command)) == (1 if "{env}" in command or str(place.env) in command else 0)


def test_a_script_that_uses_the_folders_own_code_is_right(place: Place) -> None:
    place.editable(place.site)
    (place.folder / "setup.py").touch()
    (place.folder / "package.json").write_text(
        '{"scripts": {"test": "node --test", "python": "pytest"}}'
    )
    script = place.folder / "test.sh"
    own = "python=.venv/bin/python; .venv/bin/pip install 'pytest>=8'; $python -m pytest"
    for right in ("export PYTHONPATH=src\npytest -q", own, "echo python; node --test"):
        script.write_text(f"#!/bin/sh\n# python3 does it\n{right}\n")
        assert place.find("sh test.sh", "npm test", "timeout 9 npx jest") == ()


def test_only_scripts_of_packages_that_gates_run_must_not_lead_elsewhere(place: Place) -> None:
    (place.repo / "deploy.js").touch()
    scripts = {"test": "npm run check", "check": "node --test", "deploy": f"{place.repo}/deploy.js"}
    (place.folder / "package.json").write_text(json.dumps({"scripts": scripts}))
    assert place.find("npm test", "yarn check") == ()
    scripts["postcheck"] = f"node {place.repo}/deploy.js"
    (place.folder / "package.json").write_text(json.dumps({"scripts": scripts}))
    (finding,) = place.find("npm test")
    assert finding.committed
    assert f"package.json names {place.repo}/deploy.js" in finding.text


def test_a_copy_of_the_folders_own_code_is_as_old_as_its_installation(place: Place) -> None:
    info = place.python(place.folder / ".venv") / "calc-0.1.dist-info"
    info.mkdir()
    (info / "direct_url.json").write_text(
        json.dumps({"url": f"file://{place.folder}", "dir_info": {}})
    )
    (finding,) = place.find("pytest -q")
    assert "pip install -e" in finding.remedy
    assert place.find(".venv/bin/pip install -q . && pytest -q") == ()


def test_other_packages_that_are_edited_elsewhere_are_not_findings(place: Place) -> None:
    (place.site / "other.pth").write_text("/somewhere/else\nimport os\n")
    clone = place.repo / "vendor" / "clone"
    (clone / ".git").mkdir(parents=True)
    (place.site / "clone.pth").write_text(f"{clone}/src\n")
    assert place.find("pytest -q") == ()


def test_programs_that_are_no_python_cost_no_look_at_python(place: Place) -> None:
    place.editable(place.site)
    assert place.find("true", "cargo test", "go test ./...") == ()


def test_nothing_in_a_folder_of_an_agent_is_started_or_waited_for(place: Place) -> None:
    own = place.folder / ".venv"
    site = place.python(own)
    marked = place.folder / "started"
    for name in ("python", "python3"):
        (own / "bin" / name).write_text(f"#!/bin/sh\ntouch {marked}\n")
    (own / "bin" / "pytest").unlink()
    os.mkfifo(own / "bin" / "pytest", 0o755)
    os.mkfifo(site / "calc.pth")
    (own / "pyvenv.cfg").unlink()
    os.mkfifo(own / "pyvenv.cfg")
    os.mkfifo(place.folder / "pyproject.toml")
    os.mkfifo(place.folder / "package.json")
    place.find("pytest -q", "python -m pytest", "npm test")
    assert not marked.exists()


def test_links_of_packages_into_the_users_checkout_are_found_at_each_depth(place: Place) -> None:
    core = place.repo / "packages" / "core"
    core.mkdir(parents=True)
    (place.folder / "package.json").write_text('{"workspaces": ["packages/*"]}')
    scope = place.folder / "packages" / "app" / "node_modules" / "@x"
    scope.mkdir(parents=True)
    own = place.folder / "packages" / "core"
    own.mkdir()
    (scope / "core").symlink_to(own)
    assert place.find("npm test") == ()
    (scope / "core").unlink()
    (scope / "core").symlink_to(core)
    modules = place.folder / "node_modules"
    modules.mkdir()
    (modules / "core").symlink_to(core)
    found = place.find("npm test")
    assert {each.where for each in found} == {scope / "core", modules / "core"}
    assert all("npm ci" in each.remedy for each in found)


def inside(place: Place) -> Place:
    """Put the checkout below the user's own files."""
    place.folder = place.repo / "below" / "checkout"
    place.folder.mkdir(parents=True)
    return place


@pytest.mark.parametrize(
    ("own", "above", "text"),
    [
        ("package.json", "node_modules/core/index.js", ""),
        ("pyproject.toml", "pytest.ini", "[pytest]\n"),
        ("pyproject.toml", "setup.cfg", "[tool:pytest]\n"),
        ("go.mod", "go.work", "use ./a\n"),
        ("Cargo.toml", "Cargo.toml", "[workspace]\n"),
        ("Cargo.toml", ".cargo/config.toml", '[build]\ntarget-dir = "target"\n'),
        ("package.json", "tsconfig.json", "{}"),
    ],
)
def test_what_a_tool_finds_on_its_way_up_into_the_users_files_is_found(
    place: Place, own: str, above: str, text: str
) -> None:
    place = inside(place)
    (place.folder / own).write_text("")
    assert place.find("true") == ()
    file = place.repo / above
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    (finding,) = place.find("true")
    assert str(place.repo) in str(finding.where)
    assert finding.remedy


def test_a_folder_with_settings_of_its_own_takes_none_from_above(place: Place) -> None:
    place = inside(place)
    for folder in (place.folder, place.repo):
        (folder / "pytest.ini").write_text("[pytest]\n")
        (folder / "go.mod").write_text("module x\n")
        (folder / "go.work").write_text("use .\n")
        (folder / "Cargo.toml").write_text("[workspace]\n")
    assert place.find("true") == ()


def test_settings_above_the_users_own_checkout_hold_for_both(place: Place) -> None:
    above = place.repo.parent
    (above / "pytest.ini").write_text("[pytest]\n")
    (above / "go.work").write_text("use ./elsewhere\n")
    (place.folder / "pyproject.toml").write_text("")
    (place.folder / "go.mod").write_text("module x\n")
    assert place.find("true") == ()
    (above / "go.work").write_text("use (\n\t./repo/core\n)\n")
    (finding,) = place.find("true")
    assert "GOWORK=off" in finding.remedy


def test_builds_that_all_checkouts_share_are_found(place: Place) -> None:
    (place.folder / "Cargo.toml").write_text("[workspace]\n")
    config = place.home / ".cargo" / "config.toml"
    config.parent.mkdir()
    config.write_text('[build]\ntarget-dir = "/shared/target"\n')
    (finding,) = place.find("cargo test")
    assert "CARGO_TARGET_DIR=target" in finding.remedy
    assert place.find("CARGO_TARGET_DIR=target cargo test") == ()


@pytest.mark.parametrize(
    "command",
    [
        "PYTHONPATH={repo}/src pytest -q",
        "cd {repo} && true",
        "make -C {repo} test",
        "npm --prefix={repo} test",
        "PYTHONPATH=../repo/src:lib true",
        "GOFLAGS=-modfile={repo}/go.mod go test ./...",
        "CARGO_TARGET_DIR={repo}/target cargo test",
    ],
)
def test_a_command_that_names_the_users_checkout_itself_is_found(
    place: Place, command: str
) -> None:
    found = place.find(command.format(repo=place.repo))
    assert found, command
    assert str(place.repo) in found[0].what


def test_a_script_of_the_users_is_no_code_that_is_tested(place: Place) -> None:
    assert place.find(f"sh {place.repo}/check.sh", f"python3 {place.repo}/tools/check.py") == ()


def test_a_commit_that_names_the_users_checkout_is_told_from_what_a_person_must_fix(
    place: Place,
) -> None:
    (place.repo / "y").mkdir()
    (place.folder / "go.mod").write_text(f"module x\nreplace y => {place.repo}/y\n")
    (finding,) = place.find("go test ./...")
    assert finding.committed
    (place.folder / "go.mod").write_text("module x\nreplace y => ./y\n")
    assert place.find("go test ./...") == ()
    (place.folder / "package.json").write_text(f'{{"homepage": "{place.repo}"}}')
    assert place.find("npm test") == ()


def test_variables_that_lead_there_are_found(place: Place) -> None:
    (finding,) = place.find("pytest -q", PYTHONPATH=f"/lib:{place.repo}/src")
    assert "PYTHONPATH" in finding.what
    assert place.find("pytest -q", PYTHONPATH="/lib", DATA=str(place.repo)) == ()


def test_all_working_trees_of_a_repository_are_the_users(place: Place) -> None:
    git = ["git", "-C", str(place.repo), "-c", "user.name=A", "-c", "user.email=a@example.org"]
    subprocess.run([*git, "init", "--quiet"], check=True)
    subprocess.run([*git, "commit", "--quiet", "--allow-empty", "-m", "First"], check=True)
    other = place.repo.parent / "other"
    subprocess.run([*git, "worktree", "add", "--quiet", str(other)], check=True)
    for start, end in ((place.repo, other), (other, place.repo)):
        trees = Trees.of(start)
        assert trees.leads(end / "src")
        assert trees.leads(start / "src")
    assert not Trees.of(place.repo).leads(place.repo.parent / "repository")


def test_the_programs_of_a_command_line_are_told_apart() -> None:
    (first, second, third) = calls("A=1 env B=2 pytest -q && make test; exec ./x 'a b'")
    assert (first.program, first.variables) == ("pytest", {"A": "1", "B": "2"})
    assert second.words == ("make", "test")
    assert third.words == ("./x", "a b")
    assert calls("echo 'open")[0].program == "echo"
    assert calls("") == ()
