// The HTTP API of the daemon that serves this page: asked, followed, and written down for others to ask.

const TOKEN = "groupd-token";

export class Refused extends Error {
  constructor(problem) {
    super(problem.detail || problem.title || "it failed");
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

// What the daemon answers; throws Refused for what it says no to, and whatever fetch throws where nobody is there.
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

const python = (value) => {
  if (value === null || value === undefined) return "None";
  if (value === true || value === false) return value ? "True" : "False";
  if (Array.isArray(value)) return `[${value.map(python).join(", ")}]`;
  if (typeof value === "object")
    return `{${Object.entries(value).map(([name, each]) => `${JSON.stringify(name)}: ${python(each)}`).join(", ")}}`;
  return JSON.stringify(value);
};

export function asPytest(method, where, body) {
  const names = where.slice(1).split("/").map((name) => JSON.stringify(decoded(name)));
  const more = body === undefined ? "" : `, body=${python(body)}`;
  return `def test_it(broker):\n    broker.call(${JSON.stringify(method)}, ${names.join(", ")}${more})\n`;
}
