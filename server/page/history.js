// Conversations kept in this browser: a bounded number of bounded size, the newest first. All tabs share them.

const storeName = 'paceline.history';
const removedName = 'paceline.removed';
const maxConversations = 30;
const maxRemoved = 100;
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
 * Puts a conversation first. Where room is short, old replies lose their rounds, then all but their answer, then old
 * conversations go. One that another tab has changed or removed stays as it is there, and this one becomes another
 * conversation.
 * @returns whether it is kept now
 */
export function saveConversation(conversation) {
  const kept = loadHistory();
  const old = kept.find(({ id }) => id === conversation.id);
  const isForeign = old ? old.version !== conversation.version : isRemoved(conversation);
  const change = { id: isForeign ? newId() : conversation.id, version: newId() };
  const others = kept.filter(({ id }) => id !== change.id);
  let list = fitted([{ ...conversation, ...change }, ...others].slice(0, maxConversations), maxLetters);
  while (list) {
    const text = JSON.stringify(list);
    if (store(storeName, text)) {
      Object.assign(conversation, change);
      return true;
    }
    list = fitted(list, Math.floor(text.length * 0.9)); // other pages of this address have taken the room
  }
  return false;
}

function withoutRounds({ reply: { text, parts, finish, failure }, ...message }) {
  return { ...message, reply: { text, parts, tokens: [], rounds: [], finish, failure } };
}

/** Also without thoughts, and without how the reply ended. */
function withoutReply({ reply: _, ...message }) {
  return message;
}

/** What there is room for, as JSON; undefined if there is none even for the first conversation alone. */
function fitted(list, room) {
  const left = list.map((one) => ({ ...one, messages: [...one.messages] }));
  let length = JSON.stringify(left).length;
  for (const reduced of [withoutRounds, withoutReply]) {
    for (const { messages } of left.toReversed()) {
      for (let index = 0; index < messages.length && length > room; ++index) {
        const message = messages[index];
        if (!message.reply) continue;
        messages[index] = reduced(message);
        length -= JSON.stringify(message).length - JSON.stringify(messages[index]).length;
      }
    }
  }
  while (length > room && left.length > 1) length -= JSON.stringify(left.pop()).length + 1;
  return length > room ? undefined : left;
}

function store(name, text) {
  try {
    localStorage.setItem(name, text);
    return true;
  } catch {
    return false;
  }
}

/** Ids of conversations that were removed, the latest first. Those that had to make room are not among them. */
function removedIds() {
  try {
    const ids = JSON.parse(localStorage.getItem(removedName));
    return Array.isArray(ids) ? ids : [];
  } catch {
    return [];
  }
}

function addRemoved(ids) {
  store(removedName, JSON.stringify([...ids, ...removedIds()].slice(0, maxRemoved)));
}

/** Whether somebody has removed a conversation, here or in another tab. */
export function isRemoved({ id }) {
  return removedIds().includes(id);
}

export function forgetConversation(id) {
  store(storeName, JSON.stringify(loadHistory().filter((one) => one.id !== id)));
  addRemoved([id]);
}

/** Removes all that is kept, and `open`, which may wait for a reply. */
export function clearHistory(open) {
  const ids = loadHistory().map(({ id }) => id);
  try {
    localStorage.removeItem(storeName);
  } catch {
    // Storage is switched off: there is nothing to remove.
  }
  addRemoved([open.id, ...ids]);
}

/** Calls `act` when another tab has changed what is kept. */
export function onHistoryChange(act) {
  addEventListener('storage', ({ key }) => {
    if (key === storeName || key === null) act();
  });
}
