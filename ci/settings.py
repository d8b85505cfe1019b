"""The settings of CI and of forges: their defaults, ranges and meaning.

Where the values come from (command line, environment, files) is not decided here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, ConfigDict, Field

from ci.forge_registry import SENDERS

if TYPE_CHECKING:
    Provider = str
else:
    Provider = Literal[("local", *SENDERS)]


class CISettings(BaseModel):
    """What is asked outside, what counts there, and what is done there."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    providers: tuple[Provider, ...] = ("local",)
    """Who keeps pull requests and judges commits: the first that has pull requests keeps them, the
    verdicts of all are joined; see docs/providers/README.md."""
    remote: str = "origin"
    """The git remote that branches are pushed to where a forge keeps the pull requests."""
    forge_url: str = ""
    """Address of the forge's API, where the remote's address does not tell it."""
    forge_repo: str = ""
    """owner/name at the forge, where the remote's address does not tell it."""
    push_timeout: float = Field(default=120.0, gt=0, le=3600)
    """Seconds a push or fetch may take."""
    test_command: str | None = None
    """What local CI runs on each commit."""
    require_ci: bool | Literal["auto"] = True
    """A commit on which no check ran is not green; local CI without a test_command asks nobody.
    "auto": none is enough where the forge calls the pull request mergeable and no check ever ran on
    its base."""
    required_checks: tuple[str, ...] = ()
    """Names of a forge's checks that count, `*` stands for any text; by default those that the
    rules of the base branch require, and all of them where these name none. ["*"] for all."""
    ignore_checks: tuple[str, ...] = ()
    """Names of a forge's checks that never count, `*` stands for any text: a red one is told and
    neither wakes an agent nor holds up a merge."""
    checks_grace: float = Field(default=120.0, ge=0, le=86_400)
    """Seconds in which checks may begin on a new commit before it counts as having none."""
    ci_fix_limit: int = Field(default=5, ge=0, le=1000)
    """Attempts in a row that red checks or review bots of a pull request wake, before a person is
    waited for."""
    on_conflict: Literal["agent", "ask"] = "agent"
    """Who resolves work that does not go together (conflicts, red merges): a fresh attempt, or you.
    An accepted head that was resolved waits for a new decision."""
    conflict_limit: int = Field(default=3, ge=1, le=1000)
    """Attempts in a row to resolve that, after which a person is waited for."""
    rerun_red: bool = False
    """Have failed checks run once more before an agent is woken for them."""
    rerun_flaky: bool = True
    """The same for checks alone that have passed before after they failed on the same commit."""
    wake_on_base_red: bool = True
    """Wake an agent also for checks that fail on the base branch as well."""
    review_authors: tuple[str, ...] = ()
    """Whose review remarks agents are told beside those of all who may write to the repository:
    logins, or bots by name (coderabbit, copilot, ...; see docs/providers/README.md)."""
    review_authors_only: bool = False
    """Tell agents the remarks of `review_authors` only, if any are named."""
    wake_on_comments: bool = False
    """Wake an agent also for remarks that ask for no changes."""
    auto_merge: bool = False
    """Merge pull requests unasked: only exactly the commit that is green, with all its reviews."""
    merge_method: Literal["merge", "squash", "rebase"] = "merge"
    """How a forge merges."""
    delete_head_branch: bool = True
    """Remove an agent's branch at the forge after its merge; never one that an open pull request
    or unfinished work goes into, or that has commits which were not merged."""
    behind_base: Literal["update", "merge", "ask"] = "update"
    """How `auto_merge` brings a branch up to date where the forge demands that: by the forge's own
    update, by a merge that Loopwright pushes, or not at all. It is checked again before it is
    merged."""
    required_reviews: int = Field(default=0, ge=0, le=100)
    """Approvals without which Loopwright merges nothing at a forge."""
    pull_request_labels: tuple[str, ...] = ()
    """Labels of new pull requests at a forge."""
    pull_request_reviewers: tuple[str, ...] = ()
    """Users, at GitHub also `organisation/team`, whom a pull request asks for a review."""
    pull_request_assignees: tuple[str, ...] = ()
    """Users to whom a pull request is assigned."""
    pull_request_template: str = ""
    """File of the base branch with the text of pull requests, such as
    `.github/pull_request_template.md`, in which {summary}, {title}, {task} and {issue} are
    replaced."""
    issue_comment: bool = True
    """Say under the issue of a task that it is worked on, in one comment that later says how it
    ended if it was given up or rejected."""
    issue_labels_working: tuple[str, ...] = ()
    """Labels of a task's issue from its first attempt on, until it ends or waits for a person."""
    tick_tasks: bool = True
    """Tick a task in the file that it was read from (PRD.md, prd.json) once its work is accepted;
    not committed."""
    issue_close: bool = False
    """Close the issue of a task once its pull request is merged, where the forge does not do that
    by itself."""
    draft_first: bool = False
    """Open pull requests as drafts; once green they are marked as ready and reviewers are asked."""
    github_app_id: str = ""
    """Sign in as this GitHub App instead of with a token."""
    github_app_key: str = ""
    """File with the private key of the GitHub App."""
    github_app_installation: int | None = Field(default=None, ge=1)
    """Its installation; by default the repository's."""
    expected_checks: tuple[str, ...] = ()
    """For the generic provider: names of checks without which no commit is green."""
    ci_poll_command: str | None = None
    """For the generic provider: prints what CI says of the commit in $SHA, as JSON."""
