"""The user's template comes before ours, errors name their place, and output is bounded."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from jinja2 import UndefinedError

from templates.errors import TemplateError
from templates.renderer import Renderer, _built_in, duration, plural

VALUES = {"name": "Ada", "numbers": [1, 2]}


def write(folder: Path, text: str, name: str = "summary.md.j2") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(text)
    return path


def test_an_override_is_seen_when_it_comes_changes_and_goes(tmp_path: Path) -> None:
    folder = tmp_path / "templates"
    renderer = Renderer(folder)
    write(folder, "Hello {{ name }}")
    assert renderer.render("summary.md.j2", VALUES) == "Hello Ada"
    path = write(folder, "Good day {{ name }}")
    assert renderer.render("summary.md.j2", VALUES) == "Good day Ada"
    path.unlink()
    with pytest.raises(TemplateError, match="values at hand: name, numbers"):
        renderer.render("summary.md.j2", VALUES)


def test_an_override_that_comes_after_ours_was_used_is_seen(tmp_path: Path) -> None:
    renderer = Renderer(tmp_path)
    with pytest.raises(TemplateError):
        renderer.render("summary.md.j2", VALUES)
    write(tmp_path, "mine")
    assert renderer.render("summary.md.j2", VALUES) == "mine"


def test_a_change_of_equal_size_and_time_of_another_file_is_seen(tmp_path: Path) -> None:
    path = write(tmp_path, "one")
    renderer = Renderer(tmp_path)
    assert renderer.render("summary.md.j2", VALUES) == "one"
    stamp = path.stat()
    other = write(tmp_path, "two", "next.md.j2")
    os.utime(other, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    other.replace(path)
    assert renderer.render("summary.md.j2", VALUES) == "two"


def test_an_override_may_include_another_override(tmp_path: Path) -> None:
    write(tmp_path, "A {% include 'part.md.j2' %}")
    write(tmp_path, "and {{ name }}", "part.md.j2")
    assert Renderer(tmp_path).render("summary.md.j2", VALUES) == "A and Ada"


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("one\n{{ nmae }}", "line 2: 'nmae' is undefined; values at hand: name, numbers"),
        ("{{ name.frist }}", "has no attribute 'frist'"),
        ("one\ntwo\n{% if %}", "line 3: Expected an expression"),
        ("{{ 1 / 0 }}", "line 1: division by zero"),
        ("{{ name + 1 }}", "line 1: "),
        ("{% include 'other.md.j2' %}", "no template 'other.md.j2'"),
        ("{% include '../secret.md.j2' %}", "no template '../secret.md.j2'"),
        ("{{ name.__class__.__mro__ }}", "line 1: access to attribute '__class__'"),
        ("{{ numbers.append(3) }}", "line 1: "),
        ("{{ 'a' * 3000000000 }}", "line 1: a text of more than 1000000 characters"),
        ("{{ 9 ** 9 }}", "is not allowed in a template"),
        ("{{ '%999999999d' % 1 }}", "is not allowed in a template"),
        ("{% for n in range(9999999) %}x{% endfor %}", "line 1: Range too big"),
    ],
)
def test_a_faulty_template_is_refused_with_its_place(
    tmp_path: Path, source: str, told: str
) -> None:
    path = write(tmp_path, source)
    with pytest.raises(TemplateError) as caught:
        Renderer(tmp_path).render("summary.md.j2", VALUES)
    assert told in str(caught.value)
    assert str(path) in str(caught.value) or "no template" in str(caught.value)


def test_a_template_that_floods_is_stopped(tmp_path: Path) -> None:
    write(
        tmp_path, "{% for n in range(90000) %}{% for m in range(90000) %}x{% endfor %}{% endfor %}"
    )
    with pytest.raises(TemplateError, match="gives more than 2000 characters"):
        Renderer(tmp_path, max_output=2000).render("summary.md.j2", VALUES)


def test_an_unreadable_or_huge_override_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "summary.md.j2"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(TemplateError, match="UTF-8"):
        Renderer(tmp_path).render("summary.md.j2", VALUES)
    path.write_text("x" * 300_000)
    with pytest.raises(TemplateError, match="larger than"):
        Renderer(tmp_path).render("summary.md.j2", VALUES)


@pytest.mark.parametrize("name", ["/etc/passwd", "../x.md.j2", "errors.py", ".hidden.md.j2", ""])
def test_only_template_names_are_looked_up(tmp_path: Path, name: str) -> None:
    there = r"there are: prompt\.md\.j2, review\.md\.j2, summary\.md\.j2"
    with pytest.raises(TemplateError, match=there):
        Renderer(tmp_path).render(name, VALUES)


def test_values_are_never_template_source(tmp_path: Path) -> None:
    write(tmp_path, "{{ name }}|{{ name | fence('x') }}|{{ name | quote }}")
    text = Renderer(tmp_path).render("summary.md.j2", {"name": "{{ 7 * 191 }}{% raw %}"})
    assert text.count("{{ 7 * 191 }}{% raw %}") == 3
    assert "1337" not in text


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0.2, "0 s"),
        (59.6, "1 min"),
        (252.3, "4 min 12 s"),
        (3601, "1 h"),
        (90_061, "1 d 1 h"),
        (-5, "0 s"),
    ],
)
def test_time_spans_are_said_in_two_units(seconds: float, said: str) -> None:
    assert duration(seconds) == said


def test_one_thing_has_no_plural() -> None:
    assert [plural(n, "file") for n in (0, 1, 2)] == ["0 files", "1 file", "2 files"]


def test_our_own_templates_reach_keys_of_plain_mappings_and_no_attribute_or_function() -> None:
    ours = _built_in()
    assert ours.from_string("{{ task.id }}").render(task={"id": "T001"}) == "T001"
    with pytest.raises(KeyError):
        ours.from_string("{{ task.keys }}").render(task={"id": "T001"})
    with pytest.raises(TypeError):
        ours.from_string("{{ task.__class__ }}").render(task=Path())
    with pytest.raises(UndefinedError):
        ours.from_string("{{ range(3) }}").render()
