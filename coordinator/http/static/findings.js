// The findings of a group, the one with the greatest weight as its headline, each with the operation that acts on it.

import { html } from "./vendor/preact.js";
import { memberInTest, path, quote } from "./api.js";
import { Act, cut, plural } from "./parts.js";

// The request and the line of a test for each operation of a finding. Arguments are those of the API's `FindingAction`.
const OPERATIONS = {
  expire_member: ({ group, member }, view) => ({
    where: `/groups${path(group)}/members${path(member)}/expire`, danger: true,
    test: `group.member(${memberReference(view, member)}).expire()`,
  }),
  step_clock: ({ group }) => ({ where: `/groups${path(group)}/clock/step`, body: {}, test: "group.clock.step()" }),
  release_fault: ({ fault }) => ({ where: `/faults${path(fault)}/release`, body: {} }),
  remove_fault: ({ fault }) => ({ method: "DELETE", where: `/faults${path(fault)}` }),
  create_topic: ({ topic }) => ({ where: "/topics", body: { name: topic }, test: `broker.topic(${quote(topic)}, 1)` }),
};

function memberReference(view, reference) {
  const member = view && view.members.find((each) => [each.member_id, each.group_instance_id, each.client_id].includes(reference));
  return member ? memberInTest(view, member) : quote(reference);
}

function ActionButton({ at, action }) {
  const create = action && OPERATIONS[action.operation];
  return create && html`<${Act} at=${at} label=${action.label} ...${create(action.arguments, at.group)} />`;
}

// Cuts the long names of members in a sentence. The whole sentence is in the title.
const MAX_PRINTED = 80;
const shorten = (text, view) =>
  [view.group_id, ...view.members.map((member) => member.client_id)].reduce((shown, name) => {
    const printed = name.length > MAX_PRINTED ? `${name.slice(0, MAX_PRINTED)}…` : name;
    return cut(name) === name ? shown : shown.replaceAll(printed, cut(name));
  }, text);

// What is the matter, and, after the first colon or semicolon, what follows from it.
const split = (sentence) => {
  const at = sentence.search(/[:;] /);
  return at < 0 ? [sentence, ""] : [sentence.slice(0, at), sentence.slice(at + 2)];
};

// `told` is the answer of `explain`. A finding that blocks the group is the headline; else it is the state.
export function Headline({ told, at }) {
  const worst = told.findings.find((finding) => finding.blocks);
  const state = html`<p class=${worst ? "told" : "headline"} role="status" title=${told.detail}>${shorten(told.detail, at.group)}</p>`;
  if (!worst) return state;
  const [matter, effect] = split(shorten(worst.sentence, at.group));
  return html`<div class="worst">
    <p class="headline" role="status" title=${worst.sentence}>${matter}</p>
    <${ActionButton} at=${at} action=${worst.action} />
    ${effect && html`<p class="effect">${effect}</p>`}
    ${worst.hint && html`<p class="hint">${shorten(worst.hint, at.group)}</p>`}
    ${state}
  </div>`;
}

// Ends a sentence, unless it ends with a mark.
const end = (text) => (/[.!?]$/.test(text) ? text : `${text}.`);

export function OtherFindings({ told, at }) {
  const worst = told.findings.find((finding) => finding.blocks);
  const others = told.findings.filter((finding) => finding !== worst);
  return others.length > 0 && html`<section class="findings" aria-labelledby="p-findings">
    <h3 id="p-findings">${worst ? plural(others.length, "more finding") : plural(others.length, "finding")}</h3>
    <ul>${others.map((finding) => html`<li key=${[finding.kind, ...finding.members, ...finding.topics].join()} class=${finding.blocks ? "blocking" : ""}>
      <span title=${finding.sentence}>${end(shorten(finding.sentence, at.group))}${finding.hint && html` <small>${end(shorten(finding.hint, at.group))}</small>`}</span><${ActionButton} at=${at} action=${finding.action} /></li>`)}</ul>
  </section>`;
}

/** The newest findings of the invariant checks with one severity. */
export function Violations({ found, kind, label }) {
  const newest = (found && found.violations ? found.violations : []).slice(-5);
  return newest.length > 0 && html`<ul class=${kind} aria-label=${label}>${newest.map((each) => html`<li><b>${each.oracle.replaceAll("_", " ")}</b> ${each.detail}${each.times > 1 ? ` (${each.times} times)` : ""}</li>`)}</ul>`;
}
