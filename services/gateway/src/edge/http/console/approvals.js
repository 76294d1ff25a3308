// The approvals that wait for whoever is signed in: what each is for, who has agreed, and the decision.

import { el, get, make, post, Refused, run } from "/console/shell.js";

const RISKS = ["critical", "high", "medium", "low"];
const STATES = {
  approved: "It was approved.", denied: "It was denied.", expired: "It expired: nobody decided in time. Who needs it asks again.",
  revoked: "It was revoked.", withdrawn: "It was withdrawn: the action has ended or is asked for anew.",
};
const known = new Map();
let me = null;
let open = null;
// what was written and not sent, by approval
const drafts = new Map();

const risk = (approval) => approval.request.risk ?? "critical";
const since = (time) => Math.max(0, (Date.now() - new Date(time)) / 1000);
function span(seconds) {
  if (seconds < 90) return `${Math.round(seconds)} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  return `${Math.round(seconds / 3600)} h`;
}
const isOver = (approval) => approval.request.expires_at && new Date(approval.request.expires_at) <= new Date();
const mine = (approval) => (approval.receipt_chain?.receipts ?? [])
  .some((receipt) => agrees(receipt) && receipt.actor.id === me);
const agrees = (receipt) => receipt.data?.decision === "approved";

function waiting() {
  return [...known.values()].filter((approval) => approval.status === "pending")
    .sort((a, b) => RISKS.indexOf(risk(a)) - RISKS.indexOf(risk(b)) || new Date(a.created_at) - new Date(b.created_at));
}
function ended() {
  return [...known.values()].filter((approval) => approval.status !== "pending")
    .sort((a, b) => new Date(b.updated_at) - new Date(a.updated_at)).slice(0, 50);
}

function row(approval) {
  const { request, status } = approval;
  const pending = status === "pending";
  const tag = pending ? make("span", { class: `tag ${risk(approval)}` }, risk(approval))
    : make("span", { class: `tag ${status}` }, status);
  const said = pending ? (mine(approval) ? " · you agreed" : "") : "";
  return make("li", {}, make("button", {
    class: "row", type: "button", "data-id": request.id,
    "aria-current": String(open === request.id), onclick: () => show(request.id, true),
  },
  make("span", { class: "top" }, make("span", { class: "what" }, request.capability_id), tag),
  make("span", { class: "who" }, `${request.requester.id} · ${span(since(approval.created_at))} ago${said}`)));
}

function draw() {
  const [waits, over] = [waiting(), ended()];
  const focused = document.activeElement?.dataset?.id;
  el("waiting").replaceChildren(...waits.map(row));
  el("ended").replaceChildren(...over.map(row));
  el("count").textContent = waits.length ? `(${waits.length})` : "";
  el("none").hidden = waits.length > 0;
  document.title = `${waits.length ? `(${waits.length}) ` : ""}Approvals · AIP console`;
  if (focused) document.querySelector(`[data-id="${CSS.escape(focused)}"]`)?.focus();
}

// === what an approval is for ===

const artifact = (approval, kind) => (approval.request.evidence ?? []).find((one) => one.kind === kind);

function input(approval) {
  const shown = artifact(approval, "redacted_input")?.uri;
  if (!shown?.startsWith("data:application/json,")) return make("p", { class: "quiet" }, "The input is not shown here.");
  const text = decodeURIComponent(shown.slice("data:application/json,".length));
  return make("pre", { id: "input", tabindex: "0" }, JSON.stringify(JSON.parse(text), null, 2));
}

// how a decision's authority path names a leaf
function pathOf(leaf) {
  switch (leaf.operator) {
    case "principal": return `principal:${leaf.id}`;
    case "tenant_policy": return `tenant_policy:${leaf.policy_id}`;
    case "external_system": return `external_system:${leaf.system}`;
    case "delegated_authority": return "delegated:";
    default: return `${leaf.operator}:${leaf.name}`;
  }
}
function nameOf(leaf) {
  switch (leaf.operator) {
    case "principal": return leaf.id;
    case "role": return `role ${leaf.name}`;
    case "group": return `group ${leaf.name}`;
    case "tenant_policy": return `the tenant's approvers (${leaf.policy_id})`;
    case "external_system": return `external system ${leaf.system}`;
    default: return `somebody with delegated authority for ${leaf.scope}`;
  }
}
function ruleOf(policy) {
  if (policy.rule) return policy.rule;
  const { type, ...rest } = policy.approver_selector;
  return type === "tenant_policy" ? { operator: type, policy_id: "default" } : { operator: type, ...rest };
}
// One who agreed counts for one leaf, unless the rule lets them count for several.
function rule(node, decisions, used = new Set()) {
  if (!node.rules) {
    const by = decisions.find(({ actor, paths }) => !used.has(actor) && paths.some((path) => path.startsWith(pathOf(node))));
    if (by) used.add(by.actor);
    return make("li", { class: by ? "met" : "open" }, by ? `✓ ${nameOf(node)}: ${by.actor}` : `○ ${nameOf(node)}`);
  }
  const shares = node.operator === "any" || node.allow_decision_reuse === true || node.distinct_principals === false;
  const what = {
    all: "all of", any: "one of", quorum: `${node.required} of ${node.rules.length}`,
  }[node.operator];
  return make("li", {}, what, make("ul", {}, ...node.rules.map((child) => rule(child, decisions, shares ? new Set(used) : used))));
}
function progress(approval) {
  const policy = approval.request.policy_snapshot;
  const decisions = (approval.receipt_chain?.receipts ?? []).filter(agrees)
    .map((receipt) => ({ actor: receipt.actor.id, paths: receipt.data.authority_path ?? [] }));
  const agreed = decisions.map(({ actor }) => actor).join(", ") || "nobody yet";
  const least = policy.minimum_distinct_principals ?? 1;
  return make("div", { class: "rule", id: "progress" },
    make("ul", {}, rule(ruleOf(policy), decisions)),
    make("p", { class: "quiet" }, `Agreed: ${agreed}.${least > 1 ? ` At least ${least} people have to agree.` : ""}`));
}

