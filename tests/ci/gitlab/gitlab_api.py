"""The routes of GitLab's REST API that are used here, with the parameters and fields of each.

As the pages of docs.gitlab.com have them. `when_pipeline_succeeds` is the name that servers before
17.11 know for `auto_merge`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.ci.forge.api_routes import ApiRoutes

if TYPE_CHECKING:
    from collections.abc import Mapping

PAGES = "page per_page"
SORTED = f"order_by sort {PAGES}"
MERGE_REQUEST = (
    "title description target_branch labels milestone_id assignee_id assignee_ids reviewer_ids "
    "remove_source_branch squash allow_collaboration"
)
MERGE = (
    "sha squash merge_commit_message squash_commit_message should_remove_source_branch auto_merge "
    "merge_when_pipeline_succeeds"
)
COMMIT = "/projects/_/repository/commits/_"
PIPELINE = "/projects/_/pipelines/_"
PULL = "/projects/_/merge_requests/_"
ISSUE = "/projects/_/issues/_"
TRAIN = "/projects/_/merge_trains/merge_requests/_"
ROUTES: Mapping[str, tuple[str, str]] = {
    "GET /user": ("", ""),
    "GET /users": (f"username search active blocked external {PAGES}", ""),
    "GET /version": ("", ""),
    "GET /personal_access_tokens/self": ("", ""),
    "GET /projects/_": ("license statistics with_custom_attributes", ""),
    "GET /projects/_/members/all/_": ("", ""),
    "GET /projects/_/repository/branches/_": ("", ""),
    f"GET {COMMIT}": ("stats", ""),
    f"GET {COMMIT}/statuses": (f"all name pipeline_id ref stage {SORTED}", ""),
    f"GET {COMMIT}/merge_requests": (f"state {PAGES}", ""),
    "GET /projects/_/pipelines": (
        f"name ref scope sha source status updated_after updated_before username {SORTED}",
        "",
    ),
    f"GET {PIPELINE}": ("", ""),
    f"GET {PIPELINE}/jobs": (f"include_retried scope {PAGES}", ""),
    f"GET {PIPELINE}/bridges": (f"scope {PAGES}", ""),
    f"POST {PIPELINE}/retry": ("", ""),
    "GET /projects/_/jobs/_": ("", ""),
    "GET /projects/_/jobs/_/trace": ("", ""),
    "POST /projects/_/jobs/_/retry": ("", "job_variables_attributes"),
    "GET /projects/_/merge_requests": (
        f"state source_branch target_branch scope labels author_id view wip {SORTED}",
        "",
    ),
    "POST /projects/_/merge_requests": ("", f"source_branch target_project_id {MERGE_REQUEST}"),
    f"GET {PULL}": ("include_diverged_commits_count include_rebase_in_progress render_html", ""),
    f"PUT {PULL}": (
        "",
        f"state_event add_labels remove_labels discussion_locked {MERGE_REQUEST}",
    ),
    f"PUT {PULL}/merge": ("", MERGE),
    f"GET {PULL}/notes": (SORTED, ""),
    f"POST {PULL}/notes": ("", "body created_at internal merge_request_diff_head_sha"),
    f"GET {PULL}/discussions": (PAGES, ""),
    f"POST {PULL}/discussions/_/notes": ("", "body created_at"),
    f"GET {PULL}/versions": (PAGES, ""),
    f"GET {PULL}/pipelines": (PAGES, ""),
    f"GET {PULL}/approvals": ("", ""),
    f"GET {PULL}/reviewers": ("", ""),
    f"GET {PULL}/status_checks": (PAGES, ""),
    f"POST {PULL}/status_checks/_/retry": ("", ""),
    f"GET {TRAIN}": ("", ""),
    f"POST {TRAIN}": ("", "auto_merge sha squash when_pipeline_succeeds"),
    "GET /projects/_/issues": (f"state labels scope search {SORTED}", ""),
    f"GET {ISSUE}": ("", ""),
    f"PUT {ISSUE}": (
        "",
        "title description state_event labels add_labels remove_labels assignee_ids",
    ),
    f"GET {ISSUE}/notes": (f"activity_filter {SORTED}", ""),
    f"POST {ISSUE}/notes": ("", "body created_at internal"),
    f"PUT {ISSUE}/notes/_": ("", "body"),
}
GITLAB = ApiRoutes(ROUTES)
