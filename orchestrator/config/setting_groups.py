"""Which settings belong together, for people who look through them. Decides nothing."""

from __future__ import annotations

GROUPS: dict[str, tuple[str, ...]] = {
    "Who works": (
        "adapter", "agents", "command", "agent_args", "max_turns", "pass_env", "private_config",
        "tool_server",
    ),
    "What a fresh checkout needs": (
        "setup", "copy", "setup_inputs", "setup_network", "setup_timeout", "worktrees_dir",
        "save_limit_mb",
    ),
    "What judges the work": (
        "verify", "baseline", "canary", "gate_timeout", "test_command", "review_summaries",
        "review_by", "review_rounds", "review_severity", "review_timeout",
    ),
    "What may be used": (
        "budget_usd", "budget_hours", "budget_attempts", "budget_tokens", "plan_budget_usd",
        "plan_budget_hours", "plan_budget_attempts", "plan_budget_tokens", "day_budget_usd",
        "day_budget_hours", "day_budget_attempts", "day_budget_tokens", "repos_day_budget_usd",
        "repos_day_budget_hours", "repos_day_budget_attempts", "repos_day_budget_tokens",
        "prices", "budget_exempt",
    ),
    "How often it is tried": (
        "max_retries", "max_attempts", "retry_interval", "retry_interval_cap", "stuck_limit",
        "same_gate_limit", "breaker_cooldown", "max_provider_failures",
        "max_environment_failures", "trouble_interval", "limit_interval", "limit_margin",
        "limit_patience",
    ),
    "How long it may take": (
        "wall_limit", "idle_limit", "tool_limit", "max_events", "max_tool_calls",
        "blocked_timeout", "stay_for_people", "stay_for_pages", "breakpoint_check_interval",
        "stop_grace",
    ),
    "How agents are kept apart": (
        "max_live_agents", "isolation", "allow_weaker", "network", "memory_limit_mb",
        "cpu_limit_percent", "process_limit", "open_file_limit", "sandbox_engine",
        "sandbox_image", "sandbox_login", "sandbox_readable", "sandbox_writable",
    ),
    "Pull requests": (
        "providers", "remote", "forge_url", "forge_repo", "push_timeout", "pr_merge_timeout",
        "pr_reminder", "pull_request_labels", "pull_request_reviewers",
        "pull_request_assignees", "pull_request_template", "draft_first", "github_app_id",
        "github_app_key", "github_app_installation", "issue_comment", "issue_labels_working",
        "issue_close",
    ),
    "Checks, reviews and merges": (
        "require_ci", "required_checks", "ignore_checks", "expected_checks", "checks_grace",
        "ci_poll_command", "ci_fix_limit", "rerun_red", "rerun_flaky", "wake_on_base_red",
        "review_authors", "review_authors_only", "wake_on_comments", "required_reviews",
        "auto_merge", "merge_method", "delete_head_branch", "behind_base", "on_conflict",
        "conflict_limit",
    ),
    "Who is told, and where it is looked at": (
        "notify", "on_transition", "tick_tasks", "telemetry", "public_url", "host", "port",
        "allowed_hosts", "sign_in_file", "repos", "log_cap_bytes", "retention_hours",
    ),
    "Many machines": (
        "engine", "labels", "lease", "temporal_address", "temporal_namespace", "temporal_tls",
        "temporal_tls_ca", "temporal_tls_cert", "temporal_tls_key", "temporal_api_key_env",
        "temporal_queue_prefix",
    ),
}  # fmt: skip
"""Every setting stands in one group."""
OTHERS = "Others"


def group_of(name: str) -> str:
    """Return the group of a setting."""
    return next((title for title, names in GROUPS.items() if name in names), OTHERS)
