"""The only use of Jinja: finds a template, the user's own before ours, and renders plain values.

Owns the sandbox, the filters and the bound on output. Must not know what a lifecycle is, and must
never treat a value as template source. A user's template is the user's own file: it may waste
its own time, but it cannot call into the program or flood it with text.
"""

from __future__ import annotations

import functools
import operator
import os
import re
import traceback
from collections.abc import Callable, Mapping, Sized
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jinja2
from jinja2.exceptions import SecurityError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from templates.errors import TemplateError
from templates.fence import fence, line, quote, tell

if TYPE_CHECKING:
    from jinja2.runtime import Context

_OURS = Path(__file__).parent
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*\.md\.j2")
_MAX_SOURCE = 256 * 1024
_MAX_REPEAT = 1_000_000
_NONCE = "fence_nonce"
_OF_EVERY_MAPPING = frozenset(dir(dict))
_SHOWN_DURATION = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))

_FAULTS_OF_A_TEMPLATE = (
    jinja2.TemplateError,
    ArithmeticError,
    AttributeError,
    LookupError,
    MemoryError,
    RecursionError,
    TypeError,
    ValueError,
)


def duration(seconds: float) -> str:
    """Format a time span in its two largest units."""
    rest = max(0, round(seconds))
    parts: list[str] = []
    for size, unit in _SHOWN_DURATION:
        count, rest = divmod(rest, size)
        if count:
            parts.append(f"{count} {unit}")
        elif parts:
            break
    return " ".join(parts[:2]) or "0 s"


def plural(count: int, noun: str) -> str:
    """Say how many of a thing there are."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


@jinja2.pass_context
def _fence(context: Context, value: object, origin: str, **how: Any) -> str:
    return fence(value, origin, nonce=context.get(_NONCE, ""), **how)


@jinja2.pass_context
def _tell(context: Context, value: object, label: str, origin: str | None = None) -> str:
    return tell(value, label, origin, nonce=context.get(_NONCE, ""))


class _Sandbox(ImmutableSandboxedEnvironment):
    """Jinja's sandbox, which by itself lets `'a' * 3000000000` take all memory."""

    intercepted_binops = frozenset({"*", "**", "%"})

    def getattr(self, obj: object, attribute: str) -> object:
        """Look a value up; in a plain mapping by key, without trying attributes first."""
        if type(obj) is dict and attribute in obj and attribute not in _OF_EVERY_MAPPING:
            return obj[attribute]
        return super().getattr(obj, attribute)

    def call_binop(self, context: Context, operator: str, left: object, right: object) -> object:
        text, times = (left, right) if isinstance(left, Sized) else (right, left)
        if operator == "%" and isinstance(left, str):
            raise SecurityError("'%' on text is not allowed in a template: use '~' to join")
        if operator == "**":
            raise SecurityError("'**' is not allowed in a template")
        if isinstance(text, Sized) and isinstance(times, int) and len(text) * times > _MAX_REPEAT:
            raise SecurityError(f"a text of more than {_MAX_REPEAT} characters by '*'")
        return super().call_binop(context, operator, left, right)


class _Ours(_Sandbox):
    """For our own templates: a dot is a key of a plain mapping, and nothing else.

    They use no attributes and no functions of Jinja, which is faster.
    """

    getattr = staticmethod(operator.getitem)  # type: ignore[assignment]  # of fewer values than jinja's

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.globals.clear()


