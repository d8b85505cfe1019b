// GitHub for tests: emulate's GitHub, joined to real bare repositories on disk.
//
// emulate keeps repositories, pull requests, reviews, checks and hooks; its commits have git's own
// ids. What it lacks is added here, as GitHub does it: what is pushed to the bare repository moves
// the branch and the head of its pull requests, whether they merge is found out by git, a merge
// lands in the bare repository, and what GitHub refuses is refused.
//
//   node github.mjs FOLDER_WITH_node_modules     prints {"url", "app": {"id", "key"}}; ends with its stdin
//   PUT  /_git/{owner}/{name} {"path", "people": {login: permission or null}}  -> {"tokens": {login}}
//   POST /_git/{owner}/{name}                    take over what was pushed, at once
//   GET  /_requests                              what Loopwright asked so far, and forget it

import { execFileSync } from "node:child_process";
import { createHmac, generateKeyPairSync, randomUUID } from "node:crypto";
import { readFileSync, readdirSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const PEOPLE = ["acme", "wright", "rita", "mallory"];
const NOBODY = "0".repeat(40);
const dist = join(process.argv[2], "node_modules", "emulate", "dist");
const load = (file) => import(pathToFileURL(join(dist, file)).href);
const chunk = readdirSync(dist).find(
  (file) => /^dist-\w+\.js$/.test(file) && readFileSync(join(dist, file), "utf8").includes("githubPlugin,"),
);
const { githubPlugin, getGitHubStore } = await load(chunk);
const { createEmulator } = await load("api.js");

function git(path, args, input) {
  return execFileSync("git", args, {
    cwd: path,
    input,
    encoding: "utf8",
    stdio: ["pipe", "pipe", "ignore"],
    env: { PATH: process.env.PATH, GIT_CONFIG_NOSYSTEM: "1", GIT_CONFIG_GLOBAL: "/dev/null" },
  });
}

function mergedTree(path, base, head) {
  try {
    return git(path, ["merge-tree", "--write-tree", base, head]).split("\n")[0];
  } catch {
    return null;
  }
}

function commitText(commit) {
  const date = (iso) => {
    const zone = iso.match(/([+-]\d\d):?(\d\d)$/);
    return `${Math.floor(Date.parse(iso) / 1000)} ${zone ? zone[1] + zone[2] : "+0000"}`;
  };
  return [
    `tree ${commit.tree_sha}`,
    ...commit.parent_shas.map((sha) => `parent ${sha}`),
    `author ${commit.author_name} <${commit.author_email}> ${date(commit.author_date)}`,
    `committer ${commit.committer_name} <${commit.committer_email}> ${date(commit.committer_date)}`,
    "",
    commit.message.endsWith("\n") ? commit.message : `${commit.message}\n`,
  ].join("\n");
}

class Joined {
  constructor(app, gh, webhooks, repo, path) {
    Object.assign(this, { app, gh, webhooks, repo, path });
    this.full = repo.full_name;
  }

  pulls() {
    return this.gh.pullRequests.findBy("repo_id", this.repo.id);
  }

  async told(address) {
    const answer = await this.app.request(address, { headers: { "x-inside": "1" } });
    return answer.json();
  }

  async tell(event, action, payload) {
    const [owner, name] = this.full.split("/");
    const repository = await this.told(`/repos/${this.full}`);
    // Nobody waits for a delivery.
    void this.webhooks.dispatch(event, action, { ...payload, repository, sender: repository.owner }, owner, name);
  }

  learn(sha, known) {
    const format = ["%H", "%T", "%P", "%an", "%ae", "%aI", "%cn", "%ce", "%cI", "%B"].join("%x1f");
    const log = git(this.path, ["log", "-z", "--reverse", `--format=${format}`, sha, ...known.map((each) => `^${each}`)]);
    for (const entry of log.split("\0").filter(Boolean)) {
      const [id, tree, parents, an, ae, ad, cn, ce, cd, message] = entry.split("\x1f");
      if (this.gh.commits.findBy("repo_id", this.repo.id).some((commit) => commit.sha === id)) continue;
      this.gh.commits.insert({
        repo_id: this.repo.id, sha: id, node_id: id, message, tree_sha: tree, user_id: null,
        parent_shas: parents.split(" ").filter(Boolean), author_name: an, author_email: ae,
        author_date: ad, committer_name: cn, committer_email: ce, committer_date: cd,
      });
    }
  }

  async follow() {
    const lines = git(this.path, ["for-each-ref", "--format=%(refname) %(objectname)", "refs/heads"]);
    const there = new Map(lines.split("\n").filter(Boolean).map((line) => line.split(" ")));
    const here = new Map(this.gh.refs.findBy("repo_id", this.repo.id).map((ref) => [ref.ref, ref]));
    for (const [name, sha] of there) {
      const old = here.get(name)?.sha;
      if (old !== sha) await this.move(name, old, sha, [...here.values()].map((ref) => ref.sha));
    }
    for (const [name, ref] of here) {
      if (name.startsWith("refs/heads/") && !there.has(name)) await this.remove(name, ref);
    }
  }

  async move(name, before, after, known) {
    const branch = name.slice("refs/heads/".length);
    const present = known.filter((sha) => sha !== before || this.has(sha));
    this.learn(after, present);
    for (const table of [this.gh.refs, this.gh.branches]) {
      const row = table.findBy("repo_id", this.repo.id).find((each) => (each.ref ?? each.name) === (table === this.gh.refs ? name : branch));
      if (row) table.update(row.id, { sha: after });
      else if (table === this.gh.refs) table.insert({ repo_id: this.repo.id, ref: name, sha: after, node_id: name });
      else table.insert({ repo_id: this.repo.id, name: branch, sha: after, protected: false });
    }
    await this.tell("push", undefined, { ref: name, before: before ?? NOBODY, after });
    for (const pull of this.pulls().filter((each) => each.state === "open")) {
      if (pull.base_ref !== branch && pull.head_ref !== branch) continue;
      if (pull.base_ref === branch) this.gh.pullRequests.update(pull.id, { base_sha: after });
      if (pull.head_ref === branch) this.gh.pullRequests.update(pull.id, { head_sha: after });
      this.weigh(pull.id);
      if (pull.head_ref === branch && before) {
        const shown = await this.told(`/repos/${this.full}/pulls/${pull.number}`);
        await this.tell("pull_request", "synchronize", {
          action: "synchronize", number: pull.number, before, after, pull_request: shown,
        });
      }
    }
  }

  has(sha) {
    try {
      return Boolean(git(this.path, ["cat-file", "-t", sha]));
    } catch {
      return false;
    }
  }

  async remove(name, ref) {
    this.gh.refs.delete(ref.id);
    const branch = this.gh.branches.findBy("repo_id", this.repo.id).find((each) => `refs/heads/${each.name}` === name);
    if (branch) this.gh.branches.delete(branch.id);
    await this.tell("push", undefined, { ref: name, before: ref.sha, after: NOBODY, deleted: true });
  }

  weigh(id) {
    const pull = this.gh.pullRequests.get(id);
    const mergeable = mergedTree(this.path, pull.base_sha, pull.head_sha) !== null;
    if (pull.mergeable !== mergeable) this.gh.pullRequests.update(id, { mergeable, mergeable_state: mergeable ? "clean" : "dirty" });
  }

  async open(c, next) {
    const asked = await c.req.raw.clone().json();
    const head = String(asked.head).split(":").at(-1);
    const refs = this.gh.refs.findBy("repo_id", this.repo.id);
    const at = (branch) => refs.find((ref) => ref.ref === `refs/heads/${branch}`)?.sha;
    const no = (error) => c.json({ message: "Validation Failed", errors: [{ resource: "PullRequest", ...error }] }, 422);
    if (!at(head)) return no({ field: "head", code: "invalid" });
    if (!at(asked.base)) return no({ field: "base", code: "invalid" });
    if (this.pulls().some((pull) => pull.state === "open" && pull.head_ref === head && pull.base_ref === asked.base)) {
      return no({ code: "custom", message: `A pull request already exists for ${this.full.split("/")[0]}:${head}.` });
    }
    await next();
    const made = this.pulls().find((pull) => pull.state === "open" && pull.head_ref === head);
    if (made) this.weigh(made.id);
  }

  async review(c, next) {
    const asked = await c.req.raw.clone().json();
    await next();
    const remarks = this.gh.comments.findBy("repo_id", this.repo.id).filter((each) => each.review_id);
    const newest = Math.max(0, ...remarks.map((each) => each.review_id));
    // emulate keeps the place in the diff only.
    remarks.filter((each) => each.review_id === newest).forEach((each, at) => {
      if (each.line === null) this.gh.comments.update(each.id, { line: asked.comments?.[at]?.line ?? null });
    });
  }

  async reply(c, number, id) {
    const first = this.gh.comments.get(Number(id));
    if (first?.repo_id !== this.repo.id || first.pull_number !== Number(number)) return c.json({ message: "Not Found" }, 404);
    if (first.in_reply_to_id) return c.json({ message: "Validation Failed" }, 422);
    const { body } = await c.req.raw.clone().json();
    return this.app.request(`/repos/${this.full}/pulls/${number}/comments`, {
      method: "POST",
      headers: { authorization: c.req.header("authorization"), "x-inside": "1" },
      body: JSON.stringify({ body, in_reply_to_id: first.id, path: first.path, line: first.line, commit_id: first.commit_sha }),
    });
  }

  // emulate has assignees of issues only; names that GitHub does not know it leaves out.
  async assign(c, next, number) {
    const pull = this.pulls().find((each) => each.number === number);
    if (!pull) return next();
    const { assignees } = await c.req.json();
    const ids = assignees.map((login) => this.gh.users.findOneBy("login", login)?.id).filter(Boolean);
    this.gh.pullRequests.update(pull.id, { assignee_ids: [...new Set([...pull.assignee_ids, ...ids])] });
    const issue = await this.told(`/repos/${this.full}/issues/${number}`);
    return c.json(issue, 201);
  }

  async merge(c, next, number) {
    const pull = this.pulls().find((each) => each.number === number);
    if (!pull) return next();
    const asked = await c.req.raw.clone().json().catch(() => ({}));
    if (pull.state !== "open" || pull.draft) return c.json({ message: "Pull Request is not mergeable" }, 405);
    if (asked.sha && asked.sha !== pull.head_sha) {
      return c.json({ message: "Head branch was modified. Review and try the merge again." }, 409);
    }
    const tree = mergedTree(this.path, pull.base_sha, pull.head_sha);
    if (tree === null) return c.json({ message: "Pull Request is not mergeable" }, 405);
    // emulate gives the merge the tree of the head; for the while of the merge that is git's.
    const head = this.gh.commits.findBy("repo_id", this.repo.id).find((each) => each.sha === pull.head_sha);
    const own = head.tree_sha;
    this.gh.commits.update(head.id, { tree_sha: tree });
    await next();
    this.gh.commits.update(head.id, { tree_sha: own });
    const merged = this.gh.pullRequests.get(pull.id);
    if (!merged.merged) return;
    const commit = this.gh.commits.findBy("repo_id", this.repo.id).find((each) => each.sha === merged.merge_commit_sha);
    const written = git(this.path, ["hash-object", "-t", "commit", "-w", "--stdin"], commitText(commit)).trim();
    if (written !== commit.sha) throw new Error(`git knows the merge ${commit.sha} as ${written}`);
    git(this.path, ["update-ref", `refs/heads/${pull.base_ref}`, written, pull.base_sha]);
    for (const other of this.pulls().filter((each) => each.state === "open" && each.base_ref === pull.base_ref)) {
      this.gh.pullRequests.update(other.id, { base_sha: written });
      this.weigh(other.id);
    }
  }
}

const register = githubPlugin.register;
githubPlugin.register = (app, store, webhooks, baseUrl, tokens) => {
  const gh = getGitHubStore(store);
  const joined = new Map();
  webhooks.setHeaderFactory(({ event, body, subscription }) => ({
    "Content-Type": "application/json",
    "User-Agent": "GitHub-Hookshot/emulated",
    "X-GitHub-Event": event,
    "X-GitHub-Delivery": randomUUID(),
    "X-GitHub-Hook-ID": String(subscription.id),
    ...(subscription.secret && {
      "X-Hub-Signature-256": `sha256=${createHmac("sha256", subscription.secret).update(body).digest("hex")}`,
    }),
  }));
  const dispatch = webhooks.dispatch.bind(webhooks);
  webhooks.dispatch = (event, action, payload, owner, name) => {
    const pull = joined.get(`${owner}/${name}`)?.pulls().find((each) => each.number === payload.issue?.number);
    // That is how GitHub's receivers know a comment on a pull request from one on an issue.
    const issue = pull && { ...payload.issue, pull_request: { url: `${baseUrl}/repos/${owner}/${name}/pulls/${pull.number}` } };
    return dispatch(event, action, issue ? { ...payload, issue } : payload, owner, name);
  };
  let asked = [];
  app.use("*", async (c, next) => {
    if ((c.req.header("user-agent") ?? "").startsWith("loopwright")) {
      const query = Object.fromEntries(new URL(c.req.url).searchParams);
      const body = await c.req.raw.clone().json().catch(() => null);
      asked.push({ method: c.req.method, path: c.req.path, query, body });
    }
    return next();
  });
  app.get("/_requests", (c) => {
    const told = asked;
    asked = [];
    return c.json(told);
  });
  app.use("*", async (c, next) => {
    const token = (c.req.header("authorization") ?? "").replace(/^(bearer|token)\s+/i, "");
    // emulate takes an unknown token for its first user's; "eyJ" begins the proof of an App.
    if (token && !token.startsWith("eyJ") && !tokens.has(token)) return c.json({ message: "Bad credentials" }, 401);
    return next();
  });
  app.use("*", async (c, next) => {
    const [, top, owner, name, kind, number, verb, id, act] = c.req.path.split("/");
    const repo = top === "repos" && !c.req.header("x-inside") ? joined.get(`${owner}/${name}`) : undefined;
    if (!repo) return next();
    await repo.follow();
    if (c.req.method === "POST" && kind === "pulls" && !number) return repo.open(c, next);
    if (c.req.method === "POST" && act === "replies") return repo.reply(c, number, id);
    if (c.req.method === "POST" && verb === "reviews") return repo.review(c, next);
    if (c.req.method === "POST" && verb === "assignees") return repo.assign(c, next, Number(number));
    if (c.req.method === "PUT" && verb === "merge") return repo.merge(c, next, Number(number));
    return next();
  });
  // emulate has no GraphQL: this is the one change that is asked for by it; the rest is refused.
  app.post("/graphql", async (c) => {
    const { query, variables } = await c.req.json();
    const no = (message) => c.json({ data: null, errors: [{ message }] });
    if (!query.includes("markPullRequestReadyForReview(")) return no("not played here");
    const pull = gh.pullRequests.all().find((each) => each.node_id === variables.pull);
    if (!pull) return no(`Could not resolve to a node with the global id of '${variables.pull}'`);
    gh.pullRequests.update(pull.id, { draft: false });
    return c.json({ data: { markPullRequestReadyForReview: { pullRequest: { isDraft: false } } } });
  });
  app.put("/_git/:owner/:name", async (c) => {
    const { path, people } = await c.req.json();
    const [owner, name] = [c.req.param("owner"), c.req.param("name")];
    const minted = {};
    // Tokens of their own, as each has its own allowance of requests.
    for (const login of [owner, ...Object.keys(people)]) {
      minted[login] = `ghp_${randomUUID().replaceAll("-", "")}`;
      tokens.set(minted[login], { login, id: gh.users.findOneBy("login", login).id, scopes: ["repo", "admin:repo_hook"] });
    }
    const send = (method, address, body) =>
      app.request(address, { method, body: JSON.stringify(body), headers: { authorization: `Bearer ${minted[owner]}` } });
    await send("POST", "/user/repos", { name });
    for (const [login, permission] of Object.entries(people)) {
      if (permission) await send("PUT", `/repos/${owner}/${name}/collaborators/${login}`, { permission });
    }
    const repo = gh.repos.findOneBy("full_name", `${owner}/${name}`);
    joined.set(repo.full_name, new Joined(app, gh, webhooks, repo, path));
    await joined.get(repo.full_name).follow();
    return c.json({ tokens: minted });
  });
  app.post("/_git/:owner/:name", async (c) => {
    await joined.get(`${c.req.param("owner")}/${c.req.param("name")}`).follow();
    return c.body(null, 204);
  });
  register(app, store, webhooks, baseUrl, tokens);
};

// The port must be known beforehand, as it is a part of every url that is told.
function freePort() {
  return new Promise((resolve, reject) => {
    const probe = createServer().once("error", reject);
    probe.listen(0, "127.0.0.1", () => {
      const { port } = probe.address();
      probe.close(() => resolve(port));
    });
  });
}

async function started(tries) {
  const port = await freePort();
  const users = PEOPLE.map((login) => ({ login, email: `${login}@example.org` }));
  try {
    return await createEmulator({
      service: "github", port, hostname: "127.0.0.1", baseUrl: `http://127.0.0.1:${port}`,
      seed: { tokens: {}, github: { users, apps: [app] } },
    });
  } catch (error) {
    if (error.code !== "EADDRINUSE" || !tries) throw error;
    return started(tries - 1);
  }
}

const { privateKey } = generateKeyPairSync("rsa", {
  modulusLength: 2048,
  publicKeyEncoding: { type: "spki", format: "pem" },
  privateKeyEncoding: { type: "pkcs1", format: "pem" },
});
const app = {
  app_id: 7, slug: "wright-app", name: "Wright", private_key: privateKey, events: [],
  permissions: { contents: "write", pull_requests: "write", checks: "read", metadata: "read" },
  installations: [{ installation_id: 70, account: "acme", repository_selection: "all" }],
};
const emulator = await started(20);
process.stdout.write(`${JSON.stringify({ url: emulator.url, app: { id: "7", key: privateKey } })}\n`);
process.stdin.resume().on("end", () => process.exit(0)).on("error", () => process.exit(0));