function facts(approval) {
  const { request } = approval;
  const effects = (request.evidence ?? []).filter((one) => one.kind === "side_effect").map((one) => one.id).join(", ");
  const unit = artifact(approval, "governed_value")?.id ?? "";
  const facts = [
    ["Requester", request.requester.id],
    request.subject.id !== request.requester.id ? ["On behalf of", request.subject.id] : null,
    ["Performed by", request.operator?.id ?? "unknown"],
    ["Tenant", request.identity?.tenant?.id ?? "none"],
    ["Effects", effects || "unknown"],
    ["Risk", risk(approval)],
    request.governed_value != null ? ["Value", `${request.governed_value} ${unit}`] : null,
    ["Asked", `${new Date(approval.created_at).toLocaleString()} (${span(since(approval.created_at))} ago)`],
    ["Expires", request.expires_at ? new Date(request.expires_at).toLocaleString() : "never"],
  ];
  const pairs = facts.filter(Boolean).flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, value)]);
  return make("dl", {}, ...pairs);
}

// === deciding ===

async function decide(approval, kind, error) {
  const reason = el("reason").value.trim();
  const wants = (approval.request.policy_snapshot.evidence_requirements ?? []).includes("reason");
  if (kind === "approved" && wants && !reason) {
    error.textContent = "The policy wants a reason.";
    return el("reason").focus();
  }
  const body = { decision: kind, decision_id: `console-${crypto.randomUUID()}`, policy_hash: approval.request.policy_hash };
  if (reason) body.reason = reason;
  const buttons = document.querySelectorAll(".actions button");
  buttons.forEach((button) => { button.disabled = true; });
  try {
    await post(`/aip/v1/approvals/${encodeURIComponent(approval.request.id)}/decisions`, body);
    drafts.delete(approval.request.id);
    await refresh(approval.request.id);
  } catch (refused) {
    error.textContent = refused instanceof Refused ? refused.message : "The gateway did not answer. Try again.";
    buttons.forEach((button) => { button.disabled = false; });
    await refresh(approval.request.id, error.textContent).catch(() => {});
  }
}