class _Folder(jinja2.BaseLoader):
    """Reads the templates of one folder; notices when one of them changes or goes."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def get_source(
        self, environment: jinja2.Environment, template: str
    ) -> tuple[str, str, Callable[[], bool]]:
        del environment
        if not _NAME.fullmatch(template):
            raise jinja2.TemplateNotFound(template)
        path = self._folder / template
        stamp = _stamp(path)
        try:
            with path.open("rb") as file:
                raw = file.read(_MAX_SOURCE + 1)
            text = raw.decode()
        except FileNotFoundError:
            raise jinja2.TemplateNotFound(template) from None
        except (OSError, UnicodeDecodeError) as error:
            raise TemplateError(
                f"{path}: cannot be read as a UTF-8 template: {error}; "
                "fix the file, or remove it to get the built-in template"
            ) from error
        if len(raw) > _MAX_SOURCE:
            raise TemplateError(f"{path}: larger than {_MAX_SOURCE} bytes; shorten it")
        return text, str(path), lambda: _stamp(path) == stamp


def _stamp(path: Path) -> tuple[int, int, int] | None:
    """Return a stamp that changes with the file; None if there is none."""
    try:
        found = os.stat(path)  # noqa: PTH116  # asked for each page
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def _environment(kind: type[_Sandbox], *folders: Path, reloads: bool) -> jinja2.Environment:
    environment = kind(
        loader=jinja2.ChoiceLoader([_Folder(folder) for folder in folders]),
        undefined=jinja2.StrictUndefined,
        autoescape=False,  # the output is Markdown for a program, never HTML
        auto_reload=reloads,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        duration=duration, fence=_fence, line=line, plural=plural, quote=quote, tell=_tell
    )
    return environment


@functools.cache
def _built_in() -> jinja2.Environment:
    """Return our own templates, which all renderers share: to compile them takes 50 ms."""
    return _environment(_Ours, _OURS, reloads=False)


class HtmlPages:
    """Renders templates of our own for browsers: every value is escaped unless it says it is HTML.

    A value says so by the method `__html__`; `fragment` returns such a value.
    """

    def __init__(
        self,
        folder: Path,
        functions: Mapping[str, Callable[..., object]],
        shown: Callable[[str], str] = str,
    ) -> None:
        """`functions` are filters, and can be called by their names, too.

        `shown` is given each text that cannot be printed as it is, before it is escaped.
        """
        self._environment = jinja2.Environment(
            loader=jinja2.FileSystemLoader(folder),
            undefined=jinja2.StrictUndefined,
            autoescape=True,
            auto_reload=False,
            cache_size=-1,
            trim_blocks=True,
            lstrip_blocks=True,
            finalize=functools.partial(_printable, shown),
        )
        self._environment.filters.update(functions)
        self._environment.globals.update(functions)

    def render(self, name: str, values: Mapping[str, object]) -> str:
        """Render the template of that name; raises `TemplateError` naming file, line and remedy."""
        try:
            return self._environment.get_template(name).render(values)
        except _FAULTS_OF_A_TEMPLATE as error:
            raise TemplateError(_explain(error, name, values)) from error

    def fragment(self, name: str, values: Mapping[str, object]) -> Html:
        """Render a template whose text goes into another page as it is."""
        return Html(self.render(name, values))


def _printable(shown: Callable[[str], str], value: object) -> object:
    if not isinstance(value, str) or value.isprintable() or hasattr(value, "__html__"):
        return value
    return shown(value)


class Html(str):
    """Text that is HTML already: pages take it as it is."""

    __slots__ = ()

    def __html__(self) -> str:
        """Return it as it is."""
        return self


class Renderer:
    """Renders templates by name, the user's own of that name before ours."""

    def __init__(
        self,
        override_dir: Path | None = None,
        *,
        max_output: int = 1024 * 1024,
        nonce: Callable[[], str] = str,
        mask: Callable[[str], str] = str,
    ) -> None:
        """`nonce` returns an unpredictable text per page; the fence markers are derived from it.

        `mask` redacts secrets in a finished page, where each text is cleaned already.
        """
        self.mask = mask
        self._nonce = nonce
        self._max_output = max_output
        self._override_dir = override_dir
        self._overrides = (
            _environment(_Sandbox, override_dir, _OURS, reloads=True) if override_dir else None
        )

    def render(self, name: str, values: Mapping[str, object]) -> str:
        """Render the template of that name; raises `TemplateError` naming file, line and remedy."""
        try:
            source = self._overrides
            if source is None or not os.path.lexists(f"{self._override_dir}/{name}"):
                source = _built_in()
            page = self._collect(source.get_template(name), values)
        except _FAULTS_OF_A_TEMPLATE as error:
            raise TemplateError(_explain(error, name, values)) from error
        return self.mask(page)

    def _collect(self, template: jinja2.Template, values: Mapping[str, object]) -> str:
        values = {**values, _NONCE: self._nonce()}
        if template.environment is _built_in():
            # Ours always end; counting their pieces would be a fifth of the work.
            page = template.render(values)
            self._check(template, len(page))
            return page
        pieces: list[str] = []
        size = 0
        for piece in template.generate(values):
            size += len(piece)
            self._check(template, size)
            pieces.append(piece)
        return "".join(pieces)

    def _check(self, template: jinja2.Template, size: int) -> None:
        if size > self._max_output:
            raise TemplateError(
                f"{template.filename}: gives more than {self._max_output} characters; "
                "look for a loop that never ends or show less"
            )


def _explain(error: BaseException, name: str, values: Mapping[str, object]) -> str:
    if isinstance(error, jinja2.TemplateNotFound) and name.endswith(".html"):
        return f"no template {error.name!r} (wanted for {name})"
    if isinstance(error, jinja2.TemplateNotFound):
        built_in = ", ".join(sorted(path.name for path in _OURS.glob("*.md.j2")))
        return f"no template {error.name!r} (wanted for {name}); there are: {built_in}"
    if isinstance(error, jinja2.TemplateSyntaxError):
        return f"{error.filename or name}, line {error.lineno}: {error.message}"
    frames = [
        f
        for f in traceback.extract_tb(error.__traceback__)
        if f.filename.endswith((".j2", ".html"))
    ]
    place = f"{frames[-1].filename}, line {frames[-1].lineno}" if frames else name
    reason = str(error) or type(error).__name__
    return f"{place}: {reason}; values at hand: {', '.join(sorted(values))}"
