// Calls of the HTTP API of the daemon that serves this page, and their text as a command or as a test.

const TOKEN = "groupd-token";

export class Refused extends Error {
  constructor(problem) {
    super(problem.detail || problem.title || "The request failed.");
    this.problem = problem;
  }
}

export const token = {
  get: () => sessionStorage.getItem(TOKEN) || "",
  set: (text) => (text ? sessionStorage.setItem(TOKEN, text) : sessionStorage.removeItem(TOKEN)),
};

export const base = (namespace) =>
  namespace === "default" ? "v1" : `v1/namespaces/${encodeURIComponent(namespace)}`;

export const path = (...names) => names.map((name) => "/" + encodeURIComponent(name)).join("");

// Returns the response of the daemon. Throws Refused for a problem, and the error of fetch without a response.
export async function ask(namespace, method, where, body) {
  const headers = { Accept: "application/json", "X-Groupd-Actor": "the page" };
  if (method !== "GET") headers["Content-Type"] = "application/json";
  if (token.get()) headers.Authorization = `Bearer ${token.get()}`;
  const answer = await fetch(base(namespace) + where, {
    method,
    headers,
    cache: "no-store",
    body: body === undefined ? undefined : JSON.stringify(body),
  });
  const said = answer.status === 204 ? null : await answer.json();
  if (!answer.ok) throw new Refused(said);
  return said;
}

// Calls back when anything happens, and when the stream breaks or comes back.
export function follow(namespace, happened, connected) {
  const source = new EventSource(base(namespace) + "/stream");
  for (const kind of ["GroupCreated", "MemberJoined", "MemberLeft", "MemberExpired", "RebalanceStarted",
    "GroupStabilized", "GroupEmptied", "AssignmentStored", "GroupRemoved", "gap"])
    source.addEventListener(kind, happened);
  source.onmessage = happened;
  source.onopen = () => connected(true);
  source.onerror = () => connected(false);
  return () => source.close();
}

// An address written by hand may have a malformed percent-escape: it stays as it is written.
export function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

const quoted = (text) => `'${text.replaceAll("'", `'\\''`)}'`;

export function asCurl(namespace, method, where, body) {
  const words = ["curl", "--fail-with-body", "-sS"];
  if (method !== "POST" || body === undefined) words.push("-X", method);
  if (token.get()) words.push("-H", quoted("Authorization: Bearer $GROUPD_TOKEN").replaceAll("'", '"'));
  words.push(quoted(new URL(base(namespace) + where, location.href).href));
  if (body !== undefined) words.push("--json", quoted(JSON.stringify(body)));
  return words.join(" ");
}

const MAX_STAND_INS = 8;

export const quote = (text) => JSON.stringify(text);

// The name of a member in a test: its instance id or client id where that is unique, else its place in the group.
export function memberInTest(group, member) {
  for (const name of ["group_instance_id", "client_id"])
    if (member[name] && group.members.filter((each) => each[name] === member[name]).length === 1) return quote(member[name]);
  return `group.members[${group.members.indexOf(member)}].member_id`;
}

// A test with a group like this one, played by groupd, and one line that acts on it.
export function asPytest(id, group, line) {
  const members = group ? group.members.slice(0, MAX_STAND_INS) : [];
  const topics = {};
  for (const member of members)
    for (const [topic, numbers] of Object.entries(member.assignment || {}))
      topics[topic] = Math.max(topics[topic] || 0, ...numbers.map((number) => number + 1));
  const names = Object.keys(topics).length ? Object.keys(topics) : ["orders"];
  const taken = {};
  const clients = members.map(({ client_id: name }) => ((taken[name] = (taken[name] || 0) + 1) === 1 ? name : `${name}-${taken[name]}`));
  const protocol = group && group.type === "consumer" ? ', group_protocol="consumer"' : "";
  return [
    "import pytest", "", "",
    `@pytest.mark.groupd(topics={${names.map((name) => `${quote(name)}: ${topics[name] || 1}`).join(", ")}})`,
    "def test_group(broker):",
    `    group = broker.group(${quote(id)})`,
    ...(clients.length ? [`    for name in [${clients.map(quote).join(", ")}]:`, `        group.stand_in(name, [${names.map(quote).join(", ")}]${protocol})`, `    group.wait(state="Stable", members=${clients.length})`] : []),
    ...line.split("\n").map((each) => `    ${each}`), "",
  ].join("\n");
}
