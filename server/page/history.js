// Conversations kept in this browser: a bounded number of bounded size, the newest first. All tabs share them.

const storeName = 'paceline.history';
const maxConversations = 30;
const maxLetters = 1_500_000; // of all; browsers allow about 5 million

export function newId() {
  return crypto.randomUUID?.() ?? String(Date.now() + Math.random());
}

/** [{id, version, title, messages: [{role, content, reply?}]}]; `reply` as Reply.toData gives it. */
export function loadHistory() {
  try {
    const list = JSON.parse(localStorage.getItem(storeName));
    return Array.isArray(list) ? list.filter(isConversation) : [];
  } catch {
    return [];
  }
}

function isConversation(one) {
  const isMessage = (message) => ['user', 'assistant'].includes(message?.role) && typeof message.content === 'string';
  return typeof one?.id === 'string' && typeof one.title === 'string' && Array.isArray(one.messages) && one.messages.every(isMessage);
}

/**
 * Puts a conversation first. Where room is short, old replies lose their rounds, then old conversations go. One that
 * another tab has changed stays as it is there, and this one becomes another conversation.
 * @param mustBeKept do nothing if it is not kept any more: somebody has removed it
 * @returns whether it is kept now
 */
export function saveConversation(conversation, mustBeKept = false) {
  const kept = loadHistory();
  const old = kept.find(({ id }) => id === conversation.id);
  if (mustBeKept && !old) return false;
  const isForeign = old && old.version !== conversation.version;
  const change = { id: isForeign ? newId() : conversation.id, version: newId() };
  const others = kept.filter(({ id }) => id !== change.id);
  const list = [{ ...conversation, ...change }, ...others].slice(0, maxConversations);
  for (let room = maxLetters; room > 1000; room /= 2) {
    const text = textOf(list, room);
    if (text === undefined) return false;
    if (store(text)) {
      Object.assign(conversation, change);
      return true;
    }
  }
  return false;
}

/** JSON of what there is room for; undefined if there is none even for the first conversation alone. */
function textOf(list, room) {
  const left = list.map((one) => ({ ...one, messages: [...one.messages] }));
  let length = JSON.stringify(left).length;
  for (const { messages } of left.toReversed()) {
    for (let index = 0; index < messages.length && length > room; ++index) {
      const { reply, ...bare } = messages[index];
      if (reply) length -= JSON.stringify(messages[index]).length - JSON.stringify(bare).length;
      messages[index] = bare;
    }
  }
  while (length > room && left.length > 1) length -= JSON.stringify(left.pop()).length + 1;
  return length > room ? undefined : JSON.stringify(left);
}

function store(text) {
  try {
    localStorage.setItem(storeName, text);
    return true;
  } catch {
    return false;
  }
}

export function forgetConversation(id) {
  store(JSON.stringify(loadHistory().filter((one) => one.id !== id)));
}

export function clearHistory() {
  try {
    localStorage.removeItem(storeName);
  } catch {
    // Storage is switched off: there is nothing to remove.
  }
}

/** Calls `act` when another tab has changed what is kept. */
export function onHistoryChange(act) {
  addEventListener('storage', ({ key }) => {
    if (key === storeName || key === null) act();
  });
}
