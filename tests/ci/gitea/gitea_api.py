"""The routes of Gitea's API that are used here, with the parameters and fields that each takes.

As the descriptions of Gitea 1.15, 1.21 and 1.27 have them. `Do`, `MergeTitleField` and
`MergeMessageField` are names of old that newer servers take as well; 1.15 ignores `head_commit_id`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.ci.forge.api_routes import ApiRoutes

if TYPE_CHECKING:
    from collections.abc import Mapping

PAGES = "page limit"
EDIT = "title body assignee assignees milestone labels due_date allow_maintainer_edit"
MERGE = (
    "Do MergeTitleField MergeMessageField MergeCommitID head_commit_id force_merge "
    "delete_branch_after_merge merge_when_checks_succeed"
)
ROUTES: Mapping[str, tuple[str, str]] = {
    "GET /user": ("", ""),
    "GET /repos/_/_": ("", ""),
    "GET /repos/_/_/assignees": ("", ""),
    "GET /repos/_/_/branches/_": ("", ""),
    "DELETE /repos/_/_/branches/_": ("", ""),
    "GET /repos/_/_/branch_protections/_": ("", ""),
    "GET /repos/_/_/collaborators/_": ("", ""),
    "GET /repos/_/_/collaborators/_/permission": ("", ""),
    "GET /repos/_/_/commits": (f"sha path stat verification files not {PAGES}", ""),
    "GET /repos/_/_/commits/_/statuses": (f"sort state {PAGES}", ""),
    "GET /repos/_/_/compare/_": ("", ""),
    "GET /repos/_/_/hooks": (PAGES, ""),
    "GET /orgs/_": ("", ""),
    "GET /orgs/_/hooks": (PAGES, ""),
    "GET /orgs/_/labels": (PAGES, ""),
    "GET /repos/_/_/labels": (PAGES, ""),
    "POST /repos/_/_/labels": ("", "name color description exclusive is_archived"),
    "GET /repos/_/_/actions/runs": (f"event branch status actor head_sha {PAGES}", ""),
    "GET /repos/_/_/actions/runs/_/jobs": (f"status {PAGES}", ""),
    "POST /repos/_/_/actions/runs/_/rerun-failed-jobs": ("", ""),
    "GET /repos/_/_/actions/jobs/_/logs": ("", ""),
    "GET /repos/_/_/pulls": (f"state sort milestone labels poster base_branch {PAGES}", ""),
    "POST /repos/_/_/pulls": ("", f"head base reviewers team_reviewers {EDIT}"),
    "GET /repos/_/_/pulls/_": ("", ""),
    "PATCH /repos/_/_/pulls/_": ("", f"base state unset_due_date {EDIT}"),
    "POST /repos/_/_/pulls/_/merge": (
        "",
        MERGE,
    ),
    "POST /repos/_/_/pulls/_/update": ("style", ""),
    "POST /repos/_/_/pulls/_/requested_reviewers": ("", "reviewers team_reviewers"),
    "GET /repos/_/_/pulls/_/reviews": (PAGES, ""),
    "GET /repos/_/_/pulls/_/reviews/_/comments": ("", ""),
    "GET /repos/_/_/issues": (
        f"state labels q type milestones since before created_by assigned_by {PAGES}",
        "",
    ),
    "GET /repos/_/_/issues/_": ("", ""),
    "GET /repos/_/_/issues/_/comments": ("since before", ""),
    "PATCH /repos/_/_/issues/comments/_": ("", "body updated_at"),
    "DELETE /repos/_/_/issues/_/labels/_": ("", "updated_at"),
    "POST /repos/_/_/issues/_/comments": ("", "body updated_at"),
    "POST /repos/_/_/issues/_/labels": ("", "labels updated_at"),
    "PATCH /repos/_/_/issues/_": ("", f"state ref unset_due_date content_version {EDIT}"),
}
GITEA = ApiRoutes(ROUTES)