function decision(approval, said) {
  const { status } = approval;
  if (status !== "pending" || isOver(approval)) {
    const state = status === "pending" ? "expired" : status;
    const by = approval.decision ? ` Last decision: ${approval.decision.approver.id}${approval.decision.reason ? `, “${approval.decision.reason}”` : ""}.` : "";
    return make("p", { class: "note", id: "state" }, `${STATES[state] ?? state}${by}`);
  }
  if (approval.request.requester.id === me) return make("p", { class: "note", id: "state" }, "You asked for this: others decide.");
  if (mine(approval)) return make("p", { class: "note", id: "state" }, "You agreed. It waits for others.");
  const error = make("p", { class: "error", id: "decide-error", role: "alert" }, said ?? "");
  return make("div", { class: "decide" },
    make("label", { for: "reason" }, "Reason"),
    make("textarea", { id: "reason", maxlength: "1000", oninput: (event) => drafts.set(approval.request.id, event.target.value) }, drafts.get(approval.request.id) ?? ""),
    error,
    make("div", { class: "actions" },
      make("button", { class: "primary", id: "approve", type: "button", onclick: () => decide(approval, "approved", error) }, "Approve"),
      make("button", { class: "danger", id: "deny", type: "button", onclick: () => decide(approval, "denied", error) }, "Deny")));
}

function show(id, moves = false, said = null) {
  const approval = known.get(id);
  if (!approval) return;
  open = id;
  const { request, status } = approval;
  const typing = document.activeElement?.id === "reason" && !moves;
  el("detail").replaceChildren(
    make("button", { class: "back", type: "button", onclick: close }, "← All"),
    make("h1", { id: "title", tabindex: "-1" }, request.capability_id, " ", make("span", { class: `tag ${status}` }, status)),
    make("p", {}, request.reason),
    facts(approval),
    make("h3", {}, "Input, as far as it may be shown"), input(approval),
    make("h3", {}, "Who has to agree"), progress(approval),
    decision(approval, said),
    make("details", {}, make("summary", {}, "Ids and hashes"), make("dl", {},
      make("dt", {}, "Approval"), make("dd", {}, request.id), make("dt", {}, "Action"), make("dd", {}, request.action_id),
      make("dt", {}, "Policy hash"), make("dd", {}, request.policy_hash))));
  el("detail").hidden = false;
  el("work").classList.add("opened");
  draw();
  if (typing) el("reason")?.focus();
  if (moves) el("title").focus();
}

function close() {
  const id = open;
  open = null;
  el("detail").hidden = true;
  el("work").classList.remove("opened");
  draw();
  document.querySelector(`[data-id="${CSS.escape(id ?? "")}"]`)?.focus();
}

async function refresh(id, said = null) {
  const view = await get(`/aip/v1/approvals/${encodeURIComponent(id)}?include_receipts=true`);
  known.set(id, view.approval_record_view);
  if (open === id) show(id, false, said);
  else draw();
}

// === the page ===

function told(envelope) {
  me = envelope.to?.id ?? me;
  for (const approval of envelope.body.approval_list?.approvals ?? []) {
    const before = known.get(approval.request.id);
    known.set(approval.request.id, approval);
    if (open === approval.request.id && before?.updated_at !== approval.updated_at) show(open);
  }
  draw();
}

function move(by) {
  const rows = [...document.querySelectorAll(".row")];
  const at = rows.findIndex((one) => one === document.activeElement || one.dataset.id === open);
  rows[Math.min(Math.max(at + by, 0), rows.length - 1)]?.focus();
}

document.addEventListener("keydown", (event) => {
  const typing = /^(input|textarea)$/i.test(event.target.tagName);
  if (event.key === "Escape") return typing ? event.target.blur() : open && close();
  if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "j") move(1);
  else if (event.key === "k") move(-1);
  else if (event.key === "r" && el("reason")) {
    event.preventDefault();
    el("reason").focus();
  }
});
// ages grow, and what runs out of time says so
setInterval(() => {
  if (el("work").hidden) return;
  draw();
  const approval = known.get(open);
  if (approval?.status === "pending" && isOver(approval) && el("approve")) show(open);
}, 5000);

run({
  probe: "/aip/v1/approvals?approver=me&limit=1",
  stream: "/aip/v1/approvals?approver=me&include_receipts=true",
  begins: () => { known.clear(); draw(); },
  told,
});
