"""Which settings hold an agent, so that a change that an agent made waits for a person.

Owns the table alone: every setting stands in it, and one that does not counts as held, as all of a
plan does that is not said to be free. Who changed a setting, and what was approved, is decided in
`orchestrator.approval`.
"""

from __future__ import annotations

FREE = frozenset({
    "retry_interval", "retry_interval_cap", "breakpoint_check_interval", "blocked_timeout",
    "pr_merge_timeout", "pr_reminder", "limit_interval", "limit_margin", "trouble_interval",
    "stop_grace", "log_cap_bytes", "push_timeout", "wake_on_comments", "wake_on_base_red",
    "pull_request_labels", "pull_request_reviewers", "pull_request_assignees",
    "pull_request_template", "draft_first", "tool_server", "save_limit_mb", "stay_for_people",
    "stay_for_pages",
})  # fmt: skip
"""Waits and words: whatever they say, an agent is held, judged and paid for as before."""

HELD = frozenset({
    # What an agent is shut into and held to.
    "isolation", "network", "memory_limit_mb", "cpu_limit_percent", "process_limit",
    "open_file_limit", "allow_weaker", "sandbox_engine", "sandbox_image", "sandbox_readable",
    "sandbox_writable", "sandbox_login", "wall_limit", "idle_limit", "tool_limit", "max_events",
    "max_tool_calls", "max_turns", "max_live_agents", "pass_env", "private_config",
    # What is run, and by which program.
    "command", "adapter", "agents", "agent_args", "verify", "baseline",
    "gate_timeout", "canary", "setup", "setup_inputs", "setup_network", "setup_timeout", "copy",
    "test_command", "ci_poll_command", "on_transition",
    # What it may use, and how often it is tried again.
    "budget_tokens", "budget_usd", "budget_hours", "budget_attempts",
    "plan_budget_tokens", "plan_budget_usd", "plan_budget_hours", "plan_budget_attempts",
    "day_budget_tokens", "day_budget_usd", "day_budget_hours", "day_budget_attempts",
    "repos_day_budget_tokens", "repos_day_budget_usd", "repos_day_budget_hours",
    "repos_day_budget_attempts", "prices", "budget_exempt",
    "max_retries", "max_attempts", "stuck_limit", "same_gate_limit", "breaker_cooldown",
    "limit_patience", "max_provider_failures", "max_environment_failures", "ci_fix_limit",
    "conflict_limit", "on_conflict",
    # Who else looks at the work, and what follows of that.
    "review_by", "review_severity", "review_rounds", "review_timeout",
    # What is merged, on whose word, and where to.
    "review_summaries", "auto_merge", "delete_head_branch", "behind_base",
    "merge_method", "required_reviews", "review_authors",
    "review_authors_only",
    "require_ci", "required_checks", "ignore_checks", "expected_checks", "checks_grace",
    "rerun_red", "rerun_flaky", "providers", "remote",
    "forge_url", "forge_repo", "github_app_id", "github_app_key", "github_app_installation",
    # Who is told what, and by which program.
    "notify", "telemetry", "public_url", "issue_comment", "issue_labels_working", "issue_close",
    "tick_tasks",
    # Which server decides and hands out the work, and to which machines.
    "engine", "temporal_address", "temporal_namespace", "temporal_tls", "temporal_tls_ca",
    "temporal_tls_cert", "temporal_tls_key", "temporal_api_key_env", "temporal_queue_prefix",
    "lease", "labels",
    # Who can look and give orders, where work lies, and how long it can be looked at.
    "repos", "host", "port", "allowed_hosts", "sign_in_file", "worktrees_dir", "retention_hours",
})  # fmt: skip
"""Settings that can loosen what holds an agent."""

OF_THE_USER = frozenset({
    "repos", "repos_day_budget_tokens", "repos_day_budget_usd", "repos_day_budget_hours",
    "repos_day_budget_attempts",
})  # fmt: skip
"""Settings about several repositories: a file of one of them does not speak for the others."""

NAME_FILES = (
    "ci_poll_command", "on_transition", "notify", "sign_in_file", "github_app_key", "sandbox_login",
    "temporal_tls_ca", "temporal_tls_cert", "temporal_tls_key",
)  # fmt: skip
"""Settings that name files which count outside the sandbox: their content is approved, too."""


ONE_CHOICE = ("command", "adapter", "agents")
"""Ways to say which program works: who names one gives up the others, so they wait together."""

FREE_OF_TASK = frozenset({
    "id", "title", "description", "dependencies", "acceptance", "tags",
})  # fmt: skip
"""Words of a plan's tasks, and their order; all else of a plan holds agents."""


def is_held(name: str) -> bool:
    """Tell whether a setting holds an agent; one that nobody knows does."""
    return name not in FREE
